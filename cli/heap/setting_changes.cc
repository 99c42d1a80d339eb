// SPDX-License-Identifier: BSD-3-Clause
#include "heap/setting_changes.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <utility>

namespace cli {
namespace {

// Reads the settings that instruments/control/actions.cc can change.
class Reader {
 public:
  explicit Reader(const Record& heap)
      : heap_(heap), none_(heap.target().pointer_bytes() == 8 ? ~uint64_t{0} : 0xffffffff) {}

  std::vector<SettingChange> Read() {
    ReadReleasing();
    ReadGuarded();
    const Record limits = Governor().Part("limits_");
    AddIfChanged("HEAP_LIMIT_MB", heap_.Get("settings.hard_limit_bytes"), limits.Get("hard_bytes"),
                 uint64_t{1} << 20);
    AddIfChanged("LARGE_ALLOC_REPORT_THRESHOLD", heap_.Get("settings.large_report_threshold_bytes"),
                 heap_.Get("present.large_report_threshold"));
    ReadTotalOfCaches();
    const auto rate = std::bit_cast<double>(heap_.Get("present.release_rate"));
    if (rate != std::bit_cast<double>(heap_.Get("settings.release_rate"))) {
      Add("RELEASE_RATE", fmt::format("{:g}", rate));
    }
    AddIfChanged("RETENTION", heap_.Get("settings.retention_bytes"),
                 State().Part("hints").Part("retention").Get("set_bytes_"));
    ReadSampling();
    ReadSoftLimit(limits.Get("soft_bytes"));
    return std::move(changes_);
  }

 private:
  Record State() const { return heap_.Part("page_heap").Part("state_"); }
  Record Governor() const { return State().Part("governor"); }

  void Add(const char* name, std::string value) {
    changes_.push_back({std::string("TCMALLOC_") + name, std::move(value)});
  }
  // 0 stands for no limit.
  uint64_t Shown(uint64_t bytes) const { return bytes == none_ ? 0 : bytes; }
  void AddIfChanged(const char* name, uint64_t start, uint64_t present, uint64_t unit = 1) {
    if (start != present) Add(name, std::to_string(Shown(present) / unit));
  }

  void ReadReleasing() {
    const uint64_t releasing = heap_.Get("present.releasing");
    const Layout& layout = heap_.target().layout();
    if (releasing == layout.constant("Releasing.kNever")) return;
    const uint64_t eager = releasing == layout.constant("Releasing.kEager") ? 1 : 0;
    AddIfChanged("AGGRESSIVE_DECOMMIT", heap_.Get("settings.aggressive_decommit"), eager);
  }

  void ReadGuarded() {
    const uint64_t every = heap_.Get("present.guarded_sample");
    // Without a pool, TCMALLOC_GUARDED_SAMPLE has no effect.
    if (every == 0 && heap_.Get("guarded.pool_start") == 0) return;
    AddIfChanged("GUARDED_SAMPLE", heap_.Get("settings.guarded_sample"), every);
  }

  void ReadTotalOfCaches() {
    const auto start = static_cast<int64_t>(heap_.Get("settings.max_total_thread_cache_bytes"));
    const uint64_t total = heap_.Part("registry").Get("total_limit");
    const bool is_set = heap_.Get("present.max_total_was_set") != 0;
    if (is_set == (start >= 0) && (!is_set || total == static_cast<uint64_t>(start))) return;
    Add("MAX_TOTAL_THREAD_CACHE_BYTES",
        is_set ? std::to_string(total) : fmt::format("-1 ({})", total));
  }

  void ReadSampling() {
    uint64_t start = heap_.Get("settings.sample_period_bytes");
    const uint64_t present = heap_.Get("sample_period");
    const uint64_t without_setting = heap_.target().layout().constant("default_sample_period");
    // Other settings of the start switch sampling on: guarded samples, if there is a pool for them,
    // and TCMALLOC_PROFILE, unless its file cannot be written.
    if (start == 0 && heap_.Get("settings.guarded_sample") != 0 &&
        heap_.Get("guarded.pool_start") != 0) {
      start = without_setting;
    }
    if (start == 0 && present == without_setting &&
        heap_.Text("settings.given").find("TCMALLOC_PROFILE=") != std::string::npos) {
      return;
    }
    // The minimal library takes no samples.
    if (present == 0 && start != 0 && ReadSampleLayout(heap_.target()).table == 0) return;
    AddIfChanged("SAMPLE_PARAMETER", start, present);
  }

  void ReadSoftLimit(uint64_t present) {
    const uint64_t percent = heap_.Get("present.soft_limit_percent");
    const uint64_t start_percent = heap_.Get("settings.soft_limit.percent");
    if (percent == start_percent &&
        (percent != 0 || present == heap_.Get("settings.soft_limit.bytes"))) {
      return;
    }
    Add("SOFT_LIMIT", percent == 0 ? std::to_string(Shown(present))
                                   : fmt::format("{}% ({})", percent, Shown(present)));
  }

  const Record& heap_;
  const uint64_t none_;
  std::vector<SettingChange> changes_;
};

}  // namespace

std::vector<SettingChange> ReadSettingChanges(const Record& heap) {
  if (!heap.structure().Has("settings.release_rate")) return {};
  return Reader(heap).Read();
}

}  // namespace cli
