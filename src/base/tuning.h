// SPDX-License-Identifier: BSD-3-Clause
// Tuning: every number that decides how the allocator behaves and that could be another one. To
// change a number, change it here, build, run the tests, and ask the referee (CONTRIBUTING.md).
//
// Each field has its unit in its type or its name. Its comment says what the number decides, why it
// has this value, what was measured ("not measured" where nothing was), and the range in which it
// makes sense. The assertions at the end check the ranges, and the relations between fields that
// the code depends on.
//
// Not here: sizes of buffers, widths of fields, file formats, numbers of the kernel and of other
// libraries, states of protocols. They stay where they are used. tests/layout/tuning_test.py lists
// them with a reason each, and fails when src/ has another constant.
//
// "Large" and its like mean three things: a large object is above size_classes.max_small_bytes, a
// huge object has hugepages.huge_object or more, and a report of a large allocation is due from
// large_reports.threshold_bytes on. No other border has such a name.
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
  // Which sizes objects are rounded up to, and the spans that they lie in (base/size_classes.h).
  struct SizeClasses {
    // Requests of up to this many bytes are small: they have a size class. What is above is a large
    // object: a span of its own. Not measured. Range: 128 KiB to 512 KiB; there must be fewer than
    // 256 classes.
    size_t max_small_bytes = 256_KiB;
    // Classes are multiples of 16 bytes up to here; above, doublings are divided. A power of two.
    // Range: 128 to 1024.
    size_t first_doubling_bytes = 128;
    // Classes for each doubling. With 8, rounding up wastes less than 12.5 % of an object. 16 make
    // a heap of 1 GiB 2 % smaller, but take 1.06 times the time and 1.11 times the peak memory over
    // twelve programs: each class has a span partly in use and a batch in a cache (decision 0022).
    // A power of two. Range: 4 to 16.
    size_t steps_per_doubling = 8;

    // Objects that move between caches at once: this many bytes, within the two bounds below. Not
    // measured. Range: 16 KiB to 256 KiB.
    size_t batch_bytes = 64_KiB;
    // Range: 1 to 8.
    size_t min_batch_objects = 2;
    // Pointers to a batch are on the stack of slow paths: 1 KiB. A multiple of every line batch,
    // so of 8. Range: 32 to 256.
    size_t max_batch_objects = 128;

    // The shortest spans. Small objects have spans so long that the span's record and its page-map
    // entries do not show: span_pages_of_tiny pages for objects of up to tiny_bytes,
    // span_pages_of_short for those of up to short_bytes. Others have enough objects in a span to
    // make the trip to the page heap rare, few enough that a nearly empty span strands little:
    // span_objects up to medium_bytes, span_objects_of_long up to long_bytes, one above. Not
    // measured. Ranges: spans of 1 to 16 pages; borders in ascending order.
    size_t tiny_bytes = 48;
    size_t span_pages_of_tiny = 8;
    size_t short_bytes = 64;
    size_t span_pages_of_short = 4;
    size_t medium_bytes = 1024;
    size_t span_objects_of_medium = 128;
    size_t long_bytes = 8_KiB;
    size_t span_objects_of_long = 8;
    // A span gets more pages until what is left after its last object is at most this part of it.
    // Not measured. Range: 8 to 128.
    size_t span_tail_part = 64;
  } size_classes;

  // The parts of the central tier, one for each CPU (central/shard_map.h).
  struct Shards {
    // With more CPUs than this, several share a shard. What shards keep grows with their number. By
    // a model of the locks, 16 CPUs with a shard each lose nothing, 64 CPUs with 16 shards lose
    // half when threads do nothing else (decision 0010). Range: 1 to 64: a span's record has 6 bits
    // for the number of its shard.
    size_t max = 16;
  } shards;

  // How much one size class of one thread cache holds (cache/bin_policy.h).
  struct Bins {
    // The most bytes. Small, since last-in-first-out reuse shuffles addresses, and the bitmaps of
    // the central free list restore their order. A prototype with 4 MiB was a quarter slower on
    // containers and took fifteen times the memory in a producer/consumer. 256 KiB: rptest 14 %
    // faster, containers 5 to 9 % and lru 4 to 10 % slower (decision 0009). Range: 32 KiB to 1 MiB.
    size_t max_bytes = 128_KiB;
    // Where fewer objects than this fit into max_bytes, this many are allowed, up to twice the
    // bytes: 128 KiB are too few for a thread whose use of a class goes up and down, and the order
    // of addresses matters less than with short objects. rptest 106 to 90 million instructions,
    // with budget steps of half the limit (decision 0009). Range: 2 to 256.
    size_t min_max_objects = 64;
    // The most objects: a BinArray of 16 KiB has room for these, in whole cache lines of objects.
    // Range: 8 to 8184; a multiple of 8.
    size_t max_objects = 2040;
    // The first limit: objects for this many bytes, at least 1, at most initial_objects or a line
    // batch, whichever is more. Not measured. Range: 1 KiB to 64 KiB, and 1 to 64.
    size_t initial_bytes = 4_KiB;
    size_t initial_objects = 4;
    // Batches by which a limit of a batch or more grows each time that the bin runs empty (after
    // the TCMalloc document). Range: 1 to 4.
    size_t growth_batches = 1;
    // The most objects that move over the stack at once: 2 KiB of pointers, which a thread with a
    // stack of 16 KiB can afford. Larger returns exchange the bin's array (decision 0024). Range:
    // a batch to 512.
    size_t max_move_objects = 256;
    // Times that a bin is full with a limit above a batch before its limit shrinks by a batch
    // (after the TCMalloc document). Range: 0 to 126: 7 bits of a BinArray.
    uint8_t max_overages = 3;
    // How far a bin's balance, what it fetched and did not return, may fall below zero, in batches.
    // A thread that frees what others allocated and then begins to allocate is soon known for it.
    // Not measured. Range: 1 to 16.
    int64_t max_batches_owed = 4;
    // A class has a bin after this many uses. Below late_bytes, the first frees of a thread that
    // has not allocated from the class are not kept: the objects are another thread's, and their
    // neighbours on a cache line may still be in use there. Range: 0 to 100.
    uint8_t frees_before_bin = 2;
    // Classes from late_bytes on get their bin only after late_uses allocations or frees: most
    // programs have only some such objects, once (vectors and hash tables on their way to the size
    // that they keep), and left one or two of each class in the cache for good. The size from which
    // outgrown objects are not kept either is reallocation.uncached_bytes. Peak of
    // python objects.py: 38,056 to 36,890 KiB, together with that (decision 0009). Range: 4 KiB to
    // max_small_bytes, and 0 to 100.
    size_t late_bytes = 32_KiB;
    uint8_t late_uses = 16;
  } bins;

  // How much all bins of a thread claim together (cache/cache_budget.h). After the TCMalloc
  // document but for the growing steps.
  struct CacheBudget {
    // What a new cache may claim. 256 KiB: containers 5 to 9 % slower (decision 0009). Range:
    // 16 KiB to 1 MiB.
    size_t initial_bytes = 64_KiB;
    // The unit of all changes: what is stolen from another cache, and the least that is added.
    // Range: 16 KiB to 1 MiB.
    size_t step_bytes = 64_KiB;
    // Unclaimed bytes are given out in steps of half the limit, up to this. rptest: 170 collections
    // with steps of step_bytes, 31 with these, 120 to 106 million instructions (decision 0009).
    // Range: step_bytes to 16 MiB.
    size_t max_step_bytes = 1_MiB;
    // What all caches may claim together: the default of TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES.
    // Soft. Range: 512 KiB to 1 GiB.
    size_t total_bytes = 32_MiB;
    // When an equal share of the total is less than this, no limit is lowered below it. More would
    // strand a gigabyte in 2,000 threads (decision 0009). Range: initial_bytes to 1 MiB.
    size_t min_per_cache_bytes = 64_KiB;
    // Other caches that are looked at for a step when nothing is unclaimed. Range: 1 to 100.
    int max_candidates = 10;
  } cache_budget;

  // Thread caches as a whole (cache/registry.h, runtime/current_thread.h).
  struct ThreadCaches {
    // A thread that only frees gets a cache with its free number 17: a message or two are not worth
    // one. Not measured. Range: 0 to 200.
    uint8_t frees_before_cache = 16;
    // What the caches that ended threads left for threads to come may claim together: some pools of
    // threads' worth. A thread that lives for 100 objects executes 110,000 instructions in the
    // allocator without, 60,000 with (decision 0009). The amount was not measured. Range: 0 to
    // cache_budget.total_bytes.
    size_t inherited_bytes = 2_MiB;
    // A cache that has not changed for so long is idle: it is emptied rather than lowered. Not
    // measured. Range: 10 to 10,000.
    int64_t idle_ms = 100;
    // Caches that are detached with one membarrier: few enough that a thread that starts or ends
    // meanwhile does not notice. Not measured. Range: 1 to 256.
    size_t detached_at_once = 32;
  } thread_caches;

  // What TCMALLOC_SMALL changes, besides that it asks for no hugepages: cache_budget.total_bytes,
  // cache_budget.min_per_cache_bytes, thread_caches.inherited_bytes and release.default_rate. Not
  // measured. Ranges: those of these fields, but at most as much (the rate: at least).
  struct SmallPreset {
    size_t total_cache_bytes = 1_MiB;
    size_t min_per_cache_bytes = 16_KiB;
    size_t inherited_bytes = 64_KiB;
    double release_rate = 10;
  } small_preset;

  // Which cache lines of an object that it did not allocate a thread takes for its CPU when it
  // returns the object (central/line_ownership.h). Of an object of up to whole_object_bytes all, of
  // a longer one the first bytes_of_longer bytes, which its user has most likely touched. Not
  // measured. Ranges: 64 to 4096, and 1 to whole_object_bytes.
  struct LineOwnership {
    size_t whole_object_bytes = 1024;
    size_t bytes_of_longer = 2 * kCacheLineSize;
  } line_ownership;

  // Empty spans that a shard keeps for its next use (page/span_cache.h).
  struct SpanCache {
    // The longest span that is kept. Range: 1 to 127.
    size_t max_pages = 16;
    // What a shard keeps. Two threads that each fill and empty 3 MiB take 0.25 s with 4 MiB, 0.36 s
    // with 1 MiB (decision 0010): what is above moves from CPU to CPU. It costs no memory but in
    // between: it is given up before the heap grows. Range: 0 to 64 MiB.
    size_t max_bytes = 4_MiB;
    // Spans of other shards that are taken back at once for a request. One at a time mixes the
    // shards' memory span by span (decision 0010). Range: 1 to 256.
    size_t drained_at_once = 32;
  } span_cache;

  // Where spans lie in the address space (page/near_run.h, page/space_policy.h).
  struct Placement {
    // The runs of pages in which one shard's spans follow each other. CPUs fetch ahead past the end
    // of a span, into memory in which another CPU works: two threads took 6 ns for each line with
    // blocks of 32 KiB, 3.6 with 64 KiB, 1.9 with 256 KiB or more. At the end of a run a few pages
    // are left over: with 256 KiB 1 to 2 % of a heap of 800 MiB, with 1 MiB 0.3 % (decision 0010).
    // So runs are longer in large heaps. Powers of two. Range: 64 KiB to 2 MiB.
    Length min_near_run = Length::ForBytes(256_KiB);
    Length max_near_run = Length::ForBytes(1_MiB);
    // What shards have begun is at most this part of what is in use. Range: 4 to 256.
    size_t near_runs_part = 16;
    // Large objects go to the tightest place, to save address space, where the heap has more than
    // the most that was ever in use, the given part of that, and this: one growth of the greatest
    // length. With 128 MiB, heaps of 500 MiB take more than 1.25 times what best fit takes. Always:
    // 1.4 times the page faults where buffers of 64 KiB to 4 MiB are replaced; never: up to 1.5
    // times the address space (decision 0030). Ranges: 0 to 1 GiB; 1 to 256.
    Length spare_space = Length::ForBytes(64_MiB);
    size_t spare_space_part = 16;
    // Free spans up to this length are in a list for each length, longer ones in a tree. Statistics
    // count them by length. Not measured. Range: span_cache.max_pages to 1024; a multiple of 64.
    size_t max_listed_pages = 128;
  } placement;

  // How the heap takes memory from the OS (page/page_heap_growth.cc).
  struct Growth {
    // The first mapping is short, so that small programs meet limits on address space (RLIMIT_AS).
    // Range: 64 KiB to 8 MiB.
    Length min = Length::ForBytes(1_MiB);
    // Range: min to 1 GiB.
    Length max = Length::ForBytes(64_MiB);
    // Later mappings are this part of the heap, so that their number stays logarithmic. Address
    // space costs nothing until it is touched. Not measured. Range: 2 to 64.
    size_t part = 8;
  } growth;

  // Hugepages, and pre-faulting where there are none (page/hugepage_policy.h).
  struct Hugepages {
    // A heap that holds this much asks for hugepages where it grows; below, 2 MiB would show in
    // what the process takes. 16 MiB: 10 % faster with buffers, 9 % more memory in a program of
    // 29 MiB. 64 MiB: slower in each row (decision 0014). Range: 2 MiB to 1 GiB.
    Length threshold = Length::ForBytes(32_MiB);
    // A huge object fills half of a hugepage or more. Where the heap grows for one, threshold /
    // early_part is enough: page faults of the buffers program 8,700 to 2,605. From 256 KiB on it
    // cost Python 1.3 MiB (decision 0014). realloc moves the pages of a huge object instead of
    // copying it: moving takes about 10 us, as copying 32 KiB into fresh memory does, or 256 KiB
    // into hugepages (Linux 6.18, x86), but moves are few (reallocation.max_moves). Range: 256 KiB
    // to 2 MiB.
    Length huge_object = Length::ForBytes(1_MiB);
    // Range: 1 to 16.
    size_t early_part = 4;
    // Of free spans of equal length, how many are looked at for the fullest hugepage. Not measured.
    // Range: 1 to 64.
    size_t equals_looked_at = 8;
    // After a hugepage was split, the OS is told to make none in this much memory around it, since
    // each piece of advice may cost two mappings. A power of two. Not measured. Range: 2 MiB to
    // 1 GiB.
    Length stopped_at_once = Length::ForBytes(64_MiB);
    // A span of a class that has this many spans in a shard already will be used whole, and is
    // pre-faulted. Most classes of a program have one span, in which there is hardly anything. Peak
    // of perl hashes.pl: 15,204 KiB with all spans, 14,348 from the 5th, 14,236 from the 9th,
    // 14,296 from the 17th (decision 0014). Range: 0 to 64.
    size_t spans_before_populating = 8;
    // Pre-faulted at a time, outside of hugepages: populate_part of what is in use, since up to so
    // much may not be needed; between the two lengths, 0 below. Powers of two. A page of 4 KiB
    // costs 1.5 us when touched, 1.25 us as part of 256 KiB (decision 0014). Ranges: 8 KiB to
    // 2 MiB; 16 to 1024.
    Length min_populate = Length::ForBytes(16_KiB);
    Length max_populate = Length::ForBytes(256_KiB);
    size_t populate_part = 64;
  } hugepages;

  // When realloc moves an object (malloc/slow_path.cc, page/page_heap_move.cc). What is moved by
  // the page tables: hugepages.huge_object.
  struct Reallocation {
    // An object of this size or more that was outgrown is not kept in the thread cache: what grows
    // seldom shrinks again, and its memory serves whatever grows next. From 4 KiB on: no less
    // memory (decision 0009). Range: 1 KiB to max_small_bytes.
    size_t uncached_bytes = 16_KiB;
    // Moves that are tried in the life of the process. Each may leave it with two mappings more, of
    // which the OS allows 65,530. Range: 0 to 10,000.
    size_t max_moves = 1000;
  } reallocation;

  // Which free memory is returned to the OS by itself, and when (page/release_policy.h).
  struct Release {
    // The default of TCMALLOC_RELEASE_RATE, and the most that it may be. 0 never releases. Why 0 to
    // 10 around 1: "tcmalloc_release_rate" of the TCMalloc document. Range: 0 to max_rate.
    double default_rate = 1.0;
    double max_rate = 1000;
    // How long the peak demand is remembered, at rates up to 1; less above. A program that had the
    // memory in use a moment ago is likely to want it again (decision 0014). Range: 100 to 60,000.
    int64_t memory_ms = 4000;
    // That time is divided into this many windows. Not measured. Range: 2 to 64.
    size_t windows = 8;
    // What is free beyond the peak goes at this speed, times the rate (decision 0014). Range:
    // 16 MiB to 1 GiB.
    size_t bytes_per_second = 512_MiB;
    // A smaller excess is ignored. Not measured. Range: 0 to 64 MiB.
    Length slack = Length::ForBytes(512_KiB);
    // Where only hugepages that are partly in use are left, they are split when the excess is more
    // than this part of what is in use (decision 0014). Range: 1 to 256.
    size_t split_part = 16;
    // Freeing looks at the clock once in so many pages. Not measured. Range: 64 KiB to slice.
    Length look_every = Length::ForBytes(1_MiB);
    // The most that is released in one system call, unless there is no memory for the record of a
    // longer span's rest. A thread that frees waits for one (decision 0014). A multiple of a
    // hugepage. Range: 2 MiB to 64 MiB.
    Length slice = Length::ForBytes(8_MiB);
    // Refusals of the OS before a free gives up: about 20 us of failing calls. Range: 1 to 1000.
    size_t max_refusals = 64;
    // Free spans that are looked at for one that is better released. Not measured. Range: 1 to 256.
    size_t spans_looked_at = 16;
    // Refused spans that return to the free ones under one hold of the lock. Not measured. Range: 1
    // to 1000.
    size_t restored_at_once = 64;
    // Prompt release, where no thread runs idle release (decision 0033). A prompt heap keeps this
    // much free memory, and this part of what is in use: small heaps are not worth the page faults
    // of a wrong guess, and the sum stays well below twice what is in use. Ranges: 0 to 64 MiB; 1
    // to 256.
    Length prompt_kept = Length::ForBytes(4_MiB);
    size_t prompt_kept_part = 4;
    // A prompt heap releases at most this many pages for each page that is freed, so that a free
    // costs in proportion to what it frees. It begins when half is free and has the other half to
    // do it in: more than 3 reach the goal. Range: 4 to 64.
    size_t prompt_per_freed = 8;
    // After a prompt release that was too early, for how long there is no other. Programs that work
    // in phases release their memory in vain once in this time. Range: memory_ms to 3,600,000.
    int64_t prompt_pause_ms = 60'000;
  } release;

  // Idle release: returning free pages while no thread is freeing (runtime/idle_release.h,
  // runtime/background_thread.h). A pass is idle when nothing was freed since the pass before.
  struct IdleRelease {
    // From one pass to the next. Not measured. Range: 10 to 10,000.
    int pass_ms = 1000;
    // The first idle passes, this many, flush the caches of idle threads. The first one may only
    // see which threads are idle. Range: 2 to 60.
    int flush_passes = 2;
    // After this many idle passes the thread sleeps until pages are freed. By then the release
    // policy has forgotten what was in use before the last flush. Range: what that takes to 3600.
    int sleep_after_passes = 7;
    // A start and an end of the background thread cost some 100 us. A program that creates one
    // thread after the other gets one once in restart_alone_ms; a program that creates several at a
    // time, again and again, at first quick_starts times, then once in restart_ms. Not measured.
    // Ranges: restart_ms to 3,600,000; 1 to 1000; 0 to 10,000.
    int64_t restart_alone_ms = 10'000;
    uint32_t quick_starts = 16;
    int64_t restart_ms = 20;
  } idle_release;

  // Returning free pages inside of spans in use (central/hole_claims.h).
  struct Trim {
    // What no one can allocate while its memory is on its way: enough for a run of system calls,
    // little beside a heap that is worth trimming. Range: 64 KiB to 64 MiB.
    size_t claimed_at_once_bytes = 8_MiB;
  } trim;

  // Memory limits (page/memory_limit.h, page/page_heap_limits.cc, runtime/limits.h).
  struct Limits {
    // Released beyond what is needed, so that not each growth near a limit is a system call:
    // slack_part of the limit, within these bounds. The upper bound is one release.slice. Not
    // measured. Ranges: 0 to max; min to 64 MiB; 2 to 1024.
    size_t min_slack_bytes = 256_KiB;
    size_t max_slack_bytes = 8_MiB;
    size_t slack_part = 64;
    // The most slices that one allocation releases for the soft limit: where free memory lies in
    // many short spans, a slice is little and costs a system call all the same. Range: 1 to 1000.
    size_t max_slices_for_soft = 32;
    // How often an allocation at the hard limit finds that memory was released and that others have
    // taken it, before it fails. As long as somebody gets memory nothing is stuck, but an
    // allocation larger than all the others could try for ever. Not measured. Range: 1 to 10,000.
    size_t max_times_taken = 100;
    // A container may be resized while it runs: its limit is read again after so long. A person who
    // watches should see it happen. Not measured. Range: 100 to 60,000.
    int64_t cgroup_reread_ms = 5000;
  } limits;

  // What happens when the OS refuses a mapping (page/page_heap_release.cc, decision 0025).
  struct AddressSpace {
    // Free memory is unmapped for the sake of others than the heap when it is as much as this, and
    // more than a half of the heap, until a quarter is left. Less is not worth its system calls.
    // Not measured. Ranges: 1 MiB to 1 GiB; 2 to 16, and more than that.
    size_t min_unmapped_bytes = 16_MiB;
    size_t unmap_above_part = 2;
    size_t unmap_down_to_part = 4;
    // Spans that cannot be unmapped and are passed over, after each free: little of a heap is from
    // sbrk. Not measured. Range: 1 to 100.
    size_t max_refusals = 4;
  } address_space;

  // Where the allocator's own records lie (page/metadata_arena.h).
  struct Metadata {
    // The arena grows by this much: 16 system calls per MiB. Range: 16 KiB to 1 MiB; a multiple of
    // 64 KiB, the largest hardware page.
    size_t chunk_bytes = 64_KiB;
    // Larger requests than this part of a chunk get a chunk of their own. Range: 2 to 16.
    size_t shared_chunk_part = 4;
    // Span records come from the arena in blocks of this size, so that its rounding does not show.
    // Range: 1 KiB to 64 KiB.
    size_t span_records_bytes = 4_KiB;
  } metadata;

  // Memory from files and devices (os/backing_file.h).
  struct BackingFiles {
    // For a longer piece, which may be meant to stay empty for the most part, the file system is
    // not asked to promise memory. Not measured. Range: 1 MiB to 1 GiB.
    size_t max_reserved_bytes = 1_GiB;
    // Reserved in one system call. Before Linux 6.0 a signal undoes all of one: a timer's must not
    // do so for ever. Range: 64 KiB to 64 MiB.
    size_t reserved_at_once_bytes = 2_MiB;
    // Random names to try for a file: another process may have taken one. Range: 1 to 10,000.
    int name_tries = 100;
    // The library's descriptors have numbers from here on, where programs do not look for their
    // own. Range: 3 to 1000.
    int first_descriptor = 512;
  } backing_files;

  // Spin locks (os/spinlock.cc).
  struct Locks {
    // How often a waiting thread looks before it sleeps: about as long as the longest stretch under
    // a lock. Not measured. Range: 0 to 10,000.
    int spins = 200;
    // How long a hold for fork waits for each lock that another thread has, which may wait for the
    // section that the forking thread has interrupted. Far longer than a section takes; together,
    // for all locks that are held at a moment, no longer than a user waits. Range: 1 to 1000.
    int fork_patience_ms = 50;
  } locks;

  // Reports of large allocations (runtime/large_reports.h).
  struct LargeReports {
    // The default of TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD: larger allocations are more often a
    // mistake than not. That of gperftools. Range: 1 MiB and up.
    size_t threshold_bytes = 1_GiB;
    // After each report the threshold rises by this part of itself: sixty reports lie a factor of a
    // thousand apart. That of gperftools. Range: 1 to 64.
    size_t rise_part = 8;
  } large_reports;

  // Sampled allocations, and profiles to files (profiler/profile_files.h).
  struct Sampling {
    // The mean number of bytes between samples, for profiles that are asked for where
    // TCMALLOC_SAMPLE_PARAMETER says nothing: some hundred samples a second in a program that
    // allocates much. Range: 1 KiB to 64 MiB.
    uint64_t default_period_bytes = 512_KiB;
    // A peak is looked for this often, and written when it was the peak for this long. Not
    // measured. Ranges: 100 to 60,000; peak_interval_ms to 3,600,000.
    int64_t peak_interval_ms = 1000;
    int64_t peak_age_ms = 60'000;
    // Stacks of growth that are kept: 64 GiB of a heap that grows by growth.max at a time. Range:
    // 16 to 65,536.
    size_t max_growth_stacks = 1024;
  } sampling;

  // Stack traces (os/stack_trace.h).
  struct StackTraces {
    // The most return addresses. Traces are on the stack: 1 KiB. Range: 16 to 512.
    size_t max_depth = 128;
    // Frames are expected to be no longer than this: an address farther from the stack pointer is
    // not read. Not measured. Range: 1 MiB to 1 GiB.
    uintptr_t max_frame_bytes = 64_MiB;
    // The same for frames that are walked by remembered rules without looking whether memory can be
    // read: a register that is not as it should be leads anywhere. Longer frames are rare. Range:
    // 512 to 4096, the smallest page.
    uintptr_t max_simple_frame_bytes = 2048;
  } stack_traces;

  // The heap profiler (profiler/heap_profiler.h, profile/site_table.h).
  struct HeapProfiler {
    // Defaults of HEAP_PROFILE_ALLOCATION_INTERVAL and HEAP_PROFILE_INUSE_INTERVAL: a file for each
    // so many bytes. Those of gperftools. Range: 0 (never) and up.
    uint64_t allocation_interval_bytes = 1_GiB;
    uint64_t in_use_interval_bytes = 100_MiB;
    // Return addresses of a call site that count. Range: 8 to stack_traces.max_depth.
    size_t max_depth = 64;
    // Of further stacks only the innermost return address counts: programs that make stacks without
    // end have few instructions that allocate. Range: 1024 to 16 million.
    size_t max_stacks = size_t{1} << 20;
  } heap_profiler;

  // The leak checker (leak/check.h), and stopping the world for it (os/world_stop.h).
  struct LeakCheck {
    // Defaults of HEAP_CHECK_MAX_LEAKS, HEAP_CHECK_MAX_POINTER_OFFSET and
    // HEAP_CHECK_POINTER_SOURCE_ALIGNMENT. Those of gperftools.
    uint64_t max_leaks = 20;
    int64_t max_pointer_offset_bytes = 1024;
    size_t pointer_source_alignment = 8;

    // How often threads are stopped again when one was in the middle of moving objects in its bins,
    // or the pages of a large object. The former takes some ten nanoseconds, the latter
    // microseconds: a thread that is met in it twice has been preempted there. So the pauses
    // double up to the longest, to a second in all. Ranges: 1 to 100; 1 to 1000.
    int max_attempts = 20;
    int longest_pause_ms = 64;
    // For how long a thread that does not stop is tried again, with the heap released and all
    // threads running between, and the pauses, which double. An attempt stops the others for some
    // 20 ms, so they run most of the time. Ranges: 100 to 60,000; 1 to longest; first to 10,000.
    int64_t stop_patience_ms = 5000;
    int first_stop_pause_ms = 50;
    int longest_stop_pause_ms = 400;
    // How long threads are waited for in one attempt that are about to run. Range: 100 to 60,000.
    int64_t runnable_patience_ms = 5000;
    // A thread that has not stopped for so long, and waits in the kernel for something else, will
    // not stop soon: the attempt ends, so that those that have stopped go on. One that is about to
    // run stops as soon as a CPU is free, which may take longer. Range: 1 to 1000 ms.
    int64_t stuck_ns = 20'000'000;
    // While one is waited for: yields first, since most stop within microseconds, then pauses.
    // Ranges: 0 to 1000; 1 us to 1 ms.
    int yields = 20;
    long pause_ns = 50'000;
    // The task wakes nobody when it dies, nor each time that it waits: it is looked at this often.
    // Range: 1 to 1000 ms.
    int64_t look_at_task_ns = 20'000'000;

    // Shorter pieces of roots are read without asking whether something is behind their pages: what
    // they may make resident is a few pages each. Range: 4 KiB to 64 MiB.
    size_t probed_root_bytes = 256_KiB;
    // The marker sweeps a bitmap where it meets an object in so many words: going past a word takes
    // a fraction of a nanosecond. Range: 1 to 1000.
    size_t words_per_swept_object = 16;
    // While fewer objects wait, the target of a word is prefetched when the word is seen: the CPU's
    // caches have room for so many. A list in random order took 218 ns of CPU time per object,
    // 372 ns without, while the program's own walk along the list took 250 ns (64-byte objects,
    // Xeon at 2.8 GHz). Range: 64 to 4096.
    size_t cached_objects = 512;
    // Objects that are prefetched. Of 8, 16 and 32, 16 was best for trees, 32 no better than 16 for
    // anything but an array of pointers (64-byte objects, Xeon at 2.8 GHz). A power of two. Range:
    // 4 to 64.
    size_t prefetched_objects = 16;
    // Words that a sweep looks up together, so that what the lookup of one needs is fetched while
    // others are worked on. Not measured. A power of two. Range: 4 to 128.
    size_t waiting_words = 32;
    // A chain of arrays is no longer: where threads run on, what is read may be anything. Range:
    // 256 to 65,536.
    size_t max_chain = 4096;
  } leak_check;

  // Memory pressure (pressure/).
  struct Pressure {
    // "auto": thresholds of the levels, in percent of the limit. They leave a tenth of the memory
    // for what a level frees too late, and a twentieth for the kernel. Source: the levels of the
    // operators who do this by hand lie between 70 % and 95 %.
    uint64_t auto_percent[3] = {80, 90, 95};
    // "auto": PSI stalls of a tenth of the time, in the window that needs no privileges (a multiple
    // of 2 s; psi.rst of Linux). Range: up to the window.
    uint32_t auto_stall_us = 200'000;
    uint32_t auto_window_us = 2'000'000;
    // The least time between two actions that is the default, and the most that may be set. Ranges:
    // 1 to the most; up to a day.
    uint32_t default_interval_ms = 1000;
    uint64_t max_interval_ms = 3'600'000;
    // An action that freed less than this part of what is in use freed little, and the time to the
    // next one doubles, up to max_waits intervals. Not measured. Ranges: 16 to 65,536; 1 to 1024.
    uint64_t little_part = 256;
    int64_t max_waits = 64;
    // Growth by this part of what was in use allows the next action at once, but no sooner than
    // min_wait_ms after the last. Not measured. Ranges: 4 to 1024; 1 to 1000.
    uint64_t growth_part = 32;
    int64_t min_wait_ms = 50;
    // A level is left when what is in use is this part of the threshold below it. Range: 4 to 1024.
    uint64_t margin_part = 32;
    // How often readings are made: where memory is far from every threshold, and near one. A
    // program that grows by 1 GiB in a second passes from three quarters of a threshold of 4 GiB to
    // the threshold in one. Ranges: near to 60,000; 10 to 1000.
    int64_t far_ms = 1000;
    int64_t near_ms = 100;
    // Until a source that could not be opened is tried again, and a monitor that broke; also the
    // longest that the library's thread sleeps without looking whether its descriptors are still
    // there. Not measured. Range: 100 to 60,000.
    int retry_ms = 10'000;
    // A forked child listens again when it has lived for so long. Not measured. Range: 0 to 60,000.
    int64_t revive_after_ms = 1000;
    // Reads of one source before others have their turn. Not measured. Range: 1 to 1000.
    int reads_at_once = 64;
  } pressure;

  // Reports at intervals, on signals and at exit (runtime/helper_thread.h).
  struct Reports {
    // The shortest and the longest interval at which something is written: 10 ms, 30 days.
    uint64_t min_interval_ms = 10;
    uint64_t max_interval_ms = uint64_t{30} * 24 * 3600 * 1000;
    // How long a thread waits for the reports of a signal that ends the process. Range: 0 to
    // 60,000.
    int64_t max_signal_wait_ms = 1000;
    // How long a thread waits for a file that another one is writing, which may hang or have been
    // interrupted by the same thread's signal handler: at exit, and for its own heap profile.
    // Range: 0 to 60,000.
    int max_write_wait_ms = 10'000;
  } reports;

  // Misspelt names of settings (base/near_name.h).
  struct NearNames {
    // Shorter names resemble nothing. Range: 4 to 20.
    size_t shortest = 8;
    // Names from this length on may have two wrong characters. Range: shortest to 40.
    size_t two_errors_from = 12;
  } near_names;
};

inline constexpr Tuning kTuning;

// Whether the numbers go together. Each function is one subject; an assertion that fails names it.
namespace tuning_rules {

constexpr bool In(auto value, decltype(value) least, decltype(value) most) {
  return least <= value && value <= most;
}
constexpr bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

constexpr bool SizeClassesFit(const Tuning::SizeClasses& t) {
  return In(t.max_small_bytes, 128_KiB, 512_KiB) && IsPowerOfTwo(t.max_small_bytes) &&
         In(t.first_doubling_bytes, 128, 1024) && IsPowerOfTwo(t.first_doubling_bytes) &&
         In(t.steps_per_doubling, 4, 16) && IsPowerOfTwo(t.steps_per_doubling) &&
         // Steps are multiples of the alignment of all objects.
         t.first_doubling_bytes / t.steps_per_doubling >= kMinAlignment &&
         In(t.batch_bytes, 16_KiB, 256_KiB) && In(t.min_batch_objects, 1, 8) &&
         In(t.max_batch_objects, 32, 256) && t.max_batch_objects % 8 == 0 &&
         t.tiny_bytes < t.short_bytes && t.short_bytes < t.medium_bytes &&
         t.medium_bytes < t.long_bytes && t.long_bytes < t.max_small_bytes &&
         In(t.span_pages_of_tiny, 1, 16) && In(t.span_pages_of_short, 1, 16) &&
         t.span_objects_of_medium > 0 && t.span_objects_of_long > 0 && In(t.span_tail_part, 8, 128);
}
static_assert(SizeClassesFit(kTuning.size_classes));

static_assert(In(kTuning.shards.max, 1, 64));

constexpr bool BinsFit(const Tuning::Bins& t, const Tuning::SizeClasses& classes) {
  return In(t.max_bytes, 32_KiB, 1_MiB) && In(t.min_max_objects, 2, 256) &&
         In(t.max_objects, 8, 8184) && t.max_objects % 8 == 0 &&
         In(t.initial_bytes, 1_KiB, 64_KiB) && In(t.initial_objects, 1, 64) &&
         In(t.growth_batches, 1, 4) && In(t.max_move_objects, classes.max_batch_objects, 512) &&
         t.max_overages <= 126 && In(t.max_batches_owed, 1, 16) && t.frees_before_bin <= 100 &&
         t.late_uses <= 100 && In(t.late_bytes, 4_KiB, classes.max_small_bytes);
}
static_assert(BinsFit(kTuning.bins, kTuning.size_classes));

constexpr bool CacheBudgetFits(const Tuning::CacheBudget& t) {
  return In(t.initial_bytes, 16_KiB, 1_MiB) && In(t.step_bytes, 16_KiB, 1_MiB) &&
         In(t.max_step_bytes, t.step_bytes, 16_MiB) && In(t.total_bytes, 512_KiB, 1_GiB) &&
         In(t.min_per_cache_bytes, t.initial_bytes, 1_MiB) && In(t.max_candidates, 1, 100);
}
static_assert(CacheBudgetFits(kTuning.cache_budget));

constexpr bool ThreadCachesFit(const Tuning::ThreadCaches& t, const Tuning::CacheBudget& budget) {
  return t.frees_before_cache <= 200 && t.inherited_bytes <= budget.total_bytes &&
         In(t.idle_ms, 10, 10'000) && In(t.detached_at_once, 1, 256);
}
static_assert(ThreadCachesFit(kTuning.thread_caches, kTuning.cache_budget));

constexpr bool SmallPresetFits(const Tuning& t) {
  return t.small_preset.total_cache_bytes <= t.cache_budget.total_bytes &&
         t.small_preset.min_per_cache_bytes <= t.cache_budget.min_per_cache_bytes &&
         t.small_preset.inherited_bytes <= t.thread_caches.inherited_bytes &&
         t.release.default_rate <= t.small_preset.release_rate &&
         t.small_preset.release_rate <= t.release.max_rate;
}
static_assert(SmallPresetFits(kTuning));

constexpr bool LineOwnershipFits(const Tuning::LineOwnership& t) {
  return In(t.whole_object_bytes, kCacheLineSize, 4096) &&
         In(t.bytes_of_longer, 1, t.whole_object_bytes);
}
static_assert(LineOwnershipFits(kTuning.line_ownership));

constexpr bool PlacementFits(const Tuning::Placement& t, const Tuning::SpanCache& kept) {
  return In(kept.max_pages, 1, 127) && kept.max_bytes <= 64_MiB &&
         In(kept.drained_at_once, 1, 256) && In(t.min_near_run.bytes(), 64_KiB, 2_MiB) &&
         In(t.max_near_run, t.min_near_run, Length::ForBytes(2_MiB)) &&
         IsPowerOfTwo(t.min_near_run.pages()) && IsPowerOfTwo(t.max_near_run.pages()) &&
         In(t.near_runs_part, 4, 256) && t.spare_space.bytes() <= 1_GiB &&
         In(t.spare_space_part, 1, 256) && In(t.max_listed_pages, kept.max_pages, 1024) &&
         t.max_listed_pages % 64 == 0;
}
static_assert(PlacementFits(kTuning.placement, kTuning.span_cache));

constexpr bool GrowthFits(const Tuning::Growth& t, const Tuning::Placement& placement) {
  return In(t.min.bytes(), 64_KiB, 8_MiB) && t.max >= t.min && t.max.bytes() <= 1_GiB &&
         In(t.part, 2, 64) && t.max >= placement.max_near_run;
}
static_assert(GrowthFits(kTuning.growth, kTuning.placement));

constexpr bool HugepagesFit(const Tuning::Hugepages& t) {
  return In(t.threshold.bytes(), 2_MiB, 1_GiB) && In(t.huge_object.bytes(), 256_KiB, 2_MiB) &&
         In(t.early_part, 1, 16) && In(t.equals_looked_at, 1, 64) &&
         In(t.stopped_at_once.bytes(), 2_MiB, 1_GiB) && IsPowerOfTwo(t.stopped_at_once.pages()) &&
         t.spans_before_populating <= 64 && In(t.min_populate.bytes(), 8_KiB, 2_MiB) &&
         IsPowerOfTwo(t.min_populate.pages()) &&
         In(t.max_populate, t.min_populate, Length::ForBytes(2_MiB)) &&
         IsPowerOfTwo(t.max_populate.pages()) && In(t.populate_part, 16, 1024);
}
static_assert(HugepagesFit(kTuning.hugepages));

constexpr bool ReallocationFits(const Tuning& t) {
  return In(t.reallocation.uncached_bytes, 1_KiB, t.size_classes.max_small_bytes) &&
         t.reallocation.max_moves <= 10'000 &&
         // Only large objects have pages of their own to move.
         t.hugepages.huge_object.bytes() >= t.size_classes.max_small_bytes;
}
static_assert(ReallocationFits(kTuning));

constexpr bool ReleaseFits(const Tuning::Release& t) {
  return 0 <= t.default_rate && t.default_rate <= t.max_rate && In(t.memory_ms, 100, 60'000) &&
         In(t.windows, 2, 64) && In(t.bytes_per_second, 16_MiB, 1_GiB) &&
         t.slack.bytes() <= 64_MiB && In(t.split_part, 1, 256) &&
         In(t.look_every, Length::ForBytes(64_KiB), t.slice) &&
         In(t.slice.bytes(), 2_MiB, 64_MiB) && t.slice.bytes() % 2_MiB == 0 &&
         In(t.max_refusals, 1, 1000) && In(t.spans_looked_at, 1, 256) &&
         In(t.restored_at_once, 1, 1000) && t.prompt_kept.bytes() <= 64_MiB &&
         In(t.prompt_kept_part, 1, 256) && In(t.prompt_per_freed, 4, 64) &&
         In(t.prompt_pause_ms, t.memory_ms, 3'600'000);
}
static_assert(ReleaseFits(kTuning.release));

constexpr bool IdleReleaseFits(const Tuning& t) {
  const Tuning::IdleRelease& idle = t.idle_release;
  return In(idle.pass_ms, 10, 10'000) && In(idle.flush_passes, 2, 60) &&
         idle.sleep_after_passes <= 3600 && In(idle.restart_alone_ms, idle.restart_ms, 3'600'000) &&
         In(idle.quick_starts, 1, 1000) && In(idle.restart_ms, 0, 10'000) &&
         (idle.sleep_after_passes - idle.flush_passes - 1) * idle.pass_ms >= t.release.memory_ms;
}
static_assert(IdleReleaseFits(kTuning));

constexpr bool LimitsFit(const Tuning& t) {
  return t.limits.min_slack_bytes <= t.limits.max_slack_bytes &&
         t.limits.max_slack_bytes <= 64_MiB && In(t.limits.slack_part, 2, 1024) &&
         In(t.limits.max_slices_for_soft, 1, 1000) && In(t.limits.max_times_taken, 1, 10'000) &&
         In(t.limits.cgroup_reread_ms, 100, 60'000) &&
         In(t.trim.claimed_at_once_bytes, 64_KiB, 64_MiB) &&
         In(t.address_space.min_unmapped_bytes, 1_MiB, 1_GiB) &&
         In(t.address_space.unmap_above_part, 2, 16) &&
         // What stays is less than what may be there before.
         t.address_space.unmap_down_to_part > t.address_space.unmap_above_part &&
         In(t.address_space.max_refusals, 1, 100);
}
static_assert(LimitsFit(kTuning));

constexpr bool MetadataFits(const Tuning::Metadata& t) {
  return In(t.chunk_bytes, 64_KiB, 1_MiB) && t.chunk_bytes % 64_KiB == 0 &&
         In(t.shared_chunk_part, 2, 16) && In(t.span_records_bytes, 1_KiB, 64_KiB);
}
static_assert(MetadataFits(kTuning.metadata));

constexpr bool SystemFits(const Tuning::BackingFiles& files, const Tuning::Locks& locks) {
  return In(files.max_reserved_bytes, 1_MiB, 1_GiB) &&
         In(files.reserved_at_once_bytes, 64_KiB, 64_MiB) && In(files.name_tries, 1, 10'000) &&
         In(files.first_descriptor, 3, 1000) && In(locks.spins, 0, 10'000) &&
         In(locks.fork_patience_ms, 1, 1000);
}
static_assert(SystemFits(kTuning.backing_files, kTuning.locks));

constexpr bool ProfilesFit(const Tuning& t) {
  return t.large_reports.threshold_bytes >= 1_MiB && In(t.large_reports.rise_part, 1, 64) &&
         In(t.sampling.default_period_bytes, 1_KiB, 64_MiB) &&
         In(t.sampling.peak_interval_ms, 100, 60'000) &&
         In(t.sampling.peak_age_ms, t.sampling.peak_interval_ms, 3'600'000) &&
         In(t.sampling.max_growth_stacks, 16, 65'536) && In(t.stack_traces.max_depth, 16, 512) &&
         In(t.stack_traces.max_frame_bytes, 1_MiB, 1_GiB) &&
         In(t.stack_traces.max_simple_frame_bytes, 512, 4096) &&
         In(t.heap_profiler.max_depth, 8, t.stack_traces.max_depth) &&
         In(t.heap_profiler.max_stacks, 1024, size_t{1} << 24);
}
static_assert(ProfilesFit(kTuning));

constexpr bool LeakCheckFits(const Tuning::LeakCheck& t) {
  return IsPowerOfTwo(t.pointer_source_alignment) && In(t.max_attempts, 1, 100) &&
         In(t.longest_pause_ms, 1, 1000) && In(t.stop_patience_ms, 100, 60'000) &&
         In(t.first_stop_pause_ms, 1, t.longest_stop_pause_ms) &&
         t.longest_stop_pause_ms <= 10'000 && In(t.runnable_patience_ms, 100, 60'000) &&
         In(t.stuck_ns, 1'000'000, 1'000'000'000) && In(t.yields, 0, 1000) &&
         In(t.pause_ns, 1'000, 1'000'000) && In(t.look_at_task_ns, 1'000'000, 1'000'000'000) &&
         In(t.probed_root_bytes, 4_KiB, 64_MiB) && In(t.words_per_swept_object, 1, 1000) &&
         In(t.cached_objects, 64, 4096) && In(t.prefetched_objects, 4, 64) &&
         IsPowerOfTwo(t.prefetched_objects) && In(t.waiting_words, 4, 128) &&
         IsPowerOfTwo(t.waiting_words) && In(t.max_chain, 256, 65'536);
}
static_assert(LeakCheckFits(kTuning.leak_check));

constexpr bool PressureFits(const Tuning::Pressure& t) {
  return t.auto_percent[0] < t.auto_percent[1] && t.auto_percent[1] < t.auto_percent[2] &&
         t.auto_percent[2] <= 100 && t.auto_stall_us > 0 && t.auto_stall_us <= t.auto_window_us &&
         In(t.max_interval_ms, 1000, 86'400'000) && In(t.default_interval_ms, 1, 86'400'000) &&
         t.default_interval_ms <= t.max_interval_ms && In(t.little_part, 16, 65'536) &&
         In(t.max_waits, 1, 1024) && In(t.growth_part, 4, 1024) && In(t.min_wait_ms, 1, 1000) &&
         In(t.margin_part, 4, 1024) && In(t.near_ms, 10, 1000) && In(t.far_ms, t.near_ms, 60'000) &&
         In(t.retry_ms, 100, 60'000) && In(t.revive_after_ms, 0, 60'000) &&
         In(t.reads_at_once, 1, 1000);
}
static_assert(PressureFits(kTuning.pressure));

constexpr bool ReportsFit(const Tuning::Reports& t, const Tuning::NearNames& names) {
  return t.min_interval_ms > 0 && t.min_interval_ms < t.max_interval_ms &&
         In(t.max_signal_wait_ms, 0, 60'000) && In(t.max_write_wait_ms, 0, 60'000) &&
         In(names.shortest, 4, 20) && In(names.two_errors_from, names.shortest, 40);
}
static_assert(ReportsFit(kTuning.reports, kTuning.near_names));

}  // namespace tuning_rules

}  // namespace tcmalloc
