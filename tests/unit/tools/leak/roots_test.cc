// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the roots of this process. Its malloc is that of the C library, and the heap that is
// checked serves the tc_ functions.
#include "tools/leak/roots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "entry/tc_names.h"
#include "heap/heap.h"
#include "testing/sanitizers.h"
#include "tools/leak/os/backed_pages.h"

namespace tcmalloc {
namespace {

uintptr_t AddressOf(const volatile void* p) { return reinterpret_cast<uintptr_t>(p); }

// Several kinds of memory for the test's pointers.
int something;
void* volatile in_data = &something;
void* volatile in_bss;
thread_local void* volatile in_thread = nullptr;
// The only pointer to some memory.
void* volatile the_pointer;

// The roots that Gather found, and the memory that is reached from them.
class Found {
 public:
  explicit Found(RegisteredRoots& registered)
      : roots_(ExistingHeap()), words_(ExistingHeap().virtual_memory) {
    struct Call {
      Roots* roots;
      RegisteredRoots* registered;
      Roots::Outcome outcome;
      size_t num_threads;
    } call = {&roots_, &registered, Roots::Outcome::kNoMappings, 0};
    const StopResult result = WithWorldStopped(
        ExistingHeap().virtual_memory,
        [](void* context, const WorldStop& world) {
          Call& c = *static_cast<Call*>(context);
          c.outcome = c.roots->Gather(world, *c.registered);
          c.num_threads = world.num_threads;
        },
        &call);
    EXPECT_EQ(result.outcome, StopOutcome::kDone);
    EXPECT_EQ(call.outcome, Roots::Outcome::kDone);
    num_threads_ = call.num_threads;
    reached_.resize(roots_.conditional().size());
    for (const RootRange& range : roots_.always()) Search(range.start, range.end);
    BackedPages backed(ExistingHeap().virtual_memory.hardware_page_size());
    static_cast<void>(backed.Open());
    while (!waiting_.empty()) {
      const RootRange& range = roots_.conditional()[waiting_.back()];
      waiting_.pop_back();
      AddressRange rest = {range.start, range.end};
      for (AddressRange part; backed.TakeFirst(&rest, BackedPages::Want::kWritten, &part);) {
        Search(part.start, part.end);
      }
    }
    std::sort(words_.begin(), words_.end());
  }

  // The kinds of the ranges that contain the word at `place`.
  std::string KindsAt(const volatile void* place) const {
    const uintptr_t address = AddressOf(place);
    std::string kinds;
    for (const RootRange& range : roots_.always()) {
      if (range.start <= address && address + sizeof(void*) <= range.end) {
        const char* const kNames[] = {"data",          "stack", "thread data",
                                      "control block", "heap",  "registered"};
        const std::string name = kNames[static_cast<size_t>(range.kind)];
        if (kinds.find(name) == std::string::npos) kinds += (kinds.empty() ? "" : ", ") + name;
      }
    }
    for (size_t i = 0; i < roots_.conditional().size(); ++i) {
      const RootRange& range = roots_.conditional()[i];
      if (range.start <= address && address < range.end) {
        kinds += (kinds.empty() ? "" : ", ") + std::string(reached_[i] ? "reached" : "not reached");
      }
    }
    return kinds;
  }
  bool Searches(const volatile void* place) const {
    const std::string kinds = KindsAt(place);
    return !kinds.empty() && kinds != "not reached";
  }
  // True if this word is anywhere in the searched memory.
  bool HasWord(uintptr_t word) const {
    return std::binary_search(words_.begin(), words_.end(), word);
  }

  const Roots& roots() const { return roots_; }
  Roots& roots() { return roots_; }
  size_t num_threads() const { return num_threads_; }

 private:
  __attribute__((no_sanitize("address"))) void Search(uintptr_t start, uintptr_t end) {
    for (uintptr_t at = (start + sizeof(uintptr_t) - 1) & ~(sizeof(uintptr_t) - 1);
         at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
      const uintptr_t word = *reinterpret_cast<const volatile uintptr_t*>(at);
      if (word < 4096) continue;
      EXPECT_TRUE(words_.Push(word));
      const auto& ranges = roots_.conditional();
      const RootRange* const range =
          std::upper_bound(ranges.begin(), ranges.end(), word,
                           [](uintptr_t w, const RootRange& r) { return w < r.end; });
      if (range == ranges.end() || word < range->start) continue;
      const size_t i = static_cast<size_t>(range - ranges.begin());
      if (reached_[i]) continue;
      reached_[i] = true;
      waiting_.push_back(i);
    }
  }

  Roots roots_;
  size_t num_threads_ = 0;
  std::vector<bool> reached_;
  std::vector<size_t> waiting_;
  // This array lies in memory that is not searched.
  MappedArray<uintptr_t> words_;
};

// A thread that runs a function, and then waits until the object's end.
class ParkedThread {
 public:
  explicit ParkedThread(const std::function<void()>& begin)
      : thread_([this, begin] {
          begin();
          ready_.arrive_and_wait();
          end_.arrive_and_wait();
        }) {
    ready_.arrive_and_wait();
  }
  ~ParkedThread() {
    end_.arrive_and_wait();
    thread_.join();
  }

 private:
  std::barrier<> ready_{2};
  std::barrier<> end_{2};
  std::thread thread_;
};

class RootsTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if TESTED_WITH_TSAN
    GTEST_SKIP() << "ThreadSanitizer does not know the task that stops the threads";
#elif TESTED_WITH_ASAN
    GTEST_SKIP() << "AddressSanitizer's own memory, of terabytes, would be searched for minutes";
#endif
    if (IsTraced()) GTEST_SKIP() << "a debugger traces this process already";
  }

  RegisteredRoots registered_;
};

void* MapPages(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return memory;
}

TEST_F(RootsTest, DataOfTheProgram) {
  in_bss = &something;
  const Found found(registered_);
  EXPECT_EQ(found.KindsAt(&in_data), "data");
  EXPECT_EQ(found.KindsAt(&in_bss), "data");
}

TEST_F(RootsTest, DataOfALibrary) {
  // The C library is loaded at start. Its data has a pointer to the first environment variable.
  const Found before(registered_);
  EXPECT_EQ(before.KindsAt(dlsym(RTLD_DEFAULT, "environ")), "data");
  void* const plugin = dlopen(LEAK_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  const auto place = [plugin](const char* name) {
    using Function = void* volatile* (*)();
    return reinterpret_cast<Function>(dlsym(plugin, name))();
  };
  void* volatile* const data = place("PluginData");
  void* volatile* const zero_data = place("PluginZeroData");
  void* volatile* const table = place("PluginTable");
  *data = &something;
  *zero_data = &something;
  EXPECT_EQ(*table, nullptr);
  {
    // Unwritten pages of the file are not searched.
    const Found found(registered_);
    EXPECT_EQ(found.KindsAt(table), "");
    *table = &something;
  }
  {
    const Found found(registered_);
    EXPECT_EQ(found.KindsAt(data), "data");
    EXPECT_EQ(found.KindsAt(zero_data), "data");
    EXPECT_EQ(found.KindsAt(table), "data");
  }
  // Storage that a thread gets at its first use comes from the C library's malloc.
  void* volatile* own = place("PluginThreadData");
  void* volatile* other = nullptr;
  {
    const ParkedThread thread([&] {
      other = place("PluginThreadData");
      *other = &something;
    });
    *own = &something;
    const Found found(registered_);
    EXPECT_TRUE(found.Searches(own)) << found.KindsAt(own);
    EXPECT_TRUE(found.Searches(other)) << found.KindsAt(other);
    EXPECT_NE(own, other);
  }
  dlclose(plugin);
}

TEST_F(RootsTest, StacksAndThreadLocalStorage) {
  void* volatile on_stack = &something;
  in_thread = &something;
  void* volatile* other_on_stack = nullptr;
  void* volatile* other_in_thread = nullptr;
  std::barrier<> ready(2);
  std::barrier<> end(2);
  std::thread other([&] {
    void* volatile mine = &something;
    other_on_stack = &mine;
    other_in_thread = &in_thread;
    in_thread = &something;
    ready.arrive_and_wait();
    end.arrive_and_wait();
    EXPECT_EQ(mine, &something);
  });
  ready.arrive_and_wait();
  {
    const Found found(registered_);
    EXPECT_EQ(found.num_threads(), 2u);
    EXPECT_EQ(found.KindsAt(&on_stack), "stack");
    // (The mapping may have been joined to one of another kind.)
    EXPECT_NE(found.KindsAt(&in_thread).find("thread data"), std::string::npos);
    EXPECT_EQ(found.KindsAt(other_on_stack), "stack");
    EXPECT_EQ(found.KindsAt(other_in_thread), "stack");
  }
  end.arrive_and_wait();
  other.join();
}

// A thread runs a signal handler on an alternate stack. Both of its stacks are roots.
std::atomic<void* volatile*> in_handler{nullptr};
std::atomic<bool> handler_done{false};

TEST_F(RootsTest, SignalHandlerOnAnotherStack) {
  constexpr size_t kBytes = size_t{256} << 10;
  void* const alternate = MapPages(kBytes);
  struct sigaction action = {};
  struct sigaction before;
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) {
    void* volatile mine = &something;
    in_handler = &mine;
    while (!handler_done) sched_yield();
    static_cast<void>(mine);
  };
  ASSERT_EQ(sigaction(SIGUSR2, &action, &before), 0);
  in_handler = nullptr;
  handler_done = false;
  void* volatile* below = nullptr;
  std::thread thread([&] {
    void* volatile mine = &something;
    below = &mine;
    const stack_t stack = {.ss_sp = alternate, .ss_flags = 0, .ss_size = kBytes};
    EXPECT_EQ(sigaltstack(&stack, nullptr), 0);
    raise(SIGUSR2);
    EXPECT_EQ(mine, &something);
  });
  while (in_handler == nullptr) sched_yield();
  {
    const Found found(registered_);
    // (The mapping may have been joined to one of another kind.)
    EXPECT_NE(found.KindsAt(in_handler.load()).find("stack"), std::string::npos);
    EXPECT_NE(found.KindsAt(below).find("stack"), std::string::npos);
  }
  handler_done = true;
  thread.join();
  sigaction(SIGUSR2, &before, nullptr);
  munmap(alternate, kBytes);
}

// Gathered roots are no longer valid when the checker's own memory has taken the place of the
// program's.
TEST_F(RootsTest, OwnMemoryInPlaceOfProgramMemoryIsDetected) {
  const size_t page = static_cast<size_t>(getpagesize());
  char* const memory = static_cast<char*>(MapPages(3 * page));
  Found found(registered_);
  EXPECT_TRUE(found.roots().StillValid());
  AnonymousMemory& own = ExistingHeap().virtual_memory;
  own.mapped().Add(memory + page, page, own);
  EXPECT_FALSE(found.roots().StillValid());
  {
    Found again(registered_);
    EXPECT_TRUE(again.roots().StillValid());
  }
  own.mapped().Remove(memory + page, page, own);
  EXPECT_TRUE(found.roots().StillValid());
  munmap(memory, 3 * page);
}

TEST_F(RootsTest, ThreadThatRunsOnAnObject) {
  constexpr size_t kBytes = size_t{256} << 10;
  void* const stack = tc_aligned_alloc(4096, kBytes);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstack(&attributes, stack, kBytes), 0);
  struct Ends {
    std::barrier<> ready{2};
    std::barrier<> end{2};
  } ends;
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    static_cast<Ends*>(argument)->ready.arrive_and_wait();
    static_cast<Ends*>(argument)->end.arrive_and_wait();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &ends), 0);
  ends.ready.arrive_and_wait();
  {
    const Found found(registered_);
    ASSERT_EQ(found.roots().heap_stacks().size(), 1u);
    EXPECT_LT(found.roots().heap_stacks()[0] - AddressOf(stack), kBytes);
    EXPECT_EQ(found.KindsAt(stack), "");
  }
  ends.end.arrive_and_wait();
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  tc_free(stack);
}

TEST_F(RootsTest, TheProgramsOwnMappings) {
  constexpr size_t kBytes = size_t{1} << 20;
  // The three mappings are adjacent neither to each other nor to other mappings.
  char* const all = static_cast<char*>(MapPages(7 * kBytes));
  void** const with_pointer = reinterpret_cast<void**>(all + kBytes);
  void** const behind = reinterpret_cast<void**>(all + 3 * kBytes);
  void** const lost = reinterpret_cast<void**>(all + 5 * kBytes);
  for (size_t i = 0; i < 7; i += 2) mprotect(all + i * kBytes, kBytes, PROT_NONE);
  with_pointer[0] = &behind[100];
  behind[0] = &something;
  lost[0] = &something;
  the_pointer = with_pointer;
  // The test's own copies of the address must not be found as pointers, so it keeps a sum.
  const uintptr_t lost_and_one = AddressOf(lost) + 1;
  {
    const Found found(registered_);
    EXPECT_EQ(found.KindsAt(with_pointer), "reached");
    EXPECT_EQ(found.KindsAt(behind), "reached");
  }
  ASSERT_TRUE(registered_.Register(lost, 100, ExistingHeap().virtual_memory));
  {
    const Found found(registered_);
    EXPECT_EQ(found.KindsAt(lost).substr(0, 10), "registered");
    EXPECT_EQ(found.KindsAt(lost + 100 / sizeof(*lost)).find("registered"),
              std::string::npos);  // the registered range ends there
  }
  ASSERT_TRUE(registered_.Unregister(reinterpret_cast<void*>(lost_and_one - 1), 100));
  munmap(all, 7 * kBytes);
}

// Returns a complement, so that no word on this thread's stack is the address. Freed memory may
// contain an old pointer to a library, with up to three bytes overwritten by the end of a text.
// Such a word is not the address, either: the kernel places mappings next to the libraries, and 64
// MiB are further away than three bytes reach.
TC_OUT_OF_LINE uintptr_t MapLost() {
  constexpr size_t kBytes = size_t{64} << 20;
  char* const memory = static_cast<char*>(MapPages(kBytes));
  mprotect(memory, 1 << 20, PROT_NONE);
  mprotect(memory + (2 << 20), kBytes - (2 << 20), PROT_NONE);
  *reinterpret_cast<void**>(memory + (1 << 20)) = &something;
  return ~AddressOf(memory + (1 << 20));
}
TC_OUT_OF_LINE void WipeStack() {
  volatile char waste[size_t{128} << 10];
  for (volatile char& byte : waste) byte = 0;
}

// With 32 bits, in 2 of 1,000 runs a random number of the C library (the stack canary, mangled
// pointers) looks like an address of a mapping. So the test fails only if that happens to four
// mappings.
TEST_F(RootsTest, MappingWithoutAPointerIsNotReached) {
  std::string kinds;
  for (int i = 0; i < (sizeof(void*) == 4 ? 4 : 1) && kinds != "not reached"; ++i) {
    const uintptr_t not_address = MapLost();  // stays mapped: the next one is elsewhere
    WipeStack();
    const Found found(registered_);
    kinds = found.KindsAt(reinterpret_cast<void*>(~not_address));
  }
  EXPECT_EQ(kinds, "not reached");
}

// Objects of the C library's malloc lie in the data segment, in mappings of large objects, and in
// the arenas of other threads.
TEST_F(RootsTest, ObjectsOfTheCLibrary) {
  void** const large = static_cast<void**>(malloc(size_t{8} << 20));
  large[100] = &something;
  the_pointer = large;
  void** const small = static_cast<void**>(malloc(100));
  small[0] = &something;
  void** of_other = nullptr;
  {
    const ParkedThread thread([&] {
      of_other = static_cast<void**>(malloc(100));
      of_other[0] = &something;
    });
    const Found found(registered_);
    EXPECT_TRUE(found.Searches(small)) << found.KindsAt(small);
    EXPECT_TRUE(found.Searches(large + 100)) << found.KindsAt(large + 100);
    EXPECT_TRUE(found.Searches(of_other)) << found.KindsAt(of_other);
  }
  free(of_other);
  free(small);
  free(large);
}

// ---- Memory that is no root.

TEST_F(RootsTest, TheHeapsOwnMemory) {
  Heap& heap = ExistingHeap();
  // The places are in small and large objects, records, and an array for the list of mappings.
  std::vector<const void*> places;
  std::vector<void*> objects;
  for (size_t size = 16; size <= size_t{8} << 20; size *= 2) {
    void* const object = tc_malloc(size);
    memset(object, 1, size);
    objects.push_back(object);
    places.push_back(object);
    places.push_back(static_cast<const char*>(object) + size - sizeof(void*));
  }
  for (size_t bytes = 16; bytes <= MetadataArena::kMaxBytes; bytes *= 4) {
    void* const record = heap.arena.Allocate(bytes);
    memset(record, 1, bytes);
    places.push_back(record);
  }
  for (const void* const part :
       {static_cast<void*>(&global_page_map), static_cast<void*>(&heap.virtual_memory),
        static_cast<void*>(&heap.memory)}) {
    places.push_back(part);
  }
  const Found found(registered_);
  for (const void* const place : places) EXPECT_EQ(found.KindsAt(place), "") << place;
  MappedArray<AddressRange> own(heap.virtual_memory);
  ASSERT_EQ(CollectOwnMemory(heap, &own), Roots::Outcome::kDone);
  for (const AddressRange& range : own) {
    for (const RootRange& root : found.roots().always()) {
      EXPECT_TRUE(root.end <= range.start || range.end <= root.start);
    }
    for (const RootRange& root : found.roots().conditional()) {
      EXPECT_TRUE(root.end <= range.start || range.end <= root.start);
    }
  }
  for (void* const object : objects) tc_free(object);
  // Later tests must not find these addresses in free memory of the C library.
  std::fill(objects.begin(), objects.end(), nullptr);
  std::fill(places.begin(), places.end(), nullptr);
}

// Allocates objects and keeps only the complements of their addresses.
TC_OUT_OF_LINE void Allocate(size_t n, size_t size, std::vector<uintptr_t>* complements) {
  for (size_t i = 0; i < n; ++i) {
    void* const object = tc_malloc(size);
    memset(object, 0, size);
    complements->push_back(~AddressOf(object));
  }
}
TC_OUT_OF_LINE void Free(const std::vector<uintptr_t>& complements) {
  for (const uintptr_t complement : complements) tc_free(reinterpret_cast<void*>(~complement));
}

TEST_F(RootsTest, CachesAreNotSearched) {
  std::vector<uintptr_t> complements;
  for (const size_t size : {16, 64, 1000, 5000}) Allocate(2000, size, &complements);
  WipeStack();
  // A few addresses remain in old frames, but the arrays of a cache hold hundreds.
  constexpr int kStale = 16;
  const auto count = [&](const Found& found) {
    return std::count_if(complements.begin(), complements.end(),
                         [&](uintptr_t complement) { return found.HasWord(~complement); });
  };
  {
    const Found found(registered_);
    EXPECT_LE(count(found), kStale) << "of objects in use";
  }
  Free(complements);
  WipeStack();
  const Found found(registered_);
  EXPECT_LE(count(found), kStale) << "of free objects";
  // An address that is in searched memory is found.
  in_data = reinterpret_cast<void*>(~complements[0]);
  const Found found_again(registered_);
  EXPECT_TRUE(found_again.HasWord(~complements[0]));
  in_data = &something;
}

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
// Fills the memory below the caller's frame with a word, and returns the start of that memory.
constexpr size_t kFilled = 1500;
TC_OUT_OF_LINE void* volatile* FillStack(uintptr_t word) {
  void* volatile words[kFilled];
  for (void* volatile& place : words) place = reinterpret_cast<void*>(word);
  void* volatile* volatile start = words;
  return start;
}

// The C library keeps the stacks of ended threads for new ones.
TEST_F(RootsTest, StacksOfEndedThreads) {
  constexpr size_t kThreads = 3;  // the C library keeps the stacks of a few
  constexpr size_t kLive = 1;
  std::vector<void* volatile*> on_stack(kThreads);
  std::vector<void* volatile*> in_storage(kThreads);
  const uintptr_t secret = AddressOf(&something) + 0x1234567;
  const auto run = [&](size_t i) {
    on_stack[i] = FillStack(secret + 1 + i);
    in_thread = reinterpret_cast<void*>(secret + 100 + i);
    in_storage[i] = &in_thread;
  };
  // All threads run at once, so that none gets the stack of another. Then all end except one.
  std::barrier<> ready(kThreads + 1);
  std::barrier<> end(2);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      run(i);
      ready.arrive_and_wait();
      if (i == kLive) end.arrive_and_wait();
    });
  }
  ready.arrive_and_wait();
  for (size_t i = 0; i < kThreads; ++i) {
    if (i != kLive) threads[i].join();
  }
  {
    const Found found(registered_);
    EXPECT_EQ(found.num_threads(), 2u);
    for (size_t i = 0; i < kThreads; ++i) {
      if (i == kLive) continue;
      // Later calls have overwritten some of the words.
      void* volatile* const place =
          std::find(on_stack[i], on_stack[i] + kFilled, reinterpret_cast<void*>(secret + 1 + i));
      EXPECT_NE(place, on_stack[i] + kFilled) << i;
      EXPECT_EQ(found.KindsAt(place), "") << i;
      EXPECT_EQ(found.KindsAt(in_storage[i]), "") << i;
      EXPECT_FALSE(found.HasWord(secret + 1 + i)) << i;
      EXPECT_FALSE(found.HasWord(secret + 100 + i)) << i;
    }
    EXPECT_EQ(found.KindsAt(in_storage[kLive]), "stack");
    // Words that the thread's earlier calls have left below its stack pointer do not count.
    EXPECT_EQ(found.KindsAt(on_stack[kLive]), "");
  }
  end.arrive_and_wait();
  threads[kLive].join();
}
#endif

TEST_F(RootsTest, RepeatedGather) {
  Heap& heap = ExistingHeap();
  Roots roots(heap);
  size_t listed = 0;
  size_t found = 0;
  for (int i = 0; i < 30; ++i) {
    // Other threads might map memory meanwhile.
    void* const more = MapPages(size_t{1} << 20);
    struct Call {
      Roots& roots;
      RegisteredRoots& registered;
      Roots::Outcome outcome;
    } call = {roots, registered_, Roots::Outcome::kNoMappings};
    const auto function = [](void* context, const WorldStop& world) {
      Call& c = *static_cast<Call*>(context);
      c.outcome = c.roots.Gather(world, c.registered);
    };
    EXPECT_EQ(WithWorldStopped(heap.virtual_memory, function, &call).outcome, StopOutcome::kDone);
    EXPECT_EQ(call.outcome, Roots::Outcome::kDone);
    EXPECT_EQ(WithCallerOnly(heap.virtual_memory, function, &call).outcome, StopOutcome::kDone);
    EXPECT_EQ(call.outcome, Roots::Outcome::kDone);
    munmap(more, size_t{1} << 20);
    if (i == 5) {
      listed = heap.virtual_memory.mapped().size();
      found = roots.always().size() + roots.conditional().size();
    }
  }
  EXPECT_LE(roots.always().size() + roots.conditional().size(), 2 * found);
  EXPECT_LE(heap.virtual_memory.mapped().size(), listed + 4);
}

}  // namespace
}  // namespace tcmalloc
