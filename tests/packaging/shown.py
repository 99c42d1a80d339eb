# SPDX-License-Identifier: BSD-3-Clause
"""Commands and their outputs on a page of docs/, and whether a run prints the same.

On a page, a command is an indented line that begins with "$ "; the indented lines after it are its output. A line "..."
stands for lines that the page leaves out.
"""

import re

from steps import expect

NUMBER = re.compile(r"\d+(?:\.\d+)?")
# How much a number may differ from that of the page: sizes differ a little by compiler, and profiles are samples.
SHARE = 0.5
LEAST = 3


def same_line(line, shown, share=SHARE):
    """Whether the words of two lines are the same, and their numbers about the same."""
    if " ".join(NUMBER.sub("#", line).split()) != " ".join(NUMBER.sub("#", shown).split()):
        return False
    return all(abs(float(a) - float(b)) <= max(LEAST, share * float(b))
               for a, b in zip(NUMBER.findall(line), NUMBER.findall(shown)))


def compare(output, shown, what, share=SHARE):
    """All lines must be the same."""
    lines, wanted = output.splitlines(), shown.splitlines()
    expect(len(lines) == len(wanted) and all(same_line(a, b, share) for a, b in zip(lines, wanted)),
           f"{what} printed\n{output}\nthe page shows\n{shown}")


class Page:
    def __init__(self, path):
        self.path = path
        self.outputs = {}
        command = None
        for line in path.read_text().split("\n"):
            if line.startswith("    $ "):
                command = line[6:]
                self.outputs[command] = []
            elif command and line.startswith("    "):
                self.outputs[command].append(line[4:])
            elif line:
                command = None

    def output_of(self, command):
        expect(command in self.outputs, f"{self.path} has no line: $ {command}")
        return "\n".join(self.outputs[command]) + "\n"

    def compare_first_line(self, command, output):
        """Compares the first line, and returns it."""
        line = output.split("\n")[0]
        compare(line, self.output_of(command).split("\n")[0], command)
        return line

    def compare_lines(self, command, output, free):
        """Checks that each line of the page is printed, in order. Lines that match `free` depend on the machine."""
        def without_free(lines):
            return [line for line in lines if line and line != "..." and not re.search(free, line)]
        compare("\n".join(without_free(output.splitlines())), "\n".join(without_free(self.output_of(command).splitlines())),
                command)
