// SPDX-License-Identifier: BSD-3-Clause
#include "heap/leak_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_set>
#include <utility>

#include "formats/marker/marker.h"
#include "formats/marker/marker_scan.h"
#include "formats/marker/root_map.h"
#include "formats/marker/sampled_sites.h"
#include "heap/search_space.h"
#include "heap/told_to_checker.h"
#include "image/memory_room.h"

namespace cli {
namespace {

using tcmalloc::AddressRange;
using tcmalloc::LiveObject;
using tcmalloc::RootRange;

// If more objects of a size are missed, those that are found say nothing about their number.
constexpr double kMostChance = 0.99;

// The memory of the search for each leaked object (measured: 117 bytes). Many small ones take more
// than their copy.
constexpr uint64_t kBytesPerLeak = 128;

template <typename Word>
class Searcher {
 public:
  // The constructor adds the guards of the objects.
  Searcher(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
           const LeakOptions& options, std::vector<Guard>* guards)
      : mirror_(mirror),
        target_(target),
        options_(options),
        stopped_(stopped),
        guards_(guards),
        space_(mirror, target, main_thread, stopped, guards),
        objects_(space_.objects()) {}

  LeakSearch Run();

 private:
  using Memory = MirrorMemory<Word>;
  using Marker = tcmalloc::MarkerOf<TargetGeometry, Memory>;

  void AddRegisters();
  void AddRoots(Marker* marker);
  // Marks the objects whose records exclude them from reports, and all objects reachable from them.
  void MarkIgnored(Marker* marker);
  void Collect(Marker* marker);
  void AddNearest();
  void AddReasons(const Marker& marker);

  Mirror& mirror_;
  const Target& target_;
  const LeakOptions options_;
  const bool stopped_;
  std::vector<Guard>* const guards_;
  SearchSpace<Word> space_;
  const TargetObjects& objects_;
  std::vector<AddressRange> registers_;
  // The records of objects that were not found at first, by address.
  std::map<Address, ObjectRecord> records_;
  uint64_t missing_ = 0;
  LeakSearch result_;
};

template <typename Word>
void Searcher<Word>::AddRegisters() {
  constexpr size_t kLine = 64;
  std::string words;
  std::vector<std::pair<size_t, size_t>> places;
  for (const ThreadRegisters& thread : mirror_.Threads()) {
    words.resize((words.size() + kLine - 1) / kLine * kLine);
    const size_t start = words.size();
    words += thread.set;
    words.resize((words.size() + kLine - 1) / kLine * kLine);
    words += thread.vector_set;
    places.emplace_back(start, words.size());
  }
  if (places.empty()) return;
  const Address at = mirror_.AddWords(words);
  for (const auto& [start, end] : places) registers_.push_back({at + start, at + end});
}

template <typename Word>
void Searcher<Word>::AddRoots(Marker* marker) {
  const tcmalloc::RootMap& map = space_.roots();
  Memory counting(mirror_, space_.in_flight(), &missing_);
  for (const RootRange& range : map.always) {
    RequireMemory(tcmalloc::ForEachTouchedPart(counting, range, [&](const RootRange& part) {
      return tcmalloc::AddRoot(*marker, part, {});
    }));
  }
  for (const RootRange& range : map.conditional)
    RequireMemory(tcmalloc::AddRoot(*marker, range, {}));
  for (const AddressRange& range : registers_)
    RequireMemory(marker->AddStack(range.start, range.end));
  const auto add_object_at = [&](Address address) {
    LiveObject object;
    if (objects_.index().Find(address, &object)) RequireMemory(marker->AddPointer(object.start));
  };
  for (const uintptr_t stack : map.heap_stacks) add_object_at(stack);
  for (const Address address : space_.told().ignored) add_object_at(address);
}

template <typename Word>
void Searcher<Word>::MarkIgnored(Marker* marker) {
  std::unordered_set<Address> unmarked;
  marker->ForEachUnmarked([&](const LiveObject& object) { unmarked.insert(object.start); });
  if (unmarked.empty()) return;
  bool any = false;
  ForEachObjectRecord(target_, guards_, [&](const ObjectRecord& record) {
    if (!unmarked.contains(record.object)) return;
    records_[record.object] = record;
    if (!record.ignored) return;
    any = true;
    RequireMemory(marker->AddPointer(record.object));
  });
  if (any) RequireMemory(marker->Run());
}

template <typename Word>
void Searcher<Word>::Collect(Marker* marker) {
  marker->ForEachUnmarked([&](const LiveObject& object) {
    const SpanInfo& span = objects_.SpanOf(object);
    Leak leak = {.start = object.start,
                 .bytes = object.bytes,
                 .handed_out_ms = span.handed_out_ms,
                 .direct = !marker->IsIndirect(object.number),
                 .reached_far = marker->IsReachedFar(object.number),
                 .sample = span.large ? span.sample : 0};
    const auto record = records_.find(object.start);
    if (record != records_.end()) {
      leak.site = record->second.site;
      leak.requested_bytes = record->second.requested_bytes;
    }
    result_.leaks.push_back(leak);
  });
  std::sort(result_.leaks.begin(), result_.leaks.end(),
            [](const Leak& a, const Leak& b) { return a.start < b.start; });
}

template <typename Word>
void Searcher<Word>::AddNearest() {
  const auto is_sampled = [](const SpanInfo& span) { return span.large && span.sample != 0; };
  const std::vector<SpanInfo>& spans = objects_.spans();
  tcmalloc::SampledSites samples(space_.scratch());
  RequireMemory(
      samples.Reserve(static_cast<size_t>(std::count_if(spans.begin(), spans.end(), is_sampled))));
  for (const SpanInfo& span : spans) {
    if (!is_sampled(span)) continue;
    samples.Add({span.object_bytes, span.handed_out_ms, span.start},
                reinterpret_cast<const void*>(span.sample));
  }
  samples.Sort();
  for (Leak& leak : result_.leaks) {
    if (leak.sample != 0 || leak.site != 0) continue;
    leak.nearest =
        reinterpret_cast<uintptr_t>(samples.Nearest({leak.bytes, leak.handed_out_ms, leak.start}));
  }
}

template <typename Word>
void Searcher<Word>::AddReasons(const Marker& marker) {
  const auto add = [this](uint64_t bytes, const std::string& reason) {
    if (bytes > 0) {
      result_.incomplete.push_back(
          fmt::format("{} bytes that may hold pointers {}", bytes, reason));
    }
  };
  result_.unread_bytes = marker.counts().unread_bytes + mirror_.unread_bytes();
  add(result_.unread_bytes, "could not be read");
  if (mirror_.is_of_file()) {
    add(missing_, "are not in the file");
  } else {
    add(missing_, std::string("were not searched: ") + RangeTooLong().what());
    result_.unread_bytes += missing_;
  }
}

template <typename Word>
LeakSearch Searcher<Word>::Run() {
  result_.now_ms = target_.NowMs();
  result_.incomplete = space_.incomplete();
  if (stopped_) AddRegisters();
  const size_t alignment = options_.pointer_alignment;
  Marker marker(objects_.index(), space_.scratch(),
                {.max_pointer_offset =
                     options_.max_pointer_offset +
                     std::min(objects_.header_bytes(), UINT64_MAX - options_.max_pointer_offset),
                 .pointer_source_alignment = alignment == 0 ? sizeof(Word) : alignment},
                mirror_, space_.in_flight(), &missing_);
  RequireMemory(marker.Prepare());
  AddRoots(&marker);
  RequireMemory(marker.Run());
  RequireRoom(marker.num_unmarked() * kBytesPerLeak,
              fmt::format("the list of {} leaked objects", marker.num_unmarked()));
  MarkIgnored(&marker);
  RequireMemory(marker.FindReachedFar() && marker.FindIndirect());
  Collect(&marker);
  AddNearest();
  result_.words = marker.counts().words;
  result_.word_bytes = sizeof(Word);
  result_.objects_in_use = objects_.index().num_objects();
  result_.bytes_in_use = objects_.index().object_bytes();
  AddReasons(marker);
  return std::move(result_);
}

}  // namespace

double ChanceOfMissing(const LeakSearch& search, const LeakOptions& options, uint64_t bytes) {
  const double first_bytes =
      std::min(static_cast<double>(bytes), static_cast<double>(options.max_pointer_offset) + 1);
  const double of_a_word = std::ldexp(first_bytes, -8 * static_cast<int>(search.word_bytes));
  return -std::expm1(static_cast<double>(search.words) * std::log1p(-of_a_word));
}

double EstimateMissed(const LeakSearch& search, const LeakOptions& options) {
  double missed = 0;
  for (const Leak& leak : search.leaks) {
    const double chance = ChanceOfMissing(search, options, leak.bytes);
    missed += chance < kMostChance ? chance / (1 - chance) : HUGE_VAL;
  }
  return missed;
}

LeakSearch FindLeaks(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
                     const LeakOptions& options, std::vector<Guard>* guards) {
  if (target.pointer_bytes() == sizeof(uint32_t)) {
    return Searcher<uint32_t>(mirror, target, main_thread, stopped, options, guards).Run();
  }
  return Searcher<uint64_t>(mirror, target, main_thread, stopped, options, guards).Run();
}

}  // namespace cli
