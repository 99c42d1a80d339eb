// SPDX-License-Identifier: BSD-3-Clause
// Requests to a running process, for the commands that change its state.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "commands/open_process.h"
#include "heap/requests.h"

namespace cli {

struct RequestOptions {
  std::string process;
  double wait_s = 2;
  bool json = false;
};

// Adds the options for the process, --wait and --json.
void AddRequestOptions(CLI::App* command, RequestOptions* options);

// Makes requests to one process, while no other command does.
class Requester {
 public:
  // `name` is the name of the command, for messages. Throws Failure when the process takes no
  // requests.
  Requester(OpenProcess& process, std::string_view name, double wait_s);
  Requester(const Requester&) = delete;
  Requester& operator=(const Requester&) = delete;

  // Makes the request and returns the reply. `what` is for messages; if it is empty, they use the
  // command. Returns nullopt if there was no reply in time: then the request stays pending, and a
  // line on stderr reports that. Throws Failure when the process refuses the request or ends, and
  // on Ctrl-C, after it has withdrawn the request.
  std::optional<Reply> Ask(RequestKind kind, std::string_view text, std::string_view what = "");

 private:
  using Clock = std::chrono::steady_clock;

  // Throws Failure when the process has ended, or runs another program by now.
  void RequireSameProgram() const;
  // Waits until no other command makes a request. Throws Failure.
  void Lock(Clock::time_point end);
  // Makes a thread of the process look for the request.
  void Call(const RequestState& state);
  std::optional<Reply> Await(uint32_t ticket, std::string_view what, Clock::time_point end);
  std::string WhyPending(uint32_t ticket) const;

  OpenProcess& process_;
  const std::string name_;
  const double wait_s_;
  const Target target_;
  RequestRecord record_;
  std::string not_woken_;  // why the listener cannot be woken
};

// Opens the process for a command that makes requests.
int WithRequester(const RequestOptions& options, std::string_view name,
                  const std::function<int(OpenProcess&, Requester&)>& f);

}  // namespace cli
