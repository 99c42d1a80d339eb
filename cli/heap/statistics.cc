// SPDX-License-Identifier: BSD-3-Clause
#include "heap/statistics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "heap/walks.h"
#include "image/stop.h"

namespace cli {
namespace {

constexpr int kStatisticsTries = 100;

// The objects in the caches, by class.
struct CacheSums {
  std::vector<uint64_t> objects;
  uint64_t array_bytes = 0;
  uint64_t of_threads = 0;
  uint64_t orphans = 0;
};

// Each cache has a constant pointer to the one made before it, so the walk sees no change.
CacheSums SumCaches(const Target& target, size_t classes) {
  CacheSums sums;
  sums.objects.resize(classes);
  const Record all = target.LoadHeap().Part("registry").Part("all_");
  SeenElements seen(target.layout().structure("ThreadCache").bytes);
  for (Address at = all.Get("newest_"); at != 0;) {
    seen.Add(at);
    const Record cache = target.Load("ThreadCache", at);
    const Record table = cache.Part("table_");
    for (size_t c = 1; c < classes; ++c) sums.objects[c] += BinObjects(table, c);
    sums.array_bytes += table.Get("array_bytes_");
    at = cache.Get("record.made_before");
  }
  sums.of_threads = all.Get("of_threads");
  sums.orphans = all.Get("orphans");
  return sums;
}

// The figures of the page heap, which its lock guards, and those of the homes.
struct Pages {
  std::vector<std::pair<std::string, uint64_t>> counts;
  uint64_t free_backed = 0;
  uint64_t free_released = 0;
  uint64_t kept = 0;
  std::vector<FreeSpanStatistics> exact;
  FreeSpanStatistics longer;
  uint64_t longer_backed_bytes = 0;
  uint64_t longer_released_bytes = 0;
  // Sampled small objects: their bytes, their number, and the bytes of their spans.
  uint64_t sampled_bytes = 0;
  uint64_t sampled_objects = 0;
  uint64_t sampled_span_bytes = 0;

  uint64_t& operator[](std::string_view name) {
    for (auto& [known, value] : counts) {
      if (known == name) return value;
    }
    throw BadImage(fmt::format("no count {}", name));
  }
};

// Returns the field; 0 for a library without it.
uint64_t Optional(const Record& record, std::string_view field) {
  return record.structure().Has(field) ? record.Get(field) : 0;
}

uint64_t LowerBy(uint64_t value, uint64_t by) { return value > by ? value - by : 0; }

void ReadFree(const Record& store, Pages* pages) {
  const Record backed = store.Part("free_", 0);
  const Record released = store.Part("free_", 1);
  const uint64_t page = uint64_t{1} << store.target().layout().constant("page_shift");
  pages->free_backed = backed.Get("total_") * page;
  pages->free_released = released.Get("total_") * page;
  pages->longer = {backed.Get("count_"), released.Get("count_")};
  pages->longer_backed_bytes = pages->free_backed;
  pages->longer_released_bytes = pages->free_released;
  pages->exact.resize(backed.ArraySize("exact_counts_", sizeof(uint32_t)));
  for (size_t i = 0; i < pages->exact.size(); ++i) {
    FreeSpanStatistics& of_length = pages->exact[i];
    of_length = {backed.At("exact_counts_", i, sizeof(uint32_t)),
                 released.At("exact_counts_", i, sizeof(uint32_t))};
    const uint64_t bytes = (i + 1) * page;
    pages->longer.backed = LowerBy(pages->longer.backed, of_length.backed);
    pages->longer.released = LowerBy(pages->longer.released, of_length.released);
    pages->longer_backed_bytes = LowerBy(pages->longer_backed_bytes, bytes * of_length.backed);
    pages->longer_released_bytes =
        LowerBy(pages->longer_released_bytes, bytes * of_length.released);
  }
}

// Counts the kept spans as free.
void AddHome(const Record& home, Pages* pages) {
  const Target& target = home.target();
  const size_t pointer = target.pointer_bytes();
  const uint64_t page = uint64_t{1} << target.layout().constant("page_shift");
  const Record kept = home.Part("kept");
  const Record pool = home.Part("pool");
  const Record spans = pool.Part("spans_");
  uint64_t& small = (*pages)["small_span_bytes"];
  uint64_t& large = (*pages)["large_span_bytes"];
  const uint64_t small_bytes = std::min(kept.Get("bytes_"), small);
  const uint64_t large_bytes = std::min(spans.Get("total_") * page, large);
  small -= small_bytes;
  large -= large_bytes;
  // The target's counts wrap at its word size.
  const uint64_t word = pointer == 8 ? ~uint64_t{0} : 0xffffffff;
  uint64_t& objects = (*pages)["large_spans"];
  objects = (objects - pool.Get("hidden_")) & word;
  pages->kept += small_bytes + large_bytes;
  if (kept.Get("bytes_") != 0) {
    const size_t lengths = kept.ArraySize("counts_", pointer);
    for (size_t i = 1; i < lengths && i <= pages->exact.size(); ++i) {
      pages->exact[i - 1].backed += kept.At("counts_", i, pointer);
    }
  }
  uint64_t longer = spans.Get("count_");
  uint64_t longer_bytes = spans.Get("total_") * page;
  for (size_t i = 0; i < pages->exact.size(); ++i) {
    const uint64_t count = spans.At("exact_counts_", i, sizeof(uint32_t));
    pages->exact[i].backed += count;
    longer = LowerBy(longer, count);
    longer_bytes = LowerBy(longer_bytes, count * (i + 1) * page);
  }
  pages->longer.backed += longer;
  pages->longer_backed_bytes += longer_bytes;
}

// Does what PageHeap::SetSampledApart of the library does.
void SetSampledApart(const std::vector<SizeClassStatistics>& classes, Pages* pages) {
  for (const SizeClassStatistics& of_class : classes) {
    pages->sampled_objects += of_class.sampled_objects;
    pages->sampled_bytes += of_class.sampled_objects * of_class.object_bytes;
    pages->sampled_span_bytes += of_class.sampled_objects * of_class.sampled_span_bytes;
  }
  uint64_t& large = (*pages)["large_span_bytes"];
  uint64_t& objects = (*pages)["large_spans"];
  pages->sampled_objects = std::min(pages->sampled_objects, objects);
  pages->sampled_span_bytes = std::min(pages->sampled_span_bytes, large);
  pages->sampled_bytes = std::min(pages->sampled_bytes, pages->sampled_span_bytes);
  objects -= pages->sampled_objects;
  large -= pages->sampled_span_bytes;
}

Pages ReadPages(const Record& state) {
  Pages pages;
  const Record store = state.Part("store");
  const Record counts = store.Part("counts");
  for (const auto& [name, field] : counts.structure().fields) {
    pages.counts.emplace_back(name, counts.Get(name));
  }
  ReadFree(store, &pages);
  for (const Record& home : LoadHomes(state)) AddHome(home, &pages);
  pages.free_backed += pages.kept;
  // The sum is negative while a span moves from one home to another.
  uint64_t& objects = pages["large_spans"];
  const uint64_t sign = uint64_t{1} << (state.target().pointer_bytes() * 8 - 1);
  if ((objects & sign) != 0) objects = 0;
  return pages;
}

// Returns the heap's record at a moment at which no thread held the page heap's lock, as far as two
// equal copies and a free lock show that. `*unsettled` is true if there was no such moment.
Record LoadSettledHeap(const Target& target, bool* unsettled) {
  Record heap = target.LoadHeap();
  const Patience patience;
  for (int i = 0; i < kStatisticsTries && !patience.IsOver(); ++i) {
    const Record state = heap.Part("page_heap").Part("state_");
    const Record store = state.Part("store").Part("counts");
    const Record again = target.Load("PageState", state.address());
    const Record counts = again.Part("store").Part("counts");
    bool equal = state.Get("lock") == 0 && again.Get("lock") == 0;
    for (const auto& [name, field] : counts.structure().fields) {
      equal = equal && counts.Get(name) == store.Get(name);
    }
    for (size_t kind = 0; kind < 2; ++kind) {
      equal = equal && state.Part("store").Part("free_", kind).Get("total_") ==
                           again.Part("store").Part("free_", kind).Get("total_");
    }
    if (equal) {
      *unsettled = false;
      return heap;
    }
    heap = target.LoadHeap();
  }
  *unsettled = true;
  return heap;
}

struct Shares {
  uint64_t total, thread_caches, inherited, free_pages, kept_spans;
};

// Does what ShareRetention of the library does.
Shares ReadShares(const Record& hints, uint64_t thread_caches) {
  const Target& target = hints.target();
  const Layout& layout = target.layout();
  const Record retention = hints.Part("retention");
  const uint64_t set = retention.Get("set_bytes_");
  const uint64_t in_use = hints.Get("in_use_bytes");
  uint64_t level = retention.Get("pressure_level_");
  if (level != 0) {
    if (target.NowMs() >= static_cast<int64_t>(retention.Get("pressure_until_ms_"))) level = 0;
  }
  level = std::min<uint64_t>(level, 63);
  const auto part = [&layout](const char* name) {
    return std::max<uint64_t>(layout.constant(name), 1);
  };
  const uint64_t most = retention.Get("limit_bytes_") / part("retention.limit_part") >> level;
  const uint64_t unlimited = set != 0 ? set
                                      : std::max(layout.constant("retention.floor_bytes"),
                                                 in_use / part("retention.in_use_part"));
  const uint64_t total = std::min(most, unlimited >> level);
  Shares shares = {.total = total,
                   .thread_caches = total / part("retention.thread_caches_part"),
                   .inherited = total / part("retention.inherited_part"),
                   .free_pages = total / part("retention.free_pages_part"),
                   .kept_spans = 0};
  shares.kept_spans = total - shares.thread_caches - shares.inherited - shares.free_pages;
  if (set != 0) return shares;
  const uint64_t of_many =
      std::min({thread_caches * layout.constant("retention.per_thread_cache_bytes") >> level,
                in_use / part("retention.thread_caches_in_use_part") >> level,
                shares.thread_caches + (most - total)});
  if (of_many > shares.thread_caches) {
    shares.total += of_many - shares.thread_caches;
    shares.thread_caches = of_many;
  }
  return shares;
}

const char* HugepageMode(uint64_t mode) {
  constexpr const char* kNames[] = {"never", "advise", "always"};
  return mode < std::size(kNames) ? kNames[mode] : "";
}

class Collector {
 public:
  explicit Collector(const Target& target)
      : target_(target), classes_(target.layout().constant("size_classes")) {}

  Statistics Collect() {
    if (classes_ > kMaxClasses) throw BadImage("the process's library has too many size classes");
    // The order is the library's: caches, classes, pages, so that those of pages bound the others.
    const CacheSums caches = SumCaches(target_, classes_);
    for (const Record& shard : LoadShards(target_.LoadHeap().Part("central").Part("shards_"))) {
      shards_.push_back(shard);
    }
    CollectClasses(caches);
    const Record heap = LoadSettledHeap(target_, &stats_.unsettled);
    CollectTotals(heap, caches);
    stats_.settings = heap.Text("settings.given");
    stats_.changes = ReadSettingChanges(heap);
    return std::move(stats_);
  }

 private:
  void CollectClasses(const CacheSums& caches) {
    const Record heap = target_.LoadHeap();
    const Record central = heap.Part("central");
    const Record page_heap = heap.Part("page_heap");
    const Record state = page_heap.Part("state_");
    const size_t word = target_.pointer_bytes();
    // An older library counts sampled small objects as large ones.
    const bool knows_sampled = state.structure().Has("sampled_objects");
    stats_.classes.resize(classes_);
    const uint64_t page = uint64_t{1} << target_.layout().constant("page_shift");
    const uint64_t granule = std::max<uint64_t>(page_heap.Get("granule_"), 1) * page;
    for (size_t c = 1; c < classes_; ++c) {
      const Record list = central.Part("free_lists_", c);
      SizeClassStatistics& of_class = stats_.classes[c];
      of_class.object_bytes = list.Get("object_size_");
      of_class.objects_per_span = list.Get("objects_per_span_");
      of_class.span_bytes = list.Get("span_pages_") * page;
      of_class.cached_objects = caches.objects[c];
      for (const Record& shard : shards_) {
        const Address address = SpansOf(shard, c);
        if (address == 0) continue;
        const Record spans = target_.Load("ShardSpans", address);
        of_class.spans += spans.Get("num_spans");
        of_class.central_objects += spans.Get("free_objects");
        hole_pages_ += spans.Get("hole_pages");
      }
      of_class.sampled_objects = knows_sampled ? state.At("sampled_objects", c, word) : 0;
      of_class.sampled_span_bytes = (of_class.object_bytes + granule - 1) / granule * granule;
      of_class.in_use_objects = LowerBy(of_class.spans * of_class.objects_per_span,
                                        of_class.cached_objects + of_class.central_objects) +
                                of_class.sampled_objects;
      central_bytes_ += of_class.central_objects * of_class.object_bytes;
      cached_bytes_ += of_class.cached_objects * of_class.object_bytes;
      tail_bytes_ += of_class.spans * LowerBy(of_class.span_bytes,
                                              of_class.objects_per_span * of_class.object_bytes);
      spans_in_use_ += of_class.spans;
    }
  }

  void CollectTotals(const Record& heap, const CacheSums& caches) {
    const Record state = heap.Part("page_heap").Part("state_");
    Pages pages = ReadPages(state);
    SetSampledApart(stats_.classes, &pages);
    // Does what BalanceStats of the library does.
    uint64_t rest = pages["small_span_bytes"];
    for (uint64_t* const part : {&tail_bytes_, &central_bytes_, &cached_bytes_}) {
      *part = std::min(*part, rest);
      rest -= *part;
    }
    const uint64_t guarded_pages = Optional(heap, "guarded.page_bytes");
    // An older library counts guarded objects with their pages.
    const uint64_t guarded = heap.structure().Has("guarded.object_bytes")
                                 ? std::min(heap.Get("guarded.object_bytes"), guarded_pages)
                                 : guarded_pages;
    const uint64_t in_use = pages["large_span_bytes"] + pages.sampled_bytes + guarded + rest;
    const Record holes = heap.Part("holes");
    const uint64_t hardware_page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t hole_bytes =
        holes.Get("releases_") == 0
            ? 0
            : std::min(hole_pages_ * hardware_page, central_bytes_ + tail_bytes_);
    const uint64_t sample_tails =
        pages.sampled_span_bytes - pages.sampled_bytes + guarded_pages - guarded;
    tail_bytes_ += sample_tails;
    const uint64_t free_bytes = pages.free_backed + pages["releasing_bytes"];
    // The figure is the sum of its parts, even if these are of different moments.
    const uint64_t system =
        in_use + cached_bytes_ + central_bytes_ + tail_bytes_ + free_bytes + pages.free_released;
    const uint64_t metadata = heap.Part("arena").Get("mapped_bytes_") +
                              pages["metadata_span_bytes"] + Optional(heap, "guarded.record_bytes");
    const uint64_t unmapped = pages.free_released + hole_bytes;
    const uint64_t virtual_bytes = system + metadata;
    Add("in_use_bytes", in_use);
    Add("page_heap_free_bytes", free_bytes);
    Add("central_cache_free_bytes", central_bytes_ + tail_bytes_ - hole_bytes);
    Add("thread_cache_free_bytes", cached_bytes_);
    Add("metadata_bytes", metadata);
    Add("actual_bytes", virtual_bytes - unmapped);
    Add("released_bytes", unmapped);
    Add("virtual_bytes", virtual_bytes);
    Add("large_in_use_bytes", pages["large_span_bytes"]);
    Add("guarded_bytes", guarded);
    Add("span_tail_bytes", tail_bytes_);
    Add("sample_tail_bytes", sample_tails);
    Add("released_in_spans_bytes", hole_bytes);
    Add("kept_span_bytes", pages.kept);
    Add("releasing_bytes", pages["releasing_bytes"]);
    Add("thread_cache_array_bytes", caches.array_bytes);
    Add("hugepage_bytes",
        state.Part("store").Get("hugepages_advised") * target_.layout().constant("hugepage_bytes"));
    Add("page_size_bytes", uint64_t{1} << target_.layout().constant("page_shift"));
    Add("thread_cache_limit_bytes", heap.Part("registry").Get("total_limit"));
    AddSettings(state, caches.of_threads);
    Add("large_objects", pages["large_spans"]);
    Add("spans_in_use", spans_in_use_ + pages["large_spans"] + pages.sampled_objects);
    Add("thread_caches", caches.of_threads + caches.orphans);
    AddEvents(heap, holes, system, unmapped, &pages);
    stats_.free_spans = pages.exact;
    stats_.longer = pages.longer;
    stats_.longer_backed_bytes = pages.longer_backed_bytes;
    stats_.longer_released_bytes = pages.longer_released_bytes;
  }

  void AddSettings(const Record& state, uint64_t thread_caches) {
    const Shares shares = ReadShares(state.Part("hints"), thread_caches);
    Add("retention_bytes", shares.total);
    Add("retention_thread_cache_bytes", shares.thread_caches);
    Add("retention_inherited_bytes", shares.inherited);
    Add("retention_kept_span_bytes", shares.kept_spans);
    Add("retention_free_page_bytes", shares.free_pages);
    const Record limits = state.Part("governor").Part("limits_");
    const uint64_t none = target_.pointer_bytes() == 8 ? ~uint64_t{0} : 0xffffffff;
    for (const auto& [name, field] : {std::pair{"hard_limit_bytes", "hard_bytes"},
                                      std::pair{"soft_limit_bytes", "soft_bytes"}}) {
      const uint64_t bytes = limits.Get(field);
      Add(name, bytes == none ? 0 : bytes);
    }
  }

  void AddEvents(const Record& heap, const Record& holes, uint64_t system, uint64_t unmapped,
                 Pages* pages) {
    Pages& counts = *pages;
    const Record governor = heap.Part("page_heap").Part("state_").Part("governor");
    const uint64_t released_total = counts["released_total_bytes"] +
                                    counts["unmapped_backed_bytes"] +
                                    holes.Get("released_total_bytes_");
    Add("growths_total", counts["growths"]);
    Add("reserved_bytes_total", counts["system_bytes"] + counts["unmapped_total_bytes"]);
    Add("commits_total", counts["commits"]);
    Add("committed_bytes_total", system - unmapped + released_total);
    Add("releases_total", counts["releases"] + holes.Get("releases_"));
    Add("decommitted_bytes_total", released_total);
    Add("prefaults_total", counts["prefaults"]);
    Add("hugepages_split_total", counts["hugepages_split"]);
    for (size_t i = 0; i < 2; ++i) {
      const Record limit = governor.Part("limit_counts", i);
      const std::string name = i == 0 ? "hard" : "soft";
      Add(name + "_limit_hits_total", limit.Get("hits"));
      Add(name + "_limit_released_bytes_total", limit.Get("released_bytes"));
    }
    Add("large_allocations_total", heap.Get("large_allocations"));
    Add("large_allocation_reports_total", heap.Get("large_reports"));
    const Record pressure = heap.Part("pressure_counts");
    const size_t word = target_.pointer_bytes();
    Add("pressure_sources", pressure.Get("sources"));
    Add("pressure_sources_failed_total", pressure.Get("sources_failed"));
    Add("pressure_events_total", pressure.Get("events"));
    Add("pressure_thread_flushes_total", pressure.At("actions", 0, word));
    Add("pressure_flushes_total", pressure.At("actions", 1, word));
    Add("pressure_releases_total", pressure.At("actions", 2, word));
    uint64_t moved = 0;
    for (size_t i = 0; i < pressure.ArraySize("moved_bytes", word); ++i) {
      moved += pressure.At("moved_bytes", i, word);
    }
    Add("pressure_moved_bytes_total", moved);
    stats_.hugepage_mode = HugepageMode(governor.Get("hugepages_.mode"));
  }

  void Add(std::string name, uint64_t value) {
    stats_.figures.emplace_back(std::move(name), value);
  }

  const Target& target_;
  const size_t classes_;
  Statistics stats_;
  std::vector<Record> shards_;
  uint64_t central_bytes_ = 0;
  uint64_t cached_bytes_ = 0;
  uint64_t tail_bytes_ = 0;
  uint64_t hole_pages_ = 0;
  uint64_t spans_in_use_ = 0;
};

}  // namespace

uint64_t Statistics::figure(std::string_view name) const {
  for (const auto& [known, value] : figures) {
    if (known == name) return value;
  }
  return 0;
}

Statistics ReadStatistics(const Target& target) { return Collector(target).Collect(); }

}  // namespace cli
