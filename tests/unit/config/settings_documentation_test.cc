// SPDX-License-Identifier: BSD-3-Clause
// The table of settings as Markdown, which is docs/settings.md. Only this test writes the table: in
// the libraries its text would take memory in every process.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_fields.h"
#include "base/text_writer.h"
#include "config/settings_table.h"

namespace tcmalloc {
namespace {

// The settings that most programs need, and the reason to set them.
struct Choice {
  const char* name;
  const char* reason;
};
constexpr Choice kMostUsed[] = {
    {"TCMALLOC_SOFT_LIMIT", "keeps a container below its limit: `90%`"},
    {"TCMALLOC_PRESSURE", "empties caches when the system runs short of memory: `auto`"},
    {"TCMALLOC_SAMPLE_PARAMETER", "makes it possible to ask which code holds the memory: `524288`"},
    {"TCMALLOC_RELEASE_RATE", "how fast free memory is released: `5` sooner, `0` never"},
    {"TCMALLOC_RETENTION", "how much the allocator may keep beyond the memory in use: `16M`"},
    {"TCMALLOC_HUGEPAGES", "hugepages: `0` for none"},
};

// The settings by task. Each setting is in one group: the one that has its name, else the one that
// has the longest prefix of its name.
struct Group {
  const char* title;
  const char* names;  // names, and prefixes that end in a star; separated by commas
};
constexpr Group kGroups[] = {
    {"Memory that is returned",
     "TCMALLOC_RELEASE_RATE,TCMALLOC_RETENTION,TCMALLOC_AGGRESSIVE_DECOMMIT,TCMALLOC_BACKGROUND,"
     "TCMALLOC_DISABLE_MEMORY_RELEASE,TCMALLOC_SMALL"},
    {"Limits and memory pressure", "TCMALLOC_SOFT_LIMIT,TCMALLOC_HEAP_LIMIT_MB,TCMALLOC_PRESSURE"},
    {"Speed", "TCMALLOC_HUGEPAGES,TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES,TCMALLOC_MEMBARRIER"},
    {"Statistics and reports",
     "MALLOCSTATS,TCMALLOC_STATS_EVERY,TCMALLOC_REPORT_AT_TERM,"
     "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD,TCMALLOC_HINTS"},
    {"Heap profiles by samples",
     "TCMALLOC_SAMPLE_PARAMETER,TCMALLOC_PROFILE,TCMALLOC_SAMPLE_SEED,TCMALLOC_STACKTRACE_*"},
    {"Heap profiler of every allocation",
     "HEAPPROFILE*,HEAP_PROFILE_*,OMPI_*,PMIX_*,PMI_*,SLURM_*"},
    {"Leaks", "HEAPCHECK,HEAP_CHECK_*,PPROF_PATH"},
    {"Mistakes of the program", "TCMALLOC_CHECK,TCMALLOC_GUARDED_*"},
    {"Debug libraries",
     "TCMALLOC_MAX_FREE_QUEUE_SIZE,TCMALLOC_PAGE_FENCE*,TCMALLOC_RECLAIM_MEMORY,"
     "TCMALLOC_SYMBOLIZE_STACKTRACE"},
    {"Control from outside", "TCMALLOC_CONTROL"},
    {"Where memory comes from", "TCMALLOC_SKIP_*,TCMALLOC_MEMFS_*,TCMALLOC_DEVMEM_*"},
};

// Returns the length of the group's name or prefix that matches, or 0 if none does.
size_t Fit(const Group& group, std::string_view setting) {
  size_t best = 0;
  for (std::string_view names = group.names; !names.empty();) {
    std::string_view name = TakeField(&names, ',');
    if (name == setting) return setting.size() + 1;
    if (name.ends_with('*') && setting.starts_with(name.substr(0, name.size() - 1))) {
      best = std::max(best, name.size());
    }
  }
  return best;
}

const Group* GroupOf(std::string_view setting) {
  const Group* best = nullptr;
  for (const Group& group : kGroups) {
    const size_t fit = Fit(group, setting);
    if (fit > (best == nullptr ? 0 : Fit(*best, setting))) best = &group;
  }
  return best;
}

// tests/process/surroundings/sandbox_test.py builds a sandbox from the first table.
constexpr const char* kSystemCalls =
    "\n## System calls after start\n\n"
    "A sandbox (seccomp) must allow the system calls of this table and those of the C library. "
    "The\nlibrary reads the files that it needs when it is loaded, before a program can set up "
    "its sandbox.\n[system-calls.md](system-calls.md) has all system calls, and what happens when "
    "one is refused.\n\n"
    "| calls | used for |\n|---|---|\n"
    "| `mmap`, `munmap`, `mremap`, `madvise`, `mincore`, `brk` | memory; `brk` only if `mmap` "
    "fails or is "
    "switched off; `mincore` not where there is a sandbox when the library is loaded |\n"
    "| `futex` | waiting for a lock; the background thread sleeps and is woken |\n"
    "| `membarrier` | emptying the caches of other threads. If it ends the process, set "
    "`TCMALLOC_MEMBARRIER=0`; if it returns an error, the library does without it. A process with "
    "one thread does not call it. |\n"
    "| `rt_sigprocmask` | once in a thread that frees before it has allocated; when a thread "
    "starts or ends |\n"
    "| `clock_gettime`, `getcpu` | system calls only where the kernel's vDSO does not serve them "
    "|\n\n"
    "Further calls:\n\n"
    "| needed for | calls |\n|---|---|\n"
    "| a message on stderr, `malloc_stats` | `write` |\n"
    "| `fork`, and starting a thread meanwhile, on kernels before Linux 4.14 | `getpid` |\n"
    "| `MALLOCSTATS` | `getpid`, `readlinkat`, `openat`, `read`, `close`: files in `/proc/self`; "
    "`write` |\n"
    "| freeing a pointer that the library did not allocate | `openat`, `read`, "
    "`close`: `/proc/self/maps`, if it may lie in a thread's stack |\n"
    "| misuse that ends the process | `write`, and those of `abort` |\n"
    "| a failing `new`, in a program without the C++ library | those of `dlopen` |\n"
    "| a program that creates a thread, or whose last thread but one ends | those of "
    "`pthread_create` and of a thread's end, for the background thread. `TCMALLOC_BACKGROUND=0` "
    "starts none. |\n"
    "| `TCMALLOC_PROFILE`, `TCMALLOC_STATS_EVERY`, `TCMALLOC_REPORT_AT_TERM` | `openat`, `read`, "
    "`write`, `close`, `unlink`, and for the signal `rt_sigaction` and `kill`, in the thread that "
    "they start when the library is loaded |\n"
    "| `TCMALLOC_SOFT_LIMIT` as a percentage | `openat`, `read`, `close`: the control group's "
    "files, every few seconds |\n"
    "| `TCMALLOC_MEMFS_MALLOC_PATH`, `TCMALLOC_DEVMEM_START` | `openat`, `unlink`, `fcntl`, "
    "`fstat` (`newfstatat`), `fstatfs`, `fallocate`, `pwrite64`, `close` |\n"
    "| `TCMALLOC_PRESSURE`, or a program that responds to memory pressure | `openat`, `read`, "
    "`write`, `lseek`, `close`, `faccessat`, `fcntl`, `socket`, `connect`, `sendto`, `eventfd2`, "
    "`epoll_create1`, `epoll_ctl`, `epoll_pwait`, `timerfd_create`, `timerfd_settime`, "
    "`timerfd_gettime` |\n"
    "| samples, the heap profiler, reports of large allocations: stack traces | `futex`, "
    "`process_vm_readv`, `getpid` |\n"
    "| reports of large allocations: names of functions | `openat`, `read`, `lseek`, `close`: "
    "`/proc/self/maps`, and the files of the functions |\n"
    "| writing a profile | `openat`, `read`, `write`, `close`: the file, and `/proc/self/maps` |\n"
    "| a leak check | `clone`, `ptrace`, `wait4`, `kill`, `tgkill`, `prctl`, `mprotect`, "
    "`openat`, `read`, `pread64`, `getdents64`, `lseek`, `close`, `sched_yield`, `nanosleep`, "
    "`rt_sigaction`, `sigaltstack`, `process_vm_readv`, `getpid`, `gettid`, `getppid` |\n";

// The width at which paragraphs of the documentation are wrapped.
constexpr size_t kDocumentationColumns = 100;

// Writes names in quotes, separated by commas and followed by a full stop, in lines of at most
// kDocumentationColumns. `column` is the present length of the line.
class NameList {
 public:
  NameList(size_t column, TextWriter* out) : column_(column), out_(out) {}
  ~NameList() { out_->Text(".\n"); }
  NameList(const NameList&) = delete;
  NameList& operator=(const NameList&) = delete;

  void Add(std::string_view name) {
    if (any_) out_->Text(",");
    const size_t width = name.size() + 4;  // a space, two quotes, and a comma or full stop
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

void WriteSettingsDocumentation(TextWriter* out) {
  out->Text(
      "# Settings\n\n    TCMALLOC_RELEASE_RATE=2 LD_PRELOAD=/usr/lib/libtcmalloc.so.4 ./server\n\n"
      "The library reads these environment variables once, when the process first allocates. Six "
      "matter\nto most programs ([by symptom](tuning.md)):\n\n");
  for (const Choice& choice : kMostUsed) {
    out->Text("* `").Text(choice.name).Text("`: ").Text(choice.reason).Text("\n");
  }
  for (const Group& group : kGroups) {
    out->Text("\n## ").Text(group.title);
    out->Text("\n\n| variable | default | values | meaning |\n|---|---|---|---|\n");
    for (const auto& [setting, meaning] : kSettingRows) {
      EXPECT_NE(GroupOf(setting.name.view()), nullptr) << setting.name.view();
      if (GroupOf(setting.name.view()) != &group) continue;
      out->Text("| `").Text(setting.name.view()).Text("` | ").Text(ShownDefault(setting));
      out->Text(" | ");
      WriteSettingRange(setting, out);
      out->Text(" | ").Text(meaning).Text(" |\n");
    }
  }
  out->Text(
      "\n## Values and mistakes\n\nK, M, G and T are powers of 1024, in upper or lower case; KB "
      "and KiB are K, and so on. A "
      "boolean\nwithout text (`TCMALLOC_SKIP_SBRK=`) is true, as in gperftools.\n\n"
      "The library ignores an invalid value and an unknown variable `TCMALLOC_...`, and prints one "
      "line on\nstderr for each. It treats a misspelt name that begins like one of these (`HEA`, "
      "`MAL`, `PPR`) the\nsame way: one character is wrong, missing or added, two in names of at "
      "least 12 characters, or one\nword between underscores. The line suggests a name. Other "
      "variables, for example `MALLOC_ARENA_MAX`,\nare checked with `TCMALLOC_HINTS=1` only.\n\n## "
      "Where a variable has no "
      "effect\n\n"
      "Set-uid and set-gid programs and those with file capabilities read none of these variables, "
      "and\ncomplain about none: their caller controls the environment, but may not control "
      "them.\n\n"
      "`libtcmalloc_minimal` has no leak checker, heap profiler, samples, stack traces or memory "
      "pressure\nresponse. It ignores the following variables. When the program starts, it prints "
      "one line on stderr\nthat names those with another value than their defaults:\n\n*");
  ListSettings(kFullLibrary, out);
  out->Text(
      "\nThese have an effect in `libtcmalloc_debug` and `libtcmalloc_minimal_debug` only:\n\n*");
  ListSettings(kDebugLibrary, out);
  out->Text("\nThe library knows these variables of gperftools, which have no effect:\n\n");
  for (const IgnoredSettings& group : kIgnoredSettings) {
    const std::string_view reason = group.reason;
    out->Text("* ").Text(reason).Text(":");
    NameList list(reason.size() + 3, out);
    for (std::string_view names = group.names; !names.empty();) list.Add(TakeField(&names, ','));
  }
  out->Text(kSystemCalls);
}

std::string Documentation() {
  std::vector<char> buffer(size_t{64} << 10);
  TextWriter out(buffer.data(), buffer.size());
  WriteSettingsDocumentation(&out);
  EXPECT_FALSE(out.truncated());
  return std::string(out.text());
}

// To write the file: WRITE_DOCS=1 build/release/bin/config_test
// --gtest_filter='SettingsDocumentation*'
TEST(SettingsDocumentationTest, TheFileIsTheTable) {
  if (getenv("WRITE_DOCS") != nullptr)
    std::ofstream(TCMALLOC_SETTINGS_DOCUMENTATION) << Documentation();
  std::ifstream file(TCMALLOC_SETTINGS_DOCUMENTATION);
  ASSERT_TRUE(file.good()) << "no " TCMALLOC_SETTINGS_DOCUMENTATION;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, Documentation())
      << "docs/settings.md differs from the table in src/config/settings_table.h. To write it "
         "anew: "
         "WRITE_DOCS=1 build/release/bin/config_test --gtest_filter='SettingsDocumentation*'";
}

}  // namespace
}  // namespace tcmalloc
