// SPDX-License-Identifier: BSD-3-Clause
// The command line before and after the parser: other ways to ask for help, and mistakes, each of
// which prints one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cli {

// Makes "COMMAND --help" of "help COMMAND". Throws Failure if the first argument is neither an
// option nor a command; the message has the command that may be meant.
void CheckCommand(const CLI::App& parser, std::vector<std::string>* arguments);

// Ends a command line that the parser has not accepted: prints what was asked for (help, the
// version), or the mistake as one line on stderr. `command` is the first argument. Returns the exit
// status.
int EndParsing(const CLI::App& parser, const CLI::ParseError& error, const std::string& command);

}  // namespace cli
