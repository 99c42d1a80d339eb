// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <optional>

#include "base/text.h"
#include "config/setting.h"
#include "instruments/control/actions.h"
#include "instruments/profiles/sampler.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// The state of StartProfile. Written by the thread that serves requests, one at a time.
struct Started {
  bool recording = false;
  size_t former_interval = 0;
  size_t interval = 0;
};
constinit Started started;

constexpr std::string_view kIntervalSetting = "TCMALLOC_SAMPLE_PARAMETER";

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

}  // namespace

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
  if (!started.recording) {
    return FailControl(reply,
                       "no profile --start came before; the program ends a recording of its "
                       "own, and 'tcmalloc set PID sample_parameter=0' ends sampling");
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

}  // namespace tcmalloc
