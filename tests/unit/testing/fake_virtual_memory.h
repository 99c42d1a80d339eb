// SPDX-License-Identifier: BSD-3-Clause
// FakeVirtualMemory: a VirtualMemory for tests. It hands out parts of one range of addresses, in an
// order that the test chooses, has the hardware page size that the test chooses, counts and records
// calls, fails the calls that the test names, and checks what VirtualMemory requires of its
// callers.
//
// There are two kinds. kBacked has real memory at its addresses, which Release really releases.
// kAddressOnly has no memory: it is for logic that never touches the pages it manages, at any size
// and at addresses that repeat from run to run. All functions are thread-safe, except those that
// prepare failures and hooks.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"

namespace tcmalloc {

class FakeVirtualMemory final : public VirtualMemory {
 public:
  enum class Strength { kBacked, kAddressOnly };
  // Three eighths of all addresses, in whole hugepages.
  static constexpr size_t kMaxRange = SIZE_MAX / 8 * 3 / kHugepageSize * kHugepageSize;
  // The end from which Map searches: the lower one, or the upper one as in Linux.
  enum class Placement { kUpwards, kDownwards };
  enum class Kind { kMap, kUnmap, kRelease, kHugepages, kNoHugepages, kPopulate, kMove };

  struct Call {
    Kind kind;
    uintptr_t start;
    size_t bytes;
    bool ok;
  };

  struct Options {
    Strength strength = Strength::kBacked;
    size_t hardware_page_size = 4096;
    // Room for Map, a multiple of the hardware page.
    size_t range_bytes = size_t{1} << 30;
    // kAddressOnly: where the range starts, a multiple of the hardware page. (The lower half is a
    // good place on 32-bit machines, too: see AddressOnly.)
    uintptr_t base = static_cast<uintptr_t>(0x1234'4000'0000);
    Placement placement = Placement::kUpwards;
    // A gap of one hardware page after each mapping, so that no two are adjacent.
    bool gaps = false;
    // Whether Reserve succeeds.
    bool reserves = false;
  };

  // Options for kAddressOnly with a range of `range_bytes`, or of as many bytes as a 32-bit machine
  // has at `base`.
  static Options AddressOnly(uint64_t range_bytes) {
    Options options;
    options.strength = Strength::kAddressOnly;
    options.range_bytes = static_cast<size_t>(std::min<uint64_t>(range_bytes, kMaxRange));
    return options;
  }

  explicit FakeVirtualMemory(const Options& options) : options_(options), base_(options.base) {
    if (options_.strength == Strength::kBacked) {
      // Aligned to more than any hardware page.
      reserved_bytes_ = options_.range_bytes + kBaseAlignment;
      reserved_ = mmap(nullptr, reserved_bytes_, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (reserved_ == MAP_FAILED) abort();
      base_ = (reinterpret_cast<uintptr_t>(reserved_) + kBaseAlignment - 1) & ~(kBaseAlignment - 1);
    }
    record_calls_ = false;
  }
  FakeVirtualMemory() : FakeVirtualMemory(Options()) {}
  FakeVirtualMemory(const FakeVirtualMemory&) = delete;
  FakeVirtualMemory& operator=(const FakeVirtualMemory&) = delete;
  ~FakeVirtualMemory() {
    if (options_.strength == Strength::kBacked) munmap(reserved_, reserved_bytes_);
  }

  Mapping Map(size_t bytes, size_t alignment) override {
    Begin("Map", nullptr, bytes);
    EXPECT_GT(bytes, 0u);
    EXPECT_TRUE(std::has_single_bit(alignment)) << alignment;
    RunHook(on_map_);
    const std::lock_guard<std::mutex> guard(mutex_);
    ++map_calls_;
    if (failures_.map.IsDue()) {
      ++map_failures_;
      Record({Kind::kMap, 0, bytes, false});
      return {};
    }
    if (alignment < options_.hardware_page_size) alignment = options_.hardware_page_size;
    bytes += more_bytes_;
    const uintptr_t start = FindRoom(bytes, alignment);
    if (start == 0) {
      ++map_failures_;
      Record({Kind::kMap, 0, bytes, false});
      return {};
    }
    mapped_[start] = bytes;
    mapped_bytes_ += bytes;
    if (options_.strength == Strength::kBacked &&
        mprotect(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE) != 0) {
      abort();
    }
    Record({Kind::kMap, start, bytes, true});
    return {reinterpret_cast<void*>(start), bytes, zero_filled_};
  }

  void* Reserve(size_t bytes) override {
    Begin("Reserve", nullptr, bytes);
    RunHook(on_map_);
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!options_.reserves) return nullptr;
    ++reserve_calls_;
    const uintptr_t start =
        failures_.reserve.IsDue() ? 0 : FindRoom(bytes, options_.hardware_page_size);
    if (start == 0) return nullptr;
    mapped_[start] = bytes;
    SetNoAccess(start, bytes, true);
    return reinterpret_cast<void*>(start);
  }

  bool Replace(void* memory, size_t bytes, Access access) override {
    const uintptr_t start = Begin("Replace", memory, bytes);
    RunHook(on_map_);
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!ExpectMapped("Replace", start, bytes)) return false;
    if (failures_.replace.IsDue()) return false;
    mapped_bytes_ -= AccessibleBytes(start, bytes);
    SetNoAccess(start, bytes, access == Access::kNone);
    mapped_bytes_ += AccessibleBytes(start, bytes);
    Forget(&resident_, start, bytes);
    Forget(&advised_, start, bytes);
    if (options_.strength == Strength::kBacked) {
      const int protection = access == Access::kNone ? PROT_NONE : PROT_READ | PROT_WRITE;
      const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
      if (mmap(memory, bytes, protection, flags, -1, 0) != memory) abort();
    }
    return true;
  }

  // Whether the page is mapped without access.
  bool IsGuard(uintptr_t address) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return no_access_.contains(address - address % options_.hardware_page_size);
  }
  // Calls f(start, end) for each run of pages that are mapped with access.
  template <typename F>
  void ForEachAccessibleRun(F f) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const size_t page = options_.hardware_page_size;
    uintptr_t first = 0;
    uintptr_t end = 0;
    for (const auto& [start, bytes] : mapped_) {
      for (uintptr_t at = start; at < start + bytes; at += page) {
        if (no_access_.contains(at)) continue;
        if (at != end) {
          if (first != end) f(first, end);
          first = at;
        }
        end = at + page;
      }
    }
    if (first != end) f(first, end);
  }

  bool Unmap(void* memory, size_t bytes) override {
    const uintptr_t start = Begin("Unmap", memory, bytes);
    const std::lock_guard<std::mutex> guard(mutex_);
    ++unmap_calls_;
    if (!ExpectMapped("Unmap", start, bytes)) return false;
    if (failures_.unmap.IsDue()) {
      ++unmap_failures_;
      Record({Kind::kUnmap, start, bytes, false});
      return false;
    }
    Record({Kind::kUnmap, start, bytes, true});
    CutAround(start, bytes);
    Forget(&resident_, start, bytes);
    Forget(&advised_, start, bytes);
    mapped_bytes_ -= AccessibleBytes(start, bytes);
    Forget(&no_access_, start, bytes);
    if (options_.strength == Strength::kBacked) {
      const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
      if (mmap(memory, bytes, PROT_NONE, flags, -1, 0) != memory) abort();
    }
    return true;
  }

  bool Release(void* memory, size_t bytes) override {
    const uintptr_t start = Begin("Release", memory, bytes);
    EXPECT_GT(bytes, 0u);
    RunHook(on_release_);
    const std::lock_guard<std::mutex> guard(mutex_);
    ++release_calls_;
    if (!ExpectMapped("Release", start, bytes)) return false;
    const bool locked = start < locked_end_ && locked_start_ < start + bytes;
    if (locked || failures_.release.IsDue()) {
      ++release_failures_;
      Record({Kind::kRelease, start, bytes, false});
      return false;
    }
    if (options_.strength == Strength::kBacked && madvise(memory, bytes, MADV_DONTNEED) != 0) {
      abort();
    }
    Record({Kind::kRelease, start, bytes, true});
    Forget(&resident_, start, bytes);
    return true;
  }

  void AdviseHugepages(void* memory, size_t bytes, bool wanted) override {
    const uintptr_t start = Begin("AdviseHugepages", memory, bytes);
    const std::lock_guard<std::mutex> guard(mutex_);
    ExpectMapped("AdviseHugepages", start, bytes);
    Record({wanted ? Kind::kHugepages : Kind::kNoHugepages, start, bytes, true});
    for (uintptr_t at = start; at < start + bytes; at += options_.hardware_page_size) {
      if (wanted) {
        advised_.insert(at);
      } else {
        advised_.erase(at);
      }
    }
  }

  bool Populate(void* memory, size_t bytes) override {
    const uintptr_t start = Begin("Populate", memory, bytes);
    const std::lock_guard<std::mutex> guard(mutex_);
    const bool ok = !failures_.populate.IsDue();
    Record({Kind::kPopulate, start, bytes, ok});
    if (ok) TouchLocked(start, bytes);
    return ok;
  }

  // Only pages that were passed to Touch or Populate count as backed; see also AnswerBacked.
  size_t BackedBytes(void* memory, size_t bytes) override {
    const uintptr_t start = Begin("BackedBytes", memory, bytes);
    const std::lock_guard<std::mutex> guard(mutex_);
    ++backed_calls_;
    if (backed_answer_) return backed_answer_(start, bytes);
    size_t backed = 0;
    for (uintptr_t at = start; at < start + bytes; at += options_.hardware_page_size) {
      if (resident_.contains(at)) backed += options_.hardware_page_size;
    }
    return backed;
  }

  bool KnowsBacked() const override { return knows_backed_; }

  bool MayMove(const void* memory, size_t bytes) override {
    const uintptr_t start = Begin("MayMove", memory, bytes);
    const std::lock_guard<std::mutex> guard(mutex_);
    ExpectMapped("MayMove", start, bytes);
    EXPECT_EQ(start % bytes, 0u);
    return !failures_.may_move.IsDue();
  }

  bool Move(void* from, size_t bytes, void* to, size_t total) override {
    const uintptr_t source = Begin("Move", from, bytes);
    const uintptr_t target = Begin("Move", to, total);
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(bytes, total);
    RunHook(on_move_);
    const std::lock_guard<std::mutex> guard(mutex_);
    const bool overlap = source < target + total && target < source + bytes;
    EXPECT_FALSE(overlap) << "Move from " << from << " to " << to << " of " << bytes;
    if (overlap || !ExpectMapped("Move", source, bytes) || !ExpectMapped("Move", target, total)) {
      return false;
    }
    const bool ok = !failures_.move.IsDue();
    Record({Kind::kMove, target, bytes, ok});
    Forget(&resident_, target, total);
    Forget(&advised_, target, total);
    if (!ok) {
      CutAround(target, total);
      mapped_bytes_ -= total;
      return false;
    }
    if (options_.strength == Strength::kBacked) {
      if (madvise(to, total, MADV_DONTNEED) != 0) abort();
      memcpy(to, from, bytes);
      if (madvise(from, bytes, MADV_DONTNEED) != 0) abort();
    }
    for (uintptr_t at = 0; at < bytes; at += options_.hardware_page_size) {
      if (resident_.erase(source + at) > 0) resident_.insert(target + at);
      if (advised_.contains(source + at)) advised_.insert(target + at);
    }
    return true;
  }

  size_t hardware_page_size() const override { return options_.hardware_page_size; }

  // Failures. From the nth call on (1 is the next), `count` calls fail.
  static constexpr size_t kForever = SIZE_MAX;
  void FailMap(size_t nth, size_t count = 1) { failures_.map = {nth, count}; }
  void FailReserve(size_t nth, size_t count = 1) { failures_.reserve = {nth, count}; }
  void FailReplace(size_t nth, size_t count = 1) { failures_.replace = {nth, count}; }
  void FailRelease(size_t nth, size_t count = 1) { failures_.release = {nth, count}; }
  void FailUnmap(size_t nth, size_t count = 1) { failures_.unmap = {nth, count}; }
  void FailPopulate(size_t nth, size_t count = 1) { failures_.populate = {nth, count}; }
  // After a failed move the target is not mapped.
  void FailMove(size_t nth, size_t count = 1) { failures_.move = {nth, count}; }
  void StopFailing() { failures_ = {}; }
  void RefuseMayMove(size_t nth, size_t count = 1) { failures_.may_move = {nth, count}; }

  // The memory that an OS with hugepages would back, if exactly the pages passed to Touch (and
  // Populate) were written to. Counted in hardware pages.
  void Touch(const void* memory, size_t bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    TouchLocked(reinterpret_cast<uintptr_t>(memory), bytes);
  }
  bool IsResident(uintptr_t address) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return resident_.contains(address - address % options_.hardware_page_size);
  }
  size_t resident_bytes() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return resident_.size() * options_.hardware_page_size;
  }
  // From now on `answer` is what BackedBytes returns: an OS may count pages as unbacked that have
  // contents, for example those that are swapped out.
  void AnswerBacked(std::function<size_t(uintptr_t, size_t)> answer) {
    backed_answer_ = std::move(answer);
  }
  void SetKnowsBacked(bool knows) { knows_backed_ = knows; }
  // Release fails when it touches [start, start + bytes), as it does on memory under mlock.
  void LockInMemory(const void* start, size_t bytes) {
    locked_start_ = reinterpret_cast<uintptr_t>(start);
    locked_end_ = locked_start_ + bytes;
  }

  // From now on Map reports that its memory is zero-filled, or that it is not (the test knows the
  // contents of kBacked memory).
  void SetZeroFilled(bool zero_filled) { zero_filled_ = zero_filled; }
  // Map returns this much more than requested.
  void SetMore(size_t bytes) { more_bytes_ = bytes; }
  void SetRoom(size_t bytes) { room_ = bytes; }
  size_t Room() override { return room_; }

  // The hook runs once, at the beginning of the next Map (Reserve, Replace), Release or Move: it
  // acts as another thread would while this one is in a system call.
  void OnNextMap(std::function<void()> hook) { on_map_ = std::move(hook); }
  void OnNextRelease(std::function<void()> hook) { on_release_ = std::move(hook); }
  void OnNextMove(std::function<void()> hook) { on_move_ = std::move(hook); }

  // From now on calls are recorded; TakeCalls returns them and forgets them.
  void RecordCalls() { record_calls_ = true; }
  std::vector<Call> TakeCalls() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return std::exchange(calls_, {});
  }

  size_t backed_calls() const { return backed_calls_; }
  size_t map_calls() const { return map_calls_; }
  size_t map_failures() const { return map_failures_; }
  size_t reserve_calls() const { return reserve_calls_; }
  size_t unmap_calls() const { return unmap_calls_; }
  size_t unmap_failures() const { return unmap_failures_; }
  size_t release_calls() const { return release_calls_; }
  size_t release_failures() const { return release_failures_; }
  size_t mapped_bytes() const { return mapped_bytes_; }
  uintptr_t base() const { return base_; }

 private:
  static constexpr uintptr_t kBaseAlignment = uintptr_t{1} << 21;

  struct Failure {
    size_t nth = 0;
    size_t count = 0;

    bool IsDue() {
      if (count == 0) return false;
      if (nth > 1) {
        --nth;
        return false;
      }
      if (count != kForever) --count;
      return true;
    }
  };

  struct Failures {
    Failure map, release, unmap, populate, move, may_move, reserve, replace;
  };

  // Checks what each call requires: no lock, and whole hardware pages. Returns the address.
  uintptr_t Begin(const char* call, const void* memory, size_t bytes) const {
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    EXPECT_TRUE(SpinLock::NoneHeldByThisThread()) << "a system call under a lock: " << call;
    EXPECT_EQ(start % options_.hardware_page_size, 0u) << call << " at " << memory;
    EXPECT_EQ(bytes % options_.hardware_page_size, 0u) << call << " of " << bytes;
    return start;
  }
  bool ExpectMapped(const char* call, uintptr_t start, size_t bytes) const {
    const bool mapped = IsMapped(start, bytes);
    EXPECT_TRUE(mapped) << call << " of what is not mapped: " << start << " " << bytes;
    return mapped;
  }

  static void RunHook(std::function<void()>& hook) {
    if (!hook) return;
    const std::function<void()> once = std::exchange(hook, nullptr);
    once();
  }

  static void Forget(std::set<uintptr_t>* pages, uintptr_t start, size_t bytes) {
    pages->erase(pages->lower_bound(start), pages->lower_bound(start + bytes));
  }
  void SetNoAccess(uintptr_t start, size_t bytes, bool none) {
    Forget(&no_access_, start, bytes);
    const size_t page = options_.hardware_page_size;
    for (uintptr_t at = start; none && at < start + bytes; at += page) no_access_.insert(at);
  }
  size_t AccessibleBytes(uintptr_t start, size_t bytes) const {
    const auto first = no_access_.lower_bound(start);
    const auto end = no_access_.lower_bound(start + bytes);
    return bytes - static_cast<size_t>(std::distance(first, end)) * options_.hardware_page_size;
  }
  // The number of pages of the hugepage at `start` that are in `pages`.
  size_t CountIn(const std::set<uintptr_t>& pages, uintptr_t start) const {
    const auto end = pages.lower_bound(start + kHugepageSize);
    return static_cast<size_t>(std::distance(pages.lower_bound(start), end));
  }
  void TouchLocked(uintptr_t start, size_t bytes) {
    const size_t page = options_.hardware_page_size;
    for (uintptr_t at = start - start % page; at < start + bytes; at += page) {
      if (resident_.contains(at)) continue;
      const uintptr_t hugepage = at - at % kHugepageSize;
      const bool whole =
          CountIn(advised_, hugepage) == kHugepageSize / page && CountIn(resident_, hugepage) == 0;
      for (uintptr_t p = whole ? hugepage : at; p < (whole ? hugepage + kHugepageSize : at + page);
           p += page) {
        resident_.insert(p);
      }
    }
  }

  void Record(const Call& call) {
    if (record_calls_) calls_.push_back(call);
  }

  // Returns the address of the first fit from the chosen end, or 0 if there is no room.
  uintptr_t FindRoom(size_t bytes, size_t alignment) const {
    const size_t gap = options_.gaps ? options_.hardware_page_size : 0;
    const uintptr_t end = base_ + options_.range_bytes;
    if (bytes > options_.range_bytes) return 0;
    if (options_.placement == Placement::kUpwards) {
      uintptr_t at = (base_ + alignment - 1) & ~(alignment - 1);
      for (const auto& [start, length] : mapped_) {
        if (at + bytes + gap <= start) break;
        at = (start + length + gap + alignment - 1) & ~(alignment - 1);
      }
      return at + bytes <= end ? at : 0;
    }
    uintptr_t at = (end - bytes) & ~(alignment - 1);
    for (auto it = mapped_.rbegin(); it != mapped_.rend(); ++it) {
      if (it->first + it->second + gap <= at) break;
      if (it->first < base_ + bytes + gap) return 0;
      at = (it->first - gap - bytes) & ~(alignment - 1);
    }
    return at >= base_ ? at : 0;
  }

  // True if every byte of the range lies in some mapping.
  bool IsMapped(uintptr_t start, size_t bytes) const {
    const uintptr_t end = start + bytes;
    while (start < end) {
      auto it = mapped_.upper_bound(start);
      if (it == mapped_.begin()) return false;
      --it;
      if (start >= it->first + it->second) return false;
      start = it->first + it->second;
    }
    return true;
  }

  // Removes the range, which is mapped, from the table.
  void CutAround(uintptr_t start, size_t bytes) {
    const uintptr_t end = start + bytes;
    auto it = --mapped_.upper_bound(start);
    while (it != mapped_.end() && it->first < end) {
      const uintptr_t first = it->first;
      const uintptr_t last = first + it->second;
      it = mapped_.erase(it);
      if (first < start) mapped_[first] = start - first;
      if (last > end) mapped_[end] = last - end;
    }
  }

  const Options options_;
  void* reserved_ = nullptr;
  size_t reserved_bytes_ = 0;
  uintptr_t base_;
  bool record_calls_;

  Failures failures_;
  bool zero_filled_ = true;
  bool knows_backed_ = true;
  size_t more_bytes_ = 0;
  size_t room_ = SIZE_MAX;
  uintptr_t locked_start_ = 0;
  uintptr_t locked_end_ = 0;
  std::function<void()> on_map_;
  std::function<void()> on_release_;
  std::function<void()> on_move_;
  std::function<size_t(uintptr_t, size_t)> backed_answer_;

  // Guards the members below. Not a SpinLock: that one is under test.
  std::mutex mutex_;
  std::map<uintptr_t, size_t> mapped_;
  // Hardware pages: in advised_ those for which hugepages were requested, in resident_ the backed
  // ones.
  std::set<uintptr_t> advised_;
  std::set<uintptr_t> resident_;
  // Hardware pages that are mapped without access.
  std::set<uintptr_t> no_access_;
  std::vector<Call> calls_;
  size_t backed_calls_ = 0;
  size_t map_calls_ = 0;
  size_t map_failures_ = 0;
  size_t reserve_calls_ = 0;
  size_t unmap_calls_ = 0;
  size_t unmap_failures_ = 0;
  size_t release_calls_ = 0;
  size_t release_failures_ = 0;
  size_t mapped_bytes_ = 0;
};

}  // namespace tcmalloc
