#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A class of src/ has at most 25 public functions and at most 20 data members.

  class_size.py ROOT [--list]

Overloads count one by one; constructors, destructors and operators do not count. A plain record, a struct without functions that change it
and without private members, may have any number of data members. --list prints the figures of all classes.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402

MAX_FUNCTIONS = 25
MAX_MEMBERS = 20

CLASS = re.compile(r"\b(class|struct)\s+(?:alignas\([^)]*\)\s+)?([A-Za-z_]\w*)(?:\s+final)?\s*(?::[^;{()]*)?\{")
# Macros with arguments that stand after a declaration.
ANNOTATION = re.compile(r"\bTC_[A-Z_]+\s*(?:\((?:[^()]|\([^()]*\))*\))?|\b(?:alignas|__attribute__|decltype|noexcept|static_assert)\s*"
                        r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\[\[.*?\]\]")
NOT_A_MEMBER = re.compile(r"^(using|typedef|friend|static_assert|enum|class|struct|static constexpr|static inline constexpr|"
                          r"constexpr static|template\s*<[^;]*>\s*(class|struct|using|friend))\b")


def closing(text, start):
    """Returns the position after the last brace of the block that begins at text[start]."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def statements(body):
    """Yields (access label, declaration without blocks, whether it has a block) of each declaration in a class body."""
    at, begin, access = 0, 0, None
    while at < len(body):
        if body[at] == "{":
            end = closing(body, at)
            declaration = body[begin:at]
            # An initialiser, or the body of a function, a type or an anonymous union.
            rest = re.match(r"\s*(?:[\w,\s=]*;|\s*,)", body[end:]) if "(" not in declaration else None
            if rest or re.match(r"\s*;", body[end:]):
                body = body[:at] + "=" + body[end:]
                continue
            yield access, declaration, True
            begin = at = end
        elif body[at] == ";":
            yield access, body[begin:at], False
            begin = at = at + 1
        else:
            label = re.match(r"\s*(public|private|protected)\s*:(?!:)", body[begin:at + 1])
            if label:
                access, begin = label[1], at + 1
            at += 1


def measure(kind, name, body):
    """Returns (number of public functions, number of data members, whether it is a plain record)."""
    functions = members = 0
    has_private = False
    mutates = False
    default = "public" if kind == "struct" else "private"
    for access, text, has_block in statements(body):
        access = access or default
        text = ANNOTATION.sub(" ", re.sub(r"^\s*(?:(?:public|private|protected)\s*:)+", "", text.strip())).strip()
        text = re.sub(r"^template\s*<(?:[^<>]|<[^<>]*>)*>\s*", "", text)
        has_private |= access != "public"
        if not text or NOT_A_MEMBER.match(text) or text.startswith("union"):
            continue
        before_value = text.split("=")[0] if "operator" not in text else text
        # A declaration with parentheses is a function, except if they belong to a pointer to a function, which has a
        # star in them.
        is_function = bool(re.search(r"[\w>\]]\s*\((?!\s*\*)", before_value)) and not re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", before_value)
        if is_function:
            if re.search(rf"~?\b{name}\s*\(|\boperator\b", before_value):
                continue
            mutates |= " const" not in text and "static" not in text
            functions += access == "public"
        elif not text.startswith(("static", "extern")):
            members += 1
    return functions, members, kind == "struct" and not has_private and not mutates


def classes(text):
    """Yields (line, kind, name, body) of each class, nested ones included. The text of a nested class is removed from
    the outer one."""
    for match in CLASS.finditer(text):
        end = closing(text, match.end() - 1)
        body = text[match.end():end - 1]
        while True:
            inner = CLASS.search(body)
            if not inner:
                break
            body = body[:inner.start()] + body[closing(body, inner.end() - 1):]
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2], body


def check(root, list_all):
    complaints = source.Complaints(root)
    seen = set()
    for path in source.library_files(root):
        text = source.without_comments_and_strings(path.read_text())
        text = re.sub(r"^\s*#.*$", lambda m: source.blank(m[0]), text, flags=re.MULTILINE)
        for line, kind, name, body in classes(text):
            functions, members, record = measure(kind, name, body)
            too_large = functions > MAX_FUNCTIONS or (members > MAX_MEMBERS and not record)
            seen.add(name)
            if list_all:
                print(f"{functions:4} {members:4} {'record' if record else '      '} {path.relative_to(root)}:{line} {name}")
            elif too_large:
                complaints.add(path, line, f"{name} has {functions} public functions and {members} data members, more than "
                               f"{MAX_FUNCTIONS} and {MAX_MEMBERS}: divide it")
    if list_all:
        return 0
    print(f"{len(seen)} classes; {complaints.count} complaints")
    return 1 if complaints.count or not seen else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve(), "--list" in sys.argv))
