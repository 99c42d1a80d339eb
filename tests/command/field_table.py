# SPDX-License-Identifier: BSD-3-Clause
"""Reads the heap's root and field table (docs/introspection.md), as a tool that is not the command would."""

import re


class FieldTable:
    """`structures` has {structure: {field: (offset, bytes, type)}}; `heap` and `layout` are the addresses of the Heap and of
    this text, `pointer_bytes` the size of a pointer."""

    def __init__(self, runs, read):
        """`runs` are the (address, bytes) of writable memory, which read(address, bytes) returns."""
        for start, size in runs:
            content = read(start, size)
            for found in re.finditer(rb"TCMROOT\n\x01\0\0\0", content):
                width = int.from_bytes(content[found.start() + 12:found.start() + 14], "little")
                words = [int.from_bytes(content[found.start() + 32 + i * width:][:width], "little") for i in range(5)]
                if words[0] != start + found.start():
                    continue  # a copy
                self.pointer_bytes = width
                _, self.layout, layout_bytes, _, self.heap = words
                self.text = read(self.layout, layout_bytes)
                self.structures = self._structures()
                return
        raise AssertionError("there is no root")

    def _structures(self):
        structures, fields = {}, {}
        for line in self.text.decode().rstrip("\0").splitlines():
            words = line.split()
            if line.startswith(" "):
                fields[words[0]] = (int(words[1]), int(words[2]), words[3] if len(words) > 3 else "")
            elif not line.startswith("="):
                fields = structures[words[0]] = {}
        return structures

    def marks(self, kind):
        """{name: address} of fields with that mark in the heap: Lock or Change."""
        found, todo = {}, [("Heap", self.heap, "Heap")]
        while todo:
            structure, address, name = todo.pop()
            for field, (offset, _, its_type) in self.structures.get(structure, {}).items():
                if its_type == kind:
                    found[f"{name}.{field}"] = address + offset
                elif its_type in self.structures:
                    todo.append((its_type, address + offset, f"{name}.{field}"))
        return found
