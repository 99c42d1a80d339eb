# SPDX-License-Identifier: BSD-3-Clause
"""Reads a public header: its comments, and the declarations below each."""

import collections
import re

# names: what is declared, in order.
Part = collections.namedtuple("Part", "comment code names")

COMMENT = re.compile(r"^[ \t]*(/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*)[ \t]*\n", re.DOTALL | re.MULTILINE)
LICENCE = "SPDX-License-Identifier"
FUNCTION = re.compile(r"\b([A-Za-z_]\w*)\s*\((?!\*)")
CLASS = re.compile(r"^\s*(?:class|struct)\s+(?:[A-Z_]+\s+)?(\w+)\s*(?:final\s*)?(?::|\{)", re.MULTILINE)
NOT_NAMES = {"noexcept", "sizeof", "defined", "alignof", "decltype", "static_assert", "throw", "if", "while", "for", "return"}
CPLUSPLUS = re.compile(r"^#\s*ifdef __cplusplus\s*\n(.*?)(?:^#\s*else[^\n]*\n(.*?))?^#\s*endif[^\n]*\n",
                       re.DOTALL | re.MULTILINE)


def side(text, cpp):
    """The text as a C compiler sees it; or what only a C++ compiler sees, between #ifdef __cplusplus and its #else or #endif."""
    if not cpp:
        return CPLUSPLUS.sub(lambda match: match[2] or "", text)
    if "__cplusplus" not in text:
        return text
    return "\n".join(match[1] for match in CPLUSPLUS.finditer(text))


def closing(text, begin):
    """Where the brace at `begin` is closed."""
    depth = 0
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise ValueError(f"a brace is not closed: {text[begin:begin + 60]}")


def without_bodies(code):
    """Function bodies become a semicolon; braces of types and namespaces stay."""
    done, position = "", 0
    while True:
        begin = code.find("{", position)
        if begin < 0:
            return done + code[position:]
        head = re.split(r"[;{}]|^\s*(?:public|private|protected):", code[:begin], flags=re.MULTILINE)[-1]
        if "(" in head and not re.search(r"\b(class|struct|enum|union|namespace|extern)\b[^()]*$", head):
            end = closing(code, begin)
            done += re.sub(r"\)\s*(noexcept)?\s*:\s[^{;]*$", lambda m: ")" + (" noexcept" if m[1] else ""),
                           code[position:begin]).rstrip() + ";"
            position = end + 1
        else:
            done += code[position:begin + 1]
            position = begin + 1


def without_private(code):
    """Without the private members of classes."""
    return re.sub(r"^ *private:.*?(?=^ *(?:public|protected):|^ *\};)", "", code, flags=re.DOTALL | re.MULTILINE)


def tidy(code):
    """The declarations, without what only compilers need."""
    code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*\n?", "", code, flags=re.MULTILINE)
    code = re.sub(r'^extern "C" \{\s*$|^\}\s*(/\*.*\*/|//.*)?$|^namespace [\w:]* ?\{\s*$', "", code, flags=re.MULTILINE)
    code = re.sub(r" TCMALLOC_(LEAKS_)?NOTHROW\b| TC_\w*NOTHROW\b", " noexcept" if "class " in code else "", code)
    code = re.sub(r"\b(PERFTOOLS_DLL_DECL|TCMALLOC_EXPORT)\s", "", code)
    return re.sub(r"\n\s*\n+", "\n", code).strip("\n")


def names_of(code):
    found = [*CLASS.findall(code)] if CLASS.search(code) else []
    if not found:
        found = [name for name in FUNCTION.findall(code) if name not in NOT_NAMES and not name.isupper()]
    if not found:
        found = re.findall(r"\}\s*(\w+);", code)
    return tuple(dict.fromkeys(found))


def parts(text, cpp):
    """[Part] of a header, in order. With `cpp`, as C++ programs see it: a class is one part with its comments."""
    text = side(text, cpp)
    found, position, comment = [], 0, ""

    def add(code):
        code = tidy(without_private(without_bodies(code)) if cpp else without_bodies(code))
        if comment or code:
            found.append(Part(comment, code, names_of(code)))

    for match in COMMENT.finditer(text):
        before = text[position:match.start()]
        # Inside of a class the comment is a part of the code.
        if before.count("{") > before.count("}") and re.search(r"\b(class|struct|enum)\b", before):
            continue
        if LICENCE in match[1]:
            position = match.end()
            continue
        add(before)
        comment, position = match[1], match.end()
        if text[position:].lstrip().startswith("#ifndef"):  # the comment of the file
            add("")
            comment = ""
    add(text[position:])
    return found


def as_markdown(comment):
    """The text of a comment."""
    if comment.startswith("//"):
        lines = [re.sub(r"^\s*// ?", "", line) for line in comment.split("\n")]
    else:
        body = comment.removeprefix("/*").removesuffix("*/")
        lines = [re.sub(r"^\s*\* ?", "", line) for line in body.split("\n")]
    text = "\n".join(line.rstrip() for line in lines).strip()
    return re.sub(r"(?<![`\w/])((?:tcmalloc_\w+|TCMALLOC_\w+|malloc_trim|malloc_usable_size)(?:\(\)|=\w+)?)", r"`\1`", text)
