// SPDX-License-Identifier: BSD-3-Clause
#include "commands/top_source.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "image/stop.h"
#include "image/thread_places.h"

namespace cli {
namespace {

// A process that still loads its libraries is not on this allocator yet, so one look is not enough.
constexpr int kLooksAtOther = 2;

// A text that changes when the process executes another program or has ended: the time of its
// start, and the addresses of its code and of its stack. Empty if there is no such process.
std::string ExecutionOf(pid_t pid) {
  const std::vector<std::string> fields = StatFields(pid);
  if (fields.size() <= kStartOfStack) return {};
  return fields[kStartTime] + " " + fields[kStartOfCode] + " " + fields[kStartOfStack];
}

}  // namespace

std::shared_ptr<TopSource::Watched> TopSource::Open(pid_t pid, Search search) {
  std::shared_ptr<Watched>& watched = watched_[pid];
  std::string execution = ExecutionOf(pid);
  if (watched != nullptr && (execution.empty() || watched->execution == execution)) return watched;
  watched.reset();
  watched = time_.Read(pid, [pid, search] {
    auto opened = std::make_shared<Watched>();
    opened->process = OpenProcessFor(pid, search);
    OpenProcess& process = opened->process;
    if (process.runs_on_this_allocator()) {
      opened->target.emplace(*process.image, *process.root);
      opened->view.version = process.root->version;
    } else {
      opened->view.allocator = OtherAllocator(process.image->Mappings());
    }
    return opened;
  });
  watched->execution = std::move(execution);
  return watched;
}

void TopSource::Refresh(Watched& watched) {
  ProcessView& view = watched.view;
  const Target* const target = watched.target.has_value() ? &*watched.target : nullptr;
  ProcessFigures figures = ReadProcessFigures(watched.process.info.pid, target);
  view.now = figures;
  view.history.push_back(std::move(figures));
  if (view.history.size() > kMostHistory) view.history.erase(view.history.begin());
}

bool TopSource::IsOther(pid_t pid) const {
  const auto found = others_.find(pid);
  if (found == others_.end()) return false;
  const Other& other = found->second;
  return (other.looks >= kLooksAtOther || !other.answers) && other.execution == ExecutionOf(pid);
}

void TopSource::AddOther(pid_t pid) {
  Other& other = others_[pid];
  std::string execution = ExecutionOf(pid);
  if (other.execution != execution) other = {.execution = std::move(execution)};
  ++other.looks;
}

void TopSource::Abandon(pid_t pid) {
  watched_.erase(pid);
  AddOther(pid);
  others_[pid].answers = false;
}

TopData TopSource::ReadProcesses() {
  std::vector<ProcessView> views;
  std::set<pid_t> existing;
  for (const pid_t pid : AllProcesses()) {
    existing.insert(pid);
    if (IsOther(pid)) continue;
    try {
      const std::shared_ptr<Watched> watched = Open(pid, Search::kNotes);
      if (watched->target.has_value()) {
        time_.Read(pid, [watched] { Refresh(*watched); });
        views.push_back(watched->view);
        continue;
      }
      watched_.erase(pid);
    } catch (const NoAnswer&) {
      Abandon(pid);
      continue;
    } catch (const Failure&) {
      // The process has ended, may not be read, or its heap changes faster than it is read.
      if (watched_[pid] != nullptr) continue;
    }
    AddOther(pid);
  }
  // A PID may be used again by another process.
  std::erase_if(watched_, [&](const auto& entry) {
    return entry.second == nullptr || !existing.contains(entry.first);
  });
  std::erase_if(others_, [&](const auto& entry) { return !existing.contains(entry.first); });
  return DataOfProcesses(views);
}

void TopSource::ReadThreads(Watched& watched) {
  const pid_t pid = watched.process.info.pid;
  std::vector<CacheInfo> caches =
      ReadWhileItChanges(pid, [&watched] { return ReadThreadCaches(*watched.target); });
  NameThreads(pid, watched.process.image->Mappings(), StackPointers(pid), &watched.threads,
              &caches);
  watched.view.threads.clear();
  for (const CacheInfo& cache : caches) {
    watched.view.threads.push_back(
        {cache, cache.thread == 0 ? std::string() : ThreadName(pid, cache.thread)});
  }
}

// If the list of samples changes meanwhile, the former call sites stay.
void TopSource::ReadCallSites(const std::shared_ptr<Watched>& watched) {
  ProcessView& view = watched->view;
  try {
    const Samples samples = time_.Read(view.now.info.pid, [watched] {
      std::vector<Guard> guards;
      return ReadSamples(*watched->target, &guards);
    });
    if (!samples.supported) return;
    std::unique_ptr<Symbolizer>& symbolizer = watched->symbolizer;
    if (symbolizer == nullptr) {
      symbolizer = std::make_unique<Symbolizer>(watched->process.files, *watched->process.image);
    }
    symbolizer->UpdateJitNames();
    view.sites = CallSitesOf(MakeProfile(samples, ProfileKind::kInUse), symbolizer->names());
    view.samples = SampleCount{
        .time_ms = view.now.time_ms, .samples = samples.last_number, .interval = samples.interval};
    view.sample_history.push_back(*view.samples);
    if (view.sample_history.size() > kMostHistory) {
      view.sample_history.erase(view.sample_history.begin());
    }
  } catch (const BadImage&) {
  }
}

TopData TopSource::ReadProcess(pid_t pid) {
  if (IsOther(pid) && !others_.at(pid).answers) throw NoAnswer(pid);
  try {
    const std::shared_ptr<Watched> watched = Open(pid, Search::kEverywhere);
    time_.Read(pid, [watched] {
      Refresh(*watched);
      if (watched->view.now.stats.has_value()) ReadThreads(*watched);
    });
    if (watched->view.now.stats.has_value()) ReadCallSites(watched);
    return DataOfProcess(watched->view);
  } catch (const NoAnswer&) {
    Abandon(pid);
    throw;
  }
}

}  // namespace cli
