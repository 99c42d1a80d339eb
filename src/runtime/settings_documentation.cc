// SPDX-License-Identifier: BSD-3-Clause
// The table of settings as Markdown. Not in the libraries, where what it says would take memory of
// every process: only tests have it (tcmalloc_testing), which write and compare docs/settings.md.
#include <string_view>

#include "base/text_fields.h"
#include "runtime/settings.h"
#include "runtime/settings_table.h"

namespace tcmalloc {
namespace {

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
    "| a program that creates a thread, or whose last thread but one ends | the system calls of "
    "`pthread_create` and of a thread's end a second time, for the background thread. "
    "`TCMALLOC_BACKGROUND=0` starts none. |\n"
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

void ListSettings(SettingTraits trait, TextWriter* out) {
  NameList list(1, out);
  for (const SettingRow& row : kSettingRows) {
    if (row.setting.Has(trait)) list.Add(row.setting.name.view());
  }
}

}  // namespace

void WriteSettingsDocumentation(TextWriter* out) {
  out->Text(
      "# Settings\n\nEnvironment variables, read once, when the process first allocates.\n\n");
  out->Text("| variable | default | values | meaning |\n|---|---|---|---|\n");
  for (const auto& [setting, meaning] : kSettingRows) {
    out->Text("| `").Text(setting.name.view()).Text("` | ").Text(ShownDefault(setting));
    out->Text(" | ");
    WriteSettingRange(setting, out);
    out->Text(" | ").Text(meaning).Text(" |\n");
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
  ListSettings(kNamesFiles, out);
  out->Text(
      "\n`libtcmalloc_minimal` has no leak checker, heap profiler, samples, stack traces or memory "
      "pressure\nresponse. It ignores the following variables, and names those that are set to "
      "something else than\ntheir defaults in one line on stderr when the program starts:\n\n*");
  ListSettings(kFullLibrary, out);
  out->Text("\nThese variables of other releases are known and have no effect:\n\n");
  for (const IgnoredSettings& group : kIgnoredSettings) {
    const std::string_view reason = group.reason;
    out->Text("* ").Text(reason).Text(":");
    NameList list(reason.size() + 3, out);
    for (std::string_view names = group.names; !names.empty();) list.Add(TakeField(&names, ','));
  }
  out->Text(kSystemCalls);
}

}  // namespace tcmalloc
