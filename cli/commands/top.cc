// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc top [PID]: a live view of the processes on this allocator, or of one. No process is
// stopped.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "commands/commands.h"
#include "commands/options.h"
#include "commands/screen.h"
#include "commands/top_source.h"

namespace cli {
namespace {

struct TopOptions {
  std::string process;
  pid_t pid = 0;  // set by the option; 0 for all processes
  double every = 1;
  bool once = false;
};

// The size of the output of --once.
constexpr size_t kOnceWidth = 200;
constexpr size_t kOnceHeight = 60;
// The longest time that a key waits for a reading.
constexpr int kLongestWaitMs = 100;

TopData Read(TopSource& source, pid_t pid) {
  return pid == 0 ? source.ReadProcesses() : source.ReadProcess(pid);
}

int Once(const TopOptions& options) {
  TopSource source;
  static_cast<void>(Read(source, options.pid));
  std::this_thread::sleep_for(std::chrono::duration<double>(options.every));
  TopModel model(Screen::ShowsUtf8());
  model.SetData(Read(source, options.pid));
  std::vector<TopLine> lines = model.Lines(kOnceWidth, kOnceHeight);
  lines.pop_back();  // the keys
  while (!lines.empty() && lines.back().text.empty()) lines.pop_back();
  for (const TopLine& line : lines) fmt::print("{}\n", line.text);
  return kSuccess;
}

class Top {
 public:
  explicit Top(const TopOptions& options)
      : options_(options), pid_(options.pid), model_(Screen::ShowsUtf8(), options.every) {}

  int Run() {
    source_ = std::make_unique<TopSource>();
    // The data are read before the screen is initialised, so that a failure prints a line.
    model_.SetData(Read(*source_, pid_));
    Screen screen;
    auto next = Next();
    for (;;) {
      screen.Draw(model_.Lines(screen.width(), screen.height()));
      const TopRequest request = model_.HandleKey(screen.ReadKey(kLongestWaitMs));
      if (request == TopRequest::kQuit) return kSuccess;
      const bool opened = Answer(request);
      if (opened || (!model_.paused() && std::chrono::steady_clock::now() >= next)) {
        Refresh();
        next = Next();
      }
    }
  }

 private:
  std::chrono::steady_clock::time_point Next() const {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
               std::chrono::duration<double>(model_.seconds()));
  }

  // True when another view was opened.
  bool Answer(TopRequest request) {
    if (request == TopRequest::kOpen) {
      pid_ = atoi(model_.selected().c_str());
    } else if (request == TopRequest::kBack && options_.pid == 0 && pid_ != 0) {
      pid_ = 0;
    } else {
      return false;
    }
    model_.Open();
    return true;
  }

  void Refresh() {
    try {
      model_.SetData(Read(*source_, pid_));
    } catch (const Failure& failure) {
      model_.SetProblem(failure.what());
    }
  }

  const TopOptions& options_;
  pid_t pid_;  // 0: all processes
  TopModel model_;
  std::unique_ptr<TopSource> source_;
};

}  // namespace

void AddTop(CLI::App& parser, int* status) {
  const auto options = std::make_shared<TopOptions>();
  CLI::App* const command = parser.add_subcommand(
      "top",
      "A live view of the processes on TCMalloc, or of one: threads, size classes, call sites");
  command->add_option("pid", options->process, "The process; without, all on TCMalloc");
  AddDuration(command, "--every", &options->every, "The time between readings, 1s by default");
  command->add_flag("--once", options->once, "Print one view, for which no terminal is needed");
  command->callback([options, status] {
    if (!options->process.empty()) options->pid = RunningPid(options->process, "top");
    // A server for debug information may take long to reply.
    unsetenv("DEBUGINFOD_URLS");
    *status = options->once ? Once(*options) : Top(*options).Run();
  });
}

}  // namespace cli
