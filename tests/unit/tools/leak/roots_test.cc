// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the roots of this process. Its malloc is that of the C library, and the heap that is
// checked serves the tc_ functions.
#include "tools/leak/roots.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <barrier>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "entry/tc_names.h"
#include "heap/heap.h"
#include "testing/sanitizers.h"

namespace tcmalloc {
namespace {

uintptr_t AddressOf(const volatile void* p) { return reinterpret_cast<uintptr_t>(p); }

int something;
thread_local void* volatile in_thread = nullptr;

// The roots that Gather found.
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
    for (const RootRange& range : roots_.conditional()) {
      if (range.start <= address && address < range.end) {
        kinds += std::string(kinds.empty() ? "" : ", ") + "conditional";
      }
    }
    return kinds;
  }

  const Roots& roots() const { return roots_; }
  Roots& roots() { return roots_; }
  size_t num_threads() const { return num_threads_; }

 private:
  Roots roots_;
  size_t num_threads_ = 0;
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

// Gathered roots are no longer valid when the checker's own memory has taken the place of the
// program's.
TEST_F(RootsTest, OwnMemoryInPlaceOfProgramMemoryIsDetected) {
  const size_t page = static_cast<size_t>(getpagesize());
  void* const mapped =
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const memory = static_cast<char*>(mapped);
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

}  // namespace
}  // namespace tcmalloc
