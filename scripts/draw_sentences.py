#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws sentences at random from the documents and comments, for a person who judges whether they are clear.

  draw_sentences.py [--seed N] [--count N] [FOLDER or FILE...]

Prints the seed and each drawn sentence with its file and line; below a comment, the line of code that it is about. Every
sentence of a Markdown page, and of a comment or docstring of C, C++, Python and shell, has the same chance. A cell of a
table, a heading and an item of a list are sentences, too, if they have four words or more beside code. The time is the
seed if none is given. Results of benchmarks are left out.
"""

import argparse
import io
import pathlib
import random
import re
import sys
import time
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/lint"))
import words  # noqa: E402
import source  # noqa: E402

LEFT_OUT = ("bench/results/", "LICENSE", "docs/site/iframe-worker.js")
END = re.compile(r"(?<=[.!?:;])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`\"(*])")
LEAST_WORDS = 4


def comments_of_code(text):
    """Lines of comments. A comment without code before it continues one that begins in the same column of the line above."""
    before = None
    for match in source.TOKEN.finditer(text):
        if not match["comment"] or match[0].startswith("// namespace"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        begin = text.rfind("\n", 0, match.start()) + 1
        column, alone = match.start() - begin, not text[begin:match.start()].strip()
        for offset, part in enumerate(match[0].split("\n")):
            stripped = re.sub(r"^\s*(?://+|/\*+|\*(?!/))|\*/\s*$|SPDX-License.*", "", part).strip()
            yield line + offset, stripped, bool(stripped) and (offset > 0 or alone and before == (line - 1, column))
        before = line + match[0].count("\n"), column


def whole_markdown(text):
    """Lines of text with their code in backticks; each cell of a table is alone."""
    fenced = continues = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        code = fenced or line.startswith("    ") and not continues
        plain = "" if code or line.startswith("<!--") else re.sub(r"\]\([^)]*\)", "]", line)
        begins = not continues or re.match(r"\s*(#|\||[*-] |\d+\. )", line) is not None
        if plain.startswith("|"):
            for cell in plain.strip("| ").split(" | "):
                yield number, cell, False
        else:
            yield number, plain.lstrip("#*- "), not begins
        continues = bool(plain.strip())


def comments_of_python(text):
    """Comments, and strings that are statements."""
    last, starts = 0, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            yield line, "" if token.string.startswith("#!") else re.sub("^# ?(SPDX.*)?", "", token.string), line == last + 1
            last = line
        elif token.type == tokenize.STRING and starts:
            for offset, part in enumerate(token.string.strip("'\"").split("\n")):
                yield line + offset, part, offset > 0 and bool(part.strip())
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            starts = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def code_below(lines, number):
    """The code on the line of a comment, or the first one below it."""
    for line in lines[number - 1:]:
        code = re.sub(r"\s*(//|#).*", "", line).strip()
        if code:
            return code
    return ""


READERS = {".md": whole_markdown, ".py": comments_of_python, ".sh": words.shell_pieces}
READERS.update((suffix, comments_of_code) for suffix in source.CODE_SUFFIXES)


def sentences(places):
    """[(path, line, sentence, code that it is about)] of the files in `places`; of all without any."""
    found = []
    for path in source.tree_files(ROOT):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in READERS or name.startswith(LEFT_OUT) or places and not name.startswith(tuple(places)):
            continue
        text = path.read_text()
        lines = text.split("\n")
        for passage in words.passages(READERS[path.suffix](text)):
            start = 0
            for sentence in END.split(passage.text):
                at = passage.text.index(sentence, start)
                start = at + len(sentence)
                if len(re.findall(r"[A-Za-z]{2,}", re.sub(r"`[^`]*`", "", sentence))) >= LEAST_WORDS:
                    line = passage.line_at(at)
                    about = code_below(lines, line) if path.suffix in source.CODE_SUFFIXES else ""
                    found.append((name, line, sentence, about))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("places", nargs="*")
    options = parser.parse_args()
    found = sentences(options.places)
    count = min(options.count, len(found))
    print(f"seed {options.seed}: {count} of {len(found)} sentences")
    for number, (name, line, sentence, about) in enumerate(random.Random(options.seed).sample(found, count), 1):
        print(f"{number}. {name}:{line}: {sentence}", *([f"      {about}"] if about else []), sep="\n")


if __name__ == "__main__":
    main()
