// SPDX-License-Identifier: BSD-3-Clause
#include "commands/profile_switch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "commands/commands.h"
#include "commands/options.h"
#include "image/text.h"
#include "report/setting_text.h"

namespace cli {
namespace {

std::string Interval(const std::string& bytes) {
  if (bytes == "0") return "off";
  return "one sample per " + SettingText("TCMALLOC_SAMPLE_PARAMETER", bytes);
}

}  // namespace

void AddProfileSwitch(CLI::App* command, ProfileSwitch* options) {
  CLI::Option* const start = command->add_flag(
      "--start", options->start,
      "Record allocations from now on, for --type allocations; switches sampling on if it is off");
  command->add_flag("--stop", options->stop, "End what --start began; sampling is as it was before")
      ->excludes(start);
  command
      ->add_option("--interval", options->interval,
                   "With --start: the mean number of bytes between samples, for example 512K")
      ->type_name("BYTES")
      ->needs(start);
  AddDuration(command, "--wait", &options->wait_s,
              "With --start and --stop: how long to wait for the process (2s)");
}

int SwitchProfile(const ProfileSwitch& options, const std::string& process, bool json) {
  const RequestOptions request{.process = process, .wait_s = options.wait_s};
  const std::string name = options.start ? "profile --start" : "profile --stop";
  return WithRequester(request, name, [&](OpenProcess& opened, Requester& requester) {
    const auto reply = requester.Ask(
        options.start ? RequestKind::kStartProfile : RequestKind::kStopProfile, options.interval);
    if (!reply.has_value()) return kPending;
    if (json) {
      fmt::print("{}\n", DumpJson({{"pid", opened.info.pid},
                                   {"recording", options.start},
                                   {"sampling_interval_before", reply->before},
                                   {"sampling_interval", reply->after}}));
      return kSuccess;
    }
    fmt::print("{}: {} allocations; sampling: {}", opened.name(),
               options.start ? "records" : "no longer records", Interval(reply->after));
    if (reply->before != reply->after) fmt::print(", before {}", Interval(reply->before));
    fmt::print("\n");
    return kSuccess;
  });
}

}  // namespace cli
