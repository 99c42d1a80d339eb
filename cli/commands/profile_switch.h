// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc profile --start and --stop: switches the recording of allocations in a running process.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "commands/request.h"

namespace cli {

struct ProfileSwitch {
  bool start = false;
  bool stop = false;
  std::string interval;
  double wait_s = 2;

  bool is_given() const { return start || stop; }
};

void AddProfileSwitch(CLI::App* command, ProfileSwitch* options);
int SwitchProfile(const ProfileSwitch& options, const std::string& process, bool json);

}  // namespace cli
