/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking for leaks in a running program: objects that are allocated, and to which nothing leads
 * any more from the program's data, its stacks, registers and thread-local storage. For C, and,
 * below, for C++. In the full library only (-ltcmalloc); docs/leak-checker.md says how it works and
 * where it may be wrong.
 *
 * A check may be made at any time, again and again, by any thread that holds no lock which a
 * stopped thread could be waited for with: all other threads are stopped for the length of it, as a
 * debugger would. It allocates nothing through malloc. What it finds is a value, which stays as it
 * is.
 *
 * Where the objects came from is known when allocations are recorded: from the start of the process
 * on with HEAPCHECK in the environment, or from tcmalloc_leaks_start_recording on. Without that the
 * report tells lost objects apart by their size and by how long ago the heap handed out the pages
 * that they lie in, but for those that were sampled (TCMALLOC_SAMPLE_PARAMETER), which have their
 * stacks; and it names the stack of the sampled object that is nearest to the others, as a hint.
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
 * What a check has found. To be freed by tcmalloc_leaks_free. Null, for which there was no memory,
 * may be handed to all functions: it is an answer without objects, TCMALLOC_LEAKS_NO_MEMORY.
 */
typedef struct tcmalloc_leaks tcmalloc_leaks;

enum {
  /* Show what a lost object of each site begins with. It may be the user's secret. */
  TCMALLOC_LEAKS_SHOW_CONTENTS = 1,
  /* Each lost object is a site of its own, its address the innermost frame. */
  TCMALLOC_LEAKS_BY_OBJECT = 2
};

/*
 * Checks now. `flags` is a sum of the above. Null when there is no memory for the answer.
 *
 * Cost: the other threads stand still for a few milliseconds, and some hundred milliseconds for
 * every GiB of objects in use; how long it was is in the answer.
 */
tcmalloc_leaks* tcmalloc_check_leaks(int flags) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_free(tcmalloc_leaks* leaks) TCMALLOC_LEAKS_NOTHROW;

/*
 * The same for a part of the program's life: what was allocated before tcmalloc_leaks_begin does
 * not count. Null when that is not possible. Any number of them, at the same time or not; each may
 * be asked repeatedly.
 *
 * Cost: while allocations are recorded, nothing. Else the other threads are stopped for a moment
 * and the objects in use are listed, which takes memory of 8 bytes per page of the heap and a bit
 * or two per object; and an object that takes the place of one that was there before does not count
 * either.
 */
typedef struct tcmalloc_leaks_since tcmalloc_leaks_since;
tcmalloc_leaks_since* tcmalloc_leaks_begin(void) TCMALLOC_LEAKS_NOTHROW;
tcmalloc_leaks* tcmalloc_leaks_check_since(tcmalloc_leaks_since* since,
                                           int flags) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_end(tcmalloc_leaks_since* since) TCMALLOC_LEAKS_NOTHROW;

/* How far a check came. */
enum {
  TCMALLOC_LEAKS_DONE = 0,
  /* The figures are all 0, and mean nothing: the system had no memory for the check. */
  TCMALLOC_LEAKS_NO_MEMORY = 1,
  /* The other threads could not be stopped; what they held may be among what is reported. */
  TCMALLOC_LEAKS_NOT_STOPPED = 2,
  /*
   * The figures are all 0, and mean nothing: the system does not let the program see itself, or a
   * thread did not stop because it waits in the kernel for something else (error: ETIMEDOUT).
   */
  TCMALLOC_LEAKS_IMPOSSIBLE = 3
};

typedef struct tcmalloc_leaks_info {
  int outcome;
  int error;    /* of the system's, that is the reason for another outcome than the first; or 0 */
  int recorded; /* 1: allocations were recorded, and sites have stacks */
  int num_threads;    /* that were stopped, the caller's included */
  long long time_ns;  /* when: nanoseconds since 1970 */
  long long pause_ns; /* how long the other threads stood still */
  unsigned long long objects_in_use;
  unsigned long long bytes_in_use;
  unsigned long long objects; /* lost */
  unsigned long long bytes;
  unsigned long long direct_objects; /* that no other lost object leads to */
  unsigned long long direct_bytes;
  size_t num_sites;
} tcmalloc_leaks_info;
void tcmalloc_leaks_get_info(const tcmalloc_leaks* leaks,
                             tcmalloc_leaks_info* info) TCMALLOC_LEAKS_NOTHROW;

/* Where lost objects were allocated; those sites come first that have lost most bytes. */
typedef struct tcmalloc_leak_site {
  const void* const* stack; /* return addresses, the innermost first */
  size_t depth;             /* 0: not known */
  size_t object_size;       /* of the heap; 0 where there is a stack */
  unsigned long long objects;
  unsigned long long bytes; /* as asked for where there is a stack, else as the heap made them */
  unsigned long long direct_objects;
  unsigned long long direct_bytes;
  const void* example; /* one of them */
  const size_t* words; /* what it begins with, where that was asked for */
  size_t num_words;
  /*
   * Where object_size is not 0, that is, no stack is known: when the spans, runs of pages, in which
   * the objects lie were handed out. In milliseconds before the check, at least the first and less
   * than the second: 0 and 1000, 1000 and 10000, 10000 and 60000, 60000 and 600000, 600000 and
   * 3600000, 3600000 and LLONG_MAX. An object is never older than its span, and may be younger.
   * Both are 0 elsewhere.
   */
  long long span_age_at_least_ms;
  long long span_age_below_ms;
  /*
   * In the same case: where that live sampled object was allocated which is nearest to the example:
   * of the same size, its span handed out at the nearest time, and of several such the one at the
   * nearest address. A hint where to look; the objects may come from elsewhere. Return addresses,
   * the innermost first; nearest_depth 0: there is none.
   */
  const void* const* nearest_stack;
  size_t nearest_depth;
} tcmalloc_leak_site;
typedef void (*tcmalloc_leak_callback)(const tcmalloc_leak_site* site, void* context);
void tcmalloc_leaks_for_each(const tcmalloc_leaks* leaks, tcmalloc_leak_callback callback,
                             void* context);

/* How a report may be written; the first three as profiles are (tcmalloc/tcmalloc.h). */
enum {
  TCMALLOC_LEAKS_PROTO = 0,
  TCMALLOC_LEAKS_LEGACY_TEXT = 1,
  TCMALLOC_LEAKS_FOLDED = 2,
  TCMALLOC_LEAKS_TEXT = 3, /* for people */
  TCMALLOC_LEAKS_JSON = 4
};
/*
 * Writes it to a file that is open, or piece by piece to a function, which returns 0 when it could
 * not take one. 0 when not everything was written.
 */
int tcmalloc_leaks_write(const tcmalloc_leaks* leaks, int format, int fd) TCMALLOC_LEAKS_NOTHROW;
typedef int (*tcmalloc_leaks_sink)(const void* data, size_t bytes, void* context);
int tcmalloc_leaks_write_to(const tcmalloc_leaks* leaks, int format, tcmalloc_leaks_sink sink,
                            void* context);

/*
 * Records the stack of every allocation from now on. 0 where that cannot be: there is no memory, or
 * the heap profiler runs, with which it shares its tables. Stopping forgets what was recorded.
 *
 * Cost: as the heap profiler's, docs/heap-profiler.md: no thread has a cache meanwhile, each
 * allocation takes a stack trace, and an object in use 32 to 64 bytes of records.
 */
int tcmalloc_leaks_start_recording(void) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_stop_recording(void) TCMALLOC_LEAKS_NOTHROW;

/*
 * Between the two calls, which may be nested, what the calling thread allocates is not lost, nor is
 * what that leads to. Only while allocations are recorded: else it has no effect, and costs
 * nothing. While some thread is between them, every recorded allocation looks whether its
 * thread is one of those that are.
 */
void tcmalloc_leaks_disable(void) TCMALLOC_LEAKS_NOTHROW;
void tcmalloc_leaks_enable(void) TCMALLOC_LEAKS_NOTHROW;

/*
 * The object at `address`, which may lie inside of it, is not lost, nor is what it leads to, until
 * the second function is called with the same address. It must not be freed before. 0 when there is
 * no memory; and, of the second, when it was not ignored.
 */
int tcmalloc_leaks_ignore(const void* address) TCMALLOC_LEAKS_NOTHROW;
int tcmalloc_leaks_unignore(const void* address) TCMALLOC_LEAKS_NOTHROW;

/*
 * Memory that holds pointers to objects, and where the checker would not look: shared memory, or a
 * mapping to which only hidden pointers lead. 0 when there is no memory, and, of the second, when
 * this range was not registered.
 */
int tcmalloc_leaks_register_roots(const void* start, size_t bytes) TCMALLOC_LEAKS_NOTHROW;
int tcmalloc_leaks_unregister_roots(const void* start, size_t bytes) TCMALLOC_LEAKS_NOTHROW;

#ifdef __cplusplus
} /* extern "C" */

namespace tcmalloc {

/* What a check has found. Empty where there was no memory for it. Any thread may read it. */
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
  /* Everything was looked at, and nothing is lost. */
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

  /* False when not everything was written. */
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

/* Checks the whole program now. `flags`: TCMALLOC_LEAKS_SHOW_CONTENTS and so on. */
inline LeakReport CheckLeaks(int flags = 0) { return LeakReport(tcmalloc_check_leaks(flags)); }

/* Checks what was allocated since the object was made (see tcmalloc_leaks_begin). */
class LeakChecker {
 public:
  LeakChecker() : since_(tcmalloc_leaks_begin()) {}
  LeakChecker(const LeakChecker&) = delete;
  LeakChecker& operator=(const LeakChecker&) = delete;
  ~LeakChecker() { tcmalloc_leaks_end(since_); }

  /* False where the beginning could not be remembered: then reports are empty. */
  explicit operator bool() const { return since_ != nullptr; }
  LeakReport Check(int flags = 0) const {
    return LeakReport(since_ == nullptr ? nullptr : tcmalloc_leaks_check_since(since_, flags));
  }
  bool NoLeaks() const { return Check().NoLeaks(); }

  static bool StartRecording() { return tcmalloc_leaks_start_recording() != 0; }
  static void StopRecording() { tcmalloc_leaks_stop_recording(); }

  /* While one exists, what the thread that made it allocates is not lost. */
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
