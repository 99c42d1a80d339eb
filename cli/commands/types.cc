// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc types PROCESS: shows the objects that the program holds, by their C++ types.
#include "heap/types.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "image/vtables.h"
#include "report/profile_report.h"
#include "report/types_report.h"

namespace cli {
namespace {

struct TypesOptions {
  ProcessArgument process;
  size_t top = 20;
  bool json = false;
  bool no_stop = false;
};

// A message about objects that could not be read; empty if there are none.
std::string UnreadText(const OpenProcess& process, const ObjectTypes& types) {
  if (types.unread.objects == 0) return {};
  std::string text =
      fmt::format("incomplete: {}: the contents of {} of {} objects are not readable",
                  process.name(), types.unread.objects, types.all.objects);
  if (process.core == nullptr) return text;
  if (process.core->is_snapshot()) {
    return text +
           ": the snapshot was made without them ('tcmalloc snapshot --contents' saves them)";
  }
  return text + ": " + process.core->missing();
}

// A message about unknown types; empty if there are none.
std::string UnknownText(const OpenProcess& process, const Vtables& vtables) {
  if (vtables.unreadable() + vtables.unnamed() == 0) return {};
  std::string text = fmt::format("incomplete: {}: ", process.name());
  if (vtables.unnamed() > 0) {
    text += fmt::format("the names of {} types are not readable", vtables.unnamed());
  }
  if (vtables.unreadable() > 0) {
    text += fmt::format(
        "{}objects begin with {} pointers into files, whose memory is not readable: "
        "these may be vtables",
        vtables.unnamed() > 0 ? "; " : "", vtables.unreadable());
  }
  if (process.core != nullptr && !process.core->missing().empty()) {
    text += ": " + process.core->missing();
  }
  return text;
}

int Types(const TypesOptions& options, OpenProcess& process) {
  RequireHeap(process);
  ReadMode mode{.stop = !options.no_stop};
  ListedObjects list;
  size_t word_bytes = sizeof(uint64_t);
  WithObjects(process, &mode, [&](const HeapObjects& objects) {
    list = ListObjects(objects);
    word_bytes = objects.target().pointer_bytes();
  });
  if (process.core != nullptr) process.core->ForgetMissing();
  // The process runs, so an object may be freed and another one allocated before its first word is
  // read.
  Vtables vtables(process.files, *process.image);
  const ObjectTypes types =
      FindTypes(list, *process.image, word_bytes,
                [&vtables](Address word) -> const std::string& { return vtables.TypeOf(word); });
  const std::string unread = UnreadText(process, types);
  if (types.unread.objects == types.all.objects && !unread.empty()) throw Failure(unread);
  std::vector<std::string> incomplete = {unread, UnknownText(process, vtables)};
  std::erase(incomplete, "");
  Symbolizer symbolizer(process.files, *process.image);
  const std::vector<CallSite> sites = CallSitesOf(types.sites, symbolizer.names());
  if (options.json) {
    nlohmann::ordered_json json = TypesJson(types, sites, process.info, options.top);
    json["stopped_ms"] = mode.pause_ms;
    json["settled"] = mode.settled;
    json["incomplete"] = nlohmann::ordered_json::array();
    for (const std::string& line : incomplete) json["incomplete"].push_back(line);
    fmt::print("{}\n", DumpJson(json));
  } else {
    fmt::print("{}\n{}\n", TypesText(types, sites, process.info, options.top), HowItWasRead(mode));
    for (const std::string& line : incomplete) fmt::print("{}\n", line);
  }
  for (const std::string& problem : vtables.problems()) {
    fmt::print(stderr, "tcmalloc: types of this file are known by its memory only: {}\n", problem);
  }
  return kSuccess;
}

}  // namespace

void AddTypes(CLI::App& parser, int* status) {
  const auto options = std::make_shared<TypesOptions>();
  CLI::App* const command = parser.add_subcommand(
      "types", "The C++ types of the objects that the program holds, by their vtables");
  AddProcess(command, &options->process);
  command->add_option("--top", options->top, "How many rows of each part are shown, 20 by default")
      ->check(CLI::PositiveNumber);
  command->add_flag("--no-stop", options->no_stop, kNoStopHelp);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return Types(*options, process); });
  });
}

}  // namespace cli
