# SPDX-License-Identifier: BSD-3-Clause
"""The facts about a machine that an analysis of straight paths (codegen_test.py) needs: its disassembler, which
instructions branch, and which instructions the fast path must not have."""

import re

X86_PREFIXES = {"lock", "rep", "repz", "repnz", "notrack", "bnd", "cs", "ds", "data16", "rex.W"}
# These instructions are atomic without a lock prefix (xchg), or order memory as an atomic instruction does.
X86_ATOMIC = re.compile(r"^(xchg\w?\s.*\(|cmpxchg|xadd|mfence|lfence|sfence|xbegin|cpuid|serialize)")
X86_FRAME = re.compile(r"^(push|pop|enter|leave|sub\w?\s.*,%[er]sp$|add\w?\s.*,%[er]sp$"
                       r"|lea\w?\s.*,%[er]sp$|mov\w?\s.*,%[er]sp$)")
# Atomic read-modify-write instructions, exclusive pairs, barriers, and loads that wait for earlier release stores.
ARM_ATOMIC = re.compile(r"^(dmb|dsb|isb|ldar|ldap|ld\w*xr|ld\w*xp|st\w*xr|st\w*xp|cas|swp|ld(add|clr|eor|set|[su]max|[su]min)"
                        r"|st(add|clr|eor|set|[su]max|[su]min))")
ARM_FRAME = re.compile(r"^(st\w+ .*\[sp|(sub|add|mov)\s+sp,)")
ADDRESS = re.compile(r"^([0-9a-f]+)(?: <|$)")


def target_of(operands):
    """The address that a branch names, or None."""
    found = ADDRESS.match(operands.split(", ")[-1])
    return int(found[1], 16) if found else None


class X86:
    name = "x86-64"
    objdump = "objdump"
    strip = "strip"

    @staticmethod
    def split(text):
        """(prefixes, mnemonic, operands)"""
        words = text.split()
        prefixes = []
        while words and words[0] in X86_PREFIXES:
            prefixes.append(words.pop(0))
        return prefixes, words[0] if words else "", " ".join(words[1:])

    @classmethod
    def forbidden(cls, text):
        """Returns what is wrong with an instruction on the straight path, or None."""
        prefixes, mnemonic, operands = cls.split(text)
        plain = f"{mnemonic} {operands}"
        if "lock" in prefixes or X86_ATOMIC.match(plain):
            return "is atomic or a barrier"
        if any(prefix.startswith("rep") for prefix in prefixes) and mnemonic != "ret":
            return "repeats"
        if mnemonic.startswith("call"):
            return "is a call"
        if mnemonic.startswith("jmp") and target_of(operands) is None:
            return "is an indirect jump"
        return "makes a stack frame" if X86_FRAME.match(plain) else None

    @classmethod
    def is_return(cls, text):
        return cls.split(text)[1].startswith("ret")

    @classmethod
    def is_call(cls, text):
        return cls.split(text)[1].startswith("call")

    @classmethod
    def jump(cls, text):
        """(whether it always jumps, target) of a jump to an address, or None."""
        _, mnemonic, operands = cls.split(text)
        target = target_of(operands)
        if not mnemonic.startswith("j") or target is None:
            return None
        return mnemonic.startswith("jmp"), target


class Arm:
    name = "aarch64"
    objdump = "aarch64-linux-gnu-objdump"
    strip = "aarch64-linux-gnu-strip"

    @staticmethod
    def split(text):
        mnemonic, _, operands = text.partition("//")[0].strip().replace("\t", " ").partition(" ")
        return mnemonic, operands.strip()

    @classmethod
    def forbidden(cls, text):
        mnemonic, operands = cls.split(text)
        if ARM_ATOMIC.match(mnemonic):
            return "is atomic or a barrier"
        if mnemonic in ("bl", "blr"):
            return "is a call"
        if mnemonic == "br":
            return "is an indirect jump"
        return "makes a stack frame" if ARM_FRAME.match(f"{mnemonic} {operands}") else None

    @classmethod
    def is_return(cls, text):
        return cls.split(text)[0] == "ret"

    @classmethod
    def is_call(cls, text):
        return cls.split(text)[0] in ("bl", "blr")

    @classmethod
    def jump(cls, text):
        mnemonic, operands = cls.split(text)
        if mnemonic != "b" and not mnemonic.startswith("b.") and mnemonic not in ("cbz", "cbnz", "tbz", "tbnz"):
            return None
        target = target_of(operands)
        return None if target is None else (mnemonic == "b", target)


# Machines by their numbers in the header of an ELF file.
MACHINES = {62: X86, 183: Arm}


def machine_of(library):
    """Returns the machine that a file is for, or None if it is not in MACHINES."""
    with open(library, "rb") as file:
        return MACHINES.get(int.from_bytes(file.read(20)[18:20], "little"))
