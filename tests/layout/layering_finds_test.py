#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the layering test finds errors: it is given trees that are broken, and sound ones that look broken."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import layering_test

LICENCE = "// SPDX-License-Identifier: BSD-3-Clause\n"
# A sound tree; each test adds to it or replaces a part.
TREE = {
    "src/base/units.h":
        LICENCE + "#pragma once\nclass PageId {};\ninline constexpr int kPages = 1;\n",
    "src/os/clock.h": LICENCE + "#pragma once\nstruct Clock { virtual int Now() = 0; };\n",
    "src/page/page_heap.h": LICENCE + '#pragma once\n#include "base/units.h"\n',
    # These files need the exceptions of layering_test.py, because an exception that is not needed is an error.
    "src/introspection/field_table.h": LICENCE + "#pragma once\n#define TC_FIELD(member)\n",
    "src/entry/shared/override_atfork.cc": LICENCE + "#include <dlfcn.h>\n",
    "src/entry/shared/override_threads.cc": LICENCE + "#include <dlfcn.h>\n",
    "src/entry/oom_policy.cc": LICENCE + "#include <dlfcn.h>\n",
    "src/compat/malloc_hook.cc": LICENCE + "#include <sys/mman.h>\n",
}


class OnTree(unittest.TestCase):

    def run_on(self, check, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**TREE, **changes}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                status = check(root)
            return status, output.getvalue()


class Layering(OnTree):

    def check(self, changes, *expected):
        status, output = self.run_on(lambda root: layering_test.Checker(root).run(), changes)
        self.assertEqual(status, 1 if expected else 0, output)
        self.assertIn(f"\n{len(expected)} complaints", output)
        for text in expected:
            self.assertIn(text, output)

    def header(self, *lines):
        return LICENCE + "#pragma once\n" + "\n".join(lines) + "\n"

    def test_sound(self):
        self.check({})

    def test_arrow_upwards(self):
        self.check({"src/base/bad.h": self.header('#include "page/page_heap.h"')},
                   'src/base/bad.h:3: base/ must not include page/')

    def test_arrow_sideways(self):
        self.check({"src/tools/profile/sample.h": self.header('#include "cache/bins.h"'),
                    "src/cache/bins.h": self.header()},
                   "tools/profile/ must not include cache/")

    def test_nested_folders(self):
        files = {"src/os/memory/map.h": self.header('#include "os/clock.h"'),
                 "src/entry/full/entry_a.cc": LICENCE + '#include "entry/b.h"\n',
                 "src/entry/b.h": self.header()}
        self.check(files)
        self.check({**files, "src/os/log.h": self.header('#include "os/memory/map.h"')},
                   "src/os/log.h:3: os/ must not include os/memory/")
        self.check({**files, "src/heap/c.h": self.header('#include "entry/b.h"')},
                   "src/heap/c.h:3: heap/ must not include entry/")

    def test_detour(self):
        files = {"src/heap/heap.h": self.header(), "src/heap/a.h": self.header()}
        fast_path = {"src/entry/fast_path.h": self.header('#include "heap/a.h"')}
        self.check({**files, **fast_path})
        self.check({**files, **fast_path, "src/heap/a.h": self.header('#include "heap/heap.h"')},
                   "src/entry/fast_path.h:1: includes heap/heap.h")

    def test_minimal_library(self):
        tool = {"src/tools/profiler/sampler.h": self.header()}
        use = {"src/entry/slow_path.cc": LICENCE + '#include "tools/profiler/sampler.h"\n'}
        self.check({**tool, **use}, "src/entry/slow_path.cc:2: the minimal library has no answer")
        self.check({**tool, "src/entry/full/a.cc": use["src/entry/slow_path.cc"]})
        self.check({**tool, **use,
                    "src/tools/minimal/sampler.cc": LICENCE + '#include "tools/profiler/sampler.h"\n'})

    def test_arrow_in_comment(self):
        self.check({"src/base/good.h": self.header('// #include "page/page_heap.h"')})

    def test_cycle(self):
        self.check({"src/base/a.h": self.header('#include "base/b.h"'),
                    "src/base/b.h": self.header('#include "base/a.h"')},
                   "src/base/b.h:3: closes a cycle: base/a.h -> base/b.h -> base/a.h")

    def test_unknown_folder(self):
        self.check({"src/util/a.h": self.header()}, "src/util is not in the order")

    def test_missing_header(self):
        self.check({"src/page/a.h": self.header('#include "page_heap.h"')},
                   "is not a path from src/")

    def test_own_header_in_angles(self):
        self.check({"src/page/a.h": self.header("#include <base/units.h>")}, "included in quotes")

    def test_process_heap(self):
        self.check({"src/cache/a.cc": LICENCE + "void F() { GlobalHeap().x(); }\n"},
                   "src/cache/a.cc:2: cache/ is below heap/")
        self.check({"src/cache/a.cc": LICENCE + "// GlobalHeap is above\n",
                    "src/heap/a.cc": LICENCE + "void F() { GlobalHeap().x(); }\n"})

    def test_virtual(self):
        self.check({"src/page/a.h": self.header("struct A { virtual ~A(); };")},
                   "src/page/a.h:3: virtual functions below heap/")

    def test_conditional(self):
        self.check({"src/page/a.h": self.header("#ifdef X", "#endif")},
                   "src/page/a.h:3: conditional compilation")
        self.check({"src/entry/shared/override_x.h": self.header("#ifdef X", "#endif")})

    def test_macro(self):
        self.check({"src/page/a.h": self.header("#define A 1")}, "src/page/a.h:3: macro definition")

    def test_system_header(self):
        self.check({"src/page/a.h": self.header("#include <sys/mman.h>")}, "are for os/")
        self.check({"src/tools/leak/a.h": self.header("#include <sys/mman.h>")}, "are for os/")
        self.check({"src/tools/leak/os/a.h": self.header("#include <sys/mman.h>")})

    def test_command(self):
        page = self.header("class Page {};")
        self.check({"cli/image/a.h": page, "cli/heap/b.h": self.header('#include "image/a.h"')})
        self.check({"cli/heap/a.h": page, "cli/image/b.h": self.header('#include "heap/a.h"')},
                   "cli/image must not include heap/")
        self.check({"cli/image/b.h": self.header('#include "page/page_heap.h"')}, "includes its own headers only")
        self.check({"cli/other/b.h": page}, "is not in the order of folders")

    def test_guard_and_licence(self):
        self.check({"src/page/a.h": "int a;\n"}, "#pragma once", "SPDX")

    def test_unneeded_exception(self):
        self.check({"src/entry/oom_policy.cc": LICENCE}, "is not needed any more")

    def test_places(self):
        for text in ("see /wor" + "k/main/x", "cd .." + "/shared", "from pypi" + ".org",
                     "deb http://deb.debian" + ".org x", "as issue " + "12 says"):
            status, output = self.run_on(lambda root: layering_test.Checker(root).run(),
                                         {"docs/a.md": text})
            self.assertEqual((status, output.count("docs/a.md:1:")), (1, 1), text)
        self.check({"docs/a.md": "~/wor" + "k/x, $HOME/wor" + "k/, www.debian.org and an issue of 3 kinds"})


if __name__ == "__main__":
    unittest.main()
