// SPDX-License-Identifier: BSD-3-Clause
#include "commands/find_leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "commands/read_mirror.h"
#include "image/mirror.h"

namespace cli {
namespace {

// The number of passes of a search while the process runs.
constexpr int kPasses = 3;

// Whether an earlier pass found this leak.
bool WasFound(const std::vector<Leak>& leaks, const Leak& leak) {
  const auto at =
      std::lower_bound(leaks.begin(), leaks.end(), leak.start,
                       [](const Leak& each, Address start) { return each.start < start; });
  return at != leaks.end() && at->start == leak.start && at->bytes == leak.bytes;
}

// Searches one copy of the process. Omits leaks that are not among `earlier`, unless that is null.
void SearchCopy(OpenProcess& process, const LeakOptions& options, const std::vector<Leak>* earlier,
                FoundLeaks* found) {
  ReadMirror(process, &found->mode,
             [&](Mirror& mirror, const Target& target, bool stopped, std::vector<Guard>* guards) {
               ++found->pauses;
               found->search =
                   FindLeaks(mirror, target, process.info.pid, stopped, options, guards);
               found->copied_bytes = mirror.copied_bytes();
               // What was not read may lead to the objects.
               found->probable |= found->search.unread_bytes > 0;
               if (earlier != nullptr) {
                 std::erase_if(found->search.leaks,
                               [earlier](const Leak& leak) { return !WasFound(*earlier, leak); });
               }
               found->groups = GroupLeaks(found->search, target);
             });
  if (!found->mode.settled) {
    const std::string held = found->mode.held.empty() ? "the heap" : found->mode.held;
    found->search.incomplete.push_back(
        held + " was in use: objects that a thread was allocating or freeing may be missing");
  }
}

}  // namespace

FoundLeaks FindLeaksStopped(OpenProcess& process, const LeakOptions& options) {
  FoundLeaks found;
  SearchCopy(process, options, nullptr, &found);
  return found;
}

FoundLeaks FindLeaksForked(OpenProcess& process, const LeakOptions& options) {
  FoundLeaks found;
  found.mode.fork = true;
  SearchCopy(process, options, nullptr, &found);
  found.probable |= !found.mode.lacking.empty();
  found.search.incomplete.insert(found.search.incomplete.end(), found.mode.lacking.begin(),
                                 found.mode.lacking.end());
  return found;
}

// An object that is leaked in each of several passes is probably leaked. A single pass misses an
// object in use if the pointer to it moves from memory that is copied late to memory that is copied
// early.
FoundLeaks FindLeaksRunning(OpenProcess& process, const LeakOptions& options) {
  FoundLeaks found;
  found.mode.stop = false;
  found.probable = true;
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::vector<Leak> earlier = std::move(found.search.leaks);
    SearchCopy(process, options, pass == 0 ? nullptr : &earlier, &found);
  }
  found.search.incomplete.push_back(fmt::format(
      "the process was not stopped: what {} passes found is probable, and threads' registers were "
      "not seen",
      kPasses));
  return found;
}

FoundLeaks FindLeaksInFile(OpenProcess& process, const LeakOptions& options) {
  CoreImage& core = *process.core;
  if (core.is_snapshot() && !core.facts().all_memory) {
    throw Failure(fmt::format(
        "incomplete: {} is a snapshot without variables and stacks of the program: make it with "
        "--contents",
        process.name()));
  }
  FoundLeaks found;
  SearchCopy(process, options, nullptr, &found);
  const std::string truncation = core.Truncation();
  if (!truncation.empty()) found.search.incomplete.push_back(truncation);
  if (!core.is_snapshot() && !core.HasVariables()) {
    found.search.incomplete.push_back("the file lacks variables of the program or of a library");
  }
  return found;
}

}  // namespace cli
