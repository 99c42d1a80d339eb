// SPDX-License-Identifier: BSD-3-Clause
#include "commands/read_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "commands/setting_names.h"
#include "config/environment_hints.h"
#include "heap/lacking.h"
#include "heap/record.h"
#include "heap/requests.h"
#include "heap/statistics.h"
#include "image/core_image.h"
#include "image/resident.h"
#include "image/stop.h"
#include "image/text.h"
#include "image/thread_places.h"

namespace cli {
namespace {

// Returns a hint about the variable; empty if it needs none.
std::string HintAbout(std::string_view name, std::string_view value) {
  char buffer[512];
  tcmalloc::TextWriter hint(buffer, sizeof(buffer));
  tcmalloc::WriteHint(name, value, &IsSetting, &hint);
  return CleanText(hint.text());
}

}  // namespace

std::vector<std::string> HintsAbout(const std::vector<std::string>& environment) {
  std::set<std::string> hints;
  for (const std::string& variable : environment) {
    const std::string_view text = variable;
    const size_t end = text.find('=');
    if (end == std::string_view::npos) continue;
    std::string hint = HintAbout(text.substr(0, end), text.substr(end + 1));
    if (!hint.empty()) hints.insert(std::move(hint));
  }
  return {hints.begin(), hints.end()};
}

std::vector<std::string> EnvironmentOf(pid_t pid) {
  // A process can make any of its memory its environment. At a start the kernel accepts 6 MiB.
  constexpr size_t kMostBytes = size_t{6} << 20;
  std::ifstream file(fmt::format("/proc/{}/environ", LivingThread(pid)), std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::string_view rest(text.data(), static_cast<size_t>(file.gcount()));
  std::vector<std::string> environment;
  while (!rest.empty()) {
    environment.emplace_back(tcmalloc::TakeField(&rest, '\0'));
  }
  return environment;
}

bool IsPythonThatMaps(const std::string& executable, const std::vector<std::string>& environment) {
  const size_t name = executable.rfind('/') + 1;
  if (!executable.substr(name).starts_with("python")) return false;
  return !environment.empty() &&
         std::none_of(environment.begin(), environment.end(), [](const std::string& variable) {
           return variable.starts_with("PYTHONMALLOC=malloc");
         });
}

namespace {

// Memory may change between the reading of the kernel's figures and of the heap's, so the best of
// several readings counts.
constexpr int kReadings = 5;
constexpr uint64_t kClosePart = 50;

uint64_t Apart(const Facts& facts) {
  const uint64_t sum = facts.heap.sum() + facts.process.sum();
  return sum > facts.resident_bytes ? sum - facts.resident_bytes : facts.resident_bytes - sum;
}

ResidentPages PagesOf(const OpenProcess& process) {
  if (process.core == nullptr) {
    return {OpenPages(process.info.pid), ReadSmaps(process.info.pid)};
  }
  FilePages pages = ReadFilePages(*process.core);
  return {std::move(pages.pages), std::move(pages.uses)};
}

ThreadFacts ThreadsOf(const OpenProcess& process) {
  const size_t threads = process.info.threads;
  if (process.core == nullptr) {
    const pid_t pid = process.info.pid;
    return {.threads = threads, .stacks = StackPointers(pid), .stack_bytes = ThreadStackBytes(pid)};
  }
  if (!process.core->is_snapshot()) return {.threads = threads};
  const SnapshotFacts& facts = process.core->facts();
  return {.threads = threads, .stacks = facts.stacks, .stack_bytes = facts.stack_bytes};
}

// A snapshot contains the kernel's figures of resident memory.
void AddLacking(const OpenProcess& process, const Target& target, Facts* facts) {
  if (process.core == nullptr || process.core->is_snapshot()) return;
  const Lacking lacking =
      LackingMemory(HeapObjects(target), process.image->Mappings(),
                    [&process](Address address) { return process.core->IsUnwritten(address); });
  facts->lacking_bytes = lacking.bytes;
  if (lacking.bytes > 0) facts->lacking = process.core->WhyMissing(lacking.first);
}

RequestTime ReadRequestTime(const Target& target) {
  try {
    const RequestState state = ReadRequestState(target);
    if (state.access != RequestState::Access::kAccepted) return RequestTime::kNever;
    return state.listener != 0 ? RequestTime::kAtOnce : RequestTime::kAtNextAllocation;
  } catch (const NotPublished&) {
    return RequestTime::kNever;
  }
}

Facts ReadOnce(const OpenProcess& process, const std::optional<Target>& target) {
  Facts facts{
      .target = process.core == nullptr ? std::to_string(process.info.pid) : process.core->path(),
      .is_running = process.core == nullptr,
      .resident_is_minimum = !process.info.has_kernel_figures};
  ResidentPages pages = PagesOf(process);
  for (const MappingUse& use : pages.mappings()) facts.resident_bytes += use.resident_bytes;
  if (target.has_value()) {
    facts.stats = ReadStatistics(*target);
    const auto read = [&] { return ReadHeapUse(*target, facts.stats, pages); };
    facts.heap = facts.is_running ? ReadWhileItChanges(process.info.pid, read) : read();
    AddLacking(process, *target, &facts);
    if (facts.is_running) facts.requests = ReadRequestTime(*target);
    facts.can_sample = ReadSampleLayout(*target).table != 0;
    if (facts.can_sample) facts.sampling_interval = target->LoadHeap().Get("sample_period");
  }
  facts.process = ReadProcessUse(pages, ThreadsOf(process));
  facts.swapped_bytes = process.info.memory.swapped_bytes;
  return facts;
}

}  // namespace

Facts ReadFacts(const OpenProcess& process, const std::optional<Target>& target) {
  Facts best = ReadOnce(process, target);
  // A file does not change, so one reading is enough.
  if (process.core != nullptr) return best;
  for (int i = 1; i < kReadings && Apart(best) > best.resident_bytes / kClosePart; ++i) {
    Facts facts = ReadOnce(process, target);
    if (Apart(facts) < Apart(best)) best = std::move(facts);
  }
  return best;
}

}  // namespace cli
