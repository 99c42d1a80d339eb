#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the man pages and completions that are made from the command's parser.

  man_pages_test.py COMMAND

Each command and each option that --help names is in a man page, groff has no complaint about a page, and bash and zsh
complete commands, options, their values and processes.
"""

import re
import shutil
import subprocess
import sys

import harness
from harness import new_folder, run_test

# Words before the cursor and the word at it -> completions that must be found; none: no completion may be found.
BASH_CASES = (
    (["sta"], {"stats"}),
    (["--v"], {"--version"}),
    (["objects", "--l"], {"--list"}),
    (["objects", "--by", ""], {"class", "age", "site"}),
    (["run", "--mi"], {"--minimal"}),
    (["run", "--set", "a=1", "sor"], {"sort"}),
    (["run", "true", "PROGRA"], {"PROGRAM"}),
    (["run", "--json", "PROGRA"], {"PROGRAM"}),
    (["objects", "--size", "PROGRA"], set()),
    (["stats", ""], {"4711"}),
    (["inspect", "47"], {"4711"}),
    (["stats", "PROGRA"], {"PROGRAM"}),
    (["snapshot", ""], {"4711"}),
    (["snapshot", "PROGRA"], set()),
    (["snapshot", "4711", "PROGRA"], {"PROGRAM"}),
)
ZSH_STUBS = """
_describe() { shift; print -rl -- ${(P)1}; }
_arguments() { print -rl -- "$@"; }
"""
FAKE_PS = """#!/bin/sh
echo "     PID    RESIDENT      IN USE    OVERHEAD  NAME             ALLOCATOR AND SETTINGS"
echo "    4711    29.1 MiB    23.0 MiB    15.4 MiB  server           TCMalloc 1.0.0"
echo "3 other processes run on other allocators: --all lists them."
"""


class Test(harness.Test):

    def __init__(self, command):
        super().__init__(command, None, None)

    def help(self, *command):
        return self.ask(*command, "--help").stdout


def shell(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options).stdout


def check_pages(test, folder, commands):
    pages = {path.name: path.read_text().replace("\\-", "-") for path in folder.iterdir()}
    test.expect_equal(set(pages), {"tcmalloc.1", *(f"tcmalloc-{command}.1" for command in commands)}, "pages")
    for command in commands:
        test.expect(f".B {command}\n" in pages["tcmalloc.1"], f"tcmalloc.1 has no {command}")
        options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", test.help(command), re.MULTILINE))
        missing = [option for option in options if option not in pages[f"tcmalloc-{command}.1"]]
        test.expect("--help" in options and not missing, f"the page of {command} has no {missing}")
    if shutil.which("groff") is None:
        print("the pages are not formatted: there is no groff")
        return
    for path in folder.iterdir():
        test.expect_equal(shell("groff", "-man", "-ww", "-z", path), "", path.name)


def check_bash(test, folder, file):
    for words, wanted in BASH_CASES:
        quoted = " ".join(f"'{word}'" for word in [folder / "tcmalloc", *words])
        found = set(shell("bash", "--norc", "-c", f"source {file}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; "
                          "_tcmalloc \"${COMP_WORDS[0]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"", cwd=folder).split())
        test.expect(wanted <= found and (wanted or not found), f"bash: {words}: {found}")


def check_zsh(test, folder, file, commands):
    if shutil.which("zsh") is None:
        print("the completion for zsh is not tried: there is no zsh")
        return

    def complete(*words, more=""):
        quoted = " ".join(f"'{word}'" for word in words)
        return shell("zsh", "-f", "-c", f"{ZSH_STUBS}\nPATH={folder}:$PATH\nwords=({quoted})\nCURRENT={len(words)}\n"
                     f"{file.read_text()}\n{more}")

    text = complete("tcmalloc", "", more="_tcmalloc_processes")
    missing = [command for command in commands if not re.search(f"^{command}:", text, re.MULTILINE)]
    test.expect(not missing and "\n4711:server\n" in text, f"zsh: no {missing} in {text}")
    text = complete("tcmalloc", "objects", "")
    test.expect("--by[" in text and ":(class age site)" in text and
                re.search("^1:The process.*:_tcmalloc_processes_and_files$", text, re.MULTILINE), text)
    text = complete("tcmalloc", "snapshot", "")
    test.expect("1:The process:_tcmalloc_processes\n" in text, text)


def test_files(test):
    commands = re.findall(r"^  (\w+) ", test.help().split("Subcommands:")[1], re.MULTILINE)
    test.expect({"run", "ps", "stats"} <= set(commands) and "generate" not in commands, f"commands {commands}")
    with new_folder() as folder:
        test.ask("generate", folder / "share")
        (folder / "PROGRAM").touch(mode=0o755)
        (folder / "tcmalloc").write_text(FAKE_PS)
        (folder / "tcmalloc").chmod(0o755)
        check_pages(test, folder / "share/man/man1", commands)
        check_bash(test, folder, folder / "share/bash-completion/completions/tcmalloc")
        check_zsh(test, folder, folder / "share/zsh/site-functions/_tcmalloc", commands)


if __name__ == "__main__":
    sys.argv.insert(1, "files")
    run_test(globals(), Test)
