/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What TCMalloc offers beyond malloc: giving back what its caches hold, giving free memory back to
 * the system, limits on the heap, saying what the heap holds, reports of large allocations, and, in
 * C++, saying where memory comes from.
 *
 * All functions may be called at any moment, by any thread, also before the first allocation, but
 * not from a signal handler. None fails, none changes errno, none waits for another thread to do
 * something. Sizes are in bytes and count objects as large as the allocator makes them (a request
 * of 100 bytes is an object of 112). Link with libtcmalloc or libtcmalloc_minimal; a program that
 * is to run without them as well declares the functions weak and looks before it calls.
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
 * Empties the caches of all threads into the middle tier that they share, also of threads that
 * sleep or are blocked for ever, and those that ended threads have left to others. Returns the
 * bytes moved. A thread that is caught in the middle of an allocation or a free is asked to flush
 * when it next needs the middle tier; what it gives back then is not in the result. Where the
 * kernel has no membarrier(2), or a sandbox forbids it, all threads but the calling one are asked
 * in this way.
 *
 * Cost: about 15 microseconds for every 32 threads, a few nanoseconds for every object. Every
 * thread starts again with an empty cache.
 */
size_t tcmalloc_flush_thread_caches(void) TCMALLOC_NOTHROW;

/*
 * Gives up the empty runs of pages that are kept for the next use on the same processor, so that
 * every run of pages without an object in use is free for other sizes and large objects. Returns
 * the bytes that were kept. Useful after tcmalloc_flush_thread_caches(); malloc_trim() does both by
 * itself.
 *
 * Cost: two locks for every run of pages that was kept: at most 4 MiB of them for each processor.
 */
size_t tcmalloc_flush_central_caches(void) TCMALLOC_NOTHROW;

/*
 * Empties the calling thread's cache and lets other threads have its share of what all caches
 * together may hold. Returns the bytes moved. The thread may go on allocating; its cache then grows
 * again from its smallest size. For the end of a phase of work that needed much memory, and before
 * a thread goes to sleep for long.
 *
 * Cost: a few nanoseconds for every object.
 */
size_t tcmalloc_flush_this_thread_cache(void) TCMALLOC_NOTHROW;

/*
 * A thread pool's notes to the allocator. mark_thread_idle: this thread will not allocate for a
 * while; the same as tcmalloc_flush_this_thread_cache(). mark_thread_busy: it is about to; gets it
 * a cache, if it has none, so that the first allocation need not. mark_thread_temporarily_idle: as
 * mark_thread_idle, but the thread keeps its share, for pauses that are short.
 */
void tcmalloc_mark_thread_idle(void) TCMALLOC_NOTHROW;
void tcmalloc_mark_thread_temporarily_idle(void) TCMALLOC_NOTHROW;
void tcmalloc_mark_thread_busy(void) TCMALLOC_NOTHROW;

/*
 * Gives free runs of pages back to the system: all of them, or until `bytes` went. Returns the
 * bytes that went. What the caches hold stays; malloc_trim() gives that back, too. Where memory is
 * locked (mlock) nothing goes.
 *
 * Cost: a system call for up to 8 MiB, which takes 0.1 to 0.5 milliseconds where the memory is in
 * small pages. No other thread that allocates or frees waits for it.
 */
size_t tcmalloc_release_free_memory(void) TCMALLOC_NOTHROW;
size_t tcmalloc_release_to_system(size_t bytes) TCMALLOC_NOTHROW;

/*
 * How eagerly free memory goes back by itself, as TCMALLOC_RELEASE_RATE: 0 never, 1 what the last
 * four seconds did not need at 512 MiB per second, more is faster. Values below 0 count as 0,
 * values above 1000 as 1000.
 */
void tcmalloc_set_memory_release_rate(double rate) TCMALLOC_NOTHROW;
double tcmalloc_get_memory_release_rate(void) TCMALLOC_NOTHROW;

/*
 * Releases free memory to the system at the rate above while no thread calls the library. Never
 * returns; to be called by a thread of the program that has nothing else to do. A process with
 * several threads has a thread of the library for it, unless TCMALLOC_BACKGROUND=0 is set. With
 * neither, memory is released while the program frees.
 *
 * Cost: the thread wakes up once a second.
 */
void tcmalloc_process_background_actions(void);
/*
 * Limits on the memory of the heap: what it has from the system and did not give back, its own
 * records included. Address space does not count.
 *
 * TCMALLOC_LIMIT_HARD: an allocation that would take the heap above it fails, but not before all
 * that is free has gone back to the system, the contents of all caches included. The allocator's
 * own records may go above it.
 *
 * TCMALLOC_LIMIT_SOFT: free memory goes back to the system before the heap grows above it, and, as
 * long as the heap is larger, soon after it was freed; but no allocation fails, and none has more
 * given back than a little more than it asks for. Caches are not emptied.
 */
enum tcmalloc_limit_kind { TCMALLOC_LIMIT_HARD = 0, TCMALLOC_LIMIT_SOFT = 1 };

/*
 * Sets a limit in bytes, 0 for none, over what the environment says (TCMALLOC_HEAP_LIMIT_MB,
 * TCMALLOC_SOFT_LIMIT), and gives back what is free above it. A heap that is larger stays so until
 * enough is freed. Any other kind is ignored.
 */
void tcmalloc_set_memory_limit(int kind, size_t bytes) TCMALLOC_NOTHROW;
size_t tcmalloc_get_memory_limit(int kind) TCMALLOC_NOTHROW;

/*
 * The function is called with how large the heap is and with the limit: for the hard limit when an
 * allocation fails because of it, by the thread that allocates, before malloc returns; for the soft
 * limit when the heap has grown above it, by a thread that allocates, and again only after it was
 * well below. It may allocate and free, but must not throw; it is not called for what it does
 * itself. No lock of the allocator's is held. There is one function for both limits; null for none.
 * Calls that have begun go on when it is replaced. Without a function the first allocation of a
 * process that fails because of the hard limit writes a line to stderr.
 */
typedef void (*tcmalloc_limit_callback)(int kind, size_t current_bytes, size_t limit_bytes,
                                        void* context);
void tcmalloc_set_limit_callback(tcmalloc_limit_callback callback, void* context) TCMALLOC_NOTHROW;

/*
 * Memory pressure: what the system says about memory running short. With TCMALLOC_PRESSURE=auto in
 * the environment (docs/pressure.md) a thread of the library's listens and empties the allocator's
 * tiers by levels: 1 the caches of threads, 2 all caches, 3 free memory goes back to the system.
 * These functions are for programs that want to take part, or to do without the thread. In
 * libtcmalloc_minimal nothing listens.
 *
 * A listener is called before the library does something at a level, so that the program can drop
 * what it holds for speed. The node is the program's, zero-filled but for the first two members,
 * and must stay where it is while it is added. It is called by the thread that listens, no lock
 * held, one listener at a time; it may allocate, free, fork, and add and remove listeners, itself
 * included, but must return: no exception, no end of the thread. (In a child that it forks, it may
 * end the process or execute something.) When remove returns the node is
 * not in use any more; it waits for a call that has begun, unless it is made from that call, so
 * nobody may hold a lock meanwhile that the listener takes: a plugin that removes its listener in a
 * destructor holds the dynamic linker's.
 */
typedef struct tcmalloc_pressure_listener {
  void (*notify)(int level, void* context);
  void* context;
  struct tcmalloc_pressure_listener* private_links[2];
} tcmalloc_pressure_listener;
void tcmalloc_add_pressure_listener(tcmalloc_pressure_listener* listener) TCMALLOC_NOTHROW;
void tcmalloc_remove_pressure_listener(tcmalloc_pressure_listener* listener) TCMALLOC_NOTHROW;

/*
 * Without the thread: a descriptor for the program's event loop, which is readable (POLLIN) when
 * there is something to do, the same one each time; close-on-exec; not to be read or closed. It has
 * a number from 512 on, where the process may have such. It listens to what TCMALLOC_PRESSURE says
 * when that is set (with thread=off), else to all there is. -1 and errno: EBUSY while the library's
 * thread listens; EMFILE or ENFILE; ENOTSUP in libtcmalloc_minimal. A forked child asks for one of
 * its own; so does a program that has closed it by mistake.
 *
 * handle: finds out what has happened and does what is due; returns its level, 0 for nothing. It
 * does not wait for events; what it does takes microseconds to milliseconds for each GiB that goes
 * back. It is called by one thread at a time; others return 0 at once.
 */
int tcmalloc_pressure_fd(void) TCMALLOC_NOTHROW;
int tcmalloc_handle_pressure(void) TCMALLOC_NOTHROW;

/*
 * What the heap holds, as text; docs/statistics.md explains every figure. All formats speak about
 * the same figures, taken at one moment: exact when no other thread allocates or frees, else off by
 * at most what was allocated, freed and moved between caches while they were taken (some
 * microseconds, and some more for every thread). The sums among them hold always.
 *
 * text: what malloc_stats() prints, lines for people and for tools that read such lines of
 * TCMalloc; at level 2 with a line for every size of objects and for every length of free memory.
 * json: one object, for programs. openmetrics: for Prometheus and other collectors; its content
 * type is "application/openmetrics-text; version=1.0.0; charset=utf-8".
 *
 * As with snprintf, `buffer` gets what it has room for, ended by a zero, and the result is the
 * length of all of it, without the zero; `buffer` may be null when `length` is 0. A result of
 * `length` or more says that the end is missing. The length changes from call to call: ask for
 * some more than a call said; 128 KiB is always enough. They need 12 KiB of stack.
 *
 * Cost: microseconds, and some more for every thread; 20 to 200 microseconds for the text. Nothing
 * is allocated, and other threads wait for it no longer than for each other's locks.
 */
size_t tcmalloc_stats_text(int level, char* buffer, size_t length) TCMALLOC_NOTHROW;
size_t tcmalloc_stats_json(char* buffer, size_t length) TCMALLOC_NOTHROW;
size_t tcmalloc_stats_openmetrics(char* buffer, size_t length) TCMALLOC_NOTHROW;

/*
 * Reports of large allocations, which are more often a mistake than not: a size that is a negative
 * number, or was read from a damaged file. Requests for the threshold and more, which is 1 GiB at
 * first, are counted; the first is reported, and raises the threshold of the next report by an
 * eighth, and so on: sixty reports are a factor of a thousand apart.
 *
 * The function is called with the object, which is in use but must not be freed yet, and with the
 * bytes that were asked for, by the thread that allocates, before malloc returns. It may allocate
 * and free, but must not throw; it is not called for what it does itself. No lock of the
 * allocator's is held. It is also called when realloc lets an object grow. There is one function;
 * null for none. Calls that have begun go on when it is replaced.
 */
typedef void (*tcmalloc_large_allocation_callback)(void* object, size_t bytes, void* context);
void tcmalloc_set_large_allocation_callback(tcmalloc_large_allocation_callback callback,
                                            void* context) TCMALLOC_NOTHROW;

/*
 * Sets the threshold in bytes, over what the environment says
 * (TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD), 0 for no reports and no counting. Objects up to 256 KiB
 * are never reported. get: from which size on the next report comes.
 */
void tcmalloc_set_large_allocation_threshold(size_t bytes) TCMALLOC_NOTHROW;
size_t tcmalloc_get_large_allocation_threshold(void) TCMALLOC_NOTHROW;

/*
 * Figures of the heap, and settings, by name: docs/properties.md lists them. get: 0 when there is
 * none of that name, else 1 and `*value`. set: 0 when there is none of that name, it is no setting,
 * or cannot have that value. list: calls the function for each, with figures that are all from the
 * same moment; it may allocate and free.
 *
 * Cost: some microseconds.
 */
int tcmalloc_get_numeric_property(const char* name, size_t* value) TCMALLOC_NOTHROW;
int tcmalloc_set_numeric_property(const char* name, size_t value) TCMALLOC_NOTHROW;
typedef void (*tcmalloc_property_callback)(const char* name, size_t value, void* context);
void tcmalloc_list_numeric_properties(tcmalloc_property_callback callback, void* context);

/*
 * Bytes of the object at `object` that the program may use, as malloc_usable_size: 0 for null. And
 * how many bytes an object has that is asked for with `size`: 0 when there can be none. Of an
 * address: 1 when it lies in memory that belongs to the heap, in use or free, else 0.
 *
 * Cost: some nanoseconds; of the last, a lock and a look at every stretch of address space.
 */
size_t tcmalloc_get_allocated_size(const void* object) TCMALLOC_NOTHROW;
size_t tcmalloc_get_estimated_allocated_size(size_t size) TCMALLOC_NOTHROW;
int tcmalloc_owns(const void* address) TCMALLOC_NOTHROW;

/*
 * Heap profiles (docs/profiles.md). Allocations are sampled while the interval, the mean number of
 * bytes from one sample to the next, is not 0; 524288 costs hardly anything. Samples that were
 * taken keep their meaning when it changes. In libtcmalloc only, not in libtcmalloc_minimal: this
 * and the functions below.
 *
 * Cost: threads go by the new interval from their next allocation on.
 */
size_t tcmalloc_get_profile_sampling_interval(void) TCMALLOC_NOTHROW;
void tcmalloc_set_profile_sampling_interval(size_t bytes) TCMALLOC_NOTHROW;

/* What a profile is about. */
enum {
  TCMALLOC_PROFILE_HEAP = 0,        /* what is in use now */
  TCMALLOC_PROFILE_PEAK_HEAP = 1,   /* what was in use when most was */
  TCMALLOC_PROFILE_ALLOCATIONS = 2, /* what was allocated while that was recorded */
  TCMALLOC_PROFILE_GROWTH = 3       /* where the heap was made to grow, in the order of time, since
                                   sampling was first switched on */
};

/* An immutable profile, which any thread may read. */
typedef struct tcmalloc_profile tcmalloc_profile;

/*
 * A profile of all kinds but TCMALLOC_PROFILE_ALLOCATIONS; null for another number, and when there
 * is no memory. To be freed by tcmalloc_profile_free, which takes null as well.
 *
 * Cost: a fraction of a microsecond for each sample, during a part of which other threads that
 * sample have to wait. The profile has memory of its own, which is no part of the heap.
 */
tcmalloc_profile* tcmalloc_profile_snapshot(int kind) TCMALLOC_NOTHROW;
void tcmalloc_profile_free(tcmalloc_profile* profile) TCMALLOC_NOTHROW;

/*
 * From now on what is sampled is recorded, also what is freed again. 0 when that is so already:
 * there is one recording at a time. The second function ends it and returns the profile, null
 * without memory. The records take memory as long as it lasts.
 */
int tcmalloc_start_allocation_profiling(void) TCMALLOC_NOTHROW;
tcmalloc_profile* tcmalloc_stop_allocation_profiling(void) TCMALLOC_NOTHROW;

typedef struct tcmalloc_profile_info {
  int kind;
  size_t sample_interval; /* mean bytes between samples; 0: nothing was left out, or
                             samples of different ones, and what was recorded is estimated */
  long long time_ns;      /* when it was taken: nanoseconds since 1970 */
  long long duration_ns;  /* how long it was recorded */
  size_t num_entries;
} tcmalloc_profile_info;
void tcmalloc_profile_get_info(const tcmalloc_profile* profile,
                               tcmalloc_profile_info* info) TCMALLOC_NOTHROW;

/* One call stack, and what was allocated from there in objects of one size. */
typedef struct tcmalloc_profile_entry {
  const void* const* stack; /* return addresses, the innermost first */
  size_t depth;
  size_t object_size; /* as asked for; 0: various */
  /* What was recorded, and an estimate of what there is. */
  unsigned long long recorded_objects;
  unsigned long long recorded_bytes;
  double objects;
  double bytes;
} tcmalloc_profile_entry;
typedef void (*tcmalloc_profile_callback)(const tcmalloc_profile_entry* entry, void* context);
void tcmalloc_profile_for_each(const tcmalloc_profile* profile, tcmalloc_profile_callback callback,
                               void* context);

/* How a profile may be written. */
enum {
  TCMALLOC_FORMAT_PROTO = 0,       /* pprof's profile.proto, gzip'ed */
  TCMALLOC_FORMAT_LEGACY_TEXT = 1, /* as gperftools' profilers write it */
  TCMALLOC_FORMAT_FOLDED = 2       /* a line for each stack, as flame graphs are made of */
};
/*
 * Writes it to a file that is open, or piece by piece to a function, which returns 0 when it could
 * not take one. 0 when not everything was written.
 */
int tcmalloc_profile_write(const tcmalloc_profile* profile, int format, int fd) TCMALLOC_NOTHROW;
typedef int (*tcmalloc_profile_sink)(const void* data, size_t bytes, void* context);
int tcmalloc_profile_write_to(const tcmalloc_profile* profile, int format,
                              tcmalloc_profile_sink sink, void* context);

/*
 * Calls `callback` for every object in use, with its address, in the order of these, and the bytes
 * that it may hold (see tcmalloc_get_allocated_size). Only libtcmalloc has it. Returns 1; 0 when
 * there is no memory for it, or in a handler around fork.
 *
 * The objects are those of one moment. No other thread may allocate or free at that: what one does
 * may or may not be seen, and an object may be told of that was free. The callback may allocate and
 * free: what it does comes after the moment.
 *
 * Cost: besides the callback, 80 ms per GiB of objects of 64 bytes, 25 ms of 256 bytes, 5 ms of
 * 4 KiB (a Xeon at 2.8 GHz), in which no thread gets memory that its cache does not have; 8 bytes
 * per page of 8 KiB of the heap, and a bit per object, until it returns.
 */
typedef void (*tcmalloc_object_callback)(void* object, size_t bytes, void* context);
int tcmalloc_for_each_object(tcmalloc_object_callback callback, void* context);

#ifdef __cplusplus
} /* extern "C" */

namespace tcmalloc {

/*
 * Where the heap gets memory from, in pieces of megabytes. A program may bring its own: see
 * MallocExtension::SetSystemAllocator (tcmalloc/malloc_extension.h).
 */
class SystemAllocator {
 public:
  /*
   * Returns memory of at least `bytes` bytes that begins at a multiple of `alignment`, which is a
   * power of two and a multiple of 8192, or null when there is none. `*actual_bytes` is set to how
   * much it is. The memory is readable and writable, need not be zero-filled, and belongs to the
   * heap from then on: nothing is ever unmapped. Free pages are released to the system only where
   * the memory came from the allocator that the library had before, to which this one may pass
   * requests on.
   *
   * Several threads may call at once. It is called in the midst of an allocation: it must not
   * allocate, free, fork or wait for a thread that does.
   */
  virtual void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) noexcept = 0;

 protected:
  ~SystemAllocator() = default;
};

extern "C" {
SystemAllocator* tcmalloc_system_allocator() noexcept;
void tcmalloc_set_system_allocator(SystemAllocator* allocator) noexcept;
}

/*
 * A phase of work after which what it left in caches is of no more use (docs/phases.md): when the
 * scope is left, by whichever way, the calling thread's cache goes back to the middle tier, and the
 * batches that wait there are taken apart, so that memory in which nothing lives is free for other
 * sizes. Sixteen threads that each build a large index, one after the other, then hold one thread's
 * worth of free memory instead of sixteen.
 *
 *   {
 *     tcmalloc::ScopedPhase phase;
 *     BuildShard(shard);
 *   }
 *
 * Phases may be nested: each flushes at its own end. To be destroyed by the thread that created it.
 *
 * Cost: a few nanoseconds for every object in the thread's cache and in batches, of which there is
 * at most 1 MiB for each processor; other threads then fetch from a little further away.
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
