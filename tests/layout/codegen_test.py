#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Disassembles the entry points and follows the straight path that nearly every call takes.

  codegen_test.py static COMPILER LIBRARY
  codegen_test.py executed COMPILER LIBRARY HOT_PATH STUB_LIBRARY

The straight path begins at the first instruction, takes no conditional jump except one back into the function itself (a
loop: the path then does not end), follows unconditional jumps, and ends at a return. machine_code.py knows the
instructions of x86-64 and of 64-bit ARM.

"static" compares the number of instructions on this path with instruction_budgets.txt, and forbids these instructions:
calls, indirect jumps, stack frames, locked and other atomic read-modify-write instructions, barriers, and on ARM
acquiring loads. The rest of an entry point, for the rare cases, may jump, but must not call either.

"executed" lets valgrind's callgrind count the instructions that a million pairs of malloc and free really execute, and
compares them with the two straight paths, which must be what runs.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from machine_code import X86, machine_of

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
LONGEST = 1000  # instructions; a path that does not end by then runs in a circle

INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(.*?)\s*(?:\s#\s.*)?$")


def parse(disassembly):
    """Address -> (instruction, address of the next one), in the order of objdump's output."""
    lines = []
    for line in disassembly.split("\n"):
        match = INSTRUCTION.match(line)
        if match:
            lines.append((int(match[1], 16), match[2]))
    code = {}
    for number, (address, text) in enumerate(lines):
        following = lines[number + 1][0] if number + 1 < len(lines) else None
        code[address] = (text, following)
    return code


def straight_path(code, start, machine=X86):
    """([instructions], complaint or None)"""
    path = []
    address = start
    while len(path) < LONGEST:
        if address not in code:
            return path, f"leaves the code at {address:#x}"
        text, following = code[address]
        path.append(text)
        wrong = machine.forbidden(text)
        if wrong:
            return path, f"'{text}' {wrong}"
        if machine.is_return(text):
            return path, None
        always, target = machine.jump(text) or (False, None)
        if always or target is not None and start <= target <= address:
            address = target
        else:
            address = following
    return path, "does not end"


def calls_in(code, start, size, machine):
    return [text for address, (text, _) in code.items() if start <= address < start + size and machine.is_call(text)]


def symbols(library):
    found = {}
    run = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, stdout=subprocess.PIPE, text=True)
    for line in run.stdout.split("\n"):
        words = line.split()
        if len(words) >= 8 and words[3] == "FUNC" and words[6] != "UND":
            found[words[7].split("@")[0]] = (int(words[1], 16), int(words[2]))
    return found


def disassemble(library):
    run = subprocess.run([machine_of(library).objdump, "-d", "--no-show-raw-insn", library], check=True,
                         stdout=subprocess.PIPE, text=True)
    return parse(run.stdout)


def budgets(machine, compiler):
    found = {}
    for line in (HERE / "instruction_budgets.txt").read_text().split("\n"):
        words = line.split("#")[0].split()
        if words[:2] == [machine.name, compiler]:
            found[words[2]] = int(words[3])
    return found


def check_static(compiler, library):
    machine = machine_of(library)
    code = disassemble(library)
    addresses = symbols(library)
    limits = budgets(machine, compiler)
    failed = 0 if limits else 1
    for name, limit in limits.items():
        if name not in addresses:
            print(f"{name}: is not exported")
            failed += 1
            continue
        path, complaint = straight_path(code, addresses[name][0], machine)
        print(f"{name}: {len(path)} instructions on the straight path, {limit} allowed")
        complaints = [complaint] if complaint else []
        if len(path) > limit:
            complaints.append("is too long")
        complaints += [f"'{text}' calls off the straight path" for text in calls_in(code, *addresses[name], machine)]
        if complaints:
            failed += 1
            print(f"{name}: FAILED: {'; '.join(complaints)}")
            print("".join(f"    {text}\n" for text in path[:60]))
    print(f"{len(limits)} entry points of {library}, {failed} failed")
    return 1 if failed else 0


def stripped(path, folder):
    """A copy without debug information: Debian 12's valgrind fails on what newer compilers write."""
    copy = pathlib.Path(folder) / pathlib.Path(path).name
    subprocess.run(["strip", "--strip-debug", "-o", copy, path], check=True)
    return copy


def executed(program, library, kind, pairs):
    """Returns the number of instructions that callgrind counts in a run of the program."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         program, kind, str(pairs)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={"LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(program.parent),
             "PATH": os.environ["PATH"]})
    match = re.search(r"Collected\s*:\s*(\d+)", run.stdout)
    if run.returncode or not match:
        sys.exit(f"callgrind failed:\n{run.stdout}")
    return int(match[1])


def check_executed(compiler, library, program, stub):
    if not shutil.which("valgrind"):
        print("SKIP: valgrind is not installed")
        return SKIPPED
    n = 1_000_000
    # The program calls through pointers in both cases, from the same loop. The stub's functions are
    # "mov %rdi,%rax; ret" and "ret": the number of their instructions is known, and the rest of the figure is the loop.
    per_pair = {}
    with tempfile.TemporaryDirectory() as folder:
        stripped(stub, folder)
        files = stripped(program, folder), stripped(library, folder)
        for kind in ("real", "stub"):
            per_pair[kind] = (executed(*files, kind, 2 * n) - executed(*files, kind, n)) / n
    stub_code = disassemble(stub)
    stub_symbols = symbols(stub)
    in_stub = sum(len(straight_path(stub_code, stub_symbols[name][0])[0]) for name in ("stub_malloc", "stub_free"))
    measured = per_pair["real"] - per_pair["stub"] + in_stub
    code = disassemble(library)
    addresses = symbols(library)
    straight = sum(len(straight_path(code, addresses[name][0])[0]) for name in ("malloc", "free"))
    print(f"malloc(64) and free: {measured:.3f} instructions executed per pair, "
          f"{straight} on the two straight paths")
    print(f"(loop with stub functions: {per_pair['stub']:.3f}, {in_stub} of them in the stubs)")
    # Slow paths, taken once in many thousand pairs, account for less than this.
    if abs(measured - straight) > 0.25:
        print("FAILED: the straight path is not what is executed")
        return 1
    return 0


def main():
    kind, *arguments = sys.argv[1:]
    machine = machine_of(arguments[1])
    if machine is None:
        print(f"SKIP: does not know the instructions of the machine that {arguments[1]} is for")
        return SKIPPED
    if not shutil.which(machine.objdump):
        print(f"SKIP: {machine.objdump} is not installed")
        return SKIPPED
    return {"static": check_static, "executed": check_executed}[kind](*arguments)


if __name__ == "__main__":
    sys.exit(main())
