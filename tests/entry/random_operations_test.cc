// SPDX-License-Identifier: BSD-3-Clause
// Runs random sequences of calls of all entry points, on one and on several threads that free each
// other's objects. Each object has its own pattern, which is checked before every free and realloc.
// This detects two objects that share a byte, a realloc that loses one, and a calloc that leaves
// one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "entry_points.h"

namespace {

const size_t kPage = sysconf(_SC_PAGESIZE);

struct Object {
  void* address = nullptr;
  size_t size = 0;       // as requested; all of it is filled
  size_t alignment = 0;  // the alignment of an aligned form, else 0
  uint64_t tag = 0;
  bool from_new = false;  // false: from a C function
  bool array = false;     // only if from_new
};

// Objects that are passed to another thread.
class Mailbox {
 public:
  void Put(const Object& object) {
    std::lock_guard lock(mutex_);
    objects_.push_back(object);
  }
  std::vector<Object> TakeAll() {
    std::lock_guard lock(mutex_);
    return std::exchange(objects_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Object> objects_;
};

class Player {
 public:
  Player(uint64_t seed, std::vector<Mailbox>* mailboxes, size_t self)
      : random_(seed), mailboxes_(mailboxes), self_(self), next_tag_(seed << 32) {}

  // Returns the number of objects handled; -1 after the first wrong byte.
  int64_t Play(int operations) {
    for (int i = 0; i < operations && errors_ == 0; ++i) {
      const uint32_t choice = Below(100);
      if (choice < 45 && live_bytes_ < kMaxLiveBytes) {
        Add(Allocate());
      } else if (choice < 60 && !live_.empty()) {
        const size_t victim = Below(live_.size());
        if (!live_[victim].from_new) Reallocate(victim);
      } else if (choice < 70 && !live_.empty()) {
        Object object = Remove(Below(live_.size()));
        (*mailboxes_)[Below(mailboxes_->size())].Put(object);
      } else if (!live_.empty()) {
        Release(Remove(Below(live_.size())));
      }
      if (i % 64 == 0) {
        for (const Object& object : (*mailboxes_)[self_].TakeAll()) Release(object);
      }
    }
    while (!live_.empty()) Release(Remove(live_.size() - 1));
    return errors_ == 0 ? handled_ : -1;
  }
  void Drain() {
    for (const Object& object : (*mailboxes_)[self_].TakeAll()) Release(object);
  }
  int errors() const { return errors_; }

 private:
  static constexpr size_t kMaxLiveBytes = 24 << 20;

  uint32_t Below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  // Sizes are mostly small, now and then up to 4 MiB. Their logarithms are distributed evenly, and
  // sizes next to powers of two are more frequent.
  size_t RandomSize() {
    const size_t power = size_t{1} << Below(Below(8) == 0 ? 23 : 12);
    if (Below(8) == 0) return power + Below(3) - 1;
    return power + random_() % power;
  }

  Object Allocate() {
    Object object;
    object.size = std::min<size_t>(RandomSize(), 4 << 20);
    object.tag = ++next_tag_;
    const size_t alignment = size_t{8} << Below(Below(4) == 0 ? 14 : 5);
    const size_t item = 1 + Below(16);
    const uint32_t choice = Below(12);
    switch (choice) {
      case 0:
      case 1:
        object.size = object.size / item * item;
        object.address = calloc(object.size / item, item);
        break;
      case 2:
        object.alignment = alignment;
        object.address = memalign(alignment, object.size);
        break;
      case 3:
        object.alignment = alignment;
        if (posix_memalign(&object.address, alignment, object.size) != 0) Error("posix_memalign");
        break;
      case 4:
        object.alignment = alignment;
        object.address = aligned_alloc(alignment, object.size);
        break;
      case 5:
        object.alignment = kPage;
        object.size = std::max(kPage, (object.size + kPage - 1) / kPage * kPage);
        object.address = Below(2) == 0 ? valloc(object.size) : pvalloc(object.size);
        break;
      case 6:
        object.size = object.size / item * item;
        object.address = reallocarray(nullptr, object.size / item, item);
        break;
      case 7:
      case 8:
      case 9: {
        const entry::Form& form = entry::NewForms()[Below(entry::NewForms().size())];
        object.from_new = true;
        object.array = form.array;
        if (form.aligned) object.alignment = alignment;
        object.address = form.Allocate(object.size, alignment);
        break;
      }
      default:
        object.address = malloc(object.size);
    }
    if (object.address == nullptr) Error("null");
    if (!entry::IsAlignedFor(object.address, object.size) ||
        (object.alignment != 0 && !entry::IsAligned(object.address, object.alignment))) {
      Error("misaligned");
    }
    if (malloc_usable_size(object.address) < object.size) Error("usable size");
    if (choice < 2) {
      const auto* bytes = static_cast<const char*>(object.address);
      if (std::any_of(bytes, bytes + object.size, [](char c) { return c != 0; })) {
        Error("calloc left dirt");
      }
    }
    if (errors_ == 0) entry::Fill(object.address, object.size, object.tag);
    return object;
  }

  void Reallocate(size_t index) {
    Object object = Remove(index);
    Check(object);
    size_t size = std::min<size_t>(RandomSize(), 4 << 20);
    if (Below(2) == 0) size = object.size + Below(64);  // often next to its last value
    void* moved =
        Below(8) == 0 ? reallocarray(object.address, 1, size) : realloc(object.address, size);
    if (size == 0) {
      if (moved != nullptr) Error("realloc to zero");
      return;
    }
    if (moved == nullptr) return Error("realloc failed");
    if (!entry::Holds(moved, std::min(size, object.size), object.size, object.tag)) {
      Error("realloc lost contents");
    }
    object.address = moved;
    object.size = size;
    object.alignment = 0;
    object.tag = ++next_tag_;
    entry::Fill(moved, size, object.tag);
    Add(object);
  }

  void Release(const Object& object) {
    Check(object);
    if (errors_ != 0) return;
    ++handled_;
    if (object.from_new) {
      const entry::Form* form;
      do {
        form = &entry::DeleteForms()[Below(entry::DeleteForms().size())];
      } while (form->array != object.array || form->aligned != (object.alignment != 0));
      form->Release(object.address, object.size, object.alignment);
    } else if (Below(2) == 0) {
      free(object.address);
    } else if (object.alignment == 0) {
      free_sized(object.address, object.size);
    } else {
      free_aligned_sized(object.address, object.alignment, object.size);
    }
  }

  void Check(const Object& object) {
    if (!entry::Holds(object.address, object.size, object.tag)) Error("contents changed");
  }
  void Error(const char* what) {
    if (errors_++ == 0) fprintf(stderr, "%s\n", what);
  }
  void Add(const Object& object) {
    live_.push_back(object);
    live_bytes_ += object.size;
  }
  Object Remove(size_t index) {
    std::swap(live_[index], live_.back());
    Object object = live_.back();
    live_.pop_back();
    live_bytes_ -= object.size;
    return object;
  }

  std::mt19937_64 random_;
  std::vector<Mailbox>* const mailboxes_;
  const size_t self_;
  uint64_t next_tag_;
  std::vector<Object> live_;
  size_t live_bytes_ = 0;
  int64_t handled_ = 0;
  int errors_ = 0;
};

void PlayOn(size_t threads, uint64_t seed, int operations) {
  printf("seed %llu, %zu threads\n", static_cast<unsigned long long>(seed), threads);
  std::vector<Mailbox> mailboxes(threads);
  std::vector<int64_t> handled(threads);
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back(
        [&, i] { handled[i] = Player(seed * 1000 + i, &mailboxes, i).Play(operations); });
  }
  for (std::thread& thread : running) thread.join();
  for (size_t i = 0; i < threads; ++i) {
    EXPECT_GT(handled[i], operations / 5) << "seed " << seed << " thread " << i;
    Player last(seed, &mailboxes, i);
    last.Drain();
    EXPECT_EQ(last.errors(), 0) << "seed " << seed << " left for thread " << i;
  }
}

constexpr uint64_t kSeeds[] = {1, 20241};

TEST(RandomOperations, OneThread) {
  for (const uint64_t seed : kSeeds) PlayOn(1, seed, 20000);
}
TEST(RandomOperations, FourThreads) {
  for (const uint64_t seed : kSeeds) PlayOn(4, seed, 5000);
}

// Plays several rounds. After each one no more memory is in use than after the round before.
TEST(RandomOperationsInUse, NothingLeaks) {
  size_t before = 0;
  for (int round = 0; round < 3; ++round) {
    PlayOn(1, 77, 5000);
    const size_t now = mallinfo2().uordblks;
    if (round > 0) {
      // The number of a thread's own records may vary. One leaked object per thousand would exceed
      // the bound.
      EXPECT_LE(now, before + 4096) << "round " << round;
    }
    before = now;
  }
}

}  // namespace
