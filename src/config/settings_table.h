// SPDX-License-Identifier: BSD-3-Clause
// The table of settings: a row has everything about a variable that the library reads. The parsing,
// the defaults, the ranges, the messages about mistakes, and the statistics' list of settings come
// from the rows. docs/settings.md repeats them.
//
// The libraries do not contain this table: config/settings.cc copies the settings from it at
// compile time, without the documentation, which would take memory of every process.
#pragma once

#include "base/units.h"
#include "config/setting.h"
#include "config/settings.h"

namespace tcmalloc {

// The words of a boolean (ParseBoolean), and "auto".
inline constexpr SettingWord kBackgroundWords[] = {
    {"auto", BackgroundMode::kAuto},   {"0", BackgroundMode::kNever},
    {"1", BackgroundMode::kAtLoad},    {"false", BackgroundMode::kNever},
    {"true", BackgroundMode::kAtLoad}, {"no", BackgroundMode::kNever},
    {"yes", BackgroundMode::kAtLoad},  {"off", BackgroundMode::kNever},
    {"on", BackgroundMode::kAtLoad},   {"f", BackgroundMode::kNever},
    {"t", BackgroundMode::kAtLoad},    {"n", BackgroundMode::kNever},
    {"y", BackgroundMode::kAtLoad},    {"", BackgroundMode::kAtLoad},
};

inline constexpr SettingWord kHeapCheckWords[] = {
    {"minimal", HeapCheckMode::kMinimal},
    {"normal", HeapCheckMode::kNormal},
    {"strict", HeapCheckMode::kStrict},
    {"draconian", HeapCheckMode::kDraconian},
    {"as-is", HeapCheckMode::kAsIs},
    {"local", HeapCheckMode::kLocal},
    {"", HeapCheckMode::kOff},
};

// The first words are ours; the others are names that gperftools has, each with our nearest method.
inline constexpr SettingWord kStackTraceWords[] = {
    {"auto", StackTraceMethod::kAuto},
    {"cfi", StackTraceMethod::kCallFrameInfo},
    {"fp", StackTraceMethod::kFramePointers},
    {"none", StackTraceMethod::kNone},
    {"libgcc", StackTraceMethod::kCallFrameInfo},
    {"libunwind", StackTraceMethod::kCallFrameInfo},
    {"generic_fp", StackTraceMethod::kFramePointers},
    {"generic_fp_unsafe", StackTraceMethod::kFramePointers},
    {"x86", StackTraceMethod::kFramePointers},
    {"arm", StackTraceMethod::kFramePointers},
    {"ppc", StackTraceMethod::kFramePointers},
    {"instrument", StackTraceMethod::kFramePointers},
    {"null", StackTraceMethod::kNone},
};

namespace settings_table {

using enum SettingType;

// No machine has nearly this much memory, and a double represents the number exactly.
inline constexpr double kMaxBytes = double{1ull << 50};
// A bound for addresses in MiB: computations with such addresses do not overflow.
inline constexpr double kMaxMebibytes = double{1ull << 40};
// A bound that fits into size_t on every machine.
inline constexpr double kMaxGuardedSample = double{1 << 30};
// Some hundred years.
inline constexpr double kMaxSeconds = double{1ull << 32};

// The default is text, or a number.
template <typename Default, typename Member>
consteval SettingRow Row(const char* name, SettingType type, Default default_text,
                         SettingRange range, Member Settings::* field, SettingTraits traits,
                         const char* meaning) {
  return {{SettingText<37>(name), SettingText<11>(default_text), type, traits, range, field},
          meaning};
}

// For settings that are not numbers: they are stored as 0 or 1, or as something else.
template <typename Default, typename Member>
consteval SettingRow Row(const char* name, SettingType type, Default default_text,
                         Member Settings::* field, SettingTraits traits, const char* meaning) {
  return Row(name, type, default_text, {0, 1}, field, traits, meaning);
}

// Each row has the name, type, default, range of a number, the member that stores the value, the
// traits, and the meaning. The rows are in the order of their names.
inline constexpr SettingRow kSettingRows[] = {
    Row("HEAPCHECK", kWord, "", &Settings::heap_check, kFullLibrary,
        "Check for leaks when the process exits. If there are some, print a report and exit with "
        "status 1. minimal: check only allocations since main began; normal: check all, before the "
        "destructors of the program's global objects run; strict: check all, after these "
        "destructors; draconian: report everything that was not freed, reachable or not; as-is: "
        "check as the HEAP_CHECK_ variables say; local: check only where the program requests it. "
        "Records the stack of every allocation. The minimal libraries have no leak checker. See "
        "docs/leak-checker.md."),
    Row("HEAPPROFILE", kText, "", &Settings::heap_profile, kFullLibrary,
        "Record every allocation from the start of the process, and write heap profiles to files "
        "with this prefix: PREFIX.0001.heap and so on. The minimal libraries have no heap "
        "profiler. See docs/heap-profiler.md."),
    Row("HEAPPROFILESIGNAL", kInteger, "0", {0, 64}, &Settings::heap_profile_signal, kFullLibrary,
        "With HEAPPROFILE: the number of a signal at which the next thread that allocates or frees "
        "writes a profile; 0 for none. The library does not take a signal that the program already "
        "handles or ignores."),
    Row("HEAPPROFILE_USE_PID", kBoolean, "false", &Settings::heap_profile_use_pid, kFullLibrary,
        "With HEAPPROFILE: append `_` and the process number to the prefix. A forked child always "
        "appends its number. So does a program whose parent process was started with the same "
        "HEAPPROFILE."),
    Row("HEAP_CHECK_AFTER_DESTRUCTORS", kBoolean, "false", &Settings::heap_check_after_destructors,
        kFullLibrary,
        "With HEAPCHECK=as-is: check after the destructors of the program's global objects."),
    Row("HEAP_CHECK_DUMP_DIRECTORY", kText, "/tmp", &Settings::heap_check_dump_directory,
        kFullLibrary,
        "The directory in which the leak checker writes profiles of leaks, for pprof."),
    Row("HEAP_CHECK_IDENTIFY_LEAKS", kBoolean, "false", &Settings::heap_check_identify_leaks,
        kFullLibrary,
        "List each leaked object separately in reports and profiles, with its address as an "
        "additional innermost frame."),
    Row("HEAP_CHECK_IGNORE_GLOBAL_LIVE", kBoolean, "true", &Settings::heap_check_ignore_global_live,
        kFullLibrary,
        "With HEAPCHECK=as-is: objects that are reachable from the writable data of the program "
        "and its libraries are not leaked."),
    Row("HEAP_CHECK_IGNORE_THREAD_LIVE", kBoolean, "true", &Settings::heap_check_ignore_thread_live,
        kFullLibrary,
        "With HEAPCHECK=as-is: objects that are reachable from threads' stacks, registers and "
        "thread-local storage are not leaked."),
    Row("HEAP_CHECK_MAX_LEAKS", kInteger, 20, {-kMaxBytes, kMaxBytes},
        &Settings::heap_check_max_leaks, kFullLibrary | kZeroIsUnlimited,
        "How many call sites the leak checker prints, those that leaked most first; 0 or less for "
        "all. The profile for pprof always has all call sites."),
    Row("HEAP_CHECK_MAX_POINTER_OFFSET", kBytes, 1024, {-1, kMaxBytes},
        &Settings::heap_check_max_pointer_offset, kFullLibrary,
        "A pointer makes an object reachable if it points at most this many bytes beyond the "
        "object's start; -1: anywhere into the object."),
    Row("HEAP_CHECK_POINTER_SOURCE_ALIGNMENT", kInteger, 8, {1, 8},
        &Settings::heap_check_pointer_source_alignment, kFullLibrary,
        "The leak checker looks for pointers at addresses that are multiples of this. A value less "
        "than the size of a pointer makes checks slow, and helps only programs with packed "
        "structures."),
    Row("HEAP_CHECK_RUN_UNDER_GDB", kBoolean, "false", &Settings::heap_check_run_under_gdb,
        kFullLibrary,
        "Check for leaks under a debugger too. The debugger keeps the checker from stopping the "
        "other threads, so objects that only these threads use at that moment may be reported. "
        "Without this setting, the checker does not run under a debugger, and says so."),
    Row("HEAP_CHECK_SHOW_CONTENTS", kBoolean, "false", &Settings::heap_check_show_contents,
        kFullLibrary,
        "Show the first words of one leaked object of each call site in the leak checker's "
        "reports. These words may be secrets of the user."),
    Row("HEAP_PROFILE_ALLOCATION_INTERVAL", kBytes, 1_GiB, {-kMaxBytes, kMaxBytes},
        &Settings::heap_profile_allocation_interval, kFullLibrary,
        "While the heap profiler runs: write a profile each time this many more bytes were "
        "allocated; 0 or less for none."),
    Row("HEAP_PROFILE_CLEANUP", kBoolean, "true", &Settings::heap_profile_cleanup, kFullLibrary,
        "With HEAPPROFILE: when the process starts, remove the profiles with the same prefix that "
        "an earlier run wrote."),
    Row("HEAP_PROFILE_DEALLOCATION_INTERVAL", kBytes, "0", {-kMaxBytes, kMaxBytes},
        &Settings::heap_profile_deallocation_interval, kFullLibrary,
        "While the heap profiler runs: write a profile each time this many more bytes were freed; "
        "0 or less for none."),
    Row("HEAP_PROFILE_INUSE_INTERVAL", kBytes, 100_MiB, {-kMaxBytes, kMaxBytes},
        &Settings::heap_profile_inuse_interval, kFullLibrary,
        "While the heap profiler runs: write a profile each time this many more bytes are in use "
        "than at any earlier profile; 0 or less for none."),
    Row("HEAP_PROFILE_TIME_INTERVAL", kInteger, "0", {-kMaxSeconds, kMaxSeconds},
        &Settings::heap_profile_time_interval_seconds, kFullLibrary,
        "While the heap profiler runs: write a profile each time this many seconds have passed, "
        "as soon as a thread allocates or frees; 0 or less for none."),
    Row("MALLOCSTATS", kInteger, "0", {0, 2}, &Settings::malloc_stats, kNoTraits,
        "Print statistics of the heap to stderr when the process exits: 1 for the sums, 2 also "
        "for tables of object sizes and of free memory. See docs/statistics.md."),
    Row("OMPI_HOME", kPresence, "", &Settings::has_open_mpi, kNoTraits,
        "With HEAPPROFILE: if this is set, append `_` and the process number to the prefix, since "
        "Open MPI starts many processes at once. PMIX_RANK and SLURM_JOB_ID take precedence."),
    Row("PMIX_RANK", kText, "", &Settings::pmix_rank, kNoTraits,
        "With HEAPPROFILE: append `.rank-` and the value to the prefix. MPI launchers set the "
        "variable to the number of the process in its job."),
    Row("PMI_RANK", kText, "", &Settings::pmi_rank, kNoTraits,
        "As PMIX_RANK, if PMIX_RANK, SLURM_JOB_ID and OMPI_HOME are not set."),
    Row("PPROF_PATH", kText, "pprof", &Settings::pprof_path, kNoTraits,
        "The name or path of pprof, for the pprof command that the leak checker prints."),
    Row("SLURM_JOB_ID", kPresence, "", &Settings::in_slurm_job, kNoTraits,
        "With HEAPPROFILE: if this is set, append `.slurmid-` and SLURM_PROCID to the prefix, or "
        "the process number if there is no SLURM_PROCID. PMIX_RANK takes precedence."),
    Row("SLURM_PROCID", kText, "", &Settings::slurm_process, kNoTraits, "See SLURM_JOB_ID."),
    Row("TCMALLOC_AGGRESSIVE_DECOMMIT", kBoolean, "false", &Settings::aggressive_decommit,
        kNoTraits,
        "Release each run of free pages to the OS as soon as it is free. This saves memory, but is "
        "slow if the program soon allocates the pages again."),
    Row("TCMALLOC_BACKGROUND", kWord, "auto", &Settings::background, kNoTraits,
        "Whether a thread of the library releases free memory while the program does not call the "
        "library. auto: the thread runs from the program's first pthread_create until the program "
        "has one thread again. 0: it never runs; the program's threads release memory when they "
        "free and allocate. 1: it starts when the library is loaded, also in a program with one "
        "thread. See docs/system-memory.md."),
    Row("TCMALLOC_CHECK", kBoolean, "false", &Settings::check, kNoTraits,
        "Give no thread a cache. Objects of up to 64 KiB then come from and return to the central "
        "free lists, which check each free at once; larger objects are never in a cache. This is "
        "slow; use it to find double frees and frees of bad pointers where they happen."),
    Row("TCMALLOC_CONTROL", kBoolean, "true", &Settings::control, kNoTraits,
        "Accept requests of the tcmalloc command: to flush caches, to release memory, to change "
        "settings (docs/control.md). Only a user who may trace the process can make requests. A "
        "setuid program accepts none."),
    Row("TCMALLOC_DEVMEM_DEVICE", kText, "/dev/mem", &Settings::devmem_device, kNoTraits,
        "The device or file from which `TCMALLOC_DEVMEM_START` takes memory."),
    Row("TCMALLOC_DEVMEM_LIMIT", kMebibytes, "0", {0, kMaxMebibytes}, &Settings::devmem_limit_bytes,
        kNoTraits, "The end of the usable device memory, an address in MiB; 0 for no limit."),
    Row("TCMALLOC_DEVMEM_START", kMebibytes, "0", {0, kMaxMebibytes}, &Settings::devmem_start_bytes,
        kNoTraits,
        "Take memory for objects from a device that represents physical memory, from this address "
        "in MiB on; 0 for none. See docs/system-memory.md."),
    Row("TCMALLOC_DISABLE_MEMORY_RELEASE", kBoolean, "false", &Settings::disable_memory_release,
        kNoTraits, "Never release memory to the OS, not even for malloc_trim."),
    Row("TCMALLOC_GUARDED_REPORT", kBoolean, "false", &Settings::guarded_report, kFullLibrary,
        "Handle SIGSEGV and SIGBUS: print a report when the program accesses a guarded sample "
        "after its free or outside of its bounds, then call the former handler, or let the signal "
        "end the process. Without it, such an access ends the process and nothing is printed. See "
        "docs/guarded-sampling.md."),
    Row("TCMALLOC_GUARDED_SAMPLE", kInteger, "0", {0, kMaxGuardedSample}, &Settings::guarded_sample,
        kFullLibrary,
        "The value n guards each n-th sampled allocation of up to 8 KiB; 0 guards none. A guarded "
        "object has pages of its own between pages without access, so that an overflow, a use "
        "after free or a wrong free of the object ends the process where it happens. If "
        "TCMALLOC_SAMPLE_PARAMETER is 0, the library takes a sample per 512 KiB, so the value 16 "
        "guards about one object per 8 MiB. Programs change it at run time by the property "
        "tcmalloc.guarded_sample. See docs/guarded-sampling.md."),
    Row("TCMALLOC_HEAP_LIMIT_MB", kMebibytes, "0", {0, kMaxBytes / (1 << 20)},
        &Settings::hard_limit_bytes, kZeroIsUnlimited,
        "How many MiB the heap may use, its own records included; 0 for no limit. Before an "
        "allocation fails at the limit, the library releases all free memory to the OS, including "
        "that in caches. The first allocation that fails is reported in a line on stderr, unless "
        "the program has set a callback (tcmalloc_set_limit_callback)."),
    Row("TCMALLOC_HINTS", kBoolean, "false", &Settings::hints, kNoTraits,
        "When the process starts, print one line on stderr for each variable that probably does "
        "not have the effect that its name suggests: variables of other allocators (MALLOC_CONF, "
        "MALLOC_ARENA_MAX, MIMALLOC_*), settings of gperftools that have no effect here, names "
        "that lack the prefix TCMALLOC_, other names for a setting (HARD_LIMIT for "
        "TCMALLOC_HEAP_LIMIT_MB), and sizes without a unit (TCMALLOC_SOFT_LIMIT=512 is 512 bytes). "
        "tcmalloc doctor prints the same about a running process."),
    Row("TCMALLOC_HUGEPAGES", kBoolean, "true", &Settings::hugepages, kNoTraits,
        "Ask the OS for transparent hugepages when a heap of 32 MiB or more grows, or when a heap "
        "of 8 MiB or more grows for an object of 1 MiB or more. The library does not ask if the OS "
        "has no hugepages or the process has disabled them. In smaller heaps, pre-fault spans of "
        "small objects."),
    Row("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", kBytes, kLargeReportBytes, {-kMaxBytes, kMaxBytes},
        &Settings::large_report_threshold_bytes, kZeroIsUnlimited | kLinesWhereSet,
        "Count allocations of this many bytes and more, and report them to the function that the "
        "program has set (tcmalloc_set_large_allocation_callback). If the variable is set, even to "
        "its default, the library also writes a line on stderr for each report. In libtcmalloc a "
        "line ends with the addresses of the functions that called the allocator, innermost first. "
        "Each report raises the threshold by an eighth. 0 or less: no counting and no reports."),
    Row("TCMALLOC_MAX_FREE_QUEUE_SIZE", kBytes, 10_MiB, {0, kMaxBytes}, &Settings::free_queue_bytes,
        kDebugLibrary,
        "How many bytes of freed objects the debug libraries keep in a queue before they use the "
        "memory again. They find a write to a freed object when it leaves the queue, and a second "
        "free of an object in the queue at once. 0: no queue. See docs/debugging.md."),
    Row("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", kBytes, "-1", {-1, kMaxBytes},
        &Settings::max_total_thread_cache_bytes, kNoTraits,
        "The budget of all thread caches together: free objects and the arrays of pointers to "
        "them. -1: the share of thread caches in TCMALLOC_RETENTION. Each cache may have 64 KiB, "
        "even if together they then exceed the budget. Caches of busy threads take more, from the "
        "rest of the budget or from other caches. Raise the budget if many threads often allocate "
        "more than their share of it, then free it."),
    Row("TCMALLOC_MEMBARRIER", kBoolean, "true", &Settings::membarrier, kNoTraits,
        "Call membarrier(2) to empty the caches of sleeping threads. Set it to false if a sandbox "
        "ends processes for unknown system calls; each thread then flushes its cache when it next "
        "needs memory."),
    Row("TCMALLOC_MEMFS_ABORT_ON_FAIL", kBoolean, "false", &Settings::memfs_abort_on_fail,
        kNoTraits,
        "Abort when the memory file (TCMALLOC_MEMFS_MALLOC_PATH) cannot grow: it is at its limit, "
        "the file system is full, or the file could not be created."),
    Row("TCMALLOC_MEMFS_DISABLE_FALLBACK", kBoolean, "false", &Settings::memfs_disable_fallback,
        kNoTraits,
        "When the memory file cannot grow, allocations fail instead of taking other memory."),
    Row("TCMALLOC_MEMFS_IGNORE_MMAP_FAIL", kBoolean, "false", &Settings::memfs_ignore_mmap_fail,
        kNoTraits,
        "Try the memory file again after the OS has refused to let it grow. By default the file "
        "does not grow any more after a refusal. With TCMALLOC_MEMFS_DISABLE_FALLBACK, the "
        "library tries the file again, too."),
    Row("TCMALLOC_MEMFS_LIMIT_MB", kMebibytes, "0", {0, kMaxMebibytes},
        &Settings::memfs_limit_bytes, kNoTraits,
        "The largest size of the memory file, in MiB; 0 for no limit."),
    Row("TCMALLOC_MEMFS_MALLOC_PATH", kText, "", &Settings::memfs_path, kNoTraits,
        "Take memory for objects from a file on a hugetlbfs or tmpfs file system; the value is the "
        "prefix of the file's name. The library removes the name at once, so the file disappears "
        "when the process ends. See docs/system-memory.md about fork."),
    Row("TCMALLOC_MEMFS_MAP_PRIVATE", kBoolean, "false", &Settings::memfs_map_private, kNoTraits,
        "Map the memory file so that writes are private to the process, and a forked child gets a "
        "copy. Without this setting, parent and child share the memory, and the child may only "
        "call exec or _exit."),
    Row("TCMALLOC_PAGE_FENCE", kBoolean, "false", &Settings::page_fence, kDebugLibrary,
        "Put every object at the end of pages of its own, before a page that cannot be accessed, "
        "so that an access beyond its end faults at once. A freed object cannot be accessed while "
        "it is in the queue (TCMALLOC_MAX_FREE_QUEUE_SIZE). Debug libraries only."),
    Row("TCMALLOC_PAGE_FENCE_NEVER_RECLAIM", kBoolean, "false", &Settings::page_fence_never_reclaim,
        kDebugLibrary,
        "With TCMALLOC_PAGE_FENCE: never use the memory of a freed object again. Debug libraries "
        "only."),
    Row("TCMALLOC_PAGE_FENCE_READABLE", kBoolean, "false", &Settings::page_fence_readable,
        kDebugLibrary,
        "With TCMALLOC_PAGE_FENCE: only writes fault, not reads. Debug libraries only."),
    Row("TCMALLOC_PRESSURE", kText, "", &Settings::pressure, kFullLibrary,
        "Respond to memory pressure: when memory is short, a thread of the library empties the "
        "thread caches (level 1), then all caches (level 2), then also releases free memory to the "
        "OS (level 3). The value is \"auto\", or a list of sources and thresholds "
        "(docs/pressure.md). libtcmalloc_minimal does not respond."),
    Row("TCMALLOC_PROFILE", kText, "", &Settings::profile_files, kFullLibrary,
        "Sample allocations and write heap profiles to files: PATH, or PATH and a list of "
        "options, for example `PATH,at=exit,signal=USR1,every=60s,peak` (docs/profiles.md). "
        "Without options a profile is written when the process exits. The sampling interval is "
        "TCMALLOC_SAMPLE_PARAMETER, or 512 KiB if that is not set. The full library only."),
    Row("TCMALLOC_RECLAIM_MEMORY", kBoolean, "true", &Settings::reclaim_memory, kDebugLibrary,
        "Use the memory of freed objects again. false: freed objects stay in the queue "
        "(TCMALLOC_MAX_FREE_QUEUE_SIZE) until the process ends. Debug libraries only."),
    Row("TCMALLOC_RELEASE_RATE", kNumber, "1.0", {0, kMaxReleaseRate}, &Settings::release_rate,
        kNoTraits,
        "How fast free memory is released to the OS. At 1, the library keeps as much memory as the "
        "program needed at its peak of the last four seconds, and releases the rest. Two bounds "
        "slow the release down: the library releases at most 512 MiB per second, and the program "
        "spends at most 2 % of its time in page faults on memory that was released less than a "
        "second before. The rate multiplies both bounds; a rate above 1 also shortens the four "
        "seconds. 0: never release. Reasonable values are up to 10. Locked memory is released too "
        "where the kernel allows it (from Linux 5.18 on): a program that calls mlockall to avoid "
        "page faults must set this to 0."),
    Row("TCMALLOC_REPORT_AT_TERM", kBoolean, "false", &Settings::report_at_term, kNoTraits,
        "On SIGTERM, write the reports of MALLOCSTATS, TCMALLOC_PROFILE, HEAPPROFILE and HEAPCHECK "
        "that the process writes at exit; then the signal ends the process. This works only if "
        "SIGTERM has its default action when the library is loaded. A handler that the program "
        "installs later replaces the library's. Starts a thread. See docs/statistics.md."),
    Row("TCMALLOC_RETENTION", kBytes, "0", {0, kMaxBytes}, &Settings::retention_bytes, kNoTraits,
        "How much memory the allocator may keep beyond the memory in use: half of it in thread "
        "caches, the rest in the caches that ended threads left for new ones, in free pages, and "
        "in empty spans. 0: a sixteenth of the memory in use, but at least 64 MiB. With 0 and many "
        "threads, the share of thread caches is more than half: 256 KiB for each thread, but at "
        "most half of the memory in use. Memory limits and memory pressure lower the total. These "
        "do not count toward the total: free objects in partially used spans, 64 KiB for each "
        "thread's cache, and the memory that the program needed within the last seconds "
        "(TCMALLOC_RELEASE_RATE)."),
    Row("TCMALLOC_SAMPLE_PARAMETER", kBytes, "0", {0, kMaxBytes}, &Settings::sample_period_bytes,
        kFullLibrary,
        "Sample allocations for heap profiles (docs/profiles.md). The value is the sampling "
        "interval: the mean number of bytes between samples. 0: no samples. The cost of 524288 is "
        "hardly noticeable. Programs change it at run time by the property "
        "tcmalloc.sample_parameter. libtcmalloc_minimal takes no samples."),
    Row("TCMALLOC_SKIP_MMAP", kBoolean, "false", &Settings::skip_mmap, kNoTraits,
        "Take memory only from sbrk(2), not from mmap(2)."),
    Row("TCMALLOC_SKIP_SBRK", kBoolean, "false", &Settings::skip_sbrk, kNoTraits,
        "Do not take memory from sbrk(2) when mmap(2) fails. With TCMALLOC_SKIP_MMAP as well, "
        "every allocation fails."),
    Row("TCMALLOC_SMALL", kBoolean, "false", &Settings::small, kNoTraits,
        "Save memory at the cost of a little speed: as TCMALLOC_RETENTION=2M, TCMALLOC_HUGEPAGES=0 "
        "and TCMALLOC_RELEASE_RATE=10, unless these variables are set. So all thread caches share "
        "1 MiB, but each may have 16 KiB even if they then exceed it. The library's "
        "thread, if there is one, releases once a second what the program has not needed for 0.4 "
        "s."),
    Row("TCMALLOC_SOFT_LIMIT", kBytesOrPercent, "0", {0, kMaxBytes}, &Settings::soft_limit,
        kZeroIsUnlimited,
        "The size that the heap should not exceed, counted like TCMALLOC_HEAP_LIMIT_MB; 0 for no "
        "limit. The library releases free memory to the OS before the heap grows beyond the limit. "
        "While the heap is larger, it also releases memory as soon as the program frees it. No "
        "allocation fails because of this limit. A percentage is a share of the memory limit of "
        "the control group (container), which the library reads again every few seconds. If the "
        "group has no limit, a percentage has no effect."),
    Row("TCMALLOC_STACKTRACE_METHOD", kWord, "auto", &Settings::stack_trace_method, kFullLibrary,
        "How stack traces are taken, those of gperftools/stacktrace.h included. cfi: by call frame "
        "information, which compilers write for exceptions and debuggers; the trace ends at code "
        "that has none. fp: by frame pointers; correct only if all code was compiled with "
        "-fno-omit-frame-pointer. auto: cfi up to the first code that has no call frame "
        "information, and fp from there on; only fp if the C library has no _dl_find_object "
        "(before glibc 2.35). none: no traces. The other values are gperftools' names; each "
        "selects the nearest of these methods. libtcmalloc_minimal has no stack traces."),
    Row("TCMALLOC_STATS_EVERY", kText, "", &Settings::stats_every, kNoTraits,
        "Write the statistics to stderr as a line of JSON at this interval, for example `10s`. "
        "With a comma and the name of a file, append the lines to that file: "
        "`1m,/tmp/stats.jsonl`. Units are ms, s, m and h. Starts a thread. See "
        "docs/statistics.md."),
    Row("TCMALLOC_SYMBOLIZE_STACKTRACE", kBoolean, "true", &Settings::symbolize_stack_trace,
        kDebugLibrary,
        "Write the names of functions in the stacks of reports; false: write addresses only. Debug "
        "libraries only."),
};

}  // namespace settings_table

using settings_table::kSettingRows;

// Variables that have no effect here although the libraries whose binary interface this one keeps
// have them, grouped by reason. A comma separates names.
struct IgnoredSettings {
  const char* reason;
  const char* names;
};
inline constexpr IgnoredSettings kIgnoredSettings[] = {
    {"The heap profiler records allocations, not mappings",
     "HEAP_PROFILE_MMAP,HEAP_PROFILE_ONLY_MMAP,HEAP_PROFILE_MMAP_LOG"},
    {"There is no CPU profiler yet",
     "CPUPROFILE,CPUPROFILE_USE_PID,CPUPROFILESIGNAL,CPUPROFILE_FREQUENCY,CPUPROFILE_REALTIME,"
     "CPUPROFILE_PER_THREAD_TIMERS,CPUPROFILE_TIMER_SIGNAL,PROFILESELECTED"},
    {"The leak checker does not repeat its search with another alignment of pointers",
     "HEAP_CHECK_TEST_POINTER_ALIGNMENT"},
    {"The library does not print which method of stack traces it uses",
     "TCMALLOC_STACKTRACE_METHOD_VERBOSE"},
    {"The debug libraries write no trace of allocations", "TCMALLOC_TRACE,TCMALLOC_TRACE_FILE"},
    {"The library asks the OS for the size of its pages", "TCMALLOC_OVERRIDE_PAGESIZE"},
    {"The library itself chooses how many objects a thread cache exchanges with the central free "
     "lists at once",
     "TCMALLOC_TRANSFER_NUM_OBJ"},
    {"The sized forms of operator delete always use the size", "TCMALLOC_ENABLE_SIZED_DELETE"},
    {"The variable concerns Windows only", "TCMALLOC_DISABLE_REPLACEMENT"},
    {"The library has no verbose mode, and behaves the same under valgrind",
     "PERFTOOLS_VERBOSE,RUNNING_ON_VALGRIND"},
};

}  // namespace tcmalloc
