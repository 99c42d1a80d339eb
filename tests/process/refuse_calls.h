// SPDX-License-Identifier: BSD-3-Clause
// A seccomp filter from words, for programs of these folders. A rule is CALL=ANSWER, or
// CALL@ARGUMENT:VALUE=ANSWER for calls whose argument of that number (0 to 5) has this value. CALL
// is a name of kCalls, "named" for all of these, or * for all calls. ANSWER is allow, kill
// (the process), trap (SIGSYS), or the error that the call returns. The first rule that matches
// decides; if none matches, the call is allowed.
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct NamedCall {
  const char* name;
  long number;
};

#define CALLS_OF_EVERY_MACHINE                                                                     \
  CALL(brk), CALL(clock_gettime), CALL(clock_nanosleep), CALL(clone), CALL(clone3), CALL(close),   \
      CALL(connect), CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_pwait), CALL(eventfd2),      \
      CALL(execve), CALL(exit), CALL(exit_group), CALL(faccessat), CALL(fallocate), CALL(fcntl),   \
      CALL(fstat), CALL(fstatfs), CALL(futex), CALL(getcpu), CALL(getdents64), CALL(geteuid),      \
      CALL(getpid), CALL(getppid), CALL(getrandom), CALL(gettid), CALL(kill), CALL(lseek),         \
      CALL(madvise), CALL(membarrier), CALL(mincore), CALL(mprotect), CALL(mremap), CALL(munmap),  \
      CALL(nanosleep), CALL(openat), CALL(pipe2), CALL(prctl), CALL(pread64), CALL(prlimit64),     \
      CALL(process_vm_readv), CALL(ptrace), CALL(pwrite64), CALL(read), CALL(readlinkat),          \
      CALL(renameat2), CALL(rseq), CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn),   \
      CALL(sched_getaffinity), CALL(sched_yield), CALL(seccomp), CALL(sendto),                     \
      CALL(set_robust_list), CALL(set_tid_address), CALL(sigaltstack), CALL(socket), CALL(tgkill), \
      CALL(timerfd_create), CALL(timerfd_gettime), CALL(timerfd_settime), CALL(unlinkat),          \
      CALL(wait4), CALL(write), CALL(writev), CALL(dup), CALL(getrusage), CALL(ioctl), CALL(uname)

// The calls that docs/system-calls.md lists, and those of the C library, the dynamic linker and
// these programs. Some machines have several calls of one name.
static const struct NamedCall kCalls[] = {
#define CALL(name) {#name, SYS_##name}
#ifdef SYS_mmap2
    {"mmap", SYS_mmap2},
#endif
#ifdef SYS_clock_gettime64
    {"clock_gettime", SYS_clock_gettime64},
#endif
#ifdef SYS_clock_nanosleep_time64
    {"clock_nanosleep", SYS_clock_nanosleep_time64},
#endif
#ifdef SYS_futex_time64
    {"futex", SYS_futex_time64},
#endif
#ifdef SYS_geteuid32
    {"geteuid", SYS_geteuid32},
#endif
#ifdef SYS__llseek
    {"lseek", SYS__llseek},
#endif
#ifdef SYS_fcntl64
    {"fcntl", SYS_fcntl64},
#endif
#ifdef SYS_fstat64
    {"fstat", SYS_fstat64},
#endif
#ifdef SYS_fstatfs64
    {"fstatfs", SYS_fstatfs64},
#endif
#ifdef SYS_fstatat64
    {"newfstatat", SYS_fstatat64},
#endif
#ifdef SYS_newfstatat
    CALL(newfstatat),
#endif
#ifdef SYS_access
    CALL(access),
#endif
#ifdef SYS_arch_prctl
    CALL(arch_prctl),
#endif
#ifdef SYS_mmap
    CALL(mmap),
#endif
#ifdef SYS_open
    CALL(open),
#endif
#ifdef SYS_readlink
    CALL(readlink),
#endif
#ifdef SYS_rename
    CALL(rename),
#endif
#ifdef SYS_unlink
    CALL(unlink),
#endif
#ifdef SYS_statx
    CALL(statx),
#endif
    CALLS_OF_EVERY_MACHINE,
// Calls that only the C library makes.
#ifdef SYS_alarm
    CALL(alarm),
#endif
#ifdef SYS_getrlimit
    CALL(getrlimit),
#endif
#ifdef SYS_ugetrlimit
    CALL(ugetrlimit),
#endif
#ifdef SYS_set_thread_area
    CALL(set_thread_area),
#endif
#undef CALL
#undef CALLS_OF_EVERY_MACHINE
};

enum { kMaxFilter = 4000 };

static void RefuseFailed(const char* what, const char* rule) {
  dprintf(STDERR_FILENO, "refuse: %s: %s\n", what, rule);
  _exit(2);
}

static unsigned AnswerOf(const char* answer, const char* rule) {
  static const struct {
    const char* name;
    int number;
  } kErrors[] = {{"EPERM", EPERM},   {"ENOSYS", ENOSYS}, {"EACCES", EACCES},
                 {"EINVAL", EINVAL}, {"ENOMEM", ENOMEM}, {"ENOENT", ENOENT}};
  if (strcmp(answer, "allow") == 0) return SECCOMP_RET_ALLOW;
  if (strcmp(answer, "kill") == 0) return SECCOMP_RET_KILL_PROCESS;
  if (strcmp(answer, "trap") == 0) return SECCOMP_RET_TRAP;
  for (unsigned i = 0; i < sizeof(kErrors) / sizeof(kErrors[0]); ++i) {
    if (strcmp(kErrors[i].name, answer) == 0) {
      return SECCOMP_RET_ERRNO | (unsigned)kErrors[i].number;
    }
  }
  RefuseFailed("no answer", rule);
  return 0;
}

static struct sock_filter FilterStep(unsigned code, unsigned value, unsigned otherwise) {
  return (struct sock_filter){(unsigned short)code, 0, (unsigned char)otherwise, value};
}

// Adds the steps for one call of a rule: they jump to the answer, or to the next step.
static void AddRule(struct sock_filter* filter, unsigned* length, int any, long number,
                    int argument, unsigned value, unsigned answer) {
  if (*length + 6 >= kMaxFilter) RefuseFailed("too many rules", "");
  const unsigned for_argument = argument >= 0 ? 3 : 0;
  if (!any) {
    filter[(*length)++] = FilterStep(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 1 + for_argument);
  }
  if (argument >= 0) {
    // Loads the lower half of the argument, and afterwards the number of the call again.
    filter[(*length)++] =
        FilterStep(BPF_LD | BPF_W | BPF_ABS,
                   (unsigned)offsetof(struct seccomp_data, args) + 8u * (unsigned)argument, 0);
    filter[(*length)++] = FilterStep(BPF_JMP | BPF_JEQ | BPF_K, value, 1);
  }
  filter[(*length)++] = FilterStep(BPF_RET | BPF_K, answer, 0);
  if (argument >= 0) {
    filter[(*length)++] =
        FilterStep(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr), 0);
  }
}

// Installs the filter for all threads of the process and for the programs that it executes. `rules`
// are words with spaces between. Allocates nothing. Ends the process with status 2 for an invalid
// rule, and with 77 if no filter can be installed.
static inline void RefuseCalls(const char* rules) {
  static struct sock_filter filter[kMaxFilter];
  unsigned length = 0;
  filter[length++] =
      FilterStep(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr), 0);
  while (*rules != '\0') {
    char rule[100];
    const size_t size = strcspn(rules, " ");
    if (size >= sizeof(rule)) RefuseFailed("too long", rules);
    memcpy(rule, rules, size);
    rule[size] = '\0';
    rules += size + strspn(rules + size, " ");
    if (size == 0) continue;
    char whole[sizeof(rule)];
    strcpy(whole, rule);
    char* const answer = strchr(rule, '=');
    if (answer == NULL) RefuseFailed("no answer", whole);
    *answer = '\0';
    int argument = -1;
    unsigned value = 0;
    char* const at = strchr(rule, '@');
    if (at != NULL) {
      *at = '\0';
      char* end;
      argument = (int)strtol(at + 1, &end, 10);
      if (*end != ':' || argument < 0 || argument > 5) RefuseFailed("no argument", whole);
      value = (unsigned)strtoul(end + 1, NULL, 0);
    }
    int found = 0;
    for (unsigned i = 0; i < sizeof(kCalls) / sizeof(kCalls[0]); ++i) {
      if (strcmp(rule, "named") != 0 && strcmp(kCalls[i].name, rule) != 0) continue;
      found = 1;
      AddRule(filter, &length, 0, kCalls[i].number, argument, value, AnswerOf(answer + 1, whole));
    }
    if (strcmp(rule, "*") == 0) {
      AddRule(filter, &length, 1, 0, -1, 0, AnswerOf(answer + 1, whole));
    } else if (!found) {
      RefuseFailed("no system call", whole);
    }
  }
  filter[length++] = FilterStep(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
  struct sock_fprog program = {(unsigned short)length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
    dprintf(STDERR_FILENO, "SKIP: this process may not install a seccomp filter\n");
    _exit(77);
  }
}
