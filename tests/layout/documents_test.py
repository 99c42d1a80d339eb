#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what the documents promise about each other and about the sources.

  documents_test.py ROOT

* Each relative link of each Markdown file leads to a file, and to a heading where it names one.
* No line of text begins with a tag: the site would take all that follows for HTML.
* Each page in docs/ and at the root can be reached from README.md by links.
* Each page in docs/ is in the navigation of the site once (docs/site/navigation.py), and each page there exists.
* The site finds what its pages link to (docs/site/gather.py).
* Each decision is in the table of docs/decisions/README.md, with a link to the page that has today's rule.
* Each line with which src/ aborts is on docs/debugging.md, and no other.
* docs/numbers.md lists the tuning constants as scripts/tuning_constants.py does.
* The sizes that documents and drawings state are those of the code (CITED).
"""

import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import source  # noqa: E402
import tuning_constants  # noqa: E402

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
DECISION = re.compile(r"\d{4}-[\w-]+\.md")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
STRINGS = re.compile(rf"(?:{STRING.pattern}\s*)+")  # adjacent strings are one
# A report of the debug libraries ends in an abort, too.
CALL = re.compile(r"(?<!void )\b(?:AbortWith|DebugReport report)\(")
PART_OF_LINE = re.compile(r"^void Write\w+\(TextWriter& line, const DebugObject&", re.MULTILINE)
OTHER_END = re.compile(r"\b(abort|__builtin_trap)\(\)")
WORD = re.compile(r"[a-z]{3}")
TAG = re.compile(r"^</?[A-Za-z]", re.MULTILINE)

# The places where documents state the size of a tuning constant: the file, the words around the size, and the constant.
CITED = (
    ("docs/drawings/malloc_and_free.dot", "Requests above<br align=\"left\"/>    SIZE start here", "kMaxSmallSize"),
    ("docs/drawings/malloc_and_free.svg", "&#160;SIZE start here", "kMaxSmallSize"),
    ("docs/drawings/span.dot", "<br/>SIZE or sampled", "kMaxSmallSize"),
    ("docs/drawings/span.svg", ">SIZE or sampled", "kMaxSmallSize"),
    ("docs/glossary.md", "An object of more than SIZE", "kMaxSmallSize"),
    ("docs/glossary.md", "An object of up to SIZE, of a size class", "kMaxSmallSize"),
    ("docs/how-it-works.md", "a sixteenth of the memory in use and at least SIZE", "kRetentionFloorBytes"),
    ("docs/design/hugepages.md", "If it grows for an object of SIZE or more", "kHugeObject"),
)


def prose(text):
    """Returns the text of a page with code replaced by spaces, so that nothing in it is taken for a link."""
    return INLINE_CODE.sub(lambda m: source.blank(m[0]), FENCE.sub(lambda m: source.blank(m[0]), text))


def one_line(text):
    return " ".join(text.split())


def anchors(text):
    """Returns the names that GitHub gives to the headings of a page."""
    found = {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = LINK.sub(lambda m: m[0][1:m[0].index("]")], heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = found.get(name, 0)
        found[name] = number + 1
        if number:
            found[f"{name}-{number}"] = 1
    return set(found)


def links(path, text):
    """(line number, target as written, file that it leads to, heading or '') of relative links."""
    for match in LINK.finditer(prose(text)):
        target = match[1]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, heading = target.partition("#")
        file = path if not name else (path.parent / name).resolve()
        yield text.count("\n", 0, match.start()) + 1, target, file, heading


def check_links(pages, complaints):
    count = 0
    for path, text in pages.items():
        for line, target, file, heading in links(path, text):
            count += 1
            if not file.exists():
                complaints.add(path, line, f"links to {target}, which does not exist")
            elif heading and heading not in anchors(file.read_text()):
                complaints.add(path, line, f"links to {target}: there is no such heading")
    return count


def check_tags(pages, complaints):
    for path, text in pages.items():
        for tag in TAG.finditer(prose(text)):
            complaints.add(path, text.count("\n", 0, tag.start()) + 1, "begins with a tag")


def check_reachable(root, pages, complaints):
    reached, left = set(), [root / "README.md"]
    while left:
        path = left.pop()
        # A link to a folder leads to the page that is shown for it.
        path = path / "README.md" if path.is_dir() else path
        if path in pages and path not in reached:
            reached.add(path)
            left += [file for _, _, file, _ in links(path, pages[path])]
    for path in pages:
        if path not in reached and (path.parent == root or root / "docs" in path.parents):
            complaints.add(path, 1, "no chain of links leads here from README.md")


def check_navigation(root, pages, complaints):
    sys.path.insert(0, str(root / "docs/site"))
    import gather
    import navigation
    with tempfile.TemporaryDirectory() as folder:
        try:
            gather.gather(root, pathlib.Path(folder))
        except FileNotFoundError as error:
            complaints.add(root / "docs/site/gather.py", 1, str(error))
    table = root / "docs/site/navigation.py"
    listed = [navigation.HOME, *(source for _, _, entries in navigation.SECTIONS for _, source in entries)]
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        complaints.add(table, 1, f"lists {name} twice")
    for name in listed:
        if name.endswith(".md") and root / name not in pages:
            complaints.add(table, 1, f"lists {name}, which does not exist")
    for path in pages:
        name = path.relative_to(root).as_posix()
        if name.startswith("docs/") and not DECISION.fullmatch(path.name) and name not in listed:
            complaints.add(path, 1, "is not in docs/site/navigation.py")


def check_decisions(root, pages, complaints):
    folder = root / "docs/decisions"
    table = folder / "README.md"
    rows = {}
    for row in re.findall(r"^\|.*\|$", pages.get(table, ""), re.MULTILINE):
        cells = row.split("|")
        if linked := re.search(rf"\(({DECISION.pattern})\)", cells[1]):
            rows[linked[1]] = cells[-2]
    for path in sorted(pages):
        if path.parent == folder and DECISION.fullmatch(path.name) and "](../" not in rows.get(path.name, ""):
            complaints.add(path, 1, f"has no row in {table.name} that links to the page with today's rule")


def bodies_that_abort(text):
    """Yields (position, text) of the body of each function at the outer level that calls AbortWith, or writes a part of
    a line for a function that does."""
    for end in re.finditer(r"^}$", text, re.MULTILINE):
        begin = max(text.rfind("\n}\n", 0, end.start()),
                    text.rfind("\n", 0, text.rfind("\nnamespace", 0, end.start()) + 1))
        begin = text.find(" {\n", text.find("\n", begin + 1)) + 1
        head = text[text.rfind("\n\n", 0, begin):begin]
        if begin and (CALL.search(text, begin, end.start()) or PART_OF_LINE.search(head)):
            yield begin, text[begin:end.start()]


def abort_fragments(root, complaints):
    """{constant text of a line with which src/ aborts: (path, line)}."""
    found = {}
    for path in source.library_files(root):
        text = source.without_comments(path.read_text())
        calls = 0
        for begin, body in bodies_that_abort(text):
            calls += len(CALL.findall(body))
            for match in STRINGS.finditer(body):
                constant = "".join(STRING.findall(match[0])).replace("\\n", "").replace('\\"', '"')
                if WORD.search(constant):
                    line = text.count("\n", 0, begin + match.start()) + 1
                    found[one_line(constant)] = (path, line)
        if OTHER_END.search(text) and path.name not in ("log.cc", "report.cc"):
            complaints.add(path, 1, "ends the process without AbortWith: nothing says why")
        if calls != len(CALL.findall(text)):
            complaints.add(path, 1, "calls AbortWith where this test does not see what it prints")
    return found


def check_abort_lines(root, pages, complaints):
    page = root / "docs/debugging.md"
    fragments = abort_fragments(root, complaints)
    # The lines of the page: constants of the source, with <names> for what differs.
    lines = re.findall(r"^\| `(tcmalloc: .*?)` \|", pages.get(page, ""), re.MULTILINE)
    text = one_line(" ".join(lines))
    for fragment, (path, line) in sorted(fragments.items()):
        if fragment not in text:
            complaints.add(path, line, f"aborts with a line that {page.name} does not have", fragment)
    for shown in lines:
        rest = one_line(re.sub(r"<[^>]*>", " ", shown))
        for fragment in sorted(fragments, key=len, reverse=True):
            rest = rest.replace(fragment, "")
        if WORD.search(rest):
            complaints.add(page, 1, f"has an abort line that src/ does not have: {rest}", shown)
    if not lines:
        complaints.add(page, 1, "has no abort lines")
    return len(fragments)


def check_numbers(root, complaints):
    path = root / "docs/numbers.md"
    if path.read_text() != tuning_constants.page(root):
        complaints.add(path, 1, "is not what the code has: run scripts/tuning_constants.py > docs/numbers.md")


def check_cited(root, complaints):
    sizes = tuning_constants.sizes(root)
    for name, words, constant in CITED:
        path = root / name
        text = path.read_text()
        stated = list(re.finditer(re.escape(words).replace("SIZE", r"(\d+ [KMG]iB)"), text))
        if not stated or constant not in sizes:
            complaints.add(path, 1, f"does not say {words!r}, or there is no size {constant}: see CITED")
        for match in stated:
            if match[1] != sizes.get(constant):
                complaints.add(path, text.count("\n", 0, match.start()) + 1,
                               f"says {match[1]} of what is {sizes.get(constant)} in the code ({constant})")


def check_invariants(root, complaints):
    """The table of invariants in ARCHITECTURE.md names those that the headers state."""
    path = root / "ARCHITECTURE.md"
    rows = re.findall(r"^\| ((?:`[A-Z]\d+`[–, ]*)+) \|.*\| ((?:`[\w/]+\.h`,? ?)+) \|$", path.read_text(), re.MULTILINE)
    for numbers, headers in rows:
        named = set()
        for first, last in re.findall(r"`([A-Z]\d+)`(?:–`[A-Z](\d+)`)?", numbers):
            named |= {f"{first[0]}{i}" for i in range(int(first[1:]), int(last or first[1:]) + 1)}
        stated = set()
        for header in re.findall(r"`([\w/]+\.h)`", headers):
            stated |= set(re.findall(r"^\s*//\s+([A-Z]\d+)\b", (root / "src" / header).read_text(), re.MULTILINE))
        if named != stated:
            complaints.add(path, 1, f"the invariants of {headers} are {' '.join(sorted(stated))}, not {numbers}")
    if not rows:
        complaints.add(path, 1, "has no table of invariants")


def check(root):
    complaints = source.Complaints(root)
    pages = {path: path.read_text() for path in source.tree_files(root) if path.suffix == ".md"}
    num_links = check_links(pages, complaints)
    check_tags(pages, complaints)
    check_reachable(root, pages, complaints)
    check_navigation(root, pages, complaints)
    check_decisions(root, pages, complaints)
    check_cited(root, complaints)
    check_numbers(root, complaints)
    check_invariants(root, complaints)
    num_fragments = check_abort_lines(root, pages, complaints)
    print(f"{len(pages)} pages, {num_links} links, "
          f"{num_fragments} texts of abort lines, {complaints.count} complaints")
    return 1 if complaints.count or not (num_links and num_fragments) else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()))
