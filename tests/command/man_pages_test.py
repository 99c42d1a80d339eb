#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The man pages and completions that are made from the command's parser.

  man_pages_test.py COMMAND

Each command and each option that --help names is in a man page, groff has no complaint about a page, and bash and zsh
complete commands, options, their values and processes.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

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


class Test:

    def __init__(self, command):
        self.command = command
        self.failed = 0

    def expect(self, condition, message):
        if not condition:
            self.failed += 1
            print(f"FAILED: {message}")

    def help(self, *command):
        return subprocess.run([self.command, *command, "--help"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout

    def check_pages(self, folder, commands):
        pages = {path.name: path.read_text().replace("\\-", "-") for path in folder.iterdir()}
        wanted = {"tcmalloc.1", *(f"tcmalloc-{command}.1" for command in commands)}
        self.expect(set(pages) == wanted, f"pages {sorted(pages)}, not {sorted(wanted)}")
        for command in commands:
            self.expect(f".B {command}\n" in pages["tcmalloc.1"], f"tcmalloc.1 has no {command}")
            options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", self.help(command), re.MULTILINE))
            self.expect("--help" in options, f"{command}: options {options}")
            for option in options:
                self.expect(option in pages[f"tcmalloc-{command}.1"], f"the page of {command} has no {option}")
        if shutil.which("groff") is None:
            print("the pages are not formatted: there is no groff")
            return
        for path in folder.iterdir():
            run = subprocess.run(["groff", "-man", "-ww", "-z", path], stderr=subprocess.PIPE, text=True, check=False)
            self.expect(run.returncode == 0 and run.stderr == "", f"{path.name}: {run.stderr}")

    def check_bash(self, folder, file):
        for words, wanted in BASH_CASES:
            quoted = " ".join(f"'{word}'" for word in [folder / "tcmalloc", *words])
            script = (f"source {file}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; "
                      "_tcmalloc \"${COMP_WORDS[0]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"")
            run = subprocess.run(["bash", "--norc", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, cwd=folder, check=False)
            found = set(run.stdout.split())
            self.expect(wanted <= found and (wanted or not found), f"bash: {words}: {run.stdout}")

    def zsh(self, folder, file, words, more=""):
        quoted = " ".join(f"'{word}'" for word in words)
        script = (f"{ZSH_STUBS}\nPATH={folder}:$PATH\nwords=({quoted})\nCURRENT={len(words)}\n{file.read_text()}\n"
                  f"{more}")
        run = subprocess.run(["zsh", "-f", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)
        self.expect(run.returncode == 0, f"zsh: {words}: {run.stdout}")
        return run.stdout

    def check_zsh(self, folder, file, commands):
        if shutil.which("zsh") is None:
            print("the completion for zsh is not tried: there is no zsh")
            return
        text = self.zsh(folder, file, ["tcmalloc", ""], "_tcmalloc_processes")
        for command in commands:
            self.expect(re.search(f"^{command}:", text, re.MULTILINE), f"zsh: no {command} in {text}")
        self.expect("\n4711:server\n" in text, f"zsh: processes: {text}")
        text = self.zsh(folder, file, ["tcmalloc", "objects", ""])
        self.expect("--by[" in text and ":(class age site)" in text, text)
        self.expect(re.search("^1:The process.*:_tcmalloc_processes_and_files$", text, re.MULTILINE), text)
        text = self.zsh(folder, file, ["tcmalloc", "snapshot", ""])
        self.expect("1:The process:_tcmalloc_processes\n" in text, text)


def main():
    test = Test(sys.argv[1])
    commands = re.findall(r"^  (\w+) ", test.help().split("Subcommands:")[1], re.MULTILINE)
    print(f"{len(commands)} commands: {' '.join(commands)}")
    test.expect({"run", "ps", "stats"} <= set(commands) and "generate" not in commands, "commands")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([test.command, "generate", folder / "share"], check=True)
        (folder / "PROGRAM").touch(mode=0o755)
        fake = folder / "tcmalloc"
        fake.write_text(FAKE_PS)
        fake.chmod(0o755)
        test.check_pages(folder / "share/man/man1", commands)
        test.check_bash(folder, folder / "share/bash-completion/completions/tcmalloc")
        test.check_zsh(folder, folder / "share/zsh/site-functions/_tcmalloc", commands)
    print(f"{test.failed} failures")
    return min(test.failed, 1)


if __name__ == "__main__":
    sys.exit(main())
