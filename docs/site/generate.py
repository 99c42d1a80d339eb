# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the reference that are made: functions and classes from the headers, the command line from --help."""

import re
import subprocess

import headers

C_HEADERS = ("tcmalloc/tcmalloc.h", "tcmalloc/leak_checker.h", "gperftools/malloc_extension_c.h",
             "gperftools/malloc_hook_c.h", "gperftools/heap-profiler.h", "gperftools/stacktrace.h", "gperftools/nallocx.h")
CPP_HEADERS = ("tcmalloc/malloc_extension.h", "tcmalloc/leak_checker.h", "tcmalloc/tcmalloc.h",
               "gperftools/malloc_extension.h", "gperftools/malloc_hook.h", "gperftools/heap-checker.h")


def section(name, part):
    """The Markdown of a comment and the declarations below it."""
    lines = [f"### {name}" if name else "", "", headers.as_markdown(part.comment), ""]
    if part.code:
        lines += ["```c++", part.code, "```", ""]
    return "\n".join(lines)


def api_page(root, title, introduction, names, cpp):
    lines = [f"# {title}", "", introduction, ""]
    for name in names:
        parts = headers.parts((root / "include" / name).read_text(), cpp)
        if not any(part.code for part in parts):
            continue
        lines += [f"## {name}", "", f"```c++\n#include <{name}>\n```", ""]
        seen = set()
        for part in parts:
            heading = ", ".join(f"`{declared}`" for declared in part.names if declared not in seen)
            seen.update(part.names)
            if part.code or part.comment:
                lines.append(section(heading, part))
    return "\n".join(lines) + "\n"


def help_of(command, *arguments):
    run = subprocess.run([command, *arguments, "--help"], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip()


def subcommands(text):
    """[(name, purpose)] of the list in the help of the command."""
    listed = text.split("Subcommands:\n")[1]
    return re.findall(r"^  ([a-z]+) +(.*)$", listed, re.MULTILINE)


def command_page(command):
    whole = help_of(command)
    found = subcommands(whole)
    lines = ["# Command line", "",
             "What `tcmalloc --help` and the help of each command print. [Look into a process](../command/command.md) shows what "
             "they answer; `man tcmalloc-stats` is the same on a terminal.", "",
             "| command | purpose |", "|---|---|",
             *(f"| [`tcmalloc {name}`](#tcmalloc-{name}) | {purpose} |" for name, purpose in found), ""]
    for name, _ in found:
        lines += [f"## tcmalloc {name}", "", "```text", help_of(command, name), "```", ""]
    return "\n".join(lines)


def generate(root, pages, command):
    """Writes the pages into the folder of the reference."""
    folder = pages / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "c-functions.md").write_text(api_page(
        root, "C functions", "All functions of the headers, as the headers describe them. `malloc`, `free` and the other functions "
        "of the C library need no header of this library. [C++ classes](cpp-classes.md) have the same functions as members.",
        C_HEADERS, cpp=False))
    (folder / "cpp-classes.md").write_text(api_page(
        root, "C++ classes", "The classes of the headers. Bodies of functions and private members are left out. "
        "[C functions](c-functions.md) says what most of them do and cost.", CPP_HEADERS, cpp=True))
    (folder / "command-line.md").write_text(command_page(command))
