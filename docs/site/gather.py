# SPDX-License-Identifier: BSD-3-Clause
"""Copies the project's pages into the folder that the site is built from.

The pages are written for a reader of the repository: they link to each other by the paths of their files. Here each link
becomes one to the page of the site, and each linked file that is no page is copied, or shown as a page if it is code.
"""

import os
import pathlib
import re
import shutil

import navigation

# A link's address, or code, in which the same characters are no link: `operator new[](size_t)`.
LINK = re.compile(r"`[^`]*`|(\]\()([^)\s]+)(\))")
# The name of a page in the text of a table, for example of the settings.
BARE_PAGE = re.compile(r"(?<![\w/\[(`])docs/([\w-]+)\.md\b(?![`\]])")
FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^( *)([*-]|\d+\.) ")
CODE = {".h": "c++", ".cc": "c++", ".c": "c", ".py": "python", ".sh": "bash", ".gdb": "text"}
# A page that only shows a file is not found by the search.
CODE_PAGE = "---\nsearch:\n  exclude: true\n---\n\n# `{name}`\n\n````{language}\n{text}\n````\n"
DECISIONS = "docs/decisions/"


class Gatherer:
    def __init__(self, root, target):
        self.root, self.target = root, target
        self.pages = navigation.site_pages()
        self.written = set()

    def site_path(self, path):
        """The path in the site of a file of the project."""
        if path in self.pages:
            return self.pages[path]
        if path.startswith(DECISIONS):
            return f"internals/{path.removeprefix('docs/')}"
        if path.endswith(".md"):
            return f"internals/{path.lower().replace('/', '-')}"
        return f"files/{path}" + (".md" if pathlib.Path(path).suffix in CODE else "")

    def linked_file(self, page, target):
        """(file of the project, '#heading' or '') that a link on a page leads to; None for one to elsewhere."""
        if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
            return None
        name, mark, heading = target.partition("#")
        file = (self.root / page).parent.joinpath(name).resolve()
        if file.is_dir():
            file /= "README.md"
        if not file.is_file():
            raise FileNotFoundError(f"{page}: links to {target}, which does not exist")
        return file.relative_to(self.root).as_posix(), mark + heading

    def with_links_of_site(self, page, line):
        """A line of a page; the files that it links to are copied."""
        def replaced(match):
            found = match[2] and self.linked_file(page, match[2])
            if not found:
                return match[0]
            file, heading = found
            self.copy(file)
            here = pathlib.PurePosixPath(self.site_path(page)).parent
            return f"{match[1]}{os.path.relpath(self.site_path(file), here)}{heading}{match[3]}"
        if page == "docs/settings.md":
            line = BARE_PAGE.sub(r"[\1](\1.md)", line)
        return LINK.sub(replaced, line)

    def copy(self, path):
        """Copies a file of the project, and all that it links to."""
        if path in self.written:
            return
        self.written.add(path)
        source, target = self.root / path, self.target / self.site_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text()
            target.write_text("\n".join(self.page_lines(path, text.split("\n"))))
        elif source.suffix in CODE:
            target.write_text(CODE_PAGE.format(name=path, language=CODE[source.suffix], text=source.read_text()))
        else:
            shutil.copyfile(source, target)

    def page_lines(self, page, lines):
        """The lines of a page, with lists as Python's Markdown wants them: after an empty line, nested by four spaces."""
        fence, before, in_list = None, "", False
        for line in lines:
            mark = FENCE.match(line)
            if mark:
                fence = None if fence == mark[1] else fence or mark[1]
                yield line
            elif fence:
                yield line
            else:
                item = ITEM.match(line)
                starts = item and not in_list and before.strip() and not before.startswith("    ")
                if starts:
                    yield ""
                if item:
                    in_list = True
                elif line.strip() and not line.startswith(" ") and not before.strip():
                    in_list = False
                if in_list and line.startswith("  ") and not line.startswith("    "):
                    line = "  " + line
                yield self.with_links_of_site(page, line) if not line.startswith("    ") or in_list else line
            before = line


def gather(root, target):
    """Fills the folder `target` and returns the files of the project that are in the site."""
    gatherer = Gatherer(root, target)
    for path in gatherer.pages:
        gatherer.copy(path)
    return sorted(gatherer.written)
