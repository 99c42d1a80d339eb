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
  // Sampled allocations, and profiles in files (instruments/profiles/profiles.h).
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
};

inline constexpr Tuning kTuning;

}  // namespace tcmalloc
