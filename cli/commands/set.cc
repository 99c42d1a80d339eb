// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc set: changes settings of a running process.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/request.h"
#include "commands/setting_option.h"

namespace cli {
namespace {

struct SetOptions : RequestOptions {
  std::vector<std::string> settings;
};

int Set(const SetOptions& options) {
  for (const std::string& setting : options.settings) static_cast<void>(VariableOf("set", setting));
  return WithRequester(options, "set", [&](OpenProcess& process, Requester& requester) {
    nlohmann::ordered_json json = {{"pid", process.info.pid},
                                   {"settings", nlohmann::json::array()}};
    int status = kSuccess;
    std::string failure;
    for (const std::string& setting : options.settings) {
      const std::string name = setting.substr(0, setting.find('='));
      try {
        const auto reply =
            requester.Ask(RequestKind::kSet, VariableOf("set", setting), "set " + setting);
        if (!reply.has_value()) {
          status = kPending;
          break;
        }
        json["settings"].push_back(
            {{"name", name}, {"before", reply->before}, {"after", reply->after}});
        if (!options.json) fmt::print("{}: {} -> {}\n", name, reply->before, reply->after);
      } catch (const Failure& error) {
        failure = error.what();
        break;
      }
    }
    if (options.json) fmt::print("{}\n", json.dump());
    if (!failure.empty()) throw Failure(failure);
    return status;
  });
}

}  // namespace

void AddSet(CLI::App& parser, int* status) {
  const auto options = std::make_shared<SetOptions>();
  CLI::App* const command = parser.add_subcommand(
      "set", "Change settings of a running process, for example release_rate=10");
  AddRequestOptions(command, options.get());
  command->add_option("settings", options->settings, "The settings, as for 'run --set'")
      ->required()
      ->type_name("NAME=VALUE");
  command->callback([options, status] { *status = Set(*options); });
}

}  // namespace cli
