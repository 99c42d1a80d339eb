/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCMalloc's functions beyond malloc: flush caches, release free memory to the OS, limit the heap,
 * react to memory pressure, read statistics, report large allocations, take heap profiles, list
 * objects, and, in C++, replace the source of memory.
 *
 * Unless a function says otherwise, any thread may call it at any time, also before the first
 * allocation, but not from a signal handler. The functions do not fail, do not change errno, and do
 * not wait for another thread to do something. Sizes are in bytes. The size of an object is its
 * rounded size: a request of 100 bytes gets an object of 112 bytes.
 *
 * Link with libtcmalloc or libtcmalloc_minimal. A program that must also run without them declares
 * the functions weak and tests for null before each call.
 */
#ifndef TCMALLOC_TCMALLOC_H_
#define TCMALLOC_TCMALLOC_H_

#include <stddef.h>

#ifdef __cplusplus
#define TCMALLOC_NOTHROW noexcept
extern "C" {
#else
#define TCMALLOC_NOTHROW
#endif

/*
 * Moves the objects in all thread caches to the central free lists: also those of threads that
 * sleep or are blocked forever, and the caches that ended threads have left for new ones. Returns
 * the bytes moved. A thread that is in the middle of an allocation or a free flushes at its next
 * slow path; the result does not include its bytes. If the kernel has no membarrier(2), or a
 * sandbox forbids it, every thread but the caller flushes at its next slow path.
 *
 * Cost: about 15 microseconds per 32 threads, and a few nanoseconds per object. Every thread starts
 * again with an empty cache.
 */
size_t tcmalloc_flush_thread_caches(void) TCMALLOC_NOTHROW;

/*
 * Returns the empty spans (runs of pages) that shards keep for their next use to the page heap.
 * Every run of pages without an object in use can then serve other sizes and large objects. Returns
 * the bytes that were kept. Call it after tcmalloc_flush_thread_caches(), which empties spans;
 * malloc_trim() does both by itself. What other threads put there meanwhile may stay.
 *
 * Cost: two locks per kept span. TCMALLOC_RETENTION bounds how much is kept.
 */
size_t tcmalloc_flush_central_caches(void) TCMALLOC_NOTHROW;

/*
 * Moves the objects in the calling thread's cache to the central free lists, and makes the thread's
 * share of the total cache size available to other threads. Returns the bytes moved. The thread may
 * continue to allocate; its cache then grows again from the smallest size. Call it at the end of a
 * phase that needed much memory, and before a thread sleeps for long.
 *
 * Cost: a few nanoseconds per object.
 */
size_t tcmalloc_flush_this_thread_cache(void) TCMALLOC_NOTHROW;

/*
 * Hints from a thread pool about the calling thread.
 *
 * mark_thread_idle: the thread will not allocate for a while. Flushes its cache as
 * tcmalloc_flush_this_thread_cache() does.
 *
 * mark_thread_temporarily_idle: the thread will make a short pause. Empties the cache, but the
 * thread keeps its share of the total cache size.
 *
 * mark_thread_busy: the thread will allocate soon. Creates its cache if it has none, so that the
 * first allocation need not.
 */
void tcmalloc_mark_thread_idle(void) TCMALLOC_NOTHROW;
void tcmalloc_mark_thread_temporarily_idle(void) TCMALLOC_NOTHROW;
void tcmalloc_mark_thread_busy(void) TCMALLOC_NOTHROW;

/*
 * Releases free pages to the OS: all of them, or at least `bytes` if there are that many. Returns
 * the bytes released. Objects in caches stay there: malloc_trim() flushes the caches first. Locked
 * memory (mlock) is not released. What other threads free meanwhile may stay.
 *
 * Cost: one system call per 8 MiB or less, 0.1 to 0.5 milliseconds each when the memory is in small
 * pages. No thread that allocates or frees waits for it.
 */
size_t tcmalloc_release_free_memory(void) TCMALLOC_NOTHROW;
size_t tcmalloc_release_to_system(size_t bytes) TCMALLOC_NOTHROW;

/*
 * How fast the library releases free memory by itself, as a factor; like TCMALLOC_RELEASE_RATE.
 * 0 means never. 1 means 512 MiB per second of the memory that the program has not needed for four
 * seconds. Higher is faster. Values below 0 count as 0, values above 1000 as 1000.
 */
void tcmalloc_set_memory_release_rate(double rate) TCMALLOC_NOTHROW;
double tcmalloc_get_memory_release_rate(void) TCMALLOC_NOTHROW;

/*
 * Releases free memory at the rate above while no thread frees. Never returns: call it on a thread
 * of the program that has nothing else to do. In a process with several threads, a thread of the
 * library does this, unless TCMALLOC_BACKGROUND=0. Without such a thread, memory is released while
 * the program frees.
 *
 * Cost: the thread wakes up once a second.
 */
void tcmalloc_process_background_actions(void);

/*
 * Limits on the heap's backed memory: memory from the OS that was not released, including the
 * allocator's own records. Address space does not count.
 *
 * TCMALLOC_LIMIT_HARD: an allocation that would take the heap above this limit fails. Before it
 * fails, the allocator flushes all caches and releases all free memory. The allocator's own records
 * may exceed the limit.
 *
 * TCMALLOC_LIMIT_SOFT: free memory is released before the heap grows above this limit, and, while
 * the heap is larger, soon after it is freed. No allocation fails, and none releases much more than
 * it requests. Caches are not flushed.
 */
enum tcmalloc_limit_kind { TCMALLOC_LIMIT_HARD = 0, TCMALLOC_LIMIT_SOFT = 1 };

/*
 * Sets a limit in bytes, 0 for none. It replaces the limit from the environment
 * (TCMALLOC_HEAP_LIMIT_MB, TCMALLOC_SOFT_LIMIT). Releases free memory that is above the limit. A
 * heap that is still larger exceeds the limit until the program frees enough. Ignores a `kind` that
 * is not one of tcmalloc_limit_kind; the getter returns 0 for it, as for no limit.
 */
void tcmalloc_set_memory_limit(int kind, size_t bytes) TCMALLOC_NOTHROW;
size_t tcmalloc_get_memory_limit(int kind) TCMALLOC_NOTHROW;

/*
 * Sets the function to call when the heap meets a limit; null for none. There is one function for
 * both limits. It gets the kind of the limit, the heap's size and the limit in bytes, and
 * `context`. The allocating thread calls it, with no lock of the allocator held.
 *
 * Hard limit: called when an allocation fails because of the limit, before malloc returns. Soft
 * limit: called when the heap has grown above the limit, and again only after the heap was well
 * below it.
 *
 * The function may allocate and free; it is not called for its own allocations. It must not throw.
 * A call that has begun continues after the function is replaced. Without a function, the first
 * allocation of a process that fails because of the hard limit prints a line on stderr.
 */
typedef void (*tcmalloc_limit_callback)(int kind, size_t current_bytes, size_t limit_bytes,
                                        void* context);
void tcmalloc_set_limit_callback(tcmalloc_limit_callback callback, void* context) TCMALLOC_NOTHROW;

/*
 * Memory pressure: the OS reports that memory is short. With TCMALLOC_PRESSURE=auto in the
 * environment (docs/pressure.md) a thread of the library waits for these reports and acts by level:
 * 1 flushes the thread caches, 2 flushes all caches, 3 also releases free memory to the OS.
 * libtcmalloc_minimal does not listen, and these functions do nothing there.
 *
 * A listener is a function of the program that is called before the library acts on a level, so
 * that the program can drop its own caches. The program owns the node: set `notify` and `context`,
 * fill the rest with zeros, and do not move it while it is added.
 *
 * `notify` runs on the thread that listens (or that called tcmalloc_handle_pressure), one listener
 * at a time, with no lock held. It may allocate, free, fork, and add and remove listeners, itself
 * included. It must return: it must not throw or end the thread. (In a child that it forks, it may
 * exit or exec.) It must not wait for the end of a thread: the last thread of a program whose main
 * has ended by pthread_exit waits for the thread that listens.
 *
 * tcmalloc_remove_pressure_listener waits for a call of the listener that has begun, unless the
 * listener itself calls it. Then the node is no longer in use. So do not hold a lock that the
 * listener takes: a destructor in a plugin, for example, runs with the dynamic linker's lock held.
 */
typedef struct tcmalloc_pressure_listener {
  void (*notify)(int level, void* context);
  void* context;
  struct tcmalloc_pressure_listener* private_links[2];
} tcmalloc_pressure_listener;
void tcmalloc_add_pressure_listener(tcmalloc_pressure_listener* listener) TCMALLOC_NOTHROW;
void tcmalloc_remove_pressure_listener(tcmalloc_pressure_listener* listener) TCMALLOC_NOTHROW;

/*
 * Memory pressure without the library's thread: for the program's own event loop.
 *
 * tcmalloc_pressure_fd returns a descriptor that is readable (POLLIN) when tcmalloc_handle_pressure
 * has work; every call returns the same one. Do not read or close it. It is close-on-exec, and has
 * a number of 512 or more if the process may have such a number. It listens to the sources that
 * TCMALLOC_PRESSURE names (use thread=off there), or to all sources if it names none. On failure
 * the result is -1 and errno is EBUSY (the library's thread listens), EMFILE (no descriptors left),
 * ENOTSUP (libtcmalloc_minimal), or the errno of a sandbox that forbids epoll or timerfd. Call it
 * again in a forked child, and after closing the descriptor by mistake. It may wait for another
 * thread's call of these two functions.
 *
 * tcmalloc_handle_pressure reads the events, acts on them, and returns the level, 0 for none. It
 * does not wait for events. One thread handles pressure at a time; in other threads it returns 0 at
 * once. Cost: microseconds, and milliseconds per GiB released.
 */
int tcmalloc_pressure_fd(void) TCMALLOC_NOTHROW;
int tcmalloc_handle_pressure(void) TCMALLOC_NOTHROW;

/*
 * The version of the library that serves the process, "1.0.0", not that of the header.
 * (tc_version() names the release of gperftools whose interface the library has.)
 */
const char* tcmalloc_version(void) TCMALLOC_NOTHROW;

/*
 * Statistics as text; docs/statistics.md explains every figure. All formats show the same figures,
 * taken at one moment. They are exact while no other thread allocates or frees; else their error is
 * at most the bytes that were allocated, freed and moved between caches during the call. Their sums
 * are always consistent.
 *
 * text: as malloc_stats() prints it. Level 2 adds a line per size class and per length of free run.
 * json: one object. openmetrics: for Prometheus and other collectors, with content type
 * "application/openmetrics-text; version=1.0.0; charset=utf-8".
 *
 * As with snprintf, the text is cut to `length` bytes, ends with a zero, and the result is the
 * length of the whole text without that zero; `buffer` may be null if `length` is 0. A result of
 * `length` or more means that the end is missing. The length changes from call to call: 128 KiB is
 * always enough.
 *
 * Cost: microseconds, and some more per thread; 20 to 200 microseconds for text; 12 KiB of stack.
 * They allocate nothing. Other threads wait for them only as long as for each other's locks.
 */
size_t tcmalloc_stats_text(int level, char* buffer, size_t length) TCMALLOC_NOTHROW;
size_t tcmalloc_stats_json(char* buffer, size_t length) TCMALLOC_NOTHROW;
size_t tcmalloc_stats_openmetrics(char* buffer, size_t length) TCMALLOC_NOTHROW;

/*
 * Reports of large allocations, which are often a mistake: a negative number as a size, or a size
 * from a damaged file. Requests of the threshold (1 GiB by default) or more are counted. The first
 * one is reported, and each report raises the threshold of the next by an eighth, so sixty reports
 * raise it by a factor of a thousand.
 *
 * Sets the function to call for a report; null for none. The allocating thread calls it before
 * malloc or a growing realloc returns, with the object, the requested bytes and `context`, and with
 * no lock of the allocator held. It must not free the object, and must not throw. It may allocate
 * and free; it is not called for its own allocations. A call that has begun continues after the
 * function is replaced.
 */
typedef void (*tcmalloc_large_allocation_callback)(void* object, size_t bytes, void* context);
void tcmalloc_set_large_allocation_callback(tcmalloc_large_allocation_callback callback,
                                            void* context) TCMALLOC_NOTHROW;

/*
 * The threshold of these reports in bytes. set replaces the one from the environment
 * (TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD); 0 means no reports and no counting. Objects of up to 64
 * KiB are never reported. get returns the size that causes the next report; 0 means none.
 */
void tcmalloc_set_large_allocation_threshold(size_t bytes) TCMALLOC_NOTHROW;
size_t tcmalloc_get_large_allocation_threshold(void) TCMALLOC_NOTHROW;

/*
 * Figures and settings of the heap by name; docs/properties.md lists them.
 *
 * get: stores the value in `*value` and returns 1; returns 0 if there is no property of that name.
 *
 * set: returns 1 if it set the value; 0 if there is no property of that name, if it cannot be set,
 * or cannot have this value.
 *
 * list: calls `callback` with each name and value; all values are from the same moment. The
 * callback may allocate and free.
 *
 * Cost: some microseconds.
 */
int tcmalloc_get_numeric_property(const char* name, size_t* value) TCMALLOC_NOTHROW;
int tcmalloc_set_numeric_property(const char* name, size_t value) TCMALLOC_NOTHROW;
typedef void (*tcmalloc_property_callback)(const char* name, size_t value, void* context);
void tcmalloc_list_numeric_properties(tcmalloc_property_callback callback, void* context);

/*
 * get_allocated_size returns the bytes of `object` that the program may use, as
 * malloc_usable_size(); 0 for null. get_estimated_allocated_size returns the bytes that an object
 * would have for a request of `size`; 0 if that is impossible. owns returns 1 if `address` is in
 * memory of the heap, in use or free, else 0.
 *
 * Cost: some nanoseconds; for owns a lock and a search over the heap's address ranges.
 */
size_t tcmalloc_get_allocated_size(const void* object) TCMALLOC_NOTHROW;
size_t tcmalloc_get_estimated_allocated_size(size_t size) TCMALLOC_NOTHROW;
int tcmalloc_owns(const void* address) TCMALLOC_NOTHROW;

/*
 * Sampling for heap profiles (docs/profiles.md). The sampling interval is the mean number of bytes
 * between samples; 0 means no sampling. 524288 costs hardly anything. Existing samples keep their
 * weight when the interval changes. Only libtcmalloc has this function and those below,
 * libtcmalloc_minimal does not.
 *
 * Cost: every thread uses the new interval from its next allocation on.
 */
size_t tcmalloc_get_profile_sampling_interval(void) TCMALLOC_NOTHROW;
void tcmalloc_set_profile_sampling_interval(size_t bytes) TCMALLOC_NOTHROW;

/* The kinds of profiles. */
enum {
  TCMALLOC_PROFILE_HEAP = 0,        /* objects in use now */
  TCMALLOC_PROFILE_PEAK_HEAP = 1,   /* objects in use at the peak */
  TCMALLOC_PROFILE_ALLOCATIONS = 2, /* allocated while recording */
  /* Call stacks that made the heap grow, oldest first. */
  TCMALLOC_PROFILE_GROWTH = 3
};

/* An immutable profile. Any thread may read it. */
typedef struct tcmalloc_profile tcmalloc_profile;

/*
 * Takes a profile of any kind but TCMALLOC_PROFILE_ALLOCATIONS. Null for another number, and if
 * there is no memory. Free it with tcmalloc_profile_free, which accepts null.
 *
 * Cost: a fraction of a microsecond per sample; for a part of that time threads that take samples
 * wait. The profile has its own memory, which is not in the heap.
 */
tcmalloc_profile* tcmalloc_profile_snapshot(int kind) TCMALLOC_NOTHROW;
void tcmalloc_profile_free(tcmalloc_profile* profile) TCMALLOC_NOTHROW;

/*
 * Records every sampled allocation from now on, also those that are freed. start returns 0 if a
 * recording runs already, else 1. stop ends the recording and returns the profile; null if there is
 * no memory or no recording. The records take memory until then.
 */
int tcmalloc_start_allocation_profiling(void) TCMALLOC_NOTHROW;
tcmalloc_profile* tcmalloc_stop_allocation_profiling(void) TCMALLOC_NOTHROW;

typedef struct tcmalloc_profile_info {
  int kind;
  /*
   * Mean bytes between samples; 0 if every allocation was recorded, or if there are samples of
   * several intervals: then the recorded numbers are estimates.
   */
  size_t sample_interval;
  long long time_ns;     /* the time of the profile: nanoseconds since 1970 */
  long long duration_ns; /* how long the recording ran; 0 if none */
  size_t num_entries;
} tcmalloc_profile_info;
void tcmalloc_profile_get_info(const tcmalloc_profile* profile,
                               tcmalloc_profile_info* info) TCMALLOC_NOTHROW;

/* A call stack, and the objects of one size that were allocated there. */
typedef struct tcmalloc_profile_entry {
  const void* const* stack; /* return addresses, innermost first */
  size_t depth;
  size_t object_size; /* as requested; 0 for several sizes */
  /* The numbers that were recorded, then estimates of the true numbers. */
  unsigned long long recorded_objects;
  unsigned long long recorded_bytes;
  double objects;
  double bytes;
} tcmalloc_profile_entry;
typedef void (*tcmalloc_profile_callback)(const tcmalloc_profile_entry* entry, void* context);
void tcmalloc_profile_for_each(const tcmalloc_profile* profile, tcmalloc_profile_callback callback,
                               void* context);

/* The formats of profiles. */
enum {
  TCMALLOC_FORMAT_PROTO = 0,       /* pprof's profile.proto */
  TCMALLOC_FORMAT_LEGACY_TEXT = 1, /* as gperftools' profilers write it */
  TCMALLOC_FORMAT_FOLDED = 2       /* one line per stack, for flame graphs */
};
/*
 * Writes the profile to an open file, or piece by piece to `sink`, which returns 0 if it could not
 * accept a piece. Returns 0 if a part was not written.
 */
int tcmalloc_profile_write(const tcmalloc_profile* profile, int format, int fd) TCMALLOC_NOTHROW;
typedef int (*tcmalloc_profile_sink)(const void* data, size_t bytes, void* context);
int tcmalloc_profile_write_to(const tcmalloc_profile* profile, int format,
                              tcmalloc_profile_sink sink, void* context);

/*
 * Calls `callback` for every object in use, in address order, with its address and its size in
 * bytes (see tcmalloc_get_allocated_size). Returns 1; 0 if there is no memory for the list, or when
 * called from a fork handler. Only libtcmalloc has it.
 *
 * The objects are those of one moment. No other thread should allocate or free at that moment: the
 * list may contain its changes or not, and may contain an object that was free. The callback may
 * allocate and free, since it runs after that moment.
 *
 * Cost, without the callback: 80 ms per GiB of 64-byte objects, 25 ms of 256-byte objects, 5 ms of
 * 4 KiB objects (a Xeon at 2.8 GHz). During this time no thread gets memory that its cache does not
 * have. Until it returns it uses 8 bytes per heap page of 8 KiB, and one bit per object.
 */
typedef void (*tcmalloc_object_callback)(void* object, size_t bytes, void* context);
int tcmalloc_for_each_object(tcmalloc_object_callback callback, void* context);

#ifdef __cplusplus
} /* extern "C" */

namespace tcmalloc {

/*
 * The source of the heap's memory, which comes in pieces of megabytes. A program may install its
 * own with MallocExtension::SetSystemAllocator (tcmalloc/malloc_extension.h).
 */
class SystemAllocator {
 public:
  /*
   * Returns at least `bytes` bytes that start at a multiple of `alignment`, and stores their number
   * in `*actual_bytes`; null if there is no memory. `alignment` is a power of two and a multiple of
   * 8192. The memory must be readable and writable, and need not be zero. It belongs to the heap
   * from then on and is never unmapped. Free pages are released to the OS only if the memory came
   * from the library's own allocator, to which this one may forward requests.
   *
   * Several threads may call it at once. It runs in the middle of an allocation: it must not
   * allocate, free, fork, or wait for a thread that does.
   */
  virtual void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) noexcept = 0;

 protected:
  ~SystemAllocator() = default;
};

/* Called by MallocExtension::GetSystemAllocator and SetSystemAllocator, which describe them. */
extern "C" {
SystemAllocator* tcmalloc_system_allocator() noexcept;
void tcmalloc_set_system_allocator(SystemAllocator* allocator) noexcept;
}

/*
 * The scope of a phase of work that leaves nothing useful in caches (docs/phases.md). Its end moves
 * the calling thread's cache to the central free lists and returns kept empty spans to the page
 * heap, so that other sizes can use them. Sixteen threads that build a large index one after the
 * other then hold the free memory of one thread instead of sixteen.
 *
 *   {
 *     tcmalloc::ScopedPhase phase;
 *     BuildShard(shard);
 *   }
 *
 * Phases may be nested: each flushes at its end. The thread that created it must destroy it.
 *
 * Cost: that of tcmalloc_flush_this_thread_cache and tcmalloc_flush_central_caches. Other threads
 * then get their empty spans from the page heap.
 */
class ScopedPhase {
 public:
  ScopedPhase() = default;
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;
  ~ScopedPhase() {
    tcmalloc_flush_this_thread_cache();
    tcmalloc_flush_central_caches();
  }
};

} /* namespace tcmalloc */
#endif

#endif /* TCMALLOC_TCMALLOC_H_ */
