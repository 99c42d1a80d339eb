// SPDX-License-Identifier: BSD-3-Clause
// Images that return wrong data to a reader. PatchedImage changes values at the places that a
// reader of the undamaged image read, so that each change reaches the reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "heap/guarded_pool.h"
#include "heap/memory_use.h"
#include "heap/objects.h"
#include "heap/pointee.h"
#include "heap/profile.h"
#include "heap/statistics.h"
#include "heap/thread_caches.h"
#include "image/find_root.h"
#include "image/image.h"
#include "image/resident.h"
#include "report/damage_report.h"
#include "report/pointee_text.h"

namespace cli {

// Reads everything that the commands read. Throws Failure, or returns.
inline void ReadEverything(Image& image, const Root& root, Address address) {
  const Target target(image, root);
  if (!target.HasHeap()) return;
  const Statistics stats = ReadStatistics(target);
  const HeapObjects objects(target);
  std::vector<Guard> guards;
  objects.AddGuards(&guards);
  objects.ForEachSpan([&objects](const SpanInfo& span) {
    static_cast<void>(objects.CountInUse(span));
    static_cast<void>(objects.StateText(span));
    if (span.num_objects < 1000) objects.ForEachInUse(span, [](const Object&) {});
  });
  static_cast<void>(objects.Find(address));
  const Pointees pointees(image, &objects);
  for (const auto& [start, end] : objects.Regions()) {
    for (const Address at : {start, end - 1, end, end + 100}) {
      static_cast<void>(PointeeText(pointees.WithNeighbour(at)));
    }
  }
  static_cast<void>(PointeeJson(pointees.WithNeighbour(address)));
  const GuardedPool& guarded = objects.guarded();
  static_cast<void>(guarded.Kept());
  for (Address at = guarded.start(); guarded.Contains(at); at += guarded.bytes() / 64 + 1) {
    static_cast<void>(MistakeLine(guarded.Classify(at)));
    static_cast<void>(PointeeText(pointees.At(at)));
  }
  const Samples samples = ReadSamples(target, &guards);
  for (const ProfileKind kind :
       {ProfileKind::kInUse, ProfileKind::kPeak, ProfileKind::kAllocations}) {
    static_cast<void>(MakeProfile(samples, kind));
  }
  static_cast<void>(ReadThreadCaches(target));
  // All memory near the heap counts as resident.
  constexpr uint64_t kNear = uint64_t{32} << 20;
  ResidentPages pages(
      [](uint64_t first, uint64_t end) {
        return std::vector<PageRun>{{.first = first, .pages = end - first}};
      },
      {{.mapping = {.start = address - std::min(address, kNear), .end = address + kNear},
        .resident_bytes = 2 * kNear}});
  static_cast<void>(ReadHeapUse(target, stats, pages));
}

class RecordingImage : public Image {
 public:
  explicit RecordingImage(Image& source) : source_(source) {}

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    if (bytes != 0 && seen_.insert(address).second) reads_.emplace_back(address, bytes);
    return source_.Read(address, out, bytes);
  }
  std::vector<Mapping> Mappings() override { return source_.Mappings(); }
  int64_t NowMs(int clock) override { return source_.NowMs(clock); }

  // The places that a reader read, in the order of its first reads.
  const std::vector<std::pair<Address, size_t>>& reads() const { return reads_; }

 private:
  Image& source_;
  std::set<Address> seen_;
  std::vector<std::pair<Address, size_t>> reads_;
};

class PatchedImage : public Image {
 public:
  // `reads`: the reads() of a RecordingImage.
  PatchedImage(Image& source, const std::vector<std::pair<Address, size_t>>& reads)
      : source_(source), reads_(reads) {}

  // Changes a few bytes at the place `where` of the reads; `how` selects the new value: one of the
  // numbers that are often wrong, or the address of another read.
  void Patch(uint64_t where, uint64_t offset, unsigned how, uint64_t value) {
    const auto& [start, bytes] = reads_[where % reads_.size()];
    const Address address = start + offset % bytes / 8 * 8;
    size_t width = 8;
    switch (how % 8) {
      case 0:
        value = 0;
        break;
      case 1:
        value = ~uint64_t{0};
        break;
      case 2:  // a pointer to another record
        value = reads_[value % reads_.size()].first;
        break;
      case 3:  // a small number
        value %= 1024;
        width = 4;
        break;
      case 4:
        value = uint64_t{1} << value % 64;
        break;
      case 5:
        width = 1;
        break;
      case 6:
        width = 4;
        break;
      default:
        break;
    }
    for (size_t i = 0; i < width; ++i) {
      bytes_[address + i] = static_cast<char>(value >> (8 * i));
    }
  }

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    if (!source_.Read(address, out, bytes)) return false;
    for (auto at = bytes_.lower_bound(address); at != bytes_.end() && at->first - address < bytes;
         ++at) {
      static_cast<char*>(out)[at->first - address] = at->second;
    }
    return true;
  }
  std::vector<Mapping> Mappings() override { return source_.Mappings(); }
  int64_t NowMs(int clock) override { return source_.NowMs(clock); }

 private:
  Image& source_;
  const std::vector<std::pair<Address, size_t>>& reads_;
  std::map<Address, char> bytes_;
};

}  // namespace cli
