// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc generate: the man pages and the completions of shells, from the parser. The build calls
// it; --help does not show it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "image/image.h"
#include "image/output.h"

namespace cli {
namespace {

struct OptionText {
  std::vector<std::string> names;  // with dashes; empty if it is positional
  std::string value;               // the value's name; empty for a flag
  std::vector<std::string> choices;
  std::string help;
  bool required = false;
  bool repeats = false;

  bool IsFile() const { return value == "FILE"; }
};

struct CommandText {
  std::string name;
  std::string help;
  std::vector<OptionText> options;
  std::vector<OptionText> positionals;
  bool runs_program = false;
};

// The choices in "TEXT:{class,age}", which is CLI11's name for the type of a checked option.
std::vector<std::string> ChoicesOf(const std::string& type) {
  std::vector<std::string> choices;
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(type.find(',', at), close);
    choices.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

OptionText TextOf(const CLI::Option& option) {
  OptionText text{.help = option.get_description(), .required = option.get_required()};
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (option.get_items_expected_max() == 0) return text;
  const std::string type = option.get_type_name();
  text.choices = ChoicesOf(type);
  text.value = text.names.empty() ? option.get_name(true) : type.substr(0, type.find(':'));
  text.repeats = option.get_items_expected_max() > 1;
  return text;
}

CommandText TextOf(const CLI::App& command) {
  CommandText text{.name = command.get_name(),
                   .help = command.get_description(),
                   .runs_program = command.get_prefix_command()};
  for (const CLI::Option* const option : command.get_options()) {
    OptionText of_option = TextOf(*option);
    (of_option.names.empty() ? text.positionals : text.options).push_back(std::move(of_option));
  }
  return text;
}

std::vector<CommandText> CommandsOf(const CLI::App& parser) {
  std::vector<CommandText> commands;
  for (const CLI::App* const command : parser.get_subcommands({})) {
    if (!command->get_group().empty()) commands.push_back(TextOf(*command));
  }
  return commands;
}

std::string Joined(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string Replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Escapes text for man, in which a line that begins with a dot or a quote is a request.
std::string Roff(const std::string& text) {
  std::string out = Replaced(Replaced(text, "\\", "\\e"), "-", "\\-");
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string ValueOf(const OptionText& option) {
  return option.choices.empty() ? option.value : Joined(option.choices, "|");
}

void ManOption(const OptionText& option, std::string* out) {
  const auto to = std::back_inserter(*out);
  fmt::format_to(to, ".TP\n");
  if (option.names.empty()) {
    fmt::format_to(to, ".I {}\n", Roff(option.value));
  } else if (option.value.empty()) {
    fmt::format_to(to, ".B {}\n", Roff(Joined(option.names, ", ")));
  } else {
    fmt::format_to(to, ".BI \"{}\" \" {}\"\n", Roff(Joined(option.names, ", ")),
                   Roff(ValueOf(option)));
  }
  fmt::format_to(to, "{}{}\n", Roff(option.help), option.repeats ? "; may be repeated" : "");
}

std::string ManHead(const std::string& name, const std::string& help) {
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(toupper(c)); });
  return fmt::format(".TH {} 1 \"\" \"TCMalloc {}\" \"TCMalloc\"\n.SH NAME\n{} \\- {}\n",
                     Roff(title), TCMALLOC_VERSION, Roff(name), Roff(help));
}

constexpr char kExitStatus[] =
    ".SH EXIT STATUS\n"
    "0, or 1 after an error, with one line on standard error. 3 when the process runs on another\n"
    "malloc and only the kernel's figures were printed.\n";

std::string ManOfCommand(const CommandText& command) {
  std::string out = ManHead("tcmalloc-" + command.name, command.help);
  const auto to = std::back_inserter(out);
  fmt::format_to(to, ".SH SYNOPSIS\n.B tcmalloc {}\n.RI [ options ]", command.name);
  for (const OptionText& positional : command.positionals) {
    const bool required = positional.required;
    fmt::format_to(to, "\n.{}{}{}", required ? "I " : "RI [ ", positional.value,
                   required ? "" : " ]");
  }
  if (command.runs_program) fmt::format_to(to, "\n.I program\n.RI [ arguments ]");
  fmt::format_to(to, "\n.SH DESCRIPTION\n{}.\n.SH OPTIONS\n", Roff(command.help));
  for (const OptionText& option : command.positionals) ManOption(option, &out);
  for (const OptionText& option : command.options) ManOption(option, &out);
  fmt::format_to(
      to, "{}.SH SEE ALSO\n.BR tcmalloc (1)\n",
      command.runs_program
          ? ".SH EXIT STATUS\nThat of the program, as in a shell; 1 if it cannot be run.\n"
          : kExitStatus);
  return out;
}

std::string Man(const CLI::App& parser) {
  const std::vector<CommandText> commands = CommandsOf(parser);
  std::string out = ManHead("tcmalloc", parser.get_description());
  const auto to = std::back_inserter(out);
  fmt::format_to(to, ".SH SYNOPSIS\n.B tcmalloc\n.I command\n.RI [ options ]\n.SH COMMANDS\n");
  for (const CommandText& command : commands) {
    fmt::format_to(to, ".TP\n.B {}\n{}\n", Roff(command.name), Roff(command.help));
  }
  fmt::format_to(to, ".SH OPTIONS\n");
  for (const OptionText& option : TextOf(parser).options) ManOption(option, &out);
  fmt::format_to(to, "{}.SH SEE ALSO\n", kExitStatus);
  for (size_t i = 0; i < commands.size(); ++i) {
    fmt::format_to(to, ".BR tcmalloc\\-{} (1){}\n", Roff(commands[i].name),
                   i + 1 < commands.size() ? "," : "");
  }
  return out;
}

std::string OptionWords(const std::vector<OptionText>& options) {
  std::vector<std::string> words;
  for (const OptionText& option : options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return Joined(words, " ");
}

// Writes the completions of options with a value.
void BashValues(const CommandText& command, std::string* out) {
  const auto to = std::back_inserter(*out);
  for (const OptionText& option : command.options) {
    if (option.value.empty()) continue;
    const std::string names = Joined(option.names, "|");
    if (!option.choices.empty()) {
      fmt::format_to(to, "        {}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n",
                     names, Joined(option.choices, " "));
    } else if (option.IsFile()) {
      fmt::format_to(to, "        {}) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n",
                     names);
    } else {
      fmt::format_to(to, "        {}) return ;;\n", names);
    }
  }
}

std::string Bash(const CLI::App& parser) {
  const std::vector<CommandText> commands = CommandsOf(parser);
  std::vector<std::string> names;
  for (const CommandText& command : commands) names.push_back(command.name);
  std::string out =
      "# Completion of the tcmalloc command for bash, made by 'tcmalloc generate'.\n"
      "_tcmalloc() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local options='' values='' process='' program='' position=0 at\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n";
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "    COMPREPLY=($(compgen -W '{} {}' -- \"$current\"))\n    return\n  fi\n",
                 Joined(names, " "), OptionWords(TextOf(parser).options));
  fmt::format_to(to, "  case ${{COMP_WORDS[1]}} in\n");
  for (const CommandText& command : commands) {
    std::string values;
    for (const OptionText& option : command.options) {
      if (!option.value.empty()) values += " " + Joined(option.names, " ");
    }
    const auto has = [&command](std::string_view value) {
      return std::any_of(command.positionals.begin(), command.positionals.end(),
                         [value](const OptionText& p) { return p.value == value; });
    };
    fmt::format_to(to, "    {})\n      options='{}' values='{} ' process={} program={}\n",
                   command.name, OptionWords(command.options), values,
                   has("pid")       ? "pid"
                   : has("process") ? "any"
                                    : "''",
                   command.runs_program ? "yes" : "''");
    out += "      case $previous in\n";
    BashValues(command, &out);
    out += "      esac ;;\n";
  }
  out +=
      "    *) return ;;\n"
      "  esac\n"
      "  # The number of words before this one that are neither options nor their values.\n"
      "  for ((at = 2; at < COMP_CWORD; ++at)); do\n"
      "    if [[ $values == *\" ${COMP_WORDS[at]} \"* ]]; then\n"
      "      ((++at))\n"
      "    elif [[ ${COMP_WORDS[at]} != -* ]]; then\n"
      "      ((++position))\n"
      "      [[ $program ]] && break\n"
      "    fi\n"
      "  done\n"
      "  if [[ $program && $position == 1 ]]; then\n"
      "    if declare -F _command_offset >/dev/null; then\n"
      "      _command_offset \"$at\"\n"
      "    else\n"
      "      COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "    fi\n"
      "  elif [[ $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
      "  elif [[ $program ]]; then\n"
      "    COMPREPLY=($(compgen -c -- \"$current\"))\n"
      "  elif [[ $process && $position == 0 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$(\"$1\" ps 2>/dev/null | awk '$1 ~ /^[0-9]+$/ && $2 ~ "
      "/^[0-9]/ "
      "&& NF > 5 {print $1}')\" -- \"$current\"))\n"
      "    [[ $process == any ]] && COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  fi\n"
      "}\n"
      "complete -F _tcmalloc tcmalloc\n";
  return out;
}

// Escapes text for single quotes and brackets in an argument of _arguments.
std::string Zsh(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return Replaced(out, "'", "'\\''");
}

std::string ZshOption(const OptionText& option) {
  std::string spec = option.repeats ? "'*'" : "";
  spec +=
      option.names.size() == 1 ? option.names[0] : fmt::format("{{{}}}", Joined(option.names, ","));
  spec += fmt::format("'[{}]", Zsh(option.help));
  if (!option.value.empty()) {
    const std::string choices = fmt::format("({})", Joined(option.choices, " "));
    spec += fmt::format(":{}:{}", Zsh(option.value),
                        option.IsFile()          ? "_files"
                        : option.choices.empty() ? " "
                                                 : choices);
  }
  return spec + "'";
}

std::string ZshOfShell(const CLI::App& parser) {
  std::string out =
      "#compdef tcmalloc\n"
      "# Completion of the tcmalloc command for zsh, made by 'tcmalloc generate'.\n"
      "_tcmalloc_processes() {\n"
      "  local -a processes\n"
      "  processes=(${(f)\"$(tcmalloc ps 2>/dev/null |\n"
      "    awk '$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]/ && NF > 5 {print $1 \":\" $8}')\"})\n"
      "  _describe process processes\n"
      "}\n"
      "_tcmalloc_processes_and_files() {\n"
      "  _tcmalloc_processes\n"
      "  _files\n"
      "}\n"
      "_tcmalloc() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  const auto to = std::back_inserter(out);
  const std::vector<CommandText> commands = CommandsOf(parser);
  for (const CommandText& command : commands) {
    fmt::format_to(to, "    '{}:{}'\n", command.name, Zsh(command.help));
  }
  out += "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    _arguments";
  for (const OptionText& option : TextOf(parser).options) out += " " + ZshOption(option);
  out +=
      "\n    return\n  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((--CURRENT))\n"
      "  case $command in\n";
  for (const CommandText& command : commands) {
    fmt::format_to(to, "    {}) _arguments", command.name);
    for (const OptionText& option : command.options) out += " \\\n      " + ZshOption(option);
    for (size_t i = 0; i < command.positionals.size(); ++i) {
      const OptionText& positional = command.positionals[i];
      fmt::format_to(to, " \\\n      '{}:{}:{}'", positional.repeats ? "*" : std::to_string(i + 1),
                     Zsh(positional.help),
                     positional.value == "pid"       ? "_tcmalloc_processes"
                     : positional.value == "process" ? "_tcmalloc_processes_and_files"
                                                     : "_files");
    }
    if (command.runs_program) out += " \\\n      '*::program:_normal'";
    out += " ;;\n";
  }
  return out + "  esac\n}\n_tcmalloc \"$@\"\n";
}

void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  WriteOutput(path.string(), text);
}

void Generate(const CLI::App& parser, const std::filesystem::path& folder) {
  const std::filesystem::path pages = folder / "man" / "man1";
  WriteFile(pages / "tcmalloc.1", Man(parser));
  for (const CommandText& command : CommandsOf(parser)) {
    WriteFile(pages / fmt::format("tcmalloc-{}.1", command.name), ManOfCommand(command));
  }
  WriteFile(folder / "bash-completion" / "completions" / "tcmalloc", Bash(parser));
  WriteFile(folder / "zsh" / "site-functions" / "_tcmalloc", ZshOfShell(parser));
}

}  // namespace

void AddGenerate(CLI::App& parser, int* status) {
  const auto folder = std::make_shared<std::string>();
  CLI::App* const command =
      parser.add_subcommand("generate", "Write man pages, and completions of shells")->group("");
  command->add_option("folder", *folder, "Where to write them, as below a prefix's share/")
      ->required();
  command->callback([folder, status, &parser] {
    Generate(parser, *folder);
    *status = kSuccess;
  });
}

}  // namespace cli
