// SPDX-License-Identifier: BSD-3-Clause
#include "tools/world_stop/world_stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "base/tuning.h"
#include "testing/in_child.h"
#include "testing/refuse_call.h"
#include "testing/sanitizers.h"
#include "testing/thread_state.h"
#include "tools/world_stop/memory_reader.h"

namespace tcmalloc {
namespace {

using Function = std::function<void(const WorldStop&)>;

StopResult StopOnce(VirtualMemory& vm, const Function& function, int64_t patience_ms) {
  return WithWorldStopped(
      vm,
      [](void* context, const WorldStop& world) {
        (*static_cast<const Function*>(context))(world);
      },
      const_cast<Function*>(&function), patience_ms);
}

// Tries again, as callers do: on a busy machine a thread may sleep in the kernel for longer than an
// attempt waits.
StopResult Stop(VirtualMemory& vm, const Function& function,
                int64_t patience_ms = kTuning.leak_check.runnable_patience_ms) {
  constexpr int kMostAttempts = 50;
  StopResult result;
  for (int i = 0; i < kMostAttempts; ++i) {
    result = StopOnce(vm, function, patience_ms);
    if (result.outcome != StopOutcome::kNotInTime) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return result;
}

StopResult Stop(const Function& function,
                int64_t patience_ms = kTuning.leak_check.runnable_patience_ms) {
  SystemVirtualMemory vm;
  return Stop(vm, function, patience_ms);
}

StopResult RunUnstopped(const Function& function) {
  SystemVirtualMemory vm;
  return WithCallerOnly(
      vm,
      [](void* context, const WorldStop& world) {
        (*static_cast<const Function*>(context))(world);
      },
      const_cast<Function*>(&function));
}

void WriteNowhere() {
  volatile int* volatile nowhere = reinterpret_cast<int*>(16);
  *nowhere = 1;
}

int ThreadId() { return static_cast<int>(syscall(SYS_gettid)); }

// Waits without functions of the C library, because a stopped thread may be in one of them.
void Pass(int64_t microseconds) {
  const auto now = [] {
    timespec time = {};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
  };
  for (const int64_t end = now() + microseconds; now() < end;) sched_yield();
}

const StoppedThread* Find(const WorldStop& world, int id) {
  for (size_t i = 0; i < world.num_threads; ++i) {
    if (world.threads[i].thread_id == id) return &world.threads[i];
  }
  return nullptr;
}

bool Holds(const StoppedThread& thread, uintptr_t value) {
  return std::count(thread.registers, thread.registers + thread.num_registers, value) > 0;
}

// Threads that count as fast as they can until the object is destroyed.
class Counters {
 public:
  explicit Counters(int n) : counters_(n), ids_(n) {
    for (int i = 0; i < n; ++i) {
      threads_.emplace_back([this, i] {
        ids_[i].store(ThreadId());
        while (!done_) counters_[i].fetch_add(1, std::memory_order_relaxed);
      });
    }
    for (std::atomic<int>& id : ids_) {
      while (id == 0) std::this_thread::yield();
    }
  }
  ~Counters() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  uint64_t Sum() const {
    uint64_t sum = 0;
    for (const std::atomic<uint64_t>& counter : counters_) sum += counter.load();
    return sum;
  }
  bool Moves() const {
    const uint64_t before = Sum();
    for (int i = 0; i < 10'000; ++i) {
      if (Sum() != before) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  const std::vector<std::atomic<int>>& ids() const { return ids_; }

 private:
  std::atomic<bool> done_{false};
  std::vector<std::atomic<uint64_t>> counters_;
  std::vector<std::atomic<int>> ids_;
  std::vector<std::thread> threads_;
};

size_t CountEntries(const char* directory) {
  DIR* const entries = opendir(directory);
  size_t n = 0;
  while (readdir(entries) != nullptr) ++n;
  closedir(entries);
  return n;
}

size_t CountMappedBytes() {
  FILE* const file = fopen("/proc/self/statm", "re");
  size_t pages = 0;
  EXPECT_EQ(fscanf(file, "%zu", &pages), 1);
  fclose(file);
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
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

TEST_F(WorldStopTest, AProcessWithOneThread) {
  int ran = 0;
  const pid_t self = getpid();
  pid_t task = 0;
  errno = 1234;
  const StopResult result = Stop([&](const WorldStop& world) {
    ++ran;
    ASSERT_EQ(world.num_threads, 1u);
    const StoppedThread& caller = world.threads[0];
    EXPECT_TRUE(caller.is_caller);
    EXPECT_TRUE(world.is_complete);
    EXPECT_EQ(world.process_id, self);
    task = getpid();
  });
  EXPECT_EQ(errno, 1234);
  EXPECT_EQ(result.outcome, StopOutcome::kDone);
  EXPECT_EQ(ran, 1);
  EXPECT_NE(task, self);
  EXPECT_GT(result.pause_ns, 0);
}

TEST_F(WorldStopTest, OtherThreadsAreStopped) {
  constexpr int kThreads = 4;
  Counters counters(kThreads);
  ASSERT_TRUE(counters.Moves());
  uint64_t before = 0;
  uint64_t after = 0;
  const int caller = ThreadId();
  const StopResult result = Stop([&](const WorldStop& world) {
    before = counters.Sum();
    Pass(20'000);
    after = counters.Sum();
    EXPECT_EQ(world.num_threads, size_t{kThreads} + 1);
    EXPECT_EQ(world.threads[0].thread_id, caller);
    for (const std::atomic<int>& id : counters.ids()) {
      const StoppedThread* const thread = Find(world, id);
      ASSERT_NE(thread, nullptr);
      EXPECT_FALSE(thread->is_caller);
    }
  });
  EXPECT_EQ(result.outcome, StopOutcome::kDone);
  EXPECT_EQ(before, after);
  EXPECT_GE(result.pause_ns, 20'000'000);
  EXPECT_TRUE(counters.Moves());
}

// Threads that do common things until they are told to end.
class Bustle {
 public:
  Bustle() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end_ = ends[0];
    write_end_ = ends[1];
    Start([this] { Work(); });
    Start([this] {  // blocks all signals
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      Work();
    });
    for (int i = 0; i < 2; ++i) {
      Start([this] {  // starts threads that start one more each
        while (!done_) {
          std::thread child([this] {
            Work(100);
            std::thread([this] { Work(100); }).join();
          });
          child.join();
        }
      });
    }
    Start([this] {  // starts threads that end at any time
      while (!done_) {
        ++running_;
        std::thread([this] {
          Work(50);
          --running_;
        }).detach();
        while (running_ > 20) std::this_thread::yield();
      }
    });
    for (int i = 0; i < 3; ++i) {  // each starts its successor and ends
      ++running_;
      std::thread([this] { Succeed(); }).detach();
    }
    Start([this] {
      while (!done_) {
        Work(10);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
    for (int i = 0; i < 2; ++i) {
      Start([this] {
        while (!done_) {
          const std::lock_guard<std::mutex> holder(mutex_);
          Work(10);
        }
      });
    }
    Start([this] {  // waits for a byte that comes at the end
      char byte;
      EXPECT_EQ(read(read_end_, &byte, 1), 1);
    });
    Start([this] {
      std::unique_lock<std::mutex> lock(end_mutex_);
      end_.wait(lock, [this] { return done_.load(); });
    });
  }
  ~Bustle() {
    {
      const std::lock_guard<std::mutex> holder(end_mutex_);
      done_ = true;
    }
    end_.notify_all();
    EXPECT_EQ(write(write_end_, "x", 1), 1);
    for (std::thread& thread : threads_) thread.join();
    while (running_ > 0) std::this_thread::yield();
    close(read_end_);
    close(write_end_);
  }

  // Counts the work of all threads, so that the test sees whether any thread works.
  uint64_t work() const { return work_.load(); }

 private:
  template <typename F>
  void Start(F f) {
    threads_.emplace_back(f);
  }
  void Work(int rounds = INT_MAX) {
    for (int i = 0; i < rounds && !done_; ++i) {
      for (int j = 0; j < 100; ++j) work_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void Succeed() {
    if (done_) {
      --running_;
      return;
    }
    Work(1);
    std::thread([this] { Succeed(); }).detach();
  }

  std::atomic<bool> done_{false};
  std::atomic<uint64_t> work_{0};
  // The number of detached threads. Decrementing it is their last access to this object.
  std::atomic<int> running_{0};
  int read_end_;
  int write_end_;
  std::mutex mutex_;
  std::mutex end_mutex_;
  std::condition_variable end_;
  std::vector<std::thread> threads_;
};

TEST_F(WorldStopTest, TwoHundredStopsOfBusyThreads) {
  int64_t longest_ns = 0;
  int64_t total_ns = 0;
  size_t most_threads = 0;
  {
    Bustle bustle;
    for (int i = 0; i < 200; ++i) {
      const uint64_t at_first = bustle.work();
      uint64_t before = 0;
      uint64_t after = 0;
      bool twice = false;
      bool without_stack = false;
      const StopResult result = Stop([&](const WorldStop& world) {
        before = bustle.work();
        Pass(500);
        after = bustle.work();
        for (size_t j = 0; j < world.num_threads; ++j) {
          twice |= Find(world, world.threads[j].thread_id) != &world.threads[j];
          without_stack |= world.threads[j].stack_pointer == 0;
        }
        most_threads = std::max(most_threads, world.num_threads);
      });
      ASSERT_EQ(result.outcome, StopOutcome::kDone) << result.error;
      ASSERT_EQ(before, after) << "in stop " << i;
      ASSERT_FALSE(twice);
      ASSERT_FALSE(without_stack);
      longest_ns = std::max(longest_ns, result.pause_ns);
      total_ns += result.pause_ns;
      while (bustle.work() == at_first) std::this_thread::yield();
    }
  }
  EXPECT_GE(most_threads, 11u);
  printf("up to %zu threads: %.2f ms on average, %.2f at most\n", most_threads,
         static_cast<double>(total_ns) / 200e6, static_cast<double>(longest_ns) / 1e6);
}

// A read of the thread list is cut off at a thread that ends meanwhile. A thread that the ended one
// started would come after it.
TEST_F(WorldStopTest, MissesNoThreadWhenThreadsStartTheirSuccessors) {
  constexpr int kChains = 8;
  constexpr int kStops = 2000;
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
  for (int i = 0; i < kChains; ++i) std::thread(succeed).detach();
  int missed = 0;
  StopResult result;
  for (int i = 0; i < kStops && result.outcome == StopOutcome::kDone; ++i) {
    result = Stop([&](const WorldStop&) {
      const uint64_t before = links;
      Pass(200);
      if (links != before) ++missed;
    });
  }
  done = true;
  while (chains > 0) std::this_thread::yield();
  EXPECT_EQ(result.outcome, StopOutcome::kDone) << result.error;
  EXPECT_EQ(missed, 0);
}

TEST_F(WorldStopTest, LeavesTheProcessUnchanged) {
  Counters counters(2);
  const auto stop = [] { return Stop([](const WorldStop&) {}).outcome; };
  ASSERT_EQ(stop(), StopOutcome::kDone);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  // Calls these functions once before counting, because the C library's heap may grow for them.
  CountEntries("/proc/self/task");
  CountMappedBytes();
  const size_t files = CountEntries("/proc/self/fd");
  const size_t mapped = CountMappedBytes();
  const size_t tasks = CountEntries("/proc/self/task");
  for (int i = 0; i < 50; ++i) ASSERT_EQ(stop(), StopOutcome::kDone);
  EXPECT_EQ(CountEntries("/proc/self/fd"), files);
  EXPECT_EQ(CountEntries("/proc/self/task"), tasks);
  EXPECT_EQ(CountMappedBytes(), mapped);
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  }
}

// ---- The data of a thread.

TEST_F(WorldStopTest, StackAndThreadPointer) {
  std::atomic<bool> done{false};
  std::atomic<int> id{0};
  uintptr_t stack_start = 0;
  uintptr_t stack_end = 0;
  uintptr_t self = 0;
  thread_local int own_variable = 0;
  uintptr_t variable = 0;
  std::thread thread([&] {
    pthread_attr_t attributes;
    void* start;
    size_t bytes;
    ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    ASSERT_EQ(pthread_attr_getstack(&attributes, &start, &bytes), 0);
    pthread_attr_destroy(&attributes);
    stack_start = reinterpret_cast<uintptr_t>(start);
    stack_end = stack_start + bytes;
    self = static_cast<uintptr_t>(pthread_self());
    variable = reinterpret_cast<uintptr_t>(&own_variable);
    id = ThreadId();
    while (!done) sched_yield();
  });
  while (id == 0) sched_yield();
  StoppedThread other;
  StoppedThread caller;
  EXPECT_EQ(Stop([&](const WorldStop& world) {
              other = *Find(world, id);
              caller = world.threads[0];
            }).outcome,
            StopOutcome::kDone);
  done = true;
  thread.join();
  EXPECT_GE(other.stack_pointer, stack_start);
  EXPECT_LT(other.stack_pointer, stack_end);
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  EXPECT_LT(caller.stack_pointer, here);
  EXPECT_GT(caller.stack_pointer, here - 65536);
  // Thread-local storage has the same distance from the thread pointer in each thread.
  EXPECT_EQ(other.thread_pointer - variable,
            caller.thread_pointer - reinterpret_cast<uintptr_t>(&own_variable));
#if defined(__x86_64__) || defined(__i386__)
  EXPECT_EQ(other.thread_pointer, self);
  EXPECT_EQ(caller.thread_pointer, static_cast<uintptr_t>(pthread_self()));
#endif
}

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
// True if a word of the stack from `start` to `end` equals `secret`. AddressSanitizer forbids reads
// between variables.
__attribute__((no_sanitize("address"))) bool StackHolds(uintptr_t start, uintptr_t end,
                                                        uintptr_t secret) {
  for (uintptr_t at = start; at < end; at += sizeof(uintptr_t)) {
    if (*reinterpret_cast<const volatile uintptr_t*>(at) == secret) return true;
  }
  return false;
}

// Only a register holds `Secret(n)` while a thread is in Hold.
uintptr_t Secret(uintptr_t n) { return n * static_cast<uintptr_t>(0x9e3779b97f4a7c15); }

#if defined(__aarch64__)
// Loops with the secret in a callee-saved register, until `*done`.
TC_OUT_OF_LINE void HoldInRegister(uintptr_t n, std::atomic<int>* begun, std::atomic<int>* done) {
  asm volatile(
      "ldr x19, =0x9e3779b97f4a7c15\n\t"
      "mul x19, x19, %[n]\n\t"
      "mov w9, #1\n\t"
      "str w9, [%[begun]]\n\t"
      "1: ldr w9, [%[done]]\n\t"
      "cbz w9, 1b\n\t"
      "mov x19, xzr\n\t"
      :
      : [n] "r"(n), [begun] "r"(begun), [done] "r"(done)
      : "x9", "x19", "memory");
}

// As HoldInRegister, with a vector register.
TC_OUT_OF_LINE void HoldInVector(uintptr_t n, std::atomic<int>* begun, std::atomic<int>* done) {
  asm volatile(
      "ldr x9, =0x9e3779b97f4a7c15\n\t"
      "mul x9, x9, %[n]\n\t"
      "fmov d5, x9\n\t"
      "mov w9, #1\n\t"
      "str w9, [%[begun]]\n\t"
      "1: ldr w9, [%[done]]\n\t"
      "cbz w9, 1b\n\t"
      :
      : [n] "r"(n), [begun] "r"(begun), [done] "r"(done)
      : "x9", "v5", "memory");
}
#else
// Loops with the secret in a callee-saved register, until `*done`.
TC_OUT_OF_LINE void HoldInRegister(uintptr_t n, std::atomic<int>* begun, std::atomic<int>* done) {
  asm volatile(
#if defined(__x86_64__)
      "mov $0x9e3779b97f4a7c15, %%rbx\n\t"
      "imul %[n], %%rbx\n\t"
#else
      "push %%ebx\n\t"
      "mov $0x7f4a7c15, %%ebx\n\t"
      "imul %[n], %%ebx\n\t"
#endif
      "movl $1, (%[begun])\n\t"
      "1: pause\n\t"
      "cmpl $0, (%[done])\n\t"
      "je 1b\n\t"
#if defined(__x86_64__)
      "xor %%ebx, %%ebx\n\t"
      :
      : [n] "r"(n), [begun] "r"(begun), [done] "r"(done)
      : "rbx", "memory");
#else
      "pop %%ebx\n\t"
      :
      : [n] "a"(n), [begun] "S"(begun), [done] "D"(done)
      : "memory");
#endif
}

// As HoldInRegister, with a vector register.
TC_OUT_OF_LINE void HoldInVector(uintptr_t n, std::atomic<int>* begun, std::atomic<int>* done) {
  asm volatile(
#if defined(__x86_64__)
      "mov $0x9e3779b97f4a7c15, %%rax\n\t"
      "imul %[n], %%rax\n\t"
      "movq %%rax, %%xmm5\n\t"
#else
      "mov $0x7f4a7c15, %%eax\n\t"
      "imul %[n], %%eax\n\t"
      "movd %%eax, %%xmm5\n\t"
#endif
      "xor %%eax, %%eax\n\t"
      "movl $1, (%[begun])\n\t"
      "1: pause\n\t"
      "cmpl $0, (%[done])\n\t"
      "je 1b\n\t"
      :
      : [n] "r"(n), [begun] "r"(begun), [done] "r"(done)
#if defined(__x86_64__)
      : "rax", "xmm5", "memory");
#else
      : "eax", "memory");  // the compiler uses no vector registers here
#endif
}
#endif

TEST_F(WorldStopTest, ReadsRegistersOfStoppedThreads) {
  for (auto* const hold : {&HoldInRegister, &HoldInVector}) {
    for (uintptr_t n = 3; n < 6; ++n) {
      std::atomic<int> begun{0};
      std::atomic<int> done{0};
      std::atomic<int> id{0};
      std::thread thread([&] {
        id = ThreadId();
        hold(n, &begun, &done);
      });
      while (begun == 0) sched_yield();
      bool held = false;
      bool in_stack = false;
      size_t num_registers = 0;
      EXPECT_EQ(Stop([&](const WorldStop& world) {
                  const StoppedThread& other = *Find(world, id);
                  held = Holds(other, Secret(n));
                  num_registers = other.num_registers;
                  in_stack = StackHolds(other.stack_pointer,
                                        other.stack_pointer + 64 * sizeof(uintptr_t), Secret(n));
                }).outcome,
                StopOutcome::kDone);
      done = 1;
      thread.join();
      EXPECT_TRUE(held);
      EXPECT_FALSE(in_stack);
      // There are 16 or 32 vector registers of 16 bytes, and all general registers.
      EXPECT_GE(num_registers * sizeof(uintptr_t), 512u + 17 * sizeof(uintptr_t));
    }
  }
}
#endif

#if defined(__x86_64__)
// The values of the caller's own registers at its call are in the list or on its stack.
TEST_F(WorldStopTest, ReadsRegistersOfTheCaller) {
  bool held = false;
  const Function look = [&](const WorldStop& world) {
    const StoppedThread& caller = world.threads[0];
    held = Holds(caller, Secret(7)) ||
           StackHolds(caller.stack_pointer, reinterpret_cast<uintptr_t>(&held), Secret(7));
  };
  SystemVirtualMemory vm;
  struct Call {
    VirtualMemory* vm;
    const Function* look;
    StopOutcome outcome;
  } call = {&vm, &look, StopOutcome::kForbidden};
  void (*const make)(Call*) = [](Call* c) { c->outcome = Stop(*c->vm, *c->look).outcome; };
  asm volatile(
      "mov $0x9e3779b97f4a7c15, %%r14\n\t"
      "imul $7, %%r14, %%r14\n\t"
      "mov %%rsp, %%r12\n\t"
      "sub $256, %%rsp\n\t"
      "and $-64, %%rsp\n\t"
      "call *%[make]\n\t"
      "mov %%r12, %%rsp\n\t"
      "xor %%r14d, %%r14d"
      :
      : [make] "b"(make), "D"(&call)
      : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r14", "memory", "cc");
  EXPECT_EQ(call.outcome, StopOutcome::kDone);
  EXPECT_TRUE(held);
}
#endif

TEST_F(WorldStopTest, WithCallerOnlyKnowsTheCaller) {
  Counters counters(1);
  int ran = 0;
  const int self = ThreadId();
  const StopResult result = RunUnstopped([&](const WorldStop& world) {
    ++ran;
    EXPECT_EQ(world.num_threads, 1u);
    EXPECT_FALSE(world.is_complete);
    EXPECT_TRUE(world.threads[0].is_caller);
    EXPECT_EQ(world.threads[0].thread_id, self);
    EXPECT_NE(world.threads[0].thread_pointer, 0u);
    EXPECT_TRUE(counters.Moves());
  });
  EXPECT_EQ(result.outcome, StopOutcome::kDone);
  EXPECT_EQ(ran, 1);
}

TEST_F(WorldStopTest, WithCallerOnlyAFaultEndsOnlyTheTask) {
  Counters counters(1);
  const StopResult result = RunUnstopped([](const WorldStop&) { WriteNowhere(); });
  EXPECT_EQ(result.outcome, StopOutcome::kTaskDied);
  EXPECT_EQ(result.error, SIGSEGV);
  EXPECT_TRUE(counters.Moves());
}

// ---- Threads notice nothing.

TEST_F(WorldStopTest, SystemCallsContinue) {
  using Clock = std::chrono::steady_clock;
  int ends[2];
  int sockets[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  uint32_t word = 0;
  std::atomic<int> waiting{0};
  std::atomic<int> returned{0};
  std::vector<std::thread> threads;
  constexpr auto kLong = std::chrono::milliseconds(2500);
  const timespec long_time = {2, 500'000'000};
  std::atomic<Clock::time_point> last_stop{Clock::now()};
  const Clock::time_point begin = Clock::now();
  const auto start = [&](const char* what, const std::function<long()>& call, long expected) {
    threads.emplace_back([&, what, call, expected] {
      ++waiting;
      const Clock::time_point called = Clock::now();
      errno = 0;
      EXPECT_EQ(call(), expected) << what << ": " << strerror(errno);
      ++returned;
      // These calls wait for a fixed time. A stop neither shortens it nor starts it again.
      const std::string name = what;
      if (name.find("sleep") == std::string::npos && name.find("poll") == std::string::npos) return;
      EXPECT_GE(Clock::now() - called, kLong) << what;
      EXPECT_LT(Clock::now(), last_stop.load() + kLong) << what;
    });
  };
  start("nanosleep", [&] { return nanosleep(&long_time, nullptr); }, 0);
  start(
      "clock_nanosleep", [&] { return clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, nullptr); },
      0);
  start("poll", [&] { return poll(nullptr, 0, 2500); }, 0);
  start("ppoll", [&] { return ppoll(nullptr, 0, &long_time, nullptr); }, 0);
  // (The word may have changed before a stopped thread continues to wait.)
  start(
      "futex",
      [&] {
        const long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
        return result != 0 && errno == EAGAIN ? 0 : result;
      },
      0);
  start(
      "read",
      [&] {
        char byte;
        return read(ends[0], &byte, 1);
      },
      1);
  start(
      "recv",
      [&] {
        char byte;
        return recv(sockets[0], &byte, 1, 0);
      },
      1);
  start("sem_wait", [&] { return sem_wait(&semaphore); }, 0);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  start(
      "waitpid",
      [&] {
        int status;
        return waitpid(child, &status, 0) == child ? 0 : -1;
      },
      0);
  while (waiting < static_cast<int>(threads.size())) sched_yield();
  int stops = 0;
  for (; Clock::now() < begin + kLong / 2; ++stops) {
    last_stop = Clock::now();
    ASSERT_EQ(Stop([](const WorldStop&) { Pass(200); }).outcome, StopOutcome::kDone);
  }
  EXPECT_EQ(returned, 0) << "after " << stops << " stops";
  EXPECT_GE(stops, 3);
  EXPECT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(send(sockets[1], "x", 1, 0), 1);
  sem_post(&semaphore);
  __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
  kill(child, SIGKILL);
  for (std::thread& thread : threads) thread.join();
  for (const int fd : {ends[0], ends[1], sockets[0], sockets[1]}) close(fd);
  sem_destroy(&semaphore);
}

thread_local volatile uint64_t handled = 0;

// Threads signal themselves all the time, so that some are about to receive a signal.
TEST_F(WorldStopTest, NoSignalIsLost) {
  const int signal = SIGRTMIN + 3;
  struct sigaction action = {};
  struct sigaction before;
  action.sa_handler = [](int) { handled = handled + 1; };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(signal, &action, &before), 0);
  constexpr size_t kThreads = 3;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> counts[kThreads] = {};
  std::vector<std::thread> threads;
  for (std::atomic<uint64_t>& count : counts) {
    threads.emplace_back([&] {
      uint64_t sent = 0;
      for (; !done; ++sent) {
        if (handled != sent) break;
        syscall(SYS_tgkill, getpid(), ThreadId(), signal);
        count = handled;
      }
      EXPECT_EQ(handled, sent);
      EXPECT_GT(sent, 0u);
    });
  }
  const auto sum = [&] { return counts[0] + counts[1] + counts[2]; };
  for (int i = 0; i < 500; ++i) {
    uint64_t before_pass = 0;
    uint64_t after_pass = 0;
    const uint64_t at_first = sum();
    ASSERT_EQ(Stop([&](const WorldStop&) {
                before_pass = sum();
                Pass(10);
                after_pass = sum();
              }).outcome,
              StopOutcome::kDone);
    EXPECT_EQ(before_pass, after_pass);
    for (int j = 0; j < 1000 && sum() == at_first; ++j) sched_yield();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  sigaction(signal, &before, nullptr);
}

TEST_F(WorldStopTest, AStoppedProcessContinuesAtSigcont) {
  const pid_t child = fork();
  if (child == 0) {
    Counters counters(2);
    for (int i = 0; i < 400; ++i) {
      if (Stop([](const WorldStop&) { Pass(100); }).outcome != StopOutcome::kDone) _exit(1);
    }
    _exit(counters.Moves() ? 0 : 2);
  }
  int stops = 0;
  int status = 0;
  for (;;) {
    usleep(2000);
    kill(child, SIGSTOP);
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    if (!WIFSTOPPED(status)) break;
    ++stops;
    kill(child, SIGCONT);
  }
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GT(stops, 3);
}

// Tasks of the kernel are listed as threads, but have no registers of the program.
TEST_F(WorldStopTest, IgnoresTasksOfIoUring) {
  io_uring_params parameters = {};
  parameters.flags = IORING_SETUP_SQPOLL;
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
  if (ring < 0) GTEST_SKIP() << "no io_uring: " << strerror(errno);
  ASSERT_EQ(CountEntries("/proc/self/task"), 4u);  // with "." and ".."
  Counters counters(2);
  for (int i = 0; i < 10; ++i) {
    size_t found = 0;
    const StopResult result = Stop([&](const WorldStop& world) { found = world.num_threads; });
    EXPECT_EQ(result.outcome, StopOutcome::kDone) << result.error;
    EXPECT_EQ(found, 3u);
  }
  close(ring);
}

// ---- Where a stop is impossible.

// Runs in a child: tries a stop with two more threads, and checks the outcome, the errno, and that
// the threads continue. Returns 0 if all is as expected.
int Expect(StopOutcome outcome, int error) {
  Counters counters(2);
  bool ran = false;
  const StopResult result = Stop([&](const WorldStop&) { ran = true; });
  if (result.outcome != outcome) return 10 + static_cast<int>(result.outcome);
  if (result.error != error) return 30;
  if (ran) return 31;
  return counters.Moves() ? 0 : 32;
}

TEST_F(WorldStopTest, WherePtraceIsForbidden) {
  for (const int error : {EPERM, EACCES, ENOSYS}) {
    EXPECT_EQ(InChild([error] {
                if (!RefuseCall(SYS_ptrace, 0, static_cast<uint32_t>(error))) return 100;
                return Expect(StopOutcome::kForbidden, error);
              }),
              0)
        << error;
  }
}

TEST_F(WorldStopTest, AProcessThatIsNotDumpable) {
  EXPECT_EQ(InChild([] {
              // Root may attach to any process, so the child gives up being root.
              if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 100;
              if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 101;
              if (const int wrong = Expect(StopOutcome::kForbidden, EPERM)) return wrong;
              // The library does not change the flag without the program's knowledge.
              if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) return 102;
              if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return 103;
              return Stop([](const WorldStop&) {}).outcome == StopOutcome::kDone ? 0 : 104;
            }),
            0);
}

TEST_F(WorldStopTest, UnderADebugger) {
  int ends[2];
  int begun[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(begun, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    if (IsTraced() || write(begun[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1) _exit(100);
    if (!IsTraced()) _exit(101);
    _exit(Expect(StopOutcome::kTraced, EPERM));
  }
  char byte;
  ASSERT_EQ(read(begun[0], &byte, 1), 1);
  ASSERT_EQ(ptrace(PTRACE_SEIZE, child, nullptr, nullptr), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  int status = 0;
  do {
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSTOPPED(status)) ptrace(PTRACE_CONT, child, nullptr, nullptr);
  } while (WIFSTOPPED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const int fd : {ends[0], ends[1], begun[0], begun[1]}) close(fd);
}

// A debugger is attached to one thread only, and not to the caller.
TEST_F(WorldStopTest, OneThreadHasADebugger) {
  int ends[2];
  int ids[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(ids, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    Counters counters(3);
    const int id = counters.ids()[1];
    char byte;
    if (write(ids[1], &id, sizeof(id)) != sizeof(id) || read(ends[0], &byte, 1) != 1) _exit(100);
    if (IsTraced()) _exit(101);
    const StopResult result = Stop([](const WorldStop&) { _exit(102); });
    if (result.outcome != StopOutcome::kTraced || result.error != EPERM) _exit(103);
    if (!counters.Moves()) _exit(104);
    if (write(ids[1], &id, sizeof(id)) != sizeof(id) || read(ends[0], &byte, 1) != 1) _exit(105);
    if (Stop([](const WorldStop&) {}).outcome != StopOutcome::kDone) _exit(106);
    _exit(0);
  }
  int id = 0;
  ASSERT_EQ(read(ids[0], &id, sizeof(id)), ssize_t{sizeof(id)});
  ASSERT_EQ(ptrace(PTRACE_SEIZE, id, nullptr, nullptr), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  // The child may fail and then writes nothing more.
  struct pollfd answer = {ids[0], POLLIN, 0};
  if (poll(&answer, 1, 20'000) == 1 && read(ids[0], &id, sizeof(id)) == sizeof(id)) {
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, id, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(id, nullptr, __WALL), id);
    ASSERT_EQ(ptrace(PTRACE_DETACH, id, nullptr, nullptr), 0);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const int fd : {ends[0], ends[1], ids[0], ids[1]}) close(fd);
}

TEST_F(WorldStopTest, WithoutProc) {
  if (getuid() != 0) GTEST_SKIP() << "only root may change its root directory";
  EXPECT_EQ(InChild([] {
              char directory[] = "/tmp/world_stop_test.XXXXXX";
              if (mkdtemp(directory) == nullptr || chroot(directory) != 0) return 100;
              const int wrong = Expect(StopOutcome::kNoThreadList, ENOENT);
              rmdir("/");
              return wrong;
            }),
            0);
}

// Has memory for a limited number of calls of Map.
class ScarceMemory final : public VirtualMemory {
 public:
  explicit ScarceMemory(int left) : left_(left) {}
  Mapping Map(size_t bytes, size_t alignment) override {
    return left_-- > 0 ? vm_.Map(bytes, alignment) : Mapping();
  }
  bool Unmap(void* start, size_t bytes) override { return vm_.Unmap(start, bytes); }
  bool Release(void* start, size_t bytes) override { return vm_.Release(start, bytes); }
  void AdviseHugepages(void*, size_t, bool) override {}
  bool Populate(void*, size_t) override { return false; }
  bool MayMove(const void*, size_t) override { return false; }
  bool Move(void*, size_t, void*, size_t) override { return false; }
  size_t hardware_page_size() const override { return vm_.hardware_page_size(); }

 private:
  SystemVirtualMemory vm_;
  int left_;
};

TEST_F(WorldStopTest, WithoutMemory) {
  Counters counters(2);
  int failures = 0;
  for (int left = 0;; ++left) {
    ScarceMemory vm(left);
    bool ran = false;
    const StopResult result = Stop(vm, [&](const WorldStop&) { ran = true; });
    EXPECT_TRUE(counters.Moves());
    if (result.outcome == StopOutcome::kDone) {
      EXPECT_TRUE(ran);
      break;
    }
    ++failures;
    EXPECT_FALSE(ran);
    EXPECT_EQ(result.outcome, StopOutcome::kNoMemory);
    EXPECT_EQ(result.error, ENOMEM);
  }
  // A stop allocates its stack and three tables.
  EXPECT_GE(failures, 4);
}

TEST_F(WorldStopTest, AThreadThatDoesNotStop) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Counters counters(1);
  std::atomic<int> id{0};
  // The parent of a vfork sleeps and reacts only to SIGKILL until the child has another address
  // space.
  struct Shared {
    int fd;
    std::atomic<bool> begun{false};
  } shared = {ends[0]};
  std::thread parent([&] {
    static char stack[65536] __attribute__((aligned(64)));
    id = ThreadId();
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
  const auto begin = std::chrono::steady_clock::now();
  const StopResult result =
      StopOnce(vm, [&](const WorldStop&) { ran = true; }, kTuning.leak_check.runnable_patience_ms);
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.outcome, StopOutcome::kNotInTime);
  EXPECT_EQ(result.error, ETIMEDOUT);
  EXPECT_EQ(result.thread_id, id);
  EXPECT_FALSE(ran);
  // The stop gives up after some 20 ms, not after the time that it waits for runnable threads.
  EXPECT_LT(elapsed, std::chrono::milliseconds(kTuning.leak_check.runnable_patience_ms / 2));
  EXPECT_TRUE(counters.Moves());
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  parent.join();
  EXPECT_EQ(Stop([&](const WorldStop&) { ran = true; }).outcome, StopOutcome::kDone);
  EXPECT_TRUE(ran);
  close(ends[0]);
  close(ends[1]);
}

// ---- Ends.

TEST_F(WorldStopTest, TheTaskDies) {
  EXPECT_EQ(InChild([] {
              const rlimit no_core = {0, 0};
              setrlimit(RLIMIT_CORE, &no_core);
              signal(SIGSEGV, [](int) { _exit(99); });
              Counters counters(3);
              const StopResult result = Stop([](const WorldStop&) { WriteNowhere(); });
              if (result.outcome != StopOutcome::kTaskDied) return 1;
              if (result.error != SIGSEGV) return 2;
              if (!counters.Moves()) return 3;
              struct sigaction action;
              if (sigaction(SIGSEGV, nullptr, &action) != 0) return 5;
              if (action.sa_handler == SIG_DFL) return 6;
              return Stop([](const WorldStop&) {}).outcome == StopOutcome::kDone ? 0 : 4;
            }),
            0);
}

// The task must not end by a signal: before Linux 5.16 a signal that dumps core ends the process,
// too. A thread that waits for any child gets the task's status if it is faster than the caller.
TEST_F(WorldStopTest, NoSignalEndsTheTask) {
  struct Case {
    void (*fault)();
    int signal;
  };
  const Case cases[] = {
      {&WriteNowhere, SIGSEGV},
#if defined(__aarch64__)
      {[] { __builtin_trap(); }, SIGTRAP},
#else
      {[] { __builtin_trap(); }, SIGILL},
#endif
      {[] { syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGBUS); }, SIGBUS},
      {[] { syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGSYS); }, SIGSYS},
      {[] { syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGFPE); }, SIGFPE},
      {[] { syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), SIGABRT); }, SIGABRT},
  };
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::atomic<bool> done{false};
  std::atomic<int> exited{0};
  std::atomic<int> killed{0};
  std::thread waiter([&] {
    while (!done) {
      int status = 0;
      if (waitpid(-1, &status, __WALL) <= 0 || done) continue;
      ++(WIFEXITED(status) ? exited : killed);
    }
  });
  for (const Case& c : cases) {
    for (int i = 0; i < 20; ++i) {
      const StopResult result = Stop([&c](const WorldStop&) { c.fault(); });
      EXPECT_EQ(result.outcome, StopOutcome::kTaskDied);
      EXPECT_EQ(result.error, c.signal);
    }
  }
  done = true;
  kill(child, SIGKILL);
  waiter.join();
  EXPECT_GT(exited, 0);
  EXPECT_EQ(killed, 0);
}

__attribute__((noinline)) uintptr_t Overflow(uintptr_t n) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(n);
  return n == UINTPTR_MAX ? 0 : Overflow(n + 1) + static_cast<uintptr_t>(frame[0]);
}

TEST_F(WorldStopTest, TheTasksStackOverflows) {
  EXPECT_EQ(InChild([] {
              const rlimit no_core = {0, 0};
              setrlimit(RLIMIT_CORE, &no_core);
              Counters counters(2);
              const StopResult result = Stop([](const WorldStop&) { Overflow(0); });
              if (result.outcome != StopOutcome::kTaskDied) return 1;
              if (result.error != SIGSEGV) return 2;
              return counters.Moves() ? 0 : 3;
            }),
            0);
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
    for (int i = 0; i < 100; ++i) {
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
  EXPECT_EQ(RunUnstopped(look).outcome, StopOutcome::kDone);
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
      for (;;) Pass(1'000'000);
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
  struct pollfd end = {ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 20'000), 1) << "the task lives on";
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(WorldStopTest, TheProcessExitsMeanwhile) {
  for (int i = 0; i < 20; ++i) {
    const int wrong = InChild([i] {
      std::thread([i] {
        usleep(static_cast<useconds_t>(500 * i));
        _exit(7);
      }).detach();
      for (;;) Stop([](const WorldStop&) {});
      return 0;
    });
    EXPECT_EQ(wrong, 7);
  }
}

TEST_F(WorldStopTest, TheFirstThreadHasEnded) {
  EXPECT_EQ(InChild([] {
              static Counters* counters;
              counters = new Counters(2);
              std::thread([] {
                // If the first thread has ended, it stays as a zombie until all others have ended.
                while (!ThreadStatusField(getpid(), "State").starts_with('Z')) sched_yield();
                for (int i = 0; i < 20; ++i) {
                  size_t n = 0;
                  bool has_first = false;
                  const StopResult result = Stop([&](const WorldStop& world) {
                    n = world.num_threads;
                    has_first = Find(world, world.process_id) != nullptr;
                  });
                  if (result.outcome != StopOutcome::kDone) {
                    _exit(10 + static_cast<int>(result.outcome));
                  }
                  if (n != 3 || has_first) _exit(2);
                }
                _exit(counters->Moves() ? 0 : 3);
              }).detach();
              // This does not call pthread_exit, because callers would catch the unwinding.
              syscall(SYS_exit, 0);
              return 100;
            }),
            0);
}

TEST_F(WorldStopTest, InAForkedChild) {
  Counters counters(2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(InChild([] {
                size_t n = 0;
                Counters own(3);
                const StopResult result =
                    Stop([&](const WorldStop& world) { n = world.num_threads; });
                if (result.outcome != StopOutcome::kDone) return 1;
                return n == 4 && own.Moves() ? 0 : 2;
              }),
              0);
    EXPECT_EQ(Stop([](const WorldStop&) {}).outcome, StopOutcome::kDone);
  }
}

// A program may have a thread that waits for any child of any kind. That thread may get the task's
// status instead of the caller.
TEST_F(WorldStopTest, AnotherThreadWaitsForAnyChild) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  std::thread waiter([child] {
    for (pid_t ended = 0; ended != child;) ended = waitpid(-1, nullptr, __WALL);
  });
  for (int i = 0; i < 100; ++i) {
    int ran = 0;
    EXPECT_EQ(Stop([&](const WorldStop&) { ++ran; }).outcome, StopOutcome::kDone);
    EXPECT_EQ(ran, 1);
  }
  kill(child, SIGKILL);
  waiter.join();
}

TEST_F(WorldStopTest, ManyThreads) {
  for (const int n : {0, 100, 300}) {
    std::atomic<bool> done{false};
    std::atomic<int> running{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < n; ++i) {
      threads.emplace_back([&] {
        ++running;
        while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      });
    }
    while (running < n) sched_yield();
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < 10; ++i) {
      size_t found = 0;
      const StopResult result = Stop([&](const WorldStop& world) { found = world.num_threads; });
      EXPECT_EQ(result.outcome, StopOutcome::kDone);
      EXPECT_EQ(found, static_cast<size_t>(n) + 1);
      best_ns = std::min(best_ns, result.pause_ns);
    }
    printf("%d other threads: %.2f ms, at best\n", n, static_cast<double>(best_ns) / 1e6);
    done = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tcmalloc
