// SPDX-License-Identifier: BSD-3-Clause
#include "commands/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "commands/commands.h"
#include "config/environment_hints.h"
#include "image/image.h"

namespace cli {
namespace {

// Words that users may type for a change that another command makes.
constexpr struct {
  const char* word;
  const char* command;
} kOtherNames[] = {
    {"sample", "tcmalloc set PID sampling=512K"},
    {"limit", "tcmalloc set PID soft-limit=2G"},
    {"record", "tcmalloc profile PID --start"},
};

// The names of the commands that --help shows.
std::vector<std::string> CommandNames(const CLI::App& parser) {
  std::vector<std::string> names;
  for (const CLI::App* command : parser.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

// The command whose name is nearest; empty if none is near.
std::string NearestCommand(const CLI::App& parser, const std::string& word) {
  std::string nearest;
  size_t least = tcmalloc::kNearDistance + 1;
  for (const std::string& name : CommandNames(parser)) {
    const size_t distance = tcmalloc::EditDistance(word, name);
    // If half of a short name differs, it is probably another name.
    if (distance < least && distance < name.size() / 2) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

bool IsCommand(const CLI::App& parser, const std::string& word) {
  const auto all = parser.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(all.begin(), all.end(),
                     [&word](const CLI::App* command) { return command->get_name() == word; });
}

}  // namespace

void CheckCommand(const CLI::App& parser, std::vector<std::string>* arguments) {
  if (arguments->empty()) {
    throw Failure("name a command, for example 'tcmalloc ps'; 'tcmalloc --help' lists them");
  }
  if (arguments->front() == "help") {
    arguments->erase(arguments->begin());
    if (arguments->empty() || IsCommand(parser, arguments->front())) {
      arguments->insert(arguments->begin() + (arguments->empty() ? 0 : 1), "--help");
    }
  }
  const std::string& word = arguments->front();
  if (word.starts_with('-') || IsCommand(parser, word)) return;
  for (const auto& other : kOtherNames) {
    if (word != other.word) continue;
    throw Failure(fmt::format("there is no command '{}'; use '{}'", word, other.command));
  }
  const std::string nearest = NearestCommand(parser, word);
  throw Failure(fmt::format("there is no command '{}'; {}'tcmalloc --help' lists all", word,
                            nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest)));
}

int EndParsing(const CLI::App& parser, const CLI::ParseError& error, const std::string& command) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return parser.exit(error);
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  if (command == "set" && what == "settings is required") {
    what = "write at least one setting, for example 'tcmalloc set PID soft_limit=2G'";
  }
  const std::string name = IsCommand(parser, command) ? command + " " : "";
  fmt::print(stderr, "tcmalloc: {}{}; see 'tcmalloc {}--help'\n",
             name.empty() ? "" : command + ": ", what, name);
  return kFailed;
}

}  // namespace cli
