// SPDX-License-Identifier: BSD-3-Clause
// A child searches for leaks in this process. After a search, freed memory of the searching process
// still contains the words that it read; in this process they would make leaked objects reachable.
#include "heap/leak_search.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heap/guarded_objects.h"
#include "heap/object_records.h"
#include "heap/sample_layout.h"
#include "heap/told_to_checker.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "image/mirror.h"
#include "image/stop.h"
#include "report/leak_report.h"
#include "tcmalloc/leak_checker.h"
#include "tcmalloc/tcmalloc.h"

extern "C" {
void* tc_malloc(size_t size);
int MallocExtension_SetNumericProperty(const char* name, size_t value);
}

namespace cli {
namespace {

constexpr uintptr_t kHidden = ~uintptr_t{0};

// Overwrites words that calls left on the stack, below this function's caller.
[[gnu::noinline]] void ClearStack() {
  volatile char stack[65536];
  for (size_t i = 0; i < sizeof(stack); ++i) stack[i] = 0;
}

[[gnu::noinline]] uintptr_t HiddenObject(size_t bytes) {
  return reinterpret_cast<uintptr_t>(tc_malloc(bytes)) ^ kHidden;
}

// An object to which no pointer exists: only the test knows its address, in another form.
class Hidden {
 public:
  [[gnu::noinline]] explicit Hidden(size_t bytes) : hidden_(HiddenObject(bytes)) { ClearStack(); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  [[gnu::noinline]] void* get() const { return reinterpret_cast<void*>(hidden_ ^ kHidden); }
  uintptr_t hidden() const { return hidden_; }

 private:
  const volatile uintptr_t hidden_;
};

void* volatile holder = nullptr;

[[gnu::noinline]] void StoreNow(const Hidden& object, const Hidden& pointer) {
  *static_cast<void**>(object.get()) = pointer.get();
}
[[gnu::noinline]] void Store(const Hidden& object, const Hidden& pointer) {
  StoreNow(object, pointer);
  ClearStack();
}
[[gnu::noinline]] void HoldNow(const Hidden& object, size_t offset) {
  holder = static_cast<char*>(object.get()) + offset;
}
[[gnu::noinline]] void Hold(const Hidden& object, size_t offset = 0) {
  HoldNow(object, offset);
  ClearStack();
}

// The child's report of a leaked object.
struct FoundLeak {
  uintptr_t hidden = 0;
  uint64_t bytes = 0;
  bool direct = false;
  uint64_t group_bytes = 0;
  size_t frames = 0;
};

struct Findings {
  bool failed = false;
  char error[200];
  size_t incomplete = 0;
  uint64_t objects_in_use = 0;
  size_t guards = 0;
  bool text_has_names = false;
  size_t size = 0;
  FoundLeak leaks[10'000];

  const FoundLeak* Of(const Hidden& object) const {
    const auto at = std::find_if(leaks, leaks + size, [&object](const FoundLeak& leak) {
      return leak.hidden == object.hidden();
    });
    return at == leaks + size ? nullptr : at;
  }
};

using Ranges = std::vector<std::pair<Address, Address>>;

void Describe(const LeakSearch& search, const std::vector<LeakGroup>& groups, Findings* findings) {
  findings->incomplete = search.incomplete.size();
  findings->objects_in_use = search.objects_in_use;
  for (const Leak& leak : search.leaks) {
    FoundLeak& found = findings->leaks[findings->size++];
    found = {.hidden = leak.start ^ kHidden, .bytes = leak.bytes, .direct = leak.direct};
    for (const LeakGroup& group : groups) {
      const auto& addresses = group.addresses;
      if (std::find(addresses.begin(), addresses.end(), leak.start) == addresses.end()) continue;
      found.group_bytes = group.bytes;
      found.frames = group.frames.size();
    }
  }
  const std::vector<SourceFrame> frames = {{.function = "Here"}};
  const std::string text = LeakGroupsText(
      groups, 1000, [&frames](Address) -> const std::vector<SourceFrame>& { return frames; });
  findings->text_has_names = text.find("allocated from\n    Here") != std::string::npos;
}

void SearchParent(pid_t parent, const LeakOptions& options, const Ranges& wanted,
                  Findings* findings) {
  try {
    LiveImage image(parent);
    const std::optional<Root> root = FindRoot(image);
    Mirror mirror(image, parent);
    mirror.Want(wanted);
    mirror.Prepare();
    {
      const StoppedThreads stopped(parent);
      mirror.SetThreads(stopped.ReadRegisters());
      mirror.Copy();
    }
    const Target target(mirror, *root);
    std::vector<Guard> guards;
    const LeakSearch search = FindLeaks(mirror, target, parent, true, options, &guards);
    findings->guards = guards.size();
    Describe(search, GroupLeaks(search, target), findings);
  } catch (const Failure& failure) {
    findings->failed = true;
    strncpy(findings->error, failure.what(), sizeof(findings->error) - 1);
  }
}

// While the parent is still in fork, registers and frames of the allocator's handlers may have the
// address of any object.
void AwaitThatItWaits(pid_t parent) {
  const std::string wait = std::to_string(SYS_wait4);
  for (std::string number; number != wait;) {
    std::ifstream("/proc/" + std::to_string(parent) + "/syscall") >> number;
  }
}

// The child writes its findings into shared memory, which a search does not scan.
class SearchByChild {
 public:
  explicit SearchByChild(const LeakOptions& options = {}, const Ranges& wanted = {}) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    void* const memory =
        mmap(nullptr, sizeof(Findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    found_ = new (memory) Findings;
    ClearStack();
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
      AwaitThatItWaits(parent);
      SearchParent(parent, options, wanted, found_);
      _exit(0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    EXPECT_EQ(status, 0);
  }
  ~SearchByChild() { munmap(found_, sizeof(Findings)); }
  SearchByChild(const SearchByChild&) = delete;
  SearchByChild& operator=(const SearchByChild&) = delete;

  const Findings* operator->() const { return found_; }
  // Returns the leak, or null if the object is reachable.
  const FoundLeak* Of(const Hidden& object) const {
    EXPECT_FALSE(found_->failed) << found_->error;
    return found_->Of(object);
  }

 private:
  Findings* found_;
};

TEST(LeakSearchTest, FindsWhatNothingLeadsTo) {
  const Hidden first(5000), second(5000), held(5000), ignored(5000);
  Store(first, second);
  Hold(held);
  tcmalloc_leaks_ignore(ignored.get());
  const SearchByChild search;
  ASSERT_FALSE(search->failed) << search->error;
  ASSERT_NE(search.Of(first), nullptr);
  EXPECT_TRUE(search.Of(first)->direct);
  EXPECT_GE(search.Of(first)->bytes, 5000u);
  ASSERT_NE(search.Of(second), nullptr);
  EXPECT_FALSE(search.Of(second)->direct) << "the first one leads to it";
  EXPECT_EQ(search.Of(held), nullptr);
  EXPECT_EQ(search.Of(ignored), nullptr);
  EXPECT_GE(search->objects_in_use, 4u);
  EXPECT_EQ(search->incomplete, 0u);
  EXPECT_GT(search->guards, 5u);
  tcmalloc_leaks_unignore(ignored.get());
  holder = nullptr;
}

TEST(LeakSearchTest, APointerFarIntoAnObjectCountsOnRequest) {
  const Hidden object(100'000);
  Hold(object, 50'000);
  EXPECT_NE(SearchByChild().Of(object), nullptr);
  EXPECT_EQ(SearchByChild({.max_pointer_offset = 100'000}).Of(object), nullptr);
  holder = nullptr;
}

TEST(LeakSearchTest, RegisteredRootsCountWhateverTheyAre) {
  const Hidden object(700);
  void* const shared =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Hold(object);
  static_cast<void* volatile*>(shared)[3] = holder;
  holder = nullptr;
  EXPECT_NE(SearchByChild().Of(object), nullptr);
  ASSERT_NE(tcmalloc_leaks_register_roots(shared, 4096), 0);
  const auto start = reinterpret_cast<Address>(shared);
  const SearchByChild search({}, {{start, start + 4096}});
  ASSERT_FALSE(search->failed) << search->error;
  EXPECT_EQ(search.Of(object), nullptr);
  EXPECT_TRUE(SearchByChild()->failed) << "it was not copied";
  LiveImage image(getpid());
  std::vector<Guard> guards;
  const ToldToChecker told = ReadToldToChecker(Target(image, *FindRoot(image)), &guards);
  ASSERT_EQ(told.roots.size(), 1u);
  EXPECT_EQ(told.roots[0].start, start);
  EXPECT_EQ(told.roots[0].end, start + 4096);
  EXPECT_EQ(guards.size(), 2u);
  tcmalloc_leaks_unregister_roots(shared, 4096);
  munmap(shared, 4096);
}

TEST(LeakSearchTest, SamplesNameTheCallSite) {
  tcmalloc_set_profile_sampling_interval(1);
  const Hidden object(3000);
  tcmalloc_set_profile_sampling_interval(0);
  const SearchByChild search;
  ASSERT_NE(search.Of(object), nullptr);
  EXPECT_GT(search.Of(object)->frames, 1u);
  EXPECT_EQ(search.Of(object)->group_bytes, 3000u);
  EXPECT_TRUE(search->text_has_names);
}

TEST(LeakSearchTest, GuardedObjectsAreObjects) {
  ASSERT_TRUE(MallocExtension_SetNumericProperty("tcmalloc.guarded_sample", 1));
  tcmalloc_set_profile_sampling_interval(1);
  const Hidden object(50);
  ASSERT_TRUE(MallocExtension_SetNumericProperty("tcmalloc.guarded_sample", 0));
  const Hidden next(3001);
  tcmalloc_set_profile_sampling_interval(0);
  Store(object, next);
  const SearchByChild search;
  ASSERT_NE(search.Of(object), nullptr);
  EXPECT_EQ(search.Of(object)->bytes, 50u);
  EXPECT_GT(search.Of(object)->frames, 1u);
  ASSERT_NE(search.Of(next), nullptr);
  EXPECT_FALSE(search.Of(next)->direct) << "the guarded object leads to it";
  Hold(object);
  EXPECT_EQ(SearchByChild().Of(next), nullptr) << "through the guarded object";
  holder = nullptr;
  LiveImage image(getpid());
  std::vector<Guard> guards;
  const std::vector<GuardedObject> guarded =
      ReadGuardedObjects(Target(image, *FindRoot(image)), &guards);
  EXPECT_EQ(guards.size(), 1u);
  const auto at = std::find_if(guarded.begin(), guarded.end(), [&](const GuardedObject& each) {
    return each.start == (object.hidden() ^ kHidden);
  });
  ASSERT_NE(at, guarded.end());
  EXPECT_EQ(at->bytes, 50u);
  EXPECT_NE(at->sample, 0u);
  EXPECT_GT(at->handed_out_ms, 0);
}

TEST(ObjectRecordsTest, HaveSitesSizesAndWhatIsNotToBeReported) {
  ASSERT_NE(tcmalloc_leaks_start_recording(), 0);
  const Hidden object(777);
  tcmalloc_leaks_disable();
  const Hidden disabled(778);
  tcmalloc_leaks_enable();
  const Hidden reached(779);
  Store(disabled, reached);
  const SearchByChild search;
  ASSERT_NE(search.Of(object), nullptr);
  EXPECT_EQ(search.Of(object)->group_bytes, 777u);
  EXPECT_GT(search.Of(object)->frames, 1u);
  EXPECT_EQ(search.Of(disabled), nullptr);
  EXPECT_EQ(search.Of(reached), nullptr);
  LiveImage image(getpid());
  const Target target(image, *FindRoot(image));
  std::vector<Guard> guards;
  std::vector<ObjectRecord> records;
  ForEachObjectRecord(target, &guards,
                      [&](const ObjectRecord& record) { records.push_back(record); });
  EXPECT_EQ(guards.size(), 256u) << "a lock for each shard";
  const auto find = [&records](const Hidden& wanted) {
    for (const ObjectRecord& record : records) {
      if (record.object == (wanted.hidden() ^ kHidden)) return record;
    }
    return ObjectRecord();
  };
  EXPECT_EQ(find(object).requested_bytes, 777u);
  EXPECT_FALSE(find(object).ignored);
  EXPECT_TRUE(find(disabled).ignored);
  EXPECT_GT(ReadSite(target, find(object).site).size(), 1u);
  tcmalloc_leaks_stop_recording();
  records.clear();
  ForEachObjectRecord(target, &guards,
                      [&](const ObjectRecord& record) { records.push_back(record); });
  EXPECT_TRUE(records.empty()) << "nothing records";
}

TEST(SampleLayoutTest, NamesWhatIsPublished) {
  LiveImage image(getpid());
  const SampleLayout layout = ReadSampleLayout(Target(image, *FindRoot(image)));
  EXPECT_NE(layout.table, 0u);
  EXPECT_NE(layout.registered_roots, 0u);
  EXPECT_NE(layout.ignored_addresses, 0u);
  EXPECT_NE(layout.record_session, 0u);
}

}  // namespace
}  // namespace cli
