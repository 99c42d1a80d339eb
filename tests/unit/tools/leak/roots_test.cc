// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the roots of this process. Its malloc is that of the C library, and the heap that is
// checked serves the tc_ functions.
#include "tools/leak/roots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
  explicit Found(RegisteredRoots& registered) : roots_(ExistingHeap()) {
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

  const Roots& roots() const { return roots_; }
  Roots& roots() { return roots_; }
  size_t num_threads() const { return num_threads_; }

 private:
  __attribute__((no_sanitize("address"))) void Search(uintptr_t start, uintptr_t end) {
    for (uintptr_t at = (start + sizeof(uintptr_t) - 1) & ~(sizeof(uintptr_t) - 1);
         at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
      const uintptr_t word = *reinterpret_cast<const volatile uintptr_t*>(at);
      if (word < 4096) continue;
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
}

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
// The C library keeps the stacks of ended threads for new ones.
TEST_F(RootsTest, StacksOfEndedThreads) {
  constexpr size_t kThreads = 3;  // the C library keeps the stacks of a few
  constexpr size_t kLive = 1;
  std::vector<void* volatile*> on_stack(kThreads);
  std::vector<void* volatile*> in_storage(kThreads);
  const auto run = [&](size_t i) {
    void* volatile mine = &something;
    on_stack[i] = &mine;
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
      EXPECT_EQ(found.KindsAt(on_stack[i]), "") << i;
      EXPECT_EQ(found.KindsAt(in_storage[i]), "") << i;
    }
    EXPECT_EQ(found.KindsAt(in_storage[kLive]), "stack");
  }
  end.arrive_and_wait();
  threads[kLive].join();
}
#endif

}  // namespace
}  // namespace tcmalloc
