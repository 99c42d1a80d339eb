// SPDX-License-Identifier: BSD-3-Clause
#include "commands/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "commands/commands.h"
#include "commands/interrupt_watch.h"
#include "commands/options.h"
#include "image/text.h"
#include "os/cgroup.h"
#include "report/setting_text.h"
#include "report/table.h"

namespace cli {
namespace {

// The pauses between two looks at the reply. The library replies within microseconds once a thread
// sees the request, so the first pause is short; each later one is twice as long, up to the
// longest.
constexpr auto kShortestPause = std::chrono::microseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(10);
// A wake-up has no effect on a thread that is about to sleep, or is allocating at this moment, so
// it is repeated, at intervals that double up to the longest.
constexpr auto kFirstInterval = std::chrono::milliseconds(2);
constexpr auto kLongestInterval = std::chrono::milliseconds(25);
// How often a request is written, if another command overwrites a part of it each time.
constexpr int kRequestTries = 3;

// Whether the process is stopped by a signal or by a debugger.
bool IsStopped(pid_t pid) {
  const auto info = ReadProcessInfo(pid);
  return info.has_value() && (info->state == 'T' || info->state == 't');
}

}  // namespace

void AddRequestOptions(CLI::App* command, RequestOptions* options) {
  command->add_option("pid", options->process, "The process")->required();
  AddDuration(command, "--wait", &options->wait_s,
              "How long to wait for the process to carry it out (2s)");
  command->add_flag("--json", options->json, "Print JSON");
}

Requester::Requester(OpenProcess& process, std::string_view name, double wait_s)
    : process_(process),
      name_(name),
      wait_s_(wait_s),
      target_(*process.image, *process.root),
      record_(target_, process.info.pid) {
  switch (record_.State().access) {
    case RequestState::Access::kAccepted:
      return;
    case RequestState::Access::kPrivileged:
      throw Failure(
          fmt::format("{} takes no requests: it runs with more privileges than its user (setuid)",
                      process.name()));
    case RequestState::Access::kForbidden:
      break;
  }
  throw Failure(
      fmt::format("{} takes no requests: it was started with TCMALLOC_CONTROL=0", process.name()));
}

void Requester::RequireSameProgram() const {
  const bool is_there = record_.IsThere();
  const auto info = ReadProcessInfo(process_.info.pid);
  // A process that ends loses its memory, and its executable, before it becomes a zombie.
  if (!info.has_value() || info->is_zombie() || (!is_there && info->executable.empty())) {
    throw Failure(fmt::format("{} has ended before it carried out the request", process_.name()));
  }
  if (!is_there) {
    throw Failure(fmt::format("{} has started another program before it carried out the request",
                              process_.name()));
  }
}

void Requester::Lock(Clock::time_point end) {
  while (!record_.TryLock()) {
    if (Clock::now() >= end) {
      throw Failure(
          fmt::format("another command makes a request of {}: try again", process_.name()));
    }
    std::this_thread::sleep_for(kLongestPause);
  }
}

std::string Requester::WhyPending(uint32_t ticket) const {
  const RequestState state = record_.State();
  if (state.taken == ticket) {
    return fmt::format("still being carried out after {:g} seconds", wait_s_);
  }
  if (IsStopped(process_.info.pid)) return "the process is stopped: pending until it continues";
  if (!not_woken_.empty()) return fmt::format("pending: {}", not_woken_);
  if (state.listener != 0) {
    return "pending: the library's thread, which waits for requests, is busy";
  }
  return "pending until the process allocates; start it with TCMALLOC_BACKGROUND=1 to have it at "
         "once";
}

void Requester::Call(const RequestState& state) {
  try {
    if (state.listener != 0) {
      record_.Wake(state, IsStopped(process_.info.pid));
    } else {
      record_.Alarm();
    }
  } catch (const Failure& failure) {
    not_woken_ = failure.what();
  }
}

std::optional<Reply> Requester::Await(uint32_t ticket, std::string_view what,
                                      Clock::time_point end) {
  Clock::time_point next_call = Clock::now();
  Clock::duration interval = kFirstInterval;
  for (Clock::duration pause = kShortestPause;;
       pause = std::min<Clock::duration>(2 * pause, kLongestPause)) {
    if (auto reply = record_.ReplyTo(ticket)) return reply;
    const Clock::time_point now = Clock::now();
    if (now >= end) return std::nullopt;
    if (InterruptWatch::interrupted()) {
      record_.Withdraw();
      throw Failure(
          fmt::format("{}: interrupted; the request is withdrawn, unless {} began to carry it out",
                      what, process_.name()));
    }
    const RequestState state = record_.State();
    if (state.ticket != ticket && state.taken != ticket) {
      // Another command, in another namespace, has written its own.
      return Reply{.status = Reply::Status::kGarbled};
    }
    if (now >= next_call && state.is_pending()) {
      Call(state);
      next_call = now + interval;
      interval = std::min<Clock::duration>(2 * interval, kLongestInterval);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, end - now));
  }
}

std::optional<Reply> Requester::Ask(RequestKind kind, std::string_view text,
                                    std::string_view what) {
  if (what.empty()) what = name_;
  if (text.size() > record_.max_text()) {
    throw Failure(fmt::format("{}: {} is too long", what, text));
  }
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(wait_s_));
  const InterruptWatch watch;
  try {
    Lock(end);
    for (int i = 0; i < kRequestTries; ++i) {
      const uint32_t ticket = record_.Send(kind, text);
      const auto reply = Await(ticket, what, end);
      if (!reply.has_value()) {
        RequireSameProgram();
        fmt::print(stderr, "tcmalloc: {}: {}: {}\n", what, process_.name(), WhyPending(ticket));
        return std::nullopt;
      }
      switch (reply->status) {
        case Reply::Status::kDone:
          return reply;
        case Reply::Status::kGarbled:
          continue;
        case Reply::Status::kRefused:
          throw Failure(fmt::format("{}: {}", what, reply->message));
      }
      throw BadImage(fmt::format("{} has answered in an unknown way", process_.name()));
    }
  } catch (const Failure&) {
    // The process may have ended, and its memory with it.
    RequireSameProgram();
    throw;
  }
  throw Failure(fmt::format("other commands make requests of {} at the same time: try again",
                            process_.name()));
}

int WithRequester(const RequestOptions& options, std::string_view name,
                  const std::function<int(OpenProcess&, Requester&)>& f) {
  OpenProcess process = OpenProcessFor(RunningPid(options.process, name));
  RequireHeap(process);
  try {
    Requester requester(process, name, options.wait_s);
    return f(process, requester);
  } catch (const NotPublished&) {
    throw Failure(
        fmt::format("{} takes no requests: its library, TCMalloc {}, is older than this command",
                    process.name(), process.root->version));
  }
}

// tcmalloc flush, release and trim: empty the caches of a running process, and release its free
// memory.

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
      fmt::print("{}\n", DumpJson(nlohmann::ordered_json{{"pid", process.info.pid},
                                                         {action.json, reply->bytes}}));
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

// tcmalloc set: changes settings of a running process.

namespace {

struct SetOptions : RequestOptions {
  std::vector<std::string> settings;
};

// Returns a remark about a memory limit that the process has now, as far as the command knows more
// than the process has answered; empty if there is nothing to say.
std::string RemarkOn(const OpenProcess& process, const std::string& variable,
                     const std::string& value) {
  const uint64_t limit = LimitBytes(variable, value);
  if (limit == 0) return {};
  const std::string thread = std::to_string(LivingThread(process.info.pid));
  return LimitRemark(
      limit, HeldBytes(process),
      tcmalloc::ReadCgroupMemoryLimit("", thread).value_or(tcmalloc::kNoCgroupLimit));
}

int Set(const SetOptions& options) {
  for (const std::string& setting : options.settings) static_cast<void>(VariableOf("set", setting));
  return WithRequester(options, "set", [&](OpenProcess& process, Requester& requester) {
    nlohmann::ordered_json json = {{"pid", process.info.pid},
                                   {"settings", nlohmann::json::array()}};
    int status = kSuccess;
    std::string failure;
    for (const std::string& setting : options.settings) {
      const std::string text = VariableOf("set", setting);
      const std::string variable = text.substr(0, text.find('='));
      const std::string name = setting.substr(0, setting.find('='));
      try {
        const auto reply = requester.Ask(RequestKind::kSet, text, "set " + setting);
        if (!reply.has_value()) {
          status = kPending;
          break;
        }
        const std::string remark = RemarkOn(process, variable, reply->after);
        json["settings"].push_back({{"name", name},
                                    {"before", reply->before},
                                    {"after", reply->after},
                                    {"remark", remark}});
        if (!options.json) {
          fmt::print("{}: {} -> {}{}{}\n", name, SettingText(variable, reply->before),
                     SettingText(variable, reply->after), remark.empty() ? "" : "; ", remark);
        }
      } catch (const Failure& error) {
        failure = error.what();
        break;
      }
    }
    if (options.json) fmt::print("{}\n", DumpJson(json));
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
