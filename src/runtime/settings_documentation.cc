// SPDX-License-Identifier: BSD-3-Clause
// The table of settings as Markdown. Not in the libraries, where what it says would take memory of
// every process: only tests have it (tcmalloc_testing), which write and compare docs/settings.md.
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "runtime/settings.h"

namespace tcmalloc {
namespace {

struct Meaning {
  std::string_view name;
  const char* text;
};

// In the order of the settings.
constexpr Meaning kMeanings[] = {
    {"HEAPCHECK",
     "Look for memory that the program has lost, when it exits, and end it with status 1 and a "
     "report where there is some: minimal, only what was allocated since main began; normal, "
     "everything, before the destructors of the program's global objects; strict, after them; "
     "draconian, all that was not freed, reachable or not; as-is, what the HEAP_CHECK_ variables "
     "say; local, only where the program asks. Records the stack of every allocation. This and "
     "the next ones: the full library only. See docs/leak-checker.md."},
    {"HEAPPROFILE",
     "Record every allocation from the start of the process, and write profiles of the heap to "
     "files whose names begin so: PREFIX.0001.heap and so on. This and the next ones: the full "
     "library only. See docs/heap-profiler.md."},
    {"HEAPPROFILESIGNAL",
     "With HEAPPROFILE: the number of a signal at which a profile is written, by the next thread "
     "that allocates or frees; 0 for none. A signal that already has a handler is not taken."},
    {"HEAPPROFILE_USE_PID",
     "With HEAPPROFILE: have `_` and the number of the process behind the prefix. Forked children "
     "do so anyway, and programs that the process starts, in whose environment this is set."},
    {"HEAP_CHECK_AFTER_DESTRUCTORS",
     "With HEAPCHECK=as-is: check after the destructors of the program's global objects."},
    {"HEAP_CHECK_DUMP_DIRECTORY",
     "Where the leak checker writes profiles of what was lost, for pprof."},
    {"HEAP_CHECK_IDENTIFY_LEAKS",
     "In the leak checker's reports and profiles: each lost object by itself, its address as an "
     "additional innermost frame."},
    {"HEAP_CHECK_IGNORE_GLOBAL_LIVE",
     "With HEAPCHECK=as-is: what can be reached from the writable data of the program and its "
     "libraries is not lost."},
    {"HEAP_CHECK_IGNORE_THREAD_LIVE",
     "With HEAPCHECK=as-is: what can be reached from threads' stacks, registers and thread-local "
     "storage is not lost."},
    {"HEAP_CHECK_MAX_LEAKS",
     "How many places of allocation the leak checker prints, those that lost most first; 0 or less "
     "for all. The profile always has all."},
    {"HEAP_CHECK_MAX_POINTER_OFFSET",
     "How far into an object a pointer may point that keeps it from being lost; -1 for anywhere."},
    {"HEAP_CHECK_POINTER_SOURCE_ALIGNMENT",
     "The leak checker looks for pointers at addresses that are multiples of this. Less than the "
     "size of a pointer is slow, and only for programs with packed structures."},
    {"HEAP_CHECK_RUN_UNDER_GDB",
     "Check for leaks under a debugger as well, which keeps the checker from stopping the other "
     "threads: what they hold at that moment may be reported. Else the checker says that it is "
     "off."},
    {"HEAP_CHECK_SHOW_CONTENTS",
     "Show the first words of a lost object of each place in the leak checker's reports. They may "
     "be the user's secrets."},
    {"HEAP_CHECK_TEST_POINTER_ALIGNMENT",
     "When the leak checker finds lost memory: say whether it would have found less had it looked "
     "for pointers at every address."},
    {"HEAP_PROFILE_ALLOCATION_INTERVAL",
     "While the heap profiler runs: write a profile whenever so many bytes more were allocated; 0 "
     "or less does not."},
    {"HEAP_PROFILE_CLEANUP",
     "With HEAPPROFILE: remove files of these names that an earlier run has left, when the process "
     "starts."},
    {"HEAP_PROFILE_DEALLOCATION_INTERVAL",
     "While the heap profiler runs: write a profile whenever so many bytes more were freed; 0 or "
     "less does not."},
    {"HEAP_PROFILE_INUSE_INTERVAL",
     "While the heap profiler runs: write a profile whenever so many bytes more than ever before "
     "are in use; 0 or less does not."},
    {"HEAP_PROFILE_TIME_INTERVAL",
     "While the heap profiler runs: write a profile whenever so many seconds have passed, as soon "
     "as a thread allocates or frees; 0 or less does not."},
    {"MALLOCSTATS",
     "Print statistics of the heap to stderr when the process exits: 1 where all bytes are, 2 also "
     "tables of object sizes and of free memory. See docs/statistics.md."},
    {"OMPI_HOME",
     "With HEAPPROFILE, where this is set: as HEAPPROFILE_USE_PID, since Open MPI starts many "
     "processes at once."},
    {"PMIX_RANK",
     "With HEAPPROFILE: `.rank-` and this stand behind the prefix. It is the process's number "
     "among those that were started together."},
    {"PMI_RANK", "The same, where none of the others of this kind is set."},
    {"PPROF_PATH", "The name of pprof in the command that the leak checker prints."},
    {"SLURM_JOB_ID",
     "With HEAPPROFILE, where this is set: `.slurmid-` and SLURM_PROCID stand behind the prefix, "
     "without that the number of the process. PMIX_RANK comes first."},
    {"SLURM_PROCID", "See SLURM_JOB_ID."},
    {"TCMALLOC_AGGRESSIVE_DECOMMIT",
     "Give free runs of pages back to the system at once. Small, and slow where a program frees "
     "and allocates in turn."},
    {"TCMALLOC_BACKGROUND",
     "Whether a thread of the library's releases free memory while the program does not call it. "
     "auto: from the program's first pthread_create on, until it has one thread again. 0: never; "
     "the program's threads release memory when they free. 1: from the moment when the library is "
     "loaded, in a program with one thread too. See docs/system-memory.md."},
    {"TCMALLOC_CHECK",
     "Give no thread a cache: every allocation and every free goes to the central free lists and "
     "is checked there at once. Slow; for finding double frees and frees of bad pointers where "
     "they happen."},
    {"TCMALLOC_DEVMEM_DEVICE", "The device, or file, that `TCMALLOC_DEVMEM_START` speaks of."},
    {"TCMALLOC_DEVMEM_LIMIT",
     "Where the device's memory that may be used ends, an address in MiB; 0 for no end."},
    {"TCMALLOC_DEVMEM_START",
     "Take memory for objects from a device that stands for physical memory, from this address in "
     "MiB on; 0 does not. See docs/system-memory.md."},
    {"TCMALLOC_DISABLE_MEMORY_RELEASE",
     "Never give memory back to the system, not even when asked by malloc_trim."},
    {"TCMALLOC_HEAP_LIMIT_MB",
     "How many MiB of memory the heap may take, its own records included; 0 for no limit. An "
     "allocation that does not fit fails, once all that is free, in caches too, has gone back to "
     "the system. The first that fails is reported in a line on stderr, unless the program has a "
     "limit callback."},
    {"TCMALLOC_HUGEPAGES",
     "Ask the system for transparent hugepages where the heap grows beyond 32 MiB, or beyond 8 MiB "
     "for an object of 1 MiB or more, unless the system has none or the process was told to have "
     "none, and have it put memory behind smaller heaps ahead of use, up to 256 KiB at a time."},
    {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD",
     "Allocations of this many bytes and more are counted, and reported to the function that the "
     "program may have set (tcmalloc_set_large_allocation_callback). Where the variable is set, "
     "also to its default, each report is a line on stderr as well; without it none is written. "
     "A line of libtcmalloc ends in the addresses of the functions that called the allocator, the "
     "innermost first. Each report raises the threshold by an eighth. 0 or less: no "
     "counting and no reports."},
    {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
     "What the caches of all threads together may hold, free objects and the arrays of pointers to "
     "them. Each thread may have 64 KiB whatever this says; beyond that threads that are busy take "
     "from those that are not. Raise it when many threads allocate and free more than that at a "
     "time."},
    {"TCMALLOC_MEMBARRIER",
     "Call membarrier(2), to empty the caches of threads that sleep. To be set to false where a "
     "sandbox ends processes for system calls that it does not know; threads are then asked, and "
     "flush when they next need memory."},
    {"TCMALLOC_MEMFS_ABORT_ON_FAIL",
     "End the process when the memory file cannot grow: at its limit, when the file system is "
     "full, and when there is no file."},
    {"TCMALLOC_MEMFS_DISABLE_FALLBACK",
     "When the memory file cannot grow, allocations fail; no other memory is used for objects."},
    {"TCMALLOC_MEMFS_IGNORE_MMAP_FAIL",
     "Try the memory file again although the system once refused to let it grow. Else that ends "
     "its use, unless there is nothing else."},
    {"TCMALLOC_MEMFS_LIMIT_MB", "How large the memory file may become, in MiB; 0 for no limit."},
    {"TCMALLOC_MEMFS_MALLOC_PATH",
     "Take memory for objects from a file on a hugetlbfs or tmpfs file system: this is how its "
     "name begins. It is removed at once and goes with the process. See docs/system-memory.md "
     "about fork."},
    {"TCMALLOC_MEMFS_MAP_PRIVATE",
     "Map the memory file so that what is written is the process's own, and a forked child gets a "
     "copy. Else parent and child have the same memory, and the child may only call exec or "
     "_exit."},
    {"TCMALLOC_PRESSURE",
     "Listen to what the system says about memory running short, and empty the allocator's caches "
     "by levels, in a thread of the library's: \"auto\", or a list of sources and thresholds "
     "(docs/pressure.md). libtcmalloc_minimal does not listen."},
    {"TCMALLOC_PROFILE",
     "Sample allocations and write heap profiles to files: PATH, or PATH and a list of options, "
     "`PATH,at=exit,signal=USR1,every=60s,peak` for example (docs/profiles.md). Without options a "
     "profile is written when the process exits. The sampling interval is "
     "TCMALLOC_SAMPLE_PARAMETER, or 512 KiB where that is not set. The full library only."},
    {"TCMALLOC_RELEASE_RATE",
     "How eagerly free memory goes back to the system by itself. At 1 what the program needed "
     "within the last four seconds is kept, and the rest goes at 512 MiB per second; higher rates "
     "keep for less long and are faster. 0 never, reasonable values up to 10. Locked memory goes "
     "back too where the kernel allows it (Linux 5.18): a program that calls mlockall because it "
     "must not meet page faults sets this to 0."},
    {"TCMALLOC_REPORT_AT_TERM",
     "On SIGTERM, write what MALLOCSTATS, TCMALLOC_PROFILE, HEAPPROFILE and HEAPCHECK write when "
     "the process exits; then the signal ends the process. Only where the program has no handler "
     "for SIGTERM when the library is loaded; a handler that the program installs later replaces "
     "this one. Starts a thread. See docs/statistics.md."},
    {"TCMALLOC_SAMPLE_PARAMETER",
     "Sample allocations for heap profiles (docs/profiles.md): the mean number of bytes from one "
     "sample to the next. 0 for none; 524288 costs hardly anything. Programs change it at run time "
     "by the property tcmalloc.sample_parameter. libtcmalloc_minimal takes no samples."},
    {"TCMALLOC_SAMPLE_SEED",
     "Which allocations are sampled follows from this number and from what each thread allocates, "
     "so that a run can be repeated. 0 for another choice in each process."},
    {"TCMALLOC_SKIP_MMAP", "Do not take memory from mmap(2), only from sbrk(2)."},
    {"TCMALLOC_SKIP_SBRK",
     "Do not take memory from sbrk(2) when mmap(2) gives none. With both skipped every allocation "
     "fails."},
    {"TCMALLOC_SMALL",
     "Trade a little speed for space: caches of all threads share 1 MiB, each may have 16 KiB "
     "whatever this says, no hugepages, and free memory goes back within half a second. Other "
     "variables that are set prevail."},
    {"TCMALLOC_SOFT_LIMIT",
     "How large the heap should stay, as TCMALLOC_HEAP_LIMIT_MB counts; 0 for no limit. Free "
     "memory goes back to the system before the heap grows beyond that, and as soon as it is freed "
     "while the heap is larger, but no allocation fails. A percentage is one of the memory that "
     "the control group (container) of the process may have, which is looked up again every few "
     "seconds; without such a limit it has no effect."},
    {"TCMALLOC_STACKTRACE_METHOD",
     "How the functions are found that called the allocator, or a function of "
     "gperftools/stacktrace.h. cfi: by call frame information, which compilers write for "
     "exceptions and debuggers; the trace ends at code that has none. fp: by frame pointers; right "
     "only where all code was compiled with -fno-omit-frame-pointer. auto: cfi, and fp from the "
     "first code on that has no call frame information, or where the C library has no "
     "_dl_find_object (before glibc 2.35). none: no traces. The other values are names that "
     "gperftools has, for the nearest of these. libtcmalloc_minimal has no stack traces."},
    {"TCMALLOC_STACKTRACE_METHOD_VERBOSE", "Say in a line on stderr which of them is used."},
    {"TCMALLOC_STATS_EVERY",
     "Write the statistics as a line of JSON at this interval, to stderr or, with a comma and a "
     "file name behind it, to the end of that file: `10s` or `1m,/tmp/stats.jsonl`. Units are ms, "
     "s, m and h. Starts a thread. See docs/statistics.md."},
};

// In the order of IgnoredSettings.
constexpr const char* kReasons[] = {
    "The heap profiler records what is allocated, not what is mapped",
    "The processor profiler, which is not there yet",
    "The debugging allocator, elsewhere a library of its own",
    "The system is asked how large its pages are",
    "What moves between caches at a time follows from the size of objects and from their use",
    "The sized forms of operator delete always use the size",
    "For Windows",
    "Nothing here is more talkative when asked, or behaves differently under valgrind",
};

// tests/process/sandbox_test.py builds a sandbox from the first table.
constexpr const char* kSystemCalls =
    "\n## System calls after start\n\n"
    "A sandbox (seccomp) that ends the process for other system calls has to allow those of this "
    "table,\nand what the C library calls. The library reads the files that it needs when it is "
    "loaded, before a\nprogram can set up its sandbox.\n\n"
    "| calls | used for |\n|---|---|\n"
    "| `mmap`, `munmap`, `mremap`, `madvise`, `brk` | memory; `brk` only where `mmap` fails or is "
    "not wanted |\n"
    "| `futex` | waiting for a lock; sleep of the background thread and its waking |\n"
    "| `membarrier` | emptying the caches of other threads. Set `TCMALLOC_MEMBARRIER=0` where it "
    "ends the process: an error is enough for the library to do without, but the end of the "
    "process cannot be foreseen. A process with one thread does not call it. |\n"
    "| `rt_sigprocmask` | once in a thread that frees before it has allocated; when a thread is "
    "started or ends; with `libtcmalloc` also where the heap grows, for the stack trace |\n"
    "| `clock_gettime`, `getcpu` | system calls only where the kernel's vDSO does not serve them "
    "|\n\n"
    "What asks for further calls:\n\n"
    "| asked for by | calls |\n|---|---|\n"
    "| a message on stderr, `malloc_stats` | `write` |\n"
    "| `MALLOCSTATS` | `getpid`, `readlinkat`, `openat`, `read`, `close`: files in `/proc/self`; "
    "`write` |\n"
    "| a pointer that is freed although the library did not allocate it | `openat`, `read`, "
    "`close`: `/proc/self/maps`, where it may lie in a thread's stack |\n"
    "| misuse that ends the process | `write`, and those of `abort` |\n"
    "| `new` that fails, in a program without the C++ library | those of `dlopen` |\n"
    "| a program that creates a thread, or whose last thread but one ends | what these ask of the "
    "C library, a second time, for the background thread. `TCMALLOC_BACKGROUND=0` starts none. |\n"
    "| `TCMALLOC_PROFILE`, `TCMALLOC_STATS_EVERY`, `TCMALLOC_REPORT_AT_TERM` | `openat`, `read`, "
    "`write`, `close`, `unlink`, and for the signal `rt_sigaction` and `kill`, in the thread that "
    "they "
    "start when the library is loaded |\n"
    "| `TCMALLOC_SOFT_LIMIT` as a percentage | `openat`, `read`, `close`: the control group's "
    "files, every few seconds |\n"
    "| `TCMALLOC_MEMFS_MALLOC_PATH`, `TCMALLOC_DEVMEM_START` | `openat`, `unlink`, `fcntl`, "
    "`fstat` (`newfstatat`), `fstatfs`, `fallocate`, `pwrite64`, `close` |\n"
    "| `TCMALLOC_PRESSURE`, or a program that listens to memory pressure | `openat`, `read`, "
    "`write`, `lseek`, `close`, `faccessat`, `fcntl`, `socket`, `connect`, `sendto`, `eventfd2`, "
    "`epoll_create1`, `epoll_ctl`, `epoll_pwait`, `timerfd_create`, `timerfd_settime`, "
    "`timerfd_gettime` |\n"
    "| samples, the heap profiler, reports of large allocations: stack traces | `rt_sigprocmask`, "
    "`process_vm_readv`, `getpid` |\n"
    "| reports of large allocations: names of functions | `openat`, `read`, `lseek`, `close`: "
    "`/proc/self/maps`, and the files that the functions come from |\n"
    "| writing a profile | `openat`, `read`, `write`, `close`: the file, and `/proc/self/maps` |\n"
    "| a check for leaks | `clone`, `ptrace`, `wait4`, `kill`, `tgkill`, `prctl`, `mprotect`, "
    "`openat`, `read`, `pread64`, `getdents64`, `lseek`, `close`, `sched_yield`, `nanosleep`, "
    "`rt_sigaction`, `sigaltstack`, `process_vm_readv`, `getpid`, `gettid`, `getppid` |\n";

// Where the paragraphs of the documentation are broken.
constexpr size_t kDocumentationColumns = 100;

// Writes names in quotes, with commas between them and a full stop behind, and ends lines at
// kDocumentationColumns. `column` is where the line is so far.
class NameList {
 public:
  NameList(size_t column, TextWriter* out) : column_(column), out_(out) {}
  ~NameList() { out_->Text(".\n"); }
  NameList(const NameList&) = delete;
  NameList& operator=(const NameList&) = delete;

  void Add(std::string_view name) {
    if (any_) out_->Text(",");
    const size_t width = name.size() + 4;  // space, two quotes and a comma or full stop
    const bool fits = column_ + width <= kDocumentationColumns;
    out_->Text(fits ? " `" : "\n  `").Text(name).Text("`");
    column_ = (fits ? column_ : 1) + width;
    any_ = true;
  }

 private:
  size_t column_;
  bool any_ = false;
  TextWriter* const out_;
};

}  // namespace

void WriteSettingsDocumentation(TextWriter* out) {
  out->Text(
      "# Settings\n\nEnvironment variables, read once, when the process first allocates.\n\n");
  out->Text("| variable | default | values | meaning |\n|---|---|---|---|\n");
  SettingDescription setting;
  for (size_t i = 0; DescribeSetting(i, &setting); ++i) {
    TC_CHECK(i < std::size(kMeanings) && kMeanings[i].name == setting.name);
    out->Text("| `").Text(setting.name).Text("` | ").Text(setting.default_text).Text(" | ");
    WriteSettingRange(i, out);
    out->Text(" | ").Text(kMeanings[i].text).Text(" |\n");
  }
  out->Text(
      "\nK, M, G and T stand for powers of 1024, in upper or lower case; KB and KiB are K, and so "
      "on.\n"
      "A boolean without text (`TCMALLOC_SKIP_SBRK=`) is true, as in gperftools.\n\n"
      "A value that the column \"values\" does not allow, and a variable `TCMALLOC_...` that does "
      "not\nexist, are reported in one line each on stderr and ignored. So is a variable that "
      "begins "
      "as one of\nthese (`HEA`, `MAL`, `PPR`) and is spelt almost like it: one character is wrong, "
      "missing or added,\ntwo in names of at least 12 characters, or one word between underscores. "
      "The line says which name it\nmay have been meant to be. Other variables, `MALLOC_ARENA_MAX` "
      "for example, are not looked at.\n\n"
      "Programs that run with more rights than their user (set-uid, set-gid, file capabilities) do "
      "not\nread, without a word:\n\n*");
  {
    NameList list(1, out);
    for (size_t i = 0; DescribeSetting(i, &setting); ++i) {
      if (setting.names_files) list.Add(setting.name);
    }
  }
  out->Text(
      "\n`libtcmalloc_minimal` has no leak checker, heap profiler, samples, stack traces or memory "
      "pressure\nresponse. It ignores the following variables, and names those that are set to "
      "something else than\ntheir defaults in one line on stderr when the program starts:\n\n*");
  {
    NameList list(1, out);
    for (size_t i = 0; DescribeSetting(i, &setting); ++i) {
      if (setting.for_full_library) list.Add(setting.name);
    }
  }
  out->Text("\nThese variables of other releases are known and have no effect:\n\n");
  for (size_t group = 0; const char* names = IgnoredSettings(group); ++group) {
    TC_CHECK(group < std::size(kReasons));
    out->Text("* ").Text(kReasons[group]).Text(":");
    NameList list(strlen(kReasons[group]) + 3, out);
    while (*names != '\0') {
      const char* const end = strchr(names, ' ');
      list.Add(std::string_view(names, static_cast<size_t>(end - names)));
      names = end + 1;
    }
  }
  out->Text(kSystemCalls);
}

}  // namespace tcmalloc
