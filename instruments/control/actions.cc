// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/control/actions.h"

#include <cstdint>
#include <optional>

#include "base/text.h"
#include "base/units.h"
#include "config/setting.h"
#include "config/settings.h"
#include "instruments/guard/guarded_objects.h"
#include "instruments/profiles/process_profiles.h"
#include "instruments/profiles/sampler.h"
#include "process/heap.h"
#include "process/limits.h"
#include "process/release.h"

namespace tcmalloc {
namespace {

// The settings that can be changed while the process runs. Names, types and ranges are those of the
// table of settings; a value is parsed and checked as in the environment.
struct Changeable {
  const char* name;
  void (*write)(Heap& heap, TextWriter* value);
  // Sets the value. Returns null, or the reason why the value cannot be set.
  const char* (*set)(Heap& heap, const SettingValue& value);
};

// In settings, 0 means no limit.
size_t LimitOf(double number) { return number <= 0 ? kNoLimit : ControlBytes(number); }
size_t ShownLimit(size_t bytes) { return bytes == kNoLimit ? 0 : bytes; }

// Writes a number with up to three decimals.
void WriteDecimal(double value, TextWriter* out) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): lround is in another library.
  auto thousandths = static_cast<uint64_t>(value * 1000 + 0.5);
  out->Number(thousandths / 1000);
  thousandths %= 1000;
  if (thousandths == 0) return;
  out->Text(".");
  for (uint64_t unit = 100; thousandths != 0; thousandths %= unit, unit /= 10) {
    out->Number(thousandths / unit);
  }
}

MemoryLimits Limits(Heap& heap) { return heap.page_heap.governor()->limits(); }

const char* SetAggressive(Heap& heap, const SettingValue& value) {
  if (heap.page_heap.hints().releasing.value() == Releasing::kNever) {
    return "TCMALLOC_DISABLE_MEMORY_RELEASE is set";
  }
  heap.page_heap.governor()->SetReleasing(value.number != 0 ? Releasing::kEager
                                                            : Releasing::kByPolicy);
  return nullptr;
}

const char* SetReportThreshold(Heap& heap, const SettingValue& value) {
  heap.large_reports.SetThreshold(value.number <= 0 ? LargeReports::kNever
                                                    : ControlBytes(value.number));
  heap.large_reports.SetWritesLines(true);
  return nullptr;
}

const char* SetTotalOfCaches(Heap& heap, const SettingValue& value) {
  heap.registry.SetTotalLimit(value.number < 0 ? std::nullopt
                                               : std::optional<size_t>(ControlBytes(value.number)));
  return nullptr;
}

const char* SetRetention(Heap& heap, const SettingValue& value) {
  heap.page_heap.hints().retention.SetTotal(ControlBytes(value.number));
  heap.registry.FollowRetention();
  return nullptr;
}

// A percentage refers to the container's limit, which is read from files now and from then on.
const char* SetSoftLimit(Heap& heap, const SettingValue& value) {
  if (value.is_percent) {
    SetContainerShare(heap, static_cast<uint32_t>(value.number));
  } else {
    SetMemoryLimit(heap, LimitKind::kSoft, LimitOf(value.number));
  }
  return nullptr;
}

const char* SetSampling(Heap& heap, const SettingValue& value) {
  return SetSamplePeriod(heap, ControlBytes(value.number)) ? nullptr : kNoSamples;
}

const char* SetGuarded(Heap& heap, const SettingValue& value) {
  return SetGuardedSample(heap, ControlBytes(value.number))
             ? nullptr
             : "there is no memory for guarded objects, or this is libtcmalloc_minimal";
}

constexpr Changeable kChangeable[] = {
    {"TCMALLOC_AGGRESSIVE_DECOMMIT",
     [](Heap& heap, TextWriter* out) {
       out->Number(heap.page_heap.hints().releasing.value() == Releasing::kEager ? 1 : 0);
     },
     &SetAggressive},
    {"TCMALLOC_GUARDED_SAMPLE",
     [](Heap& heap, TextWriter* out) {
       out->Number(heap.guarded.every.load(std::memory_order_relaxed));
     },
     &SetGuarded},
    {"TCMALLOC_HEAP_LIMIT_MB",
     [](Heap& heap, TextWriter* out) { out->Number(ShownLimit(Limits(heap).hard_bytes) / 1_MiB); },
     [](Heap& heap, const SettingValue& value) -> const char* {
       SetMemoryLimit(heap, LimitKind::kHard, LimitOf(value.number * (1 << 20)));
       return nullptr;
     }},
    {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD",
     [](Heap& heap, TextWriter* out) {
       const size_t threshold = heap.large_reports.threshold();
       out->Number(threshold == LargeReports::kNever ? 0 : threshold);
     },
     &SetReportThreshold},
    {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
     [](Heap& heap, TextWriter* out) {
       if (!heap.registry.total_was_set()) out->Text("-1 (");
       out->Number(heap.registry.limits().total);
       if (!heap.registry.total_was_set()) out->Text(")");
     },
     &SetTotalOfCaches},
    {"TCMALLOC_RELEASE_RATE",
     [](Heap& heap, TextWriter* out) {
       WriteDecimal(heap.page_heap.governor()->release_rate(), out);
     },
     [](Heap& heap, const SettingValue& value) -> const char* {
       heap.page_heap.governor()->SetReleaseRate(value.number);
       return nullptr;
     }},
    {"TCMALLOC_RETENTION",
     [](Heap& heap, TextWriter* out) { out->Number(heap.page_heap.hints().retention.set_bytes()); },
     &SetRetention},
    {"TCMALLOC_SAMPLE_PARAMETER",
     [](Heap& heap, TextWriter* out) { out->Number(heap.sampling.period()); }, &SetSampling},
    {"TCMALLOC_SOFT_LIMIT",
     [](Heap& heap, TextWriter* out) {
       const uint32_t percent = heap.container_share.percent.load(std::memory_order_relaxed);
       if (percent != 0) out->Number(percent).Text("% (");
       out->Number(ShownLimit(Limits(heap).soft_bytes));
       if (percent != 0) out->Text(")");
     },
     &SetSoftLimit},
};

constexpr std::string_view kIntervalSetting = "TCMALLOC_SAMPLE_PARAMETER";

// Writes the name in the form of the tcmalloc command: without the prefix, in lower case.
void WriteShortName(std::string_view name, TextWriter* out) {
  // The command's other name of it, which documentation uses.
  if (name == kIntervalSetting) {
    out->Text("sampling");
    return;
  }
  constexpr size_t kPrefix = std::string_view("TCMALLOC_").size();
  for (size_t i = kPrefix; i < name.size(); ++i) {
    const char c = name[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    out->Text({&lower, 1});
  }
}

void FailWithNames(std::string_view why, ControlReply* reply) {
  reply->status = ControlReply::kRefused;
  TextWriter out(reply->message, sizeof(reply->message));
  out.Text(why).Text("; settings that can be changed: ");
  std::string_view before;
  for (const Changeable& one : kChangeable) {
    out.Text(before);
    WriteShortName(one.name, &out);
    before = ", ";
  }
}

const Changeable* Find(std::string_view name) {
  for (const Changeable& one : kChangeable) {
    if (name == one.name) return &one;
  }
  return nullptr;
}

bool MayRelease(const Heap& heap, ControlReply* reply) {
  if (!heap.settings.disable_memory_release) return true;
  FailControl(reply, "TCMALLOC_DISABLE_MEMORY_RELEASE is set: nothing is released to the OS");
  return false;
}

// The state of StartProfile. Written by the thread that serves requests, one at a time.
struct Started {
  bool recording = false;
  size_t former_interval = 0;
  size_t interval = 0;
};
constinit Started started;

// The interval to sample with; nothing when the text is no number of bytes.
std::optional<size_t> IntervalFor(const Heap& heap, std::string_view text) {
  if (text.empty()) {
    const size_t present = heap.sampling.period();
    return present != 0 ? present : size_t{kDefaultSamplePeriod};
  }
  const std::optional<SettingValue> value = ParseSetting(*FindSetting(kIntervalSetting), text);
  if (!value.has_value() || value->number < 1) return std::nullopt;
  return ControlBytes(value->number);
}

void CarryOut(Heap& heap, ControlKind kind, std::string_view text, ControlReply* reply) {
  switch (kind) {
    case ControlKind::kFlush:
      reply->bytes = FlushCaches(heap);
      return;
    case ControlKind::kRelease:
      if (!MayRelease(heap, reply)) return;
      reply->bytes = heap.page_heap.ReleaseAtLeast(Length::ForBytes(SIZE_MAX / 2)).bytes();
      return;
    case ControlKind::kTrim:
      if (MayRelease(heap, reply)) reply->bytes = Trim(heap, 0);
      return;
    case ControlKind::kSet:
      return ChangeSetting(heap, text, reply);
    case ControlKind::kStartProfile:
      return StartProfile(heap, text, reply);
    case ControlKind::kStopProfile:
      return StopProfile(heap, reply);
  }
  FailControl(reply,
              "the process's library does not know this request: it is older than the "
              "command");
}

}  // namespace

void FailControl(ControlReply* reply, std::string_view a, std::string_view b, std::string_view c) {
  reply->status = ControlReply::kRefused;
  TextWriter(reply->message, sizeof(reply->message)).Text(a).Text(b).Text(c);
}

void ChangeSetting(Heap& heap, std::string_view text, ControlReply* reply) {
  const std::string_view name = TakeField(&text, '=');
  const Setting* const setting = FindSetting(name);
  if (setting == nullptr) return FailWithNames("there is no such setting", reply);
  const Changeable* const one = Find(name);
  if (one == nullptr) return FailWithNames("it cannot be changed while the process runs", reply);
  const std::optional<SettingValue> value = ParseSetting(*setting, text);
  if (!value.has_value()) {
    reply->status = ControlReply::kRefused;
    TextWriter out(reply->message, sizeof(reply->message));
    out.Text("expected ");
    return WriteSettingRange(*setting, &out);
  }
  TextWriter before(reply->before, sizeof(reply->before));
  one->write(heap, &before);
  if (const char* const refusal = one->set(heap, *value)) return FailControl(reply, refusal);
  TextWriter after(reply->after, sizeof(reply->after));
  one->write(heap, &after);
}

void StartProfile(Heap& heap, std::string_view interval, ControlReply* reply) {
  const std::optional<size_t> wanted = IntervalFor(heap, interval);
  if (!wanted.has_value()) {
    return FailControl(reply, "the sampling interval must be a number of bytes, for example 512K");
  }
  const size_t former = heap.sampling.period();
  TextWriter(reply->before, sizeof(reply->before)).Number(former);
  if (*wanted != former && !SetSamplePeriod(heap, *wanted)) {
    return FailControl(reply, kNoSamples);
  }
  if (!BeginRecordingSamples(heap)) {
    if (*wanted != former) SetSamplePeriod(heap, former);
    return FailControl(reply,
                       "allocations are recorded already, by the program or by an earlier "
                       "profile --start");
  }
  started = {.recording = true, .former_interval = former, .interval = *wanted};
  TextWriter(reply->after, sizeof(reply->after)).Number(heap.sampling.period());
}

void StopProfile(Heap& heap, ControlReply* reply) {
  if (!kHasProfiles) return FailControl(reply, kNoSamples);
  if (!started.recording) {
    return FailControl(reply,
                       "no profile --start came before; the program ends a recording of its "
                       "own, and 'tcmalloc set PID sampling=0' ends sampling");
  }
  started.recording = false;
  TextWriter(reply->before, sizeof(reply->before)).Number(heap.sampling.period());
  EndRecordingSamples();
  // The former interval is not restored if another one was set meanwhile.
  if (heap.sampling.period() == started.interval && started.interval != started.former_interval) {
    SetSamplePeriod(heap, started.former_interval);
  }
  TextWriter(reply->after, sizeof(reply->after)).Number(heap.sampling.period());
}

void (*const kCarryOut)(Heap&, ControlKind, std::string_view, ControlReply*) = &CarryOut;

}  // namespace tcmalloc
