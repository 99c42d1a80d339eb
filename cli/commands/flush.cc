// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc flush, release and trim: empty the caches of a running process, and release its free
// memory.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "commands/commands.h"
#include "commands/request.h"
#include "report/sizes.h"

namespace cli {
namespace {

struct Action {
  const char* name;
  const char* help;
  RequestKind kind;
  const char* done;  // the verb for the bytes: flushed or released
  const char* json;  // the name of the bytes in JSON
};

constexpr Action kActions[] = {
    {"flush", "Empty the thread caches of a process, and the free spans that it keeps",
     RequestKind::kFlush, "moved out of caches", "flushed_bytes"},
    {"release", "Release the free pages of a process to the OS", RequestKind::kRelease,
     "released to the OS", "released_bytes"},
    {"trim", "Flush, then release all free pages, also those inside used spans (malloc_trim)",
     RequestKind::kTrim, "released to the OS", "released_bytes"},
};

int Act(const Action& action, const RequestOptions& options) {
  return WithRequester(options, action.name, [&](OpenProcess& process, Requester& requester) {
    const auto reply = requester.Ask(action.kind, "");
    if (!reply.has_value()) return kPending;
    if (options.json) {
      fmt::print(
          "{}\n",
          nlohmann::ordered_json{{"pid", process.info.pid}, {action.json, reply->bytes}}.dump());
    } else {
      fmt::print("{}: {} {}\n", process.name(), Size(reply->bytes), action.done);
    }
    return kSuccess;
  });
}

}  // namespace

void AddFlush(CLI::App& parser, int* status) {
  for (const Action& action : kActions) {
    const auto options = std::make_shared<RequestOptions>();
    CLI::App* const command = parser.add_subcommand(action.name, action.help);
    AddRequestOptions(command, options.get());
    command->callback([&action, options, status] { *status = Act(action, *options); });
  }
}

}  // namespace cli
