// SPDX-License-Identifier: BSD-3-Clause
// A program that is forked from outside ('tcmalloc leaks --snapshot') while its main thread is
// somewhere in particular. By then it has leaked LEAKED objects.
//
//   forked WHAT
//
// It prints "ready", and the main thread begins WHAT. Then it reads a line from stdin, which is the
// time at which the main thread was seen asleep, and another thread lets the main thread end WHAT.
// Then the program checks its result, and that it has no children and no signals that it does not
// know, and prints "right". Any mistake prints a line on stderr; the exit status is then 1.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "../process/check.h"
#include "target.h"

enum { kLeaked = 10, kLeakedBytes = 100 };

static const char* what;
static int is(const char* name) { return strcmp(what, name) == 0; }

static int data_pipe[2];
static int events;
static uint32_t futex_word = 1;
static pid_t child;
static volatile sig_atomic_t ended_children;
static volatile sig_atomic_t user_signals;
static volatile int go_on;
// By the monotonic clock: when the main thread was seen asleep, and when it is woken.
static double asleep_at;
static double wake_at;

static void CountChild(int signal) {
  (void)signal;
  ++ended_children;
}
static void CountUser(int signal) {
  (void)signal;
  ++user_signals;
}

static double Seconds(struct timespec time) {
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// The contents of the frames are overwritten afterwards.
__attribute__((noinline)) static void Leak(void) {
  void* (*volatile allocate)(size_t) = malloc;
  for (int i = 0; i < kLeaked; ++i) memset(allocate(kLeakedBytes), 1, kLeakedBytes);
}
static void* LeakInThread(void* unused) {
  Leak();
  volatile char stack[8192];
  for (size_t i = 0; i < sizeof(stack); ++i) stack[i] = 0;
  return unused;
}

// --- What the main thread does -------------------------------------------------------------------

static void Nanosleep(void) {
  const struct timespec time = {.tv_sec = 1000};
  struct timespec left;
  // The kernel adds the slack of the thread's timers to the time that is left.
  CHECK(prctl(PR_SET_TIMERSLACK, 1) == 0);
  CHECK(nanosleep(&time, &left) == -1 && errno == EINTR);
  // A sleep that began anew after a stop would have lasted for a shorter time.
  CHECK(Seconds(time) - Seconds(left) >= wake_at - asleep_at);
  go_on = 1;
}

static void Read(void) {
  char bytes[8] = "";
  CHECK(read(data_pipe[0], bytes, sizeof(bytes)) == 5);
  CHECK(memcmp(bytes, "bytes", 5) == 0);
}

// If the kernel restarts the wait after the wake, the wait finds another value, like a wait that
// begins then.
static void Futex(void) {
  const struct timespec time = {.tv_sec = 1000};
  CHECK(syscall(SYS_futex, &futex_word, FUTEX_WAIT, 1, &time, NULL, 0) == 0 || errno == EAGAIN);
  CHECK(__atomic_load_n(&futex_word, __ATOMIC_RELAXED) == 0);
}

// Any stop of a process may end this call with EINTR; nothing else may.
static void Epoll(void) {
  struct epoll_event event;
  int n;
  while ((n = epoll_wait(events, &event, 1, 1000 * 1000)) < 0) CHECK(errno == EINTR);
  CHECK(n == 1 && event.data.fd == data_pipe[0]);
}

static void Suspend(void) {
  sigset_t none;
  sigemptyset(&none);
  CHECK(sigsuspend(&none) == -1 && errno == EINTR);
  CHECK(user_signals == 1);
  sigset_t now;
  CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
  CHECK(sigismember(&now, SIGUSR1) == 1);
}

static void ReadInHandler(int signal) {
  (void)signal;
  Read();
  ++user_signals;
}
static void Handler(void) {
  struct sigaction action = {.sa_handler = ReadInHandler};
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  CHECK(raise(SIGUSR2) == 0);
  CHECK(user_signals == 1);
}

static void Wait(void) {
  int status;
  CHECK(waitpid(-1, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  CHECK(ended_children == 1);
}

// Sets all registers to different values, again and again.
static void Spin(void) {
#if defined(__x86_64__)
  while (!go_on) {
    uint64_t wrong = 0;
    __asm__ volatile(
        "pushq %%rbx\n pushq %%rbp\n"
        "movq $0x1111111111111111, %%rbx\n movq $0x2222222222222222, %%rsi\n"
        "movq $0x3333333333333333, %%rdi\n movq $0x4444444444444444, %%rbp\n"
        "movq $0x5555555555555555, %%r8\n movq $0x6666666666666666, %%r9\n"
        "movq $0x7777777777777777, %%r10\n movq $0x0888888888888888, %%r11\n"
        "movq $0x0999999999999999, %%r12\n movq $0x0aaaaaaaaaaaaaaa, %%r13\n"
        "movq $0x0bbbbbbbbbbbbbbb, %%r14\n movq $0x0ccccccccccccccc, %%r15\n"
        "movq $0x0ddddddddddddddd, %%rdx\n movq %%rdx, %%xmm0\n movq %%r8, %%xmm15\n"
        "movq $0x1000000, %%rcx\n"
        "1: leaq -1(%%rcx), %%rcx\n testq %%rcx, %%rcx\n jnz 1b\n"
        "xorl %%eax, %%eax\n"
        "movq $0x1111111111111111, %%rcx\n xorq %%rcx, %%rbx\n orq %%rbx, %%rax\n"
        "movq $0x2222222222222222, %%rcx\n xorq %%rcx, %%rsi\n orq %%rsi, %%rax\n"
        "movq $0x3333333333333333, %%rcx\n xorq %%rcx, %%rdi\n orq %%rdi, %%rax\n"
        "movq $0x4444444444444444, %%rcx\n xorq %%rcx, %%rbp\n orq %%rbp, %%rax\n"
        "movq %%xmm15, %%rcx\n xorq %%rcx, %%r8\n orq %%r8, %%rax\n"
        "movq $0x6666666666666666, %%rcx\n xorq %%rcx, %%r9\n orq %%r9, %%rax\n"
        "movq $0x7777777777777777, %%rcx\n xorq %%rcx, %%r10\n orq %%r10, %%rax\n"
        "movq $0x0888888888888888, %%rcx\n xorq %%rcx, %%r11\n orq %%r11, %%rax\n"
        "movq $0x0999999999999999, %%rcx\n xorq %%rcx, %%r12\n orq %%r12, %%rax\n"
        "movq $0x0aaaaaaaaaaaaaaa, %%rcx\n xorq %%rcx, %%r13\n orq %%r13, %%rax\n"
        "movq $0x0bbbbbbbbbbbbbbb, %%rcx\n xorq %%rcx, %%r14\n orq %%r14, %%rax\n"
        "movq $0x0ccccccccccccccc, %%rcx\n xorq %%rcx, %%r15\n orq %%r15, %%rax\n"
        "movq %%xmm0, %%rcx\n xorq %%rcx, %%rdx\n orq %%rdx, %%rax\n"
        "popq %%rbp\n popq %%rbx\n"
        : "=a"(wrong)
        :
        : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
          "xmm15", "cc", "memory");
    CHECK(wrong == 0);
  }
#else
  while (!go_on) sched_yield();
#endif
}

// The thread is in a restartable sequence nearly all of the time. Another thread on the same
// processor counts: if it ran during a sequence, the kernel must have ended the sequence.
static volatile uint64_t counted;
static volatile uint64_t committed;
static void PinToProcessor0(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}
static void* Count(void* unused) {
  PinToProcessor0();
  while (!go_on) {
    ++counted;
    sched_yield();
  }
  return unused;
}
static void Sequence(void) {
#if defined(__x86_64__) && defined(RSEQ_SIG)
  struct rseq* const rseq = (struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
  CHECK(__rseq_size > 0);
  PinToProcessor0();
  const pthread_t thread = StartThread(Count, NULL);
  while (!go_on) {
    uint64_t first = 0;
    uint64_t last = 0;
    int done = 0;
    __asm__ volatile(
        ".pushsection __rseq_cs, \"aw\"\n"
        ".balign 32\n"
        "3: .long 0, 0\n .quad 1f, 2f - 1f, 4f\n"
        ".popsection\n"
        "leaq 3b(%%rip), %%rax\n"
        "movq %%rax, %[section]\n"
        "1: movq %[counted], %[first]\n"
        "movq $100000, %%rcx\n"
        "5: decq %%rcx\n jnz 5b\n"
        "movq %[counted], %[last]\n"
        "movl $1, %[done]\n"
        "2:\n"
        ".pushsection __rseq_failure, \"ax\"\n"
        ".byte 0x0f, 0xb9, 0x3d\n .long %c[signature]\n"
        "4: movl $0, %[done]\n jmp 6f\n"
        ".popsection\n"
        "6:\n"
        :
        [first] "=&r"(first), [last] "=&r"(last), [done] "+&r"(done), [section] "=m"(rseq->rseq_cs)
        : [counted] "m"(counted), [signature] "i"(RSEQ_SIG)
        : "rax", "rcx", "cc", "memory");
    if (!done) continue;
    CHECK(first == last);
    ++committed;
  }
  JoinThread(thread);
  CHECK(committed > 0);
#endif
}

static void SleepForever(void) {
  while (!go_on) usleep(1000);
}

static const struct {
  const char* name;
  void (*run)(void);
} kCalls[] = {
    {"nanosleep", &Nanosleep}, {"read", &Read},          {"futex", &Futex},
    {"epoll", &Epoll},         {"sigsuspend", &Suspend}, {"handler", &Handler},
    {"wait", &Wait},           {"spin", &Spin},          {"sequence", &Sequence},
};

// --- The arguments -------------------------------------------------------------------------------

static void Awake(const char* line) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  asleep_at = atof(line);
  wake_at = Seconds(now);
  while (!go_on) {
    kill(getpid(), SIGUSR1);
    usleep(1000);
  }
}

static void* Command(void* unused) {
  char line[32] = "";
  CHECK(read(STDIN_FILENO, line, sizeof(line) - 1) > 0);
  __atomic_store_n(&futex_word, 0, __ATOMIC_RELAXED);
  syscall(SYS_futex, &futex_word, FUTEX_WAKE, 1, NULL, NULL, 0);
  CHECK(write(data_pipe[1], "bytes", 5) == 5);
  if (child != 0) kill(child, SIGTERM);
  if (is("sigsuspend")) kill(getpid(), SIGUSR1);
  if (is("nanosleep")) Awake(line);
  go_on = 1;
  return unused;
}

static void Prepare(void) {
  CHECK(pipe(data_pipe) == 0);
  events = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = data_pipe[0]};
  CHECK(epoll_ctl(events, EPOLL_CTL_ADD, data_pipe[0], &event) == 0);
  struct sigaction action = {.sa_handler = CountChild, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
  action.sa_handler = CountUser;
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
}

static void Allow(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

static void EndWith7(int signal) {
  (void)signal;
  _exit(7);
}
static void StartChild(void) {
  int ready[2];
  CHECK(pipe(ready) == 0);
  child = fork();
  if (child == 0) {
    signal(SIGTERM, EndWith7);
    if (write(ready[1], "", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  CHECK(read(ready[0], &byte, 1) == 1);
}

// Only main uses it: the only pointer to an object is in this memory.
static void** volatile excluded;
static void HoldIn(size_t bytes, int advice) {
  excluded = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(excluded != MAP_FAILED);
  CHECK(madvise(excluded, bytes, advice) == 0);
}
static void* HoldInThread(void* unused) {
  void* (*volatile allocate)(size_t) = malloc;
  excluded[1] = memset(allocate(333), 0, 333);
  volatile char stack[8192];
  for (size_t i = 0; i < sizeof(stack); ++i) stack[i] = 0;
  return unused;
}

// Holds memory whose copy takes a while.
static void HoldMuch(void) {
  const size_t bytes = (size_t)256 << 20;
  void* const memory = malloc(bytes);
  CHECK(memory != NULL);
  memset(memory, 1, bytes);
  excluded = memory;
}

static void InThread(void* (*function)(void*)) { JoinThread(StartThread(function, NULL)); }

static void HandleFaults(void) {
  const int file = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  CHECK(file >= 0);
  struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_FORK};
  CHECK(ioctl(file, UFFDIO_API, &api) == 0);
  void* const memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register range = {.range = {.start = (uint64_t)(uintptr_t)memory, .len = 4096},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  CHECK(ioctl(file, UFFDIO_REGISTER, &range) == 0);
}

static char dispatch_off;

int main(int argc, char** argv) {
  CHECK(argc == 2);
  what = argv[1];
  Prepare();
  InThread(LeakInThread);
  if (is("dontfork")) HoldIn(8192, MADV_DONTFORK);
  if (is("dontfork_large")) HoldIn(4 << 20, MADV_DONTFORK);
  if (is("wipeonfork")) HoldIn(8192, MADV_WIPEONFORK);
  if (is("wipeonfork_large")) HoldIn(4 << 20, MADV_WIPEONFORK);
  if (excluded != NULL) InThread(HoldInThread);
  if (is("large")) HoldMuch();
  if (is("wait")) StartChild();
  if (is("seccomp")) {
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    // A filter that allows everything.
    struct {
      uint16_t code;
      uint8_t yes, no;
      uint32_t value;
    } allow = {.code = 0x06, .value = 0x7fff0000};
    struct {
      uint16_t length;
      void* filter;
    } program = {1, &allow};
    CHECK(prctl(PR_SET_SECCOMP, 2, &program) == 0);
  }
  if (is("userfault")) HandleFaults();
  const pthread_t commands = StartThread(Command, NULL);
  if (is("limit")) {
    const struct rlimit none = {1, 1};
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
  }
  if (is("namespace")) CHECK(unshare(CLONE_NEWPID) == 0);
  // The command could make the call in any thread but this one.
  if (is("dispatch")) CHECK(prctl(59, 1, 0, 0, &dispatch_off) == 0);

  if (is("nanosleep")) Allow(SIGUSR1);

  Say("ready\n", 6);
  void (*run)(void) = &SleepForever;
  for (size_t i = 0; i < sizeof(kCalls) / sizeof(*kCalls); ++i) {
    if (is(kCalls[i].name)) run = kCalls[i].run;
  }
  run();
  JoinThread(commands);

  CHECK(ended_children == (child != 0));
  sigset_t pending;
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 0);
  CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
  // There is no child without SIGCHLD either.
  CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
  Say("right\n", 6);
  return 0;
}
