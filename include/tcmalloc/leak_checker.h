/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leak checks in a running program. An object is leaked if it is allocated and unreachable: no
 * pointer leads to it from the program's data, its stacks, registers or thread-local storage. The
 * interface for C comes first, then that for C++. Only the full library has it (-ltcmalloc).
 * docs/leak-checker.md explains how the check works and when it may be wrong.
 *
 * Any thread may check at any time, repeatedly, if it holds no lock that another thread could need:
 * a check stops all other threads, as a debugger does. It does not call malloc. Its result does not
 * change afterwards.
 *
 * Call sites are known if allocations are recorded: from the start of the process with HEAPCHECK in
 * the environment, or from tcmalloc_leaks_start_recording on. Otherwise the report groups leaked
 * objects by size and by the age of their pages, and names the call site of the most similar
 * sampled object as a hint. Leaked objects that were sampled (TCMALLOC_SAMPLE_PARAMETER) have their
 * call stacks.
 */
#ifndef TCMALLOC_LEAK_CHECKER_H_
#define TCMALLOC_LEAK_CHECKER_H_

#include <stddef.h>

#ifdef __cplusplus
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

extern "C" {
#define TCMALLOC_LEAKS_NOTHROW noexcept
#else
#define TCMALLOC_LEAKS_NOTHROW
#endif

/*
 * The result of a check. Free it with tcmalloc_leaks_free. All functions accept null, which stands
 * for a result without objects, TCMALLOC_LEAKS_NO_MEMORY.
 */
typedef struct tcmalloc_leaks tcmalloc_leaks;

enum {
  /* Show the first words of one leaked object per site. They may contain the user's secrets. */
  TCMALLOC_LEAKS_SHOW_CONTENTS = 1,
  /* Make each leaked object a separate site, with its address as the innermost frame. */
  TCMALLOC_LEAKS_BY_OBJECT = 2
};

/*
 * Checks the whole program now. `flags` is a sum of the above. Null if there is no memory for the
 * result.
 *
 * Cost: the other threads stop for a few milliseconds, plus some hundred milliseconds per GiB of
 * objects in use. The result has that time.
 */
tcmalloc_leaks* tcmalloc_check_leaks(int flags) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_free(tcmalloc_leaks* leaks) TCMALLOC_LEAKS_NOTHROW;

/*
 * Checks a part of the program's life: objects allocated before tcmalloc_leaks_begin do not count.
 * begin returns null if that is not possible (no memory, or the threads cannot be stopped). Several
 * parts may overlap, and each may be checked repeatedly. Call tcmalloc_leaks_end once for each.
 *
 * Cost of begin: nothing while allocations are recorded. Otherwise it stops the other threads for a
 * moment and lists the objects in use, which takes 8 bytes per heap page and one or two bits per
 * object; and an object at the address of one that existed at the beginning does not count.
 */
typedef struct tcmalloc_leaks_since tcmalloc_leaks_since;
tcmalloc_leaks_since* tcmalloc_leaks_begin(void) TCMALLOC_LEAKS_NOTHROW;
tcmalloc_leaks* tcmalloc_leaks_check_since(tcmalloc_leaks_since* since,
                                           int flags) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_end(tcmalloc_leaks_since* since) TCMALLOC_LEAKS_NOTHROW;

/* The outcome of a check. */
enum {
  TCMALLOC_LEAKS_DONE = 0,
  /* All figures are 0 and mean nothing: the OS had no memory for the check. */
  TCMALLOC_LEAKS_NO_MEMORY = 1,
  /* The other threads could not be stopped: some reported objects may be reachable from them. */
  TCMALLOC_LEAKS_NOT_STOPPED = 2,
  /*
   * All figures are 0 and mean nothing: the OS does not let the program inspect itself, or a thread
   * did not stop because it waits in the kernel (error: ETIMEDOUT).
   */
  TCMALLOC_LEAKS_IMPOSSIBLE = 3
};

typedef struct tcmalloc_leaks_info {
  int outcome;
  int error;          /* errno that explains an outcome other than TCMALLOC_LEAKS_DONE; or 0 */
  int recorded;       /* 1: allocations were recorded, and sites have call stacks */
  int num_threads;    /* threads that were stopped, and the caller */
  long long time_ns;  /* the time of the check: nanoseconds since 1970 */
  long long pause_ns; /* how long the other threads were stopped */
  unsigned long long objects_in_use;
  unsigned long long bytes_in_use;
  unsigned long long objects; /* leaked */
  unsigned long long bytes;
  unsigned long long direct_objects; /* leaked, and no other leaked object points to it */
  unsigned long long direct_bytes;
  size_t num_sites;
} tcmalloc_leaks_info;
void tcmalloc_leaks_get_info(const tcmalloc_leaks* leaks,
                             tcmalloc_leaks_info* info) TCMALLOC_LEAKS_NOTHROW;

/* A call site of leaked objects. Sites with the most leaked bytes come first. */
typedef struct tcmalloc_leak_site {
  const void* const* stack; /* return addresses, innermost first */
  size_t depth;             /* 0 if the call stack is unknown */
  size_t object_size;       /* rounded to the size class; 0 if there is a stack */
  unsigned long long objects;
  unsigned long long bytes; /* as requested if there is a stack, else rounded */
  unsigned long long direct_objects;
  unsigned long long direct_bytes;
  const void* example; /* address of one of the objects */
  const size_t* words; /* its first words, if they were requested */
  size_t num_words;
  /*
   * If object_size is not 0 (no stack is known): the age of the spans, runs of pages, that hold the
   * objects, in milliseconds at the time of the check: at least the first number and less than the
   * second. The pairs are 0 and 1000, 1000 and 10000, 10000 and 60000, 60000 and 600000, 600000 and
   * 3600000, 3600000 and LLONG_MAX. An object may be younger than its span, never older. Otherwise
   * both are 0.
   */
  long long span_age_at_least_ms;
  long long span_age_below_ms;
  /*
   * If object_size is not 0: the call site of the live sampled object that is most similar to the
   * example: of the same size, with the nearest age of its span, and then with the nearest address.
   * It is a hint; the objects may come from elsewhere. Return addresses, innermost first.
   * nearest_depth is 0 if there is no hint.
   */
  const void* const* nearest_stack;
  size_t nearest_depth;
} tcmalloc_leak_site;
typedef void (*tcmalloc_leak_callback)(const tcmalloc_leak_site* site, void* context);
void tcmalloc_leaks_for_each(const tcmalloc_leaks* leaks, tcmalloc_leak_callback callback,
                             void* context);

/* The formats of a report; the first three are those of profiles (tcmalloc/tcmalloc.h). */
enum {
  TCMALLOC_LEAKS_PROTO = 0,
  TCMALLOC_LEAKS_LEGACY_TEXT = 1,
  TCMALLOC_LEAKS_FOLDED = 2,
  TCMALLOC_LEAKS_TEXT = 3, /* for people */
  TCMALLOC_LEAKS_JSON = 4
};
/*
 * Writes the report to an open file, or piece by piece to `sink`, which returns 0 if it could not
 * accept a piece. Returns 0 if a part was not written.
 */
int tcmalloc_leaks_write(const tcmalloc_leaks* leaks, int format, int fd) TCMALLOC_LEAKS_NOTHROW;
typedef int (*tcmalloc_leaks_sink)(const void* data, size_t bytes, void* context);
int tcmalloc_leaks_write_to(const tcmalloc_leaks* leaks, int format, tcmalloc_leaks_sink sink,
                            void* context);

/*
 * Records the call stack of every allocation from now on. start returns 0 if it cannot: there is no
 * memory, or the heap profiler runs, which uses the same tables. stop discards the records.
 *
 * Cost: that of the heap profiler (docs/heap-profiler.md): threads have no caches meanwhile, each
 * allocation takes a stack trace, and each object in use takes 32 to 64 bytes of records.
 */
int tcmalloc_leaks_start_recording(void) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_stop_recording(void) TCMALLOC_LEAKS_NOTHROW;

/*
 * Objects that the calling thread allocates between disable and enable do not count as leaked, and
 * neither do objects that are reachable from them. The pairs may be nested. They have an effect
 * only while allocations are recorded; otherwise they cost nothing. While any thread is disabled,
 * every recorded allocation checks whether its own thread is.
 */
void tcmalloc_leaks_disable(void) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_enable(void) TCMALLOC_LEAKS_NOTHROW;

/*
 * After ignore, the object at `address`, which may point inside it, does not count as leaked, nor
 * do objects reachable from it. Do not free it before unignore is called with the same address.
 * Both return 0 if there is no memory; unignore also if the address was not ignored.
 */
int tcmalloc_leaks_ignore(const void* address) TCMALLOC_LEAKS_NOTHROW;
int tcmalloc_leaks_unignore(const void* address) TCMALLOC_LEAKS_NOTHROW;

/*
 * Registers memory with pointers that the checker would not search by itself: shared memory, or a
 * mapping to which only hidden pointers lead. Both return 0 if there is no memory; unregister also
 * if this range was not registered.
 */
int tcmalloc_leaks_register_roots(const void* start, size_t bytes) TCMALLOC_LEAKS_NOTHROW;
int tcmalloc_leaks_unregister_roots(const void* start, size_t bytes) TCMALLOC_LEAKS_NOTHROW;

#ifdef __cplusplus
} /* extern "C" */

namespace tcmalloc {

/* The result of a check; empty if there was no memory for it. Any thread may read it. */
class LeakReport {
 public:
  using Site = tcmalloc_leak_site;
  using Info = tcmalloc_leaks_info;
  enum class Format {
    kProto = TCMALLOC_LEAKS_PROTO,
    kLegacyText = TCMALLOC_LEAKS_LEGACY_TEXT,
    kFolded = TCMALLOC_LEAKS_FOLDED,
    kText = TCMALLOC_LEAKS_TEXT,
    kJson = TCMALLOC_LEAKS_JSON,
  };
  enum class Outcome {
    kDone = TCMALLOC_LEAKS_DONE,
    kNoMemory = TCMALLOC_LEAKS_NO_MEMORY,
    kNotStopped = TCMALLOC_LEAKS_NOT_STOPPED,
    kImpossible = TCMALLOC_LEAKS_IMPOSSIBLE,
  };

  LeakReport() = default;
  explicit LeakReport(tcmalloc_leaks* leaks) : leaks_(leaks) {}
  LeakReport(LeakReport&& other) noexcept : leaks_(std::exchange(other.leaks_, nullptr)) {}
  LeakReport& operator=(LeakReport&& other) noexcept {
    std::swap(leaks_, other.leaks_);
    return *this;
  }
  ~LeakReport() { tcmalloc_leaks_free(leaks_); }

  explicit operator bool() const { return leaks_ != nullptr; }
  Info GetInfo() const {
    Info info = {};
    info.outcome = TCMALLOC_LEAKS_NO_MEMORY;
    if (leaks_ != nullptr) tcmalloc_leaks_get_info(leaks_, &info);
    return info;
  }
  Outcome GetOutcome() const { return static_cast<Outcome>(GetInfo().outcome); }
  /* True if the check was complete, and nothing is leaked. */
  bool NoLeaks() const { return GetOutcome() == Outcome::kDone && Objects() == 0; }
  std::uint64_t Objects() const { return GetInfo().objects; }
  std::uint64_t Bytes() const { return GetInfo().bytes; }
  std::chrono::nanoseconds Pause() const { return std::chrono::nanoseconds(GetInfo().pause_ns); }

  /* Calls f(const Site&) for every site. */
  template <typename F>
  void Iterate(F f) const {
    if (leaks_ == nullptr) return;
    tcmalloc_leaks_for_each(
        leaks_, [](const Site* site, void* context) { (*static_cast<F*>(context))(*site); }, &f);
  }

  /* False if a part was not written. */
  bool WriteTo(int fd, Format format = Format::kText) const {
    return leaks_ != nullptr && tcmalloc_leaks_write(leaks_, static_cast<int>(format), fd) != 0;
  }
  std::optional<std::string> AsString(Format format = Format::kText) const {
    std::string bytes;
    const auto append = [](const void* data, size_t size, void* context) {
      static_cast<std::string*>(context)->append(static_cast<const char*>(data), size);
      return 1;
    };
    if (leaks_ == nullptr ||
        tcmalloc_leaks_write_to(leaks_, static_cast<int>(format), append, &bytes) == 0) {
      return std::nullopt;
    }
    return bytes;
  }

 private:
  tcmalloc_leaks* leaks_ = nullptr;
};

/* Checks the whole program now. `flags` is a sum of the flags above. */
inline LeakReport CheckLeaks(int flags = 0) { return LeakReport(tcmalloc_check_leaks(flags)); }

/* Checks objects that were allocated since this checker was created (see tcmalloc_leaks_begin). */
class LeakChecker {
 public:
  LeakChecker() : since_(tcmalloc_leaks_begin()) {}
  LeakChecker(const LeakChecker&) = delete;
  LeakChecker& operator=(const LeakChecker&) = delete;
  ~LeakChecker() { tcmalloc_leaks_end(since_); }

  /* False if the beginning could not be recorded: then reports are empty. */
  explicit operator bool() const { return since_ != nullptr; }
  LeakReport Check(int flags = 0) const {
    return LeakReport(since_ == nullptr ? nullptr : tcmalloc_leaks_check_since(since_, flags));
  }
  bool NoLeaks() const { return Check().NoLeaks(); }

  static bool StartRecording() { return tcmalloc_leaks_start_recording() != 0; }
  static void StopRecording() { tcmalloc_leaks_stop_recording(); }

  /*
   * While one exists, objects that its thread allocates do not count as leaked
   * (tcmalloc_leaks_disable).
   */
  class Disabler {
   public:
    Disabler() { tcmalloc_leaks_disable(); }
    ~Disabler() { tcmalloc_leaks_enable(); }
    Disabler(const Disabler&) = delete;
    Disabler& operator=(const Disabler&) = delete;
  };

  template <typename T>
  static T* Ignore(T* object) {
    tcmalloc_leaks_ignore(object);
    return object;
  }
  static bool Unignore(const void* object) { return tcmalloc_leaks_unignore(object) != 0; }
  static bool RegisterRoots(const void* start, size_t bytes) {
    return tcmalloc_leaks_register_roots(start, bytes) != 0;
  }
  static bool UnregisterRoots(const void* start, size_t bytes) {
    return tcmalloc_leaks_unregister_roots(start, bytes) != 0;
  }

 private:
  tcmalloc_leaks_since* since_;
};

} /* namespace tcmalloc */
#endif

#endif /* TCMALLOC_LEAK_CHECKER_H_ */
