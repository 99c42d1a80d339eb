// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc: shows what a process uses its memory for. See docs/command/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/usage.h"
#include "image/image.h"
#include "image/memory_room.h"
#include "image/output.h"
#include "image/text.h"

namespace {

int Run(int argc, char** argv) {
  CLI::App parser("Asks any process that runs on TCMalloc where its memory is.", "tcmalloc");
  parser.set_version_flag("-v,--version", TCMALLOC_VERSION);
  parser.require_subcommand(1);
  int status = cli::kSuccess;
  cli::AddRun(parser, &status);
  cli::AddPs(parser, &status);
  cli::AddStats(parser, &status);
  cli::AddDoctor(parser, &status);
  cli::AddTop(parser, &status);
  cli::AddTimeline(parser, &status);
  cli::AddDiff(parser, &status);
  cli::AddObjects(parser, &status);
  cli::AddLeaks(parser, &status);
  cli::AddInspect(parser, &status);
  cli::AddTypes(parser, &status);
  cli::AddExplain(parser, &status);
  cli::AddCheck(parser, &status);
  cli::AddProfile(parser, &status);
  cli::AddSnapshot(parser, &status);
  cli::AddFlush(parser, &status);
  cli::AddSet(parser, &status);
  cli::AddGenerate(parser, &status);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string first;
  try {
    cli::CheckCommand(parser, &arguments);
    first = arguments.front();
    // The program of 'run' would inherit that, and 'run' itself must survive it.
    if (first != "run") cli::BecomeFirstVictim();
    cli::RemoveSeparatorOfRun(&arguments);
    std::reverse(arguments.begin(), arguments.end());  // parse expects them in reverse order
    parser.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    const int result = cli::EndParsing(parser, error, first);
    std::cout.flush();
    return result;
  } catch (const std::system_error& error) {
    // fmt names no file.
    const std::string what = ferror(stdout) != 0
                                 ? "cannot write to standard output: " + error.code().message()
                                 : error.what();
    fmt::print(stderr, "tcmalloc: {}\n", cli::CleanText(what));
    return cli::kFailed;
  } catch (const std::exception& error) {
    // The message may quote an argument, such as the name of a file that another user has chosen.
    fmt::print(stderr, "tcmalloc: {}\n", cli::CleanText(error.what()));
    return cli::kFailed;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  cli::ReserveStandardStreams();
  const int status = Run(argc, argv);
  try {
    cli::FlushOutput();
  } catch (const cli::Failure& failure) {
    // A failure to write may have been reported already.
    if (status != cli::kFailed) fmt::print(stderr, "tcmalloc: {}\n", failure.what());
    return cli::kFailed;
  }
  return status;
}
