// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/world_stop.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "instruments/world_stop/memory_reader.h"
#include "instruments/world_stop/thread_state.h"
#include "testing/fake_virtual_memory.h"
#include "testing/in_child.h"
#include "testing/sanitizers.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

using Function = std::function<void(const WorldStop&)>;

void CallFunction(void* context, const WorldStop& world) {
  (*static_cast<const Function*>(context))(world);
}

// A thread that waits for a CPU stops in the end, however busy the machine is.
constexpr int64_t kAnyPatience = 3'600'000;

// Repeats the attempt while a thread sleeps in the kernel, as callers do.
StopResult Stop(const Function& function, VirtualMemory& vm) {
  StopResult result;
  do {
    result = WithWorldStopped(vm, &CallFunction, const_cast<Function*>(&function), kAnyPatience);
  } while (result.outcome == StopOutcome::kNotInTime);
  return result;
}
StopResult Stop(const Function& function) {
  SystemVirtualMemory vm;
  return Stop(function, vm);
}

void Nothing(const WorldStop&) {}

void WriteNowhere() {
  volatile int* volatile nowhere = reinterpret_cast<int*>(16);
  *nowhere = 1;
}

const StoppedThread* Find(const WorldStop& world, int id) {
  for (size_t i = 0; i < world.num_threads; ++i) {
    if (world.threads[i].thread_id == id) return &world.threads[i];
  }
  return nullptr;
}

[[maybe_unused]] bool Holds(const StoppedThread& thread, uintptr_t value) {
  return std::count(thread.registers, thread.registers + thread.num_registers, value) > 0;
}

// The state letter of a file /proc/PID/task/ID/stat, or 'X' if the thread is gone. Calls no malloc.
char StateIn(int tasks, int id) {
  char name[32];
  snprintf(name, sizeof(name), "%d/stat", id);
  const int file = openat(tasks, name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 'X';
  char text[512];
  const ssize_t n = read(file, text, sizeof(text));
  close(file);
  const void* const name_end = n > 0 ? memrchr(text, ')', static_cast<size_t>(n)) : nullptr;
  return name_end == nullptr ? 'X' : static_cast<const char*>(name_end)[2];
}

// Returns the number of threads that live and are neither the caller nor in a debugger's stop
// ('t'). Call it in a stopped world.
size_t NumRunning(const WorldStop& world) {
  char name[32];
  snprintf(name, sizeof(name), "/proc/%d/task", world.process_id);
  const int tasks = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  size_t running = 0;
  const int error = ForEachThread(tasks, [&](int id) {
    const char state = StateIn(tasks, id);
    running += id != world.threads[0].thread_id && state != 't' && state != 'X' && state != 'Z';
    return true;
  });
  close(tasks);
  return error == 0 ? running : SIZE_MAX;
}

// Threads that count as fast as they can until the object is destroyed.
class Counters {
 public:
  explicit Counters(int n) : ids_(static_cast<size_t>(n)) {
    for (std::atomic<int>& id : ids_) {
      threads_.emplace_back([this, &id] {
        id = ThisThreadId();
        while (!done_) sum_.fetch_add(1, std::memory_order_relaxed);
      });
    }
    for (const std::atomic<int>& id : ids_) {
      while (id == 0) sched_yield();
    }
  }
  ~Counters() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // Returns when the threads run.
  void AwaitCount() const {
    for (const uint64_t before = sum_; sum_ == before;) sched_yield();
  }
  const std::vector<std::atomic<int>>& ids() const { return ids_; }

 private:
  std::atomic<bool> done_{false};
  std::atomic<uint64_t> sum_{0};
  std::vector<std::atomic<int>> ids_;
  std::vector<std::thread> threads_;
};

auto CountEntries(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

class WorldStopTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if TESTED_WITH_TSAN
    GTEST_SKIP() << "ThreadSanitizer does not know the task that stops the threads";
#endif
    if (IsTraced()) GTEST_SKIP() << "this process has a debugger, and can have one only";
  }
};

TEST_F(WorldStopTest, OtherThreadsAreStopped) {
  Counters counters(4);
  const int caller = ThisThreadId();
  EXPECT_EQ(Stop([&](const WorldStop& world) {
              EXPECT_EQ(NumRunning(world), 0u);
              EXPECT_EQ(world.num_threads, 5u);
              EXPECT_TRUE(world.is_complete && world.threads[0].is_caller);
              EXPECT_EQ(world.threads[0].thread_id, caller);
              for (const std::atomic<int>& id : counters.ids()) {
                const StoppedThread* const thread = Find(world, id);
                ASSERT_NE(thread, nullptr);
                EXPECT_FALSE(thread->is_caller);
              }
            }).outcome,
            StopOutcome::kDone);
  counters.AwaitCount();
}

// A read of the thread list is cut off at a thread that ends meanwhile. A thread that the ended one
// started would come after it.
TEST_F(WorldStopTest, ManyStopsWhileThreadsStartTheirSuccessors) {
  constexpr int kChains = 8;
  constexpr int kStops = 300;
  std::atomic<bool> done{false};
  std::atomic<int> chains{kChains};
  std::atomic<uint64_t> links{0};
  std::function<void()> succeed = [&] {
    ++links;
    if (done) {
      --chains;
    } else {
      std::thread(succeed).detach();
    }
  };
  std::thread deaf([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    while (!done) sched_yield();
  });
  for (int i = 0; i < kChains; ++i) std::thread(succeed).detach();
  for (int i = 0; i < kStops && !HasFailure(); ++i) {
    size_t running = 0;
    bool twice = false;
    bool without_stack = false;
    const uint64_t at_first = links;
    const StopResult result = Stop([&](const WorldStop& world) {
      running = NumRunning(world);
      for (size_t j = 0; j < world.num_threads; ++j) {
        twice |= Find(world, world.threads[j].thread_id) != &world.threads[j];
        without_stack |= world.threads[j].stack_pointer == 0;
      }
    });
    EXPECT_EQ(result.outcome, StopOutcome::kDone) << result.error;
    EXPECT_EQ(running, 0u) << "in stop " << i;
    EXPECT_FALSE(twice || without_stack);
    while (links == at_first) sched_yield();
  }
  done = true;
  deaf.join();
  while (chains > 0) sched_yield();
}

TEST_F(WorldStopTest, LeavesTheProcessUnchanged) {
  Counters counters(2);
  FakeVirtualMemory vm;
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  const auto files = CountEntries("/proc/self/fd");
  const auto tasks = CountEntries("/proc/self/task");
  for (int i = 0; i < 20; ++i) {
    errno = 1234;
    ASSERT_EQ(Stop(Nothing, vm).outcome, StopOutcome::kDone);
    EXPECT_EQ(errno, 1234);
  }
  EXPECT_EQ(CountEntries("/proc/self/fd"), files);
  EXPECT_EQ(CountEntries("/proc/self/task"), tasks);
  EXPECT_EQ(vm.mapped_bytes(), 0u);
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

// ---- The data of a thread.

[[maybe_unused]] uintptr_t Secret(uintptr_t n) {
  return n * static_cast<uintptr_t>(0x9e3779b97f4a7c15);
}

#if defined(__x86_64__) || defined(__aarch64__)
// Loops with a secret in a general register and another one in a vector register, until `*done`.
TC_OUT_OF_LINE void HoldInRegisters(std::atomic<int>* begun, std::atomic<int>* done) {
  const uintptr_t general = Secret(3);
  double vector;
  const uintptr_t bits = Secret(4);
  memcpy(&vector, &bits, sizeof(vector));
#if defined(__aarch64__)
  asm volatile(
      "mov w9, #1\n\t"
      "str w9, [%[begun]]\n\t"
      "1: ldr w9, [%[done]]\n\t"
      "cbz w9, 1b"
      :
      : "r"(general), "w"(vector), [begun] "r"(begun), [done] "r"(done)
      : "x9", "memory");
#else
  asm volatile(
      "movl $1, (%[begun])\n\t"
      "1: pause\n\t"
      "cmpl $0, (%[done])\n\t"
      "je 1b"
      :
      : "r"(general), "x"(vector), [begun] "r"(begun), [done] "r"(done)
      : "memory", "cc");
#endif
}

TEST_F(WorldStopTest, ReadsRegistersOfStoppedThreads) {
  std::atomic<int> begun{0};
  std::atomic<int> done{0};
  std::atomic<int> id{0};
  std::thread thread([&] {
    id = ThisThreadId();
    HoldInRegisters(&begun, &done);
  });
  while (begun == 0) sched_yield();
  EXPECT_EQ(Stop([&](const WorldStop& world) {
              const StoppedThread& other = *Find(world, id);
              EXPECT_TRUE(Holds(other, Secret(3)));
              EXPECT_TRUE(Holds(other, Secret(4)));
              // There are 16 or 32 vector registers of 16 bytes, and all general registers.
              EXPECT_GE(other.num_registers, (512u + 17 * sizeof(uintptr_t)) / sizeof(uintptr_t));
            }).outcome,
            StopOutcome::kDone);
  done = 1;
  thread.join();
}
#endif

// ---- Threads notice nothing.

thread_local volatile uint64_t handled = 0;

// Threads signal themselves all the time, so that some are about to receive a signal.
TEST_F(WorldStopTest, NoSignalIsLost) {
  const int signal = SIGRTMIN + 3;
  struct sigaction action = {};
  struct sigaction before;
  action.sa_handler = [](int) { handled = handled + 1; };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(signal, &action, &before), 0);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      uint64_t sent = 0;
      for (; !done; ++sent, ++sum) {
        EXPECT_EQ(handled, sent);
        syscall(SYS_tgkill, getpid(), ThisThreadId(), signal);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const uint64_t at_first = sum;
    EXPECT_EQ(Stop(Nothing).outcome, StopOutcome::kDone);
    while (sum == at_first) sched_yield();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  sigaction(signal, &before, nullptr);
}

// ---- Where a stop is impossible. Where ptrace is forbidden: tests/process/surroundings.

TEST_F(WorldStopTest, WithoutMemory) {
  Counters counters(2);
  size_t failures = 0;
  for (bool ran = false; !ran; failures += !ran) {
    FakeVirtualMemory vm;
    vm.FailMap(failures + 1, FakeVirtualMemory::kForever);
    const StopResult result = Stop([&](const WorldStop&) { ran = true; }, vm);
    counters.AwaitCount();
    EXPECT_EQ(result.outcome, ran ? StopOutcome::kDone : StopOutcome::kNoMemory);
    EXPECT_EQ(result.error, ran ? 0 : ENOMEM);
    EXPECT_EQ(vm.mapped_bytes(), 0u);
  }
  // A stop allocates its stack and three tables.
  EXPECT_GE(failures, 4u);
}

// The parent of a vfork sleeps and reacts only to SIGKILL until the child has another address
// space. The stop gives up at once, not after the time that it waits for runnable threads.
TEST_F(WorldStopTest, AThreadThatDoesNotStop) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Counters counters(1);
  std::atomic<int> id{0};
  struct Shared {
    int fd;
    std::atomic<bool> begun{false};
  } shared = {ends[0]};
  std::thread parent([&] {
    static char stack[65536] __attribute__((aligned(64)));
    id = ThisThreadId();
    const pid_t child = clone(
        [](void* argument) {
          Shared& s = *static_cast<Shared*>(argument);
          s.begun = true;
          char byte;
          syscall(SYS_read, s.fd, &byte, 1);
          return 0;
        },
        stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &shared);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
  });
  while (!shared.begun) sched_yield();
  bool ran = false;
  SystemVirtualMemory vm;
  Function function = [&](const WorldStop&) { ran = true; };
  const StopResult result = WithWorldStopped(vm, &CallFunction, &function, kAnyPatience);
  EXPECT_EQ(result.outcome, StopOutcome::kNotInTime);
  EXPECT_EQ(result.error, ETIMEDOUT);
  EXPECT_EQ(result.thread_id, id);
  EXPECT_FALSE(ran);
  counters.AwaitCount();
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  parent.join();
  EXPECT_EQ(Stop(function).outcome, StopOutcome::kDone);
  EXPECT_TRUE(ran);
  close(ends[0]);
  close(ends[1]);
}

// ---- Ends.

__attribute__((noinline)) uintptr_t Overflow(uintptr_t n) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(n);
  return n == UINTPTR_MAX ? 0 : Overflow(n + 1) + static_cast<uintptr_t>(frame[0]);
}

// The task must not end by a signal: before Linux 5.16 a signal that dumps core ends the process,
// too. A thread that waits for any child gets the task's status if it is faster than the caller.
TEST_F(WorldStopTest, NoSignalEndsTheTask) {
  struct Case {
    void (*function)();
    int signal;
  };
#define SIGNAL_CASE(signal) \
  {[] { syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal); }, signal}
  const Case cases[] = {
      {[] {}, 0},
      {&WriteNowhere, SIGSEGV},
      {[] { Overflow(0); }, SIGSEGV},
#if defined(__aarch64__)
      {[] { __builtin_trap(); }, SIGTRAP},
#else
      {[] { __builtin_trap(); }, SIGILL},
#endif
      SIGNAL_CASE(SIGBUS),
      SIGNAL_CASE(SIGSYS),
      SIGNAL_CASE(SIGFPE),
      SIGNAL_CASE(SIGABRT),
  };
#undef SIGNAL_CASE
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::atomic<int> exited{0};
  std::atomic<int> killed{0};
  std::thread waiter([&] {
    int status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &status, __WALL)) != child;) {
      if (ended > 0) ++(WIFEXITED(status) ? exited : killed);
    }
  });
  for (const Case& c : cases) {
    for (int i = 0; i < 20; ++i) {
      const StopResult result = Stop([&c](const WorldStop&) { c.function(); });
      EXPECT_EQ(result.outcome, c.signal == 0 ? StopOutcome::kDone : StopOutcome::kTaskDied);
      EXPECT_EQ(result.error, c.signal);
    }
  }
  kill(child, SIGKILL);
  waiter.join();
  EXPECT_EQ(killed, 0);
}

// A guarded reader skips unreadable bytes one by one, and the function continues.
TEST_F(WorldStopTest, AGuardedReaderSurvivesFaults) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  SystemVirtualMemory vm;
  const Mapping mapping = vm.Map(3 * page, page);
  char* const start = static_cast<char*>(mapping.start);
  memset(start, 7, 3 * page);
  ASSERT_EQ(mprotect(start + page, page, PROT_NONE), 0);
  const auto look = [&](const WorldStop&) {
    const MemoryReader reader(/*guarded=*/true);
    EXPECT_TRUE(reader.Works());
    const auto at = reinterpret_cast<uintptr_t>(start);
    std::vector<char> copy(3 * page);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(reader.Copy(copy.data(), at + 10, 100), 100u);
      EXPECT_EQ(copy[99], 7);
      EXPECT_EQ(reader.Copy(copy.data(), at, page), page);
      EXPECT_EQ(reader.Copy(copy.data(), at + page - 5, 100), reader.CanGuard() ? 5u : 0u);
      EXPECT_EQ(reader.Copy(copy.data(), at + page, 1), 0u);
      EXPECT_EQ(reader.Copy(copy.data(), at + 2 * page, page), page);
      EXPECT_EQ(reader.Copy(copy.data(), 8, 16), 0u);
      EXPECT_EQ(reader.Word(at + page - sizeof(uintptr_t) / 2), 0u);
      uintptr_t seven;
      memset(&seven, 7, sizeof(seven));
      EXPECT_EQ(reader.Word(at + 1), seven);
    }
  };
  EXPECT_EQ(Stop(look).outcome, StopOutcome::kDone);
  Function unstopped = look;
  EXPECT_EQ(WithCallerOnly(vm, &CallFunction, &unstopped).outcome, StopOutcome::kDone);
  EXPECT_TRUE(vm.Unmap(mapping.start, mapping.bytes));
}

TEST_F(WorldStopTest, TheProcessIsKilled) {
  // The child and its task hold the write end of the pipe.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Counters counters(2);
    Stop([&](const WorldStop&) {
      syscall(SYS_write, ends[1], "x", 1);
      for (;;) sched_yield();
    });
    _exit(0);
  }
  close(ends[1]);
  char byte;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "ends with the task";
  close(ends[0]);
}

TEST_F(WorldStopTest, TheFirstThreadHasEnded) {
  EXPECT_EQ(InChild([] {
              static Counters* counters;
              counters = new Counters(2);
              std::thread([] {
                // If the first thread has ended, it stays as a zombie until all others have ended.
                while (!ThreadStatusField(getpid(), "State").starts_with('Z')) sched_yield();
                size_t n = 0;
                bool has_first = false;
                const StopResult result = Stop([&](const WorldStop& world) {
                  n = world.num_threads;
                  has_first = Find(world, world.process_id) != nullptr;
                });
                if (result.outcome != StopOutcome::kDone) {
                  _exit(10 + static_cast<int>(result.outcome));
                }
                counters->AwaitCount();
                _exit(n != 3 || has_first ? 2 : 0);
              }).detach();
              // This does not call pthread_exit, because callers would catch the unwinding.
              syscall(SYS_exit, 0);
              return 100;
            }),
            0);
}

}  // namespace
}  // namespace tcmalloc
