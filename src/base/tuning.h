// SPDX-License-Identifier: BSD-3-Clause
// Tuning: the numbers that are not yet beside their rule as base/tuned.h says. To change one, edit
// it here, build, run the tests and the referee (CONTRIBUTING.md).
//
// A field has its unit in its type or its name. A field that ends in _part is a divisor: 16 means
// one sixteenth. The comment says, in this order: what the number decides; why it has this value;
// what was measured, or "Not measured" if the value is a guess; the range.
//
// Not here: buffer sizes, field widths, file formats, protocol states, numbers of the kernel and of
// other libraries. scripts/lint/tuning.py lists those with a reason each, and fails when src/
// has another constant.
//
// "Large" and "huge" have three meanings: a large object exceeds size_classes.max_small_bytes; a
// huge object has at least hugepages.huge_object; a large allocation, which is reported, has at
// least large_reports.threshold_bytes.
//
// Cost: none. Everything is a compile-time constant.
//
// Length: one place for all numbers, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/units.h"

namespace tcmalloc {

struct Tuning {
  // How much memory the allocator keeps beyond the memory in use (page_heap/retention.h).
  struct Retention {
    // The total is the memory in use / in_use_part, but at least floor_bytes. Thread caches get
    // 32 MiB of the floor, as in gperftools. Not measured. Ranges: 2 MiB to 1 GiB; 4 to 256.
    size_t floor_bytes = 64_MiB;
    size_t in_use_part = 16;
    // Shares of the total. Thread caches get total / thread_caches_part. Inherited caches, left by
    // ended threads for new ones, get enough for a few thread pools: a thread that lives for 100
    // objects executes 110,000 instructions in the allocator without inheritance, 60,000 with it
    // (decision 0009). An excess of free pages below free_pages_part is not released
    // (page_heap/release_policy.h). Empty spans that shards keep get the rest. The shares were not
    // measured. Ranges: 2 to 64; 4 to 1024; 16 to 4096.
    size_t thread_caches_part = 2;
    size_t inherited_part = 32;
    size_t free_pages_part = 128;
    // If no setting gives the total, the share of thread caches is at least per_thread_cache_bytes
    // for each living thread's cache, as long as that is at most the memory in use /
    // thread_caches_in_use_part. 400 threads that take turns refill 123 bins for 1000 pairs of an
    // allocation and a free with 32 MiB for all, 21 with 256 KiB each, with a peak that is 1 %
    // higher. 512 KiB: no faster, and the peak is 4 % higher (decision 0048). Ranges: 64 KiB to 1
    // MiB; 1 to 64.
    size_t per_thread_cache_bytes = 256_KiB;
    size_t thread_caches_in_use_part = 2;
    // A shard compares the memory that all shards keep with their share once per step that it
    // keeps, since the sum reads counters that other CPUs write. A step is the share /
    // kept_spans_steps / the number of shards, at least kept_spans_step (page_heap/retention.h). So
    // each shard may keep a step too much of each kind. Ranges: 4 KiB to 4 MiB, a power of two; 2
    // to 64.
    size_t kept_spans_step = 128_KiB;
    size_t kept_spans_steps = 8;
    // The total is at most this part of the lowest memory limit. Not measured. Range: 2 to 64.
    size_t limit_part = 8;
    // After a response to memory pressure of level N the total is halved N times for this long.
    // That is longer than the longest wait between two responses (pressure.max_waits *
    // pressure.default_interval_ms). Not measured. Range: 1000 to 3,600,000.
    int64_t pressure_hold_ms = 120'000;
  } retention;

  // Empty spans that a shard keeps for its next use (page_heap/span_cache.h).
  struct SpanCache {
    // The longest span that is kept. Range: 1 to 127.
    size_t max_pages = 16;
    // The most bytes that a shard keeps while no thread runs idle release. Two threads that each
    // fill and empty 3 MiB take 0.25 s with 4 MiB, 0.36 s with 1 MiB (decision 0010). Range: 0 to
    // 64 MiB.
    size_t unattended_bytes = 4_MiB;
    // The most kept spans of other shards that one request drains. Draining one at a time would mix
    // the shards' memory span by span (decision 0010). Range: 1 to 256.
    size_t drained_at_once = 32;
  } span_cache;

  // Spans of large objects that a shard keeps for its next use (page_heap/span_pool.h).
  struct SpanPool {
    // The longest object that a pool keeps and serves. Range: 64 KiB to 1 GiB.
    Length max_length = Length::ForBytes(1_MiB);
    // The most bytes that a pool keeps while no thread runs idle release. Range: 0 to 64 MiB.
    size_t unattended_bytes = 8_MiB;
    // Pages that a pool takes from the page heap at once, if there is a free span of that length.
    // Two threads that replace objects of up to 256 KiB, 32 MiB together: 64 ms with spans of their
    // own length, 54 ms with 256 KiB, 32 ms with 1 MiB (decision 0045). Range: 64 KiB to 64 MiB.
    Length chunk = Length::ForBytes(1_MiB);
    // A pool's request drains the other pools only if they keep more than this part of the memory
    // in use. The two threads of `chunk` take 54 ms if it always drains them, 32 ms with 8, 45 ms
    // with 16; threads that replace objects of up to 512 KiB have 7 % more memory with 8, 12 % with
    // 4 (decision 0045). Range: 2 to 256.
    size_t left_to_others_part = 8;
    // The spare span records of a pool. It returns records when it has more than twice this number.
    // They take 14 KiB. Threads that free 250 objects and then allocate 250 need 250 records; with
    // 16, such a thread returns or fetches a record for almost each object. Range: 1 to 1024.
    size_t records = 128;
  } span_pool;

  // Where spans lie in the address space (page_heap/span_store.cc).
  struct Placement {
    // Lengths of the runs of pages that hold the spans of one shard; longer in larger heaps. A CPU
    // prefetches past the end of a span, into memory in which another CPU works: two threads took
    // 6 ns for each cache line with blocks of 32 KiB, 3.6 with 64 KiB, 1.9 with 256 KiB or more.
    // The last pages of a run are wasted: 1 to 2 % of a heap of 800 MiB with runs of 256 KiB, 0.3 %
    // with 1 MiB (decision 0010). Ranges: 64 KiB to 2 MiB; powers of two.
    Length min_near_run = Length::ForBytes(256_KiB);
    Length max_near_run = Length::ForBytes(1_MiB);
    // The current runs of all shards take at most this part of the memory in use. Range: 4 to 256.
    size_t near_runs_part = 16;
    // Large objects take the tightest place, to save address space, where the heap exceeds the most
    // that was ever in use by more than spare_space plus spare_space_part of that most. spare_space
    // is one growth of the greatest length. With 128 MiB, heaps of 500 MiB take more than 1.25
    // times what best fit takes. To do so always costs 1.4 times the page faults with buffers of 64
    // KiB to 4 MiB; never, up to 1.5 times the address space (decision 0030). Ranges: 0 to 1 GiB; 1
    // to 256.
    Length spare_space = Length::ForBytes(64_MiB);
    size_t spare_space_part = 16;
    // Free spans of up to this length are in one list for each length, longer ones in a tree.
    // Statistics count the listed ones by length. Not measured. Range:
    // span_cache.max_pages to 1024; a multiple of 64.
    size_t max_listed_pages = 128;
  } placement;

  // How the heap takes memory from the OS (page_heap/governor.cc).
  struct Growth {
    // Length of the first mapping. It is short for small programs under a limit on address space
    // (RLIMIT_AS). Range: 64 KiB to 8 MiB.
    Length min = Length::ForBytes(1_MiB);
    // The longest mapping, unless one request needs more. Range: min to 1 GiB.
    Length max = Length::ForBytes(64_MiB);
    // Later mappings are this part of the heap, so their number grows with the logarithm of the
    // heap's size. Address space costs nothing until it is touched. Not measured. Range: 2 to 64.
    size_t part = 8;
  } growth;

  // Hugepages, and pre-faulting outside of them (page_heap/hugepage.h).
  struct Hugepages {
    // A heap of this many backed bytes asks for hugepages where it grows; in a smaller one, 2 MiB
    // would be a visible part of the process. 16 MiB: 10 % faster with buffers, 9 % more memory in
    // a program of 29 MiB. 64 MiB: slower in each row (decision 0014). Range: 2 MiB to 1 GiB.
    Length threshold = Length::ForBytes(32_MiB);
    // A huge object fills half of a hugepage or more. Where the heap grows for one, threshold /
    // early_part is enough for hugepages: page faults of the buffers program 8,700 to 2,605. From
    // 256 KiB on it cost Python 1.3 MiB (decision 0014). realloc moves the pages of a huge object
    // instead of copying it: a move takes about 10 us, like copying 32 KiB into fresh memory or
    // 256 KiB into hugepages (Linux 6.18, x86), but the number of moves is limited
    // (reallocation.max_moves). Range: 256 KiB to 2 MiB.
    Length huge_object = Length::ForBytes(1_MiB);
    // See huge_object. Range: 1 to 16.
    size_t early_part = 4;
    // The most free spans of equal length that are compared to find the one in the fullest
    // hugepage. Not measured. Range: 1 to 64.
    size_t equals_looked_at = 8;
    // After splitting a hugepage, the heap advises the OS against hugepages in this much memory
    // around it. Each advice may cost two mappings. Not measured. Range: 2 MiB to 1 GiB; a power of
    // two.
    Length stopped_at_once = Length::ForBytes(64_MiB);
    // A new span is pre-faulted if its class has this many spans in its shard already: the program
    // will probably use all of it. Most classes of a program have one span, which is almost empty.
    // Peak of perl hashes.pl: 15,204 KiB with all spans, 14,348 from the 5th, 14,236 from the 9th,
    // 14,296 from the 17th (decision 0014). Range: 1 to 64; a power of two.
    size_t spans_before_prefault = 8;
    // The shortest span that is pre-faulted. Not measured. Range: 8 KiB to 2 MiB.
    Length min_prefault = Length::ForBytes(16_KiB);
    // Spans of a class are not pre-faulted when more than this part of one stayed unbacked. A
    // touched page of 4 KiB costs 1.5 us, a pre-faulted one 1.25 us (decision 0014). Range: 2
    // to 16.
    size_t untouched_part = 4;
  } hugepages;

  // calloc of large objects whose memory may have been written to
  // (page_heap/address_space.cc). A page of 4 KiB takes 0.1 to 0.3 us to clear where it is
  // backed; 1.4 us more where it is not. To replace it takes 0.1 us, and 1.4 us more if the program
  // writes to it again (decision 0054).
  struct Clearing {
    // Up to this length, memory is cleared without asking the OS how much of it is backed. Range:
    // 4 KiB to 1 GiB.
    Length max_unasked = Length::ForBytes(2_MiB);
    // The OS is asked about one page in this much memory, and about at most max_samples. Each takes
    // 0.1 to 0.4 us: objects of 4 MiB that the program uses as a whole take 4 % longer if the OS is
    // asked about all pages, 1 % with one for each MiB (decision 0054). Ranges: 64 KiB to
    // max_unasked; 1 to 256.
    Length sample_every = Length::ForBytes(1_MiB);
    size_t max_samples = 16;
    // Where at most this part of the samples is backed, all is replaced; where at most this part is
    // unbacked, all is cleared. Else the OS is asked about all pages. Not measured. Range: 2 to 64.
    size_t few_part = 16;
    // Then, of each hugepage's length, at most this part may be backed for it to be replaced. At
    // one half both cost the same, if the program uses as much as the last one did. Range: 1 to
    // 256.
    size_t replaced_part = 2;
    // Where the OS cannot be asked (a sandbox may end the process for that), memory of this length
    // or more is replaced, and shorter memory cleared. glibc's malloc maps each object of 32 MiB or
    // more anew. Range: max_unasked to 1 GiB.
    Length min_replaced_blindly = Length::ForBytes(32_MiB);
  } clearing;

  // realloc of growing objects (malloc/slow_path.cc, page_heap/address_space_move.cc). The size
  // from which it moves pages is hugepages.huge_object.
  struct Reallocation {
    // When realloc moves an object of this size or more, the old memory does not enter the thread
    // cache: growing objects seldom shrink again, and other growing objects can use the memory. A
    // limit of 4 KiB saves no more memory (decision 0009). Range: 1 KiB to max_small_bytes.
    size_t uncached_bytes = 16_KiB;
    // The most attempts to move pages in the life of the process. Each may leave the process with
    // two more mappings, and the OS allows 65,530. Range: 0 to 10,000.
    size_t max_moves = 1000;
    // The most moves at a time; further objects are copied. Span records for the end of each move
    // are reserved. Not measured. Range: 1 to 64.
    size_t max_moves_at_once = 8;
  } reallocation;

  // Which free memory the library returns to the OS by itself, and when
  // (page_heap/release_policy.h).
  struct Release {
    // Default and maximum of TCMALLOC_RELEASE_RATE. 0 never releases. The TCMalloc document
    // explains values from 0 to 10 under "tcmalloc_release_rate". Range: 0 to max_rate.
    double default_rate = 1.0;
    double max_rate = 1000;
    // How long the peak demand is remembered, at rates up to 1; above, it is shorter. A program
    // that just used the memory is likely to need it again (decision 0014). Range: 100 to 60,000.
    int64_t memory_ms = 4000;
    // How many windows memory_ms is divided into. Not measured. Range: 2 to 64.
    size_t windows = 8;
    // What a program may have to fault in again within regret_ms of its release, for each second
    // of its life, times the rate: 2 % of its time at 1.4 us for a page of 4 KiB (decision 0053).
    // Range: 1 MiB to 1 GiB.
    size_t regret_bytes_per_second = 56_MiB;
    // Range: 100 to memory_ms.
    int64_t regret_ms = 1000;
    // The most that may have been released within regret_ms, times the rate. It bounds how fast
    // memory is released: this much in two regret_ms. Range: 16 MiB to 4095 MiB.
    size_t most_at_risk = 1_GiB;
    // If the only free pages left are in partially used hugepages, these are split when the excess
    // is more than this part of the memory in use (decision 0014). Range: 1 to 256.
    size_t split_part = 16;
    // Freeing reads the clock once for this many pages. Not measured. Range: 64 KiB to slice.
    Length look_every = Length::ForBytes(1_MiB);
    // While no thread runs idle release, slow paths look for memory to release after this time.
    // Not measured. Range: 10 to memory_ms.
    int64_t look_every_ms = 500;
    // The most that one system call releases, unless there is no memory for the record of a longer
    // span's rest. A freeing thread waits for that call (decision 0014). Range: 2 MiB to 64 MiB; a
    // multiple of a hugepage.
    Length slice = Length::ForBytes(8_MiB);
    // A span longer than part_at_once slices is released in parts of this fraction, at most
    // most_at_once, with one system call per slice. Ending a part takes a step for each hugepage
    // under the page heap's lock. Ranges: 4 to 256; slice to 4 GiB, a multiple of a hugepage.
    size_t part_at_once = 8;
    Length most_at_once = Length::ForBytes(1_GiB);
    // A free gives up after this many refusals by the OS: some 20 us of calls. Range: 1 to 1000.
    size_t max_refusals = 64;
    // The most free spans compared to choose one to release. Not measured. Range: 1 to 256.
    size_t spans_looked_at = 16;
    // The most refused spans that become free under one hold of the lock. Not measured. Range: 1 to
    // 1000.
    size_t restored_at_once = 64;
  } release;

  // Idle release: returning free pages to the OS while no thread is freeing
  // (process/idle_release.h, process/background_thread.h). A pass is idle when nothing was freed
  // since the pass before.
  struct IdleRelease {
    // The time from one pass to the next. Not measured. Range: 10 to 10,000.
    int pass_ms = 1000;
    // After this many idle passes the thread sleeps until pages are freed, if no cache was used
    // since the last pass. By then the release policy has forgotten the demand before the last
    // free, and the second of these passes has flushed caches that the first one found idle. Range:
    // 3 to 3600.
    int sleep_after_passes = 7;
    // While only caches in use keep the thread from sleeping, each pause is twice the one before,
    // up to this one. The cache of a thread that becomes idle then is flushed at the second pass
    // after that. Not measured. Range: pass_ms to 3,600,000.
    int longest_pause_ms = 60'000;
    // A start and an end of the background thread cost some 100 us. A program that creates one
    // thread after the other gets one at most once in restart_alone_ms. A program that repeatedly
    // creates several threads at a time gets one the first quick_starts times, then once in
    // restart_ms. The first quick_starts_alone starts are always quick. Not measured. Ranges:
    // restart_ms to 3,600,000; 1 to 1000; 1 to quick_starts; 0 to 10,000.
    int64_t restart_alone_ms = 10'000;
    uint32_t quick_starts = 4;
    uint32_t quick_starts_alone = 3;
    int64_t restart_ms = 20;
  } idle_release;

  // Memory limits (page_heap/memory_limit.h, page_heap/governor.h, process/limits.h).
  struct Limits {
    // Bytes to release beyond what is needed, so that not every growth near a limit makes a system
    // call: slack_part of the limit, within these bounds. The upper bound is one release.slice. Not
    // measured. Ranges: 0 to max; min to 64 MiB; 2 to 1024.
    size_t min_slack_bytes = 256_KiB;
    size_t max_slack_bytes = 8_MiB;
    size_t slack_part = 64;
    // The most slices that one allocation releases for the soft limit. If free memory lies in many
    // short spans, a slice releases little and still costs a system call. Range: 1 to 1000.
    size_t max_slices_for_soft = 32;
    // How many times an allocation at the hard limit may find that other threads took the memory
    // that was released, before it fails. Other threads make progress meanwhile, but an allocation
    // larger than theirs could try forever. Not measured. Range: 1 to 10,000.
    size_t max_times_taken = 100;
    // How often the control group's limit is read again: a container may be resized, and a person
    // who watches should see the effect. Not measured. Range: 100 to 60,000.
    int64_t cgroup_reread_ms = 5000;
  } limits;

  // When the OS refuses a mapping (page_heap/address_space_release.cc, decision 0025).
  struct AddressSpace {
    // The heap unmaps free memory for other users of the address space when that memory is at least
    // this much and more than a half of the heap, until a quarter is left. Less is not worth the
    // system calls. Not measured. Ranges: 1 MiB to 1 GiB; 2 to 16; more than unmap_above_part.
    size_t min_unmapped_bytes = 16_MiB;
    size_t unmap_above_part = 2;
    size_t unmap_down_to_part = 4;
    // The most spans that one free skips because they cannot be unmapped: little of a heap is from
    // sbrk. Not measured. Range: 1 to 100.
    size_t max_refusals = 4;
  } address_space;

  // Where the allocator's own records lie (page_heap/metadata_arena.h).
  struct Metadata {
    // The arena grows by this much: 16 system calls per MiB. Range: 64 KiB to 1 MiB; a multiple of
    // 64 KiB, the largest hardware page.
    size_t chunk_bytes = 64_KiB;
    // Its chunks lie in regions of addresses between pages without access. The first region has
    // this size, each further one that of all before, up to the second number. Ranges: 2 *
    // chunk_bytes to max_region_bytes; at most 1 GiB.
    size_t first_region_bytes = 512_KiB;
    size_t max_region_bytes = 64_MiB;
    // A request for more than this part of a chunk gets a chunk of its own. Range: 2 to 16.
    size_t shared_chunk_part = 4;
    // Span records come from the arena in blocks of this size, so that rounding wastes little.
    // Range: 1 KiB to 64 KiB.
    size_t span_records_bytes = 4_KiB;
  } metadata;

  // Memory from files and devices (os/memory/file_memory.h).
  struct BackingFiles {
    // The longest piece for which the file system must reserve memory. A longer one may be meant to
    // stay mostly empty. Not measured. Range: 1 MiB to 1 GiB.
    size_t max_reserved_bytes = 1_GiB;
    // The most bytes that one system call reserves. Before Linux 6.0 a signal undoes the whole
    // call, which a periodic timer could repeat forever. Range: 64 KiB to 64 MiB.
    size_t reserved_at_once_bytes = 2_MiB;
    // How many random file names are tried: others may be in use. Range: 1 to 10,000.
    int name_tries = 100;
    // The lowest number of the library's descriptors, where programs expect none. Range: 3 to 1000.
    int first_descriptor = 512;
  } backing_files;

  // Spin locks (os/spinlock.cc).
  struct Locks {
    // How many times a waiting thread looks at the lock before it sleeps: about as long as the
    // longest critical section. Not measured. Range: 0 to 10,000.
    int spins = 200;
    // How long fork waits for each lock that another thread holds, in case that thread waits for a
    // critical section that the forking thread interrupted. This is far longer than a section
    // takes; for all locks, it is a time that a user accepts. Range: 1 to 1000.
    int fork_patience_ms = 50;
    // How often fork tries to hold the heap, each time with twice the patience: together 6 s. Fewer
    // could give up where many threads share a processor; the child can then use little of the
    // heap (process/stray_child.h). Not measured. Range: 1 to 10.
    int fork_tries = 7;
  } locks;

  // Reports of large allocations (process/large_reports.h).
  struct LargeReports {
    // The default of TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD, as in gperftools. Larger allocations
    // are more often a mistake than not. Range: 1 MiB and up.
    size_t threshold_bytes = 1_GiB;
    // After each report the threshold rises by this part of itself, as in gperftools: sixty reports
    // are a factor of a thousand apart. Range: 1 to 64.
    size_t rise_part = 8;
  } large_reports;

  // Sampled allocations, and profiles in files (instruments/profiles/profile_files.h).
  struct Sampling {
    // The sampling interval, the mean number of bytes between samples, of profiles requested
    // without TCMALLOC_SAMPLE_PARAMETER: some hundred samples a second in a program that allocates
    // much. Range: 1 KiB to 64 MiB.
    uint64_t default_period_bytes = 512_KiB;
    // How often the profiler looks for a new peak, and how long a peak must last before it is
    // written. Not measured. Ranges: 100 to 60,000; peak_interval_ms to 3,600,000.
    int64_t peak_interval_ms = 1000;
    int64_t peak_age_ms = 60'000;
    // The most growth stacks that are kept: enough for 64 GiB in a heap that grows by growth.max
    // each time. Range: 16 to 65,536.
    size_t max_growth_stacks = 1024;
    // The records of samples lie together in blocks of this size, so that the tcmalloc command
    // copies them in few pieces while it stops the process: 20,000 of 80 bytes in 0.15 ms, where
    // scattered ones took 7 to 12 ms (2026-11-25, Xeon, virtual machine). Range: 4 KiB to 1 MiB;
    // a power of two.
    size_t record_block_bytes = 16_KiB;
  } sampling;

  // Guarded samples (instruments/guard/).
  struct GuardedSamples {
    // The slots of the pool: address space for objects in use or in quarantine. With a record of
    // 0.7 KiB per slot, and max_page_bytes, the pool takes at most 0.7 MiB. Range: 16 to 4096.
    size_t slots = 256;
    // The most bytes of pages with objects in use; further samples are not guarded. So at least
    // half of the slots are in quarantine. Range: max_object_bytes to 16 MiB.
    size_t max_page_bytes = 512_KiB;
    // Longer objects are not guarded. Each takes whole pages, and most overflows are of short ones.
    // Range: one page of the allocator's, kPageSize, to 64 KiB; a power of two.
    size_t max_object_bytes = 8_KiB;
    // One of this many objects is at the start of its pages, where an access before it faults; the
    // others are at the end, since accesses after an object are the more frequent mistake. Not
    // measured. Range: 2 to 64; a power of two.
    size_t at_start_part = 4;
    // The most return addresses that are kept for the allocation and for the free. Range: 8 to
    // stack_traces.max_depth.
    size_t frames = 32;
    // How long a thread whose access faults waits for the report of another one, which reads the
    // symbols of files. Range: 100 to 60,000.
    int report_patience_ms = 5000;
  } guarded_samples;

  // Stack traces (os/stack_trace.h).
  struct StackTraces {
    // The most return addresses. Traces are on the stack: 1 KiB. Range: 16 to 512.
    size_t max_depth = 128;
    // The longest expected frame. An address farther from the stack pointer is not read. Not
    // measured. Range: 1 MiB to 1 GiB.
    uintptr_t max_frame_bytes = 64_MiB;
    // As max_frame_bytes, for frames walked by cached rules. That walk does not check whether
    // memory is readable, and a wrong register may hold any address. Longer frames are rare. Range:
    // 512 to 4096, the smallest page.
    uintptr_t max_simple_frame_bytes = 2048;
  } stack_traces;

  // The heap profiler (instruments/profiles/heap_profiler.h, instruments/profiles/object_table.h).
  struct HeapProfiler {
    // Defaults of HEAP_PROFILE_ALLOCATION_INTERVAL and HEAP_PROFILE_INUSE_INTERVAL, as in
    // gperftools: a file each time this many more bytes were allocated or are in use. Range: 0
    // (never) and up.
    uint64_t allocation_interval_bytes = 1_GiB;
    uint64_t in_use_interval_bytes = 100_MiB;
    // Return addresses that distinguish call sites. Range: 8 to stack_traces.max_depth.
    size_t max_depth = 64;
    // The most full stacks. Further stacks differ only by the innermost return address: a program
    // with endlessly many stacks has few instructions that allocate. Range: 1024 to 16 million.
    size_t max_stacks = size_t{1} << 20;
  } heap_profiler;

  // The debug libraries (instruments/debug/).
  struct DebugLibrary {
    // The most return addresses that are kept for each call that allocates or frees. Range: 1 to
    // stack_traces.max_depth.
    size_t stack_depth = 24;
    // Default of TCMALLOC_MAX_FREE_QUEUE_SIZE, as in gperftools.
    size_t free_queue_bytes = 10_MiB;
    // New memory is filled with the pattern up to this offset. Filling all of a large object would
    // back pages that the program never touches. Range: 1 MiB and up.
    size_t max_filled_bytes = 64_MiB;
  } debug_library;

  // The leak checker (instruments/leaks/check.h), and the world stop
  // (instruments/world_stop/world_stop.h).
  struct LeakCheck {
    // Defaults of HEAP_CHECK_MAX_LEAKS, HEAP_CHECK_MAX_POINTER_OFFSET and
    // HEAP_CHECK_POINTER_SOURCE_ALIGNMENT, as in gperftools. The alignment is a power of two.
    uint64_t max_leaks = 20;
    int64_t max_pointer_offset_bytes = 1024;
    size_t pointer_source_alignment = 8;

    // The most world stops that are tried, when each time a thread was moving objects in its bins
    // or the pages of a large object. The first takes some ten nanoseconds, the second
    // microseconds, so a thread that is found there twice was preempted. The pauses between stops
    // double up to the longest, to a second in all. Ranges: 1 to 100; 1 to 1000.
    int max_attempts = 20;
    int longest_pause_ms = 64;
    // How long the checker repeats its attempts when a thread does not stop, and the first pause
    // between attempts; the pauses double. During a pause the heap is released and all threads run.
    // An attempt stops the others for some 20 ms, so they run most of the time. Ranges: 100 to
    // 60,000; 1 to longest; first to 10,000.
    int64_t stop_patience_ms = 5000;
    int first_stop_pause_ms = 50;
    int longest_stop_pause_ms = 400;
    // How long one attempt waits for runnable threads. Range: 100 to 60,000.
    int64_t runnable_patience_ms = 5000;
    // A thread that has not stopped for this long and sleeps in the kernel will not stop soon: the
    // attempt ends, so that stopped threads continue. A runnable thread stops as soon as a CPU is
    // free, which may take longer. Range: 1 to 1000 ms.
    int64_t stuck_ns = 20'000'000;
    // A wait for a thread to stop yields this many times, since most stop within microseconds, then
    // pauses this long each time. Ranges: 0 to 1000; 1 us to 1 ms.
    int yields = 20;
    long pause_ns = 50'000;
    // How often the checker looks whether its task has died or waits: neither wakes it. Range: 1 to
    // 1000 ms.
    int64_t look_at_task_ns = 20'000'000;

    // Pieces of roots shorter than this are read without checking whether their pages are backed:
    // reading one backs a few pages at most. Range: 4 KiB to 64 MiB.
    size_t probed_root_bytes = 256_KiB;
    // The marker sweeps a bitmap when it has noted at least one object per this many words:
    // skipping a word takes a fraction of a nanosecond. Range: 1 to 1000.
    size_t words_per_swept_object = 16;
    // While fewer objects than this wait, the marker prefetches the target of a word when it sees
    // the word: the CPU caches have room for about this many. A list in random order took 218 ns of
    // CPU time per object, 372 ns without, while the program's own walk along the list took 250 ns
    // (64-byte objects, Xeon at 2.8 GHz). Range: 64 to 4096.
    size_t cached_objects = 512;
    // How many objects are prefetched. Of 8, 16 and 32, 16 was best for trees; 32 was better only
    // for an array of pointers (64-byte objects, Xeon at 2.8 GHz). Range: 4 to 64; a power of two.
    size_t prefetched_objects = 16;
    // How many words a sweep looks up together, so that the cache misses of one overlap with work
    // on the others. Not measured. Range: 4 to 128; a power of two.
    size_t waiting_words = 32;
    // The longest chain of arrays that is followed. If threads were not stopped, the reader may
    // read an endless chain. Range: 256 to 65,536.
    size_t max_chain = 4096;
    // An upper bound for the innermost frames of a stack that may belong to the allocator. Range:
    // 256 to 65,536.
    size_t allocator_stack_bytes = 2048;
  } leak_check;

  // Memory pressure (instruments/pressure/).
  struct Pressure {
    // "auto": thresholds of the levels, in percent of the limit. The last two leave a tenth of the
    // memory for a level that frees too late, and a twentieth for the kernel. Operators who set
    // such levels by hand use 70 % to 95 %. Range: ascending, up to 100.
    uint64_t auto_percent[3] = {80, 90, 95};
    // "auto": PSI stalls of a tenth of the time, in the window that needs no privileges (a multiple
    // of 2 s; psi.rst of Linux). Range: up to the window.
    uint32_t auto_stall_us = 200'000;
    uint32_t auto_window_us = 2'000'000;
    // Default and maximum of the shortest time between two actions. Ranges: 1 to the maximum; 1000
    // to a day.
    uint32_t default_interval_ms = 1000;
    uint64_t max_interval_ms = 3'600'000;
    // An action that freed less than this part of the memory in use freed little: the time to the
    // next one doubles, up to max_waits intervals. Not measured. Ranges: 16 to 65,536; 1 to 1024.
    uint64_t little_part = 256;
    int64_t max_waits = 64;
    // Growth by this part of the memory in use allows the next action at once, but not earlier than
    // min_wait_ms after the last. Not measured. Ranges: 4 to 1024; 1 to 1000.
    uint64_t growth_part = 32;
    int64_t min_wait_ms = 50;
    // A level ends when the use is below its threshold by this part of it. Range: 4 to 1024.
    uint64_t margin_part = 32;
    // Time between readings where memory is far from every threshold, and near one. A program that
    // grows by 1 GiB in a second reaches a threshold of 4 GiB from three quarters of it in one
    // second. Ranges: near to 60,000; 10 to 1000.
    int64_t far_ms = 1000;
    int64_t near_ms = 100;
    // Time to the next try after a source could not be opened or a monitor broke; also the longest
    // sleep of the library's thread before it checks that its descriptors still exist. Not
    // measured. Range: 100 to 60,000.
    int retry_ms = 10'000;
    // A forked child begins to listen again at this age. Not measured. Range: 0 to 60,000.
    int64_t revive_after_ms = 1000;
    // The most reads of one source before the others are read. Not measured. Range: 1 to 1000.
    int reads_at_once = 64;
  } pressure;

  // Reports at intervals, on signals and at exit (process/helper_thread.h).
  struct Reports {
    // The shortest and the longest interval of periodic reports: 10 ms and 30 days. Range: the
    // first is below the second.
    uint64_t min_interval_ms = 10;
    uint64_t max_interval_ms = uint64_t{30} * 24 * 3600 * 1000;
    // How long a thread waits for the reports on a fatal signal. Range: 0 to 60,000.
    int64_t max_signal_wait_ms = 1000;
    // How long a thread waits, at exit and for its own heap profile, for a file that another thread
    // is writing. That thread may hang, or this thread's signal handler may have interrupted it.
    // Range: 0 to 60,000.
    int max_write_wait_ms = 10'000;
  } reports;

  // Misspelt names of settings (config/near_name.h).
  struct NearNames {
    // Shorter names have no near names. Range: 4 to 20.
    size_t shortest = 8;
    // Names of this length or more may have two wrong characters. Range: shortest to 40.
    size_t two_errors_from = 12;
  } near_names;
};

inline constexpr Tuning kTuning;

}  // namespace tcmalloc
