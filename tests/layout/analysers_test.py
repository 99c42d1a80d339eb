#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the layout tests find errors: each is given something broken, and something sound that looks broken."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import abi_test
import codegen_test
import comments_test
import layering_test
import machine_code
import source
import words_test

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
        self.check({"docs/a.md": "~/work/x, $HOME/work/, www.debian.org and an issue of 3 kinds"})


class Comments(OnTree):

    def missing(self, comment, folder="src/page/a.cc"):
        status, output = self.run_on(comments_test.check, {folder: comment + "\n"})
        found = [line.split("names ")[1].split(",")[0] for line in output.split("\n")
                 if ": names " in line]
        self.assertEqual(status, 1 if found else 0)
        return found

    def test_missing(self):
        self.assertEqual(self.missing("// as PageHeap does"), ["PageHeap"])
        self.assertEqual(self.missing("// as PageHeap does", "cli/heap/a.cc"), ["PageHeap"])
        self.assertEqual(self.missing("int a; // at most kSpans"), ["kSpans"])
        self.assertEqual(self.missing("/* see\n   page_map.h */"), ["page_map.h"])
        self.assertEqual(self.missing("// see base/page_heap.h"), ["base/page_heap.h"])
        self.assertEqual(self.missing("// calls Release()"), ["Release"])
        self.assertEqual(self.missing("// PageId::Next"), ["PageId::Next"])
        self.assertEqual(self.missing("// guarded by lock_"), ["lock_"])
        self.assertEqual(self.missing("// a `Sampler` may"), ["Sampler"])
        self.assertEqual(self.missing("// TC_NONE"), ["TC_NONE"])
        self.assertEqual(self.missing("// in src/heap/"), ["src/heap/"])
        self.assertEqual(self.missing("see `page/heap.cc`", "docs/a.md"), ["page/heap.cc"])
        self.assertEqual(self.missing("the `PageMap`", "docs/a.md"), ["PageMap"])

    def test_present(self):
        self.assertEqual(self.missing("// PageId, kPages, page_heap.h, os/clock.h, os/, Now()"), [])
        self.assertEqual(self.missing('const char* s = "// PageMap";'), [])
        self.assertEqual(self.missing("the `PageId` in `src/page/`", "docs/a.md"), [])


class Words(unittest.TestCase):
    """Tests words_test.py: the notation of its table, and the places where it looks."""

    GLOSSARY = ("| a **term** | behind |\n\n## Words to avoid\n\n| write | not | except |\n|---|---|---|\n"
                "| after | `behind` | `left behind` |\n| return | `give/gave … back` | |\n"
                "| leaked | `lost object(s)` | |\n| As F | `^The same for` | |\n")

    def found(self, reader, text):
        """Returns (line, phrase) of each phrase that is found."""
        rules = words_test.rules_of(self.GLOSSARY)
        return [(passage.line_at(match.start()), match[0]) for passage in words_test.passages(reader(text))
                for rule in rules for match in rule.matches(passage.text)]

    def test_notation(self):
        for text in ("Is behind it.", "gave back", "give it all back", "a lost object", "Lost objects.", "The same for x",
                     "Frees. The same for x"):
            self.assertEqual(len(self.found(words_test.markdown_pieces, text)), 1, text)
        for text in ("behinds", "left behind", "give one two three four five back", "BEHIND", "a lost one", "at the same for x"):
            self.assertEqual(self.found(words_test.markdown_pieces, text), [], text)

    def test_code(self):
        text = ('int behind;  // a\n// it gave\n// it back\n\n// A new comment. lost\n\n// object\n'
                'f("lost "\n  "objects");\n/* x\n * behind\n */\nchar c = \'"\'; /* give\n\nback */\nR"(behind)";')
        self.assertEqual(self.found(words_test.code_pieces, text),
                         [(2, "gave it back"), (8, "lost objects"), (11, "behind"), (16, "behind")])

    def test_python_and_shell(self):
        self.assertEqual(self.found(words_test.python_pieces, 'behind = 1  # behind\nx = """a\nlost object"""\n'),
                         [(1, "behind"), (3, "lost object")])
        self.assertEqual(self.found(words_test.shell_pieces, "behind\n# behind\n"), [(2, "behind")])

    def test_markdown(self):
        text = ("# behind\n\n`behind` [x](behind)\n\n    behind\n\n```\nbehind\n```\n* lost\n* object\n* lost\n  object\n"
                "\n## Words to avoid\n\nbehind\n")
        self.assertEqual(self.found(words_test.markdown_pieces, text), [(1, "behind"), (12, "lost object")])

    def test_row_without_phrase(self):
        with self.assertRaises(ValueError):
            words_test.rules_of("## Words to avoid\n| after | behind | |\n")


class Source(unittest.TestCase):

    def test_comments(self):
        text = 'a = "// no"; // yes\nchar c = \'"\'; /* two\nlines */ n = 1\'000; // last\n'
        self.assertEqual(list(source.comments(text)),
                         [(1, "// yes"), (2, "/* two"), (3, "lines */"), (3, "// last")])
        bare = source.without_comments_and_strings(text)
        self.assertEqual(bare.count("\n"), text.count("\n"))
        for gone in ("no", "yes", "two", "lines", "last"):
            self.assertNotIn(gone, bare)
        self.assertIn('R"(', source.without_comments('x = R"(// no "comment" )";'))


class Codegen(unittest.TestCase):

    def path(self, *instructions, start=0x10):
        """The instructions stand at 0x10, 0x11 and so on."""
        text = "".join(f"  {start + i:x}:\t{instruction}\n"
                       for i, instruction in enumerate(instructions))
        path, complaint = codegen_test.straight_path(codegen_test.parse(text), 0x10)
        return len(path), complaint

    def test_straight(self):
        self.assertEqual(self.path("mov %rdi,%rax", "ret", "nop"), (2, None))

    def test_rare_case_forward(self):
        self.assertEqual(self.path("test %rax,%rax", "je 14 <f+0x4>", "ret", "ud2", "ud2"),
                         (3, None))

    def test_rare_case_in_another_section(self):
        self.assertEqual(self.path("test %rax,%rax", "je 4 <f.cold>", "ret"), (3, None))

    def test_jump_is_followed(self):
        self.assertEqual(self.path("jmp 12 <f+0x2>", "ud2", "ret"), (2, None))

    def test_loop(self):
        count, complaint = self.path("dec %rax", "jne 10 <f>", "ret")
        self.assertEqual((count, complaint), (codegen_test.LONGEST, "does not end"))

    def test_forbidden(self):
        for instruction, complaint in (
                ("call 50 <g>", "is a call"),
                ("call *%rax", "is a call"),
                ("jmp *0x10(%rax)", "is an indirect jump"),
                ("push %rbx", "makes a stack frame"),
                ("sub $0x8,%rsp", "makes a stack frame"),
                ("lock incl (%rax)", "is atomic or a barrier"),
                ("xchg %rax,(%rdx)", "is atomic or a barrier"),
                ("xchg %al,0x10(%rdx)", "is atomic or a barrier"),
                ("lock cmpxchg %rcx,(%rdx)", "is atomic or a barrier"),
                ("mfence", "is atomic or a barrier"),
                ("rep stos %rax,%es:(%rdi)", "repeats")):
            found = self.path(instruction, "ret")[1]
            self.assertIsNotNone(found, instruction)
            self.assertTrue(found.endswith(complaint), found)

    def test_allowed(self):
        for instruction in ("sub $0x8,%rsi", "xchg %ax,%ax", "movb $0x1,%fs:0x10(%rcx)",
                            "mov 0x8(%rsp),%rax", "bnd jmp 11"):
            self.assertEqual(self.path(instruction, "ret"), (2, None), instruction)


class ArmPath(unittest.TestCase):

    def path(self, *instructions):
        """The instructions stand at 0x10, 0x14 and so on."""
        text = "".join(f"  {0x10 + 4 * i:x}:\t{instruction}\n" for i, instruction in enumerate(instructions))
        path, complaint = codegen_test.straight_path(codegen_test.parse(text), 0x10, machine_code.Arm)
        return len(path), complaint

    def test_straight(self):
        self.assertEqual(self.path("mov\tw1, #0x1                   \t// #1", "ret", "nop"), (2, None))

    def test_rare_cases(self):
        for branch in ("b.eq\t20 <f+0x10>  // b.none", "cbz\tx0, 20 <f+0x10>", "tbnz\tw4, #0, 20 <f+0x10>", "cbnz\tx2, 4 <f.cold>"):
            self.assertEqual(self.path(branch, "ret", "nop", "nop"), (2, None), branch)

    def test_branch_is_followed(self):
        self.assertEqual(self.path("b\t18 <f+0x8>", "udf\t#0", "ret"), (2, None))

    def test_loop(self):
        for branch in ("b.ne\t10 <f>  // b.any", "tbnz\tw4, #0, 10 <f>"):
            self.assertEqual(self.path("subs\tx0, x0, #0x1", branch, "ret"), (codegen_test.LONGEST, "does not end"), branch)

    def test_forbidden(self):
        for instruction, complaint in (
                ("bl\t50 <g>", "is a call"), ("blr\tx3", "is a call"), ("br\tx16", "is an indirect jump"),
                ("stp\tx29, x30, [sp, #-16]!", "makes a stack frame"), ("sub\tsp, sp, #0x20", "makes a stack frame"),
                ("ldar\tx3, [x3]", "is atomic or a barrier"), ("ldaxr\tx0, [x1]", "is atomic or a barrier"),
                ("stlxrb\tw2, w0, [x1]", "is atomic or a barrier"), ("casal\tw0, w1, [x2]", "is atomic or a barrier"),
                ("ldaddal\tx0, x1, [x2]", "is atomic or a barrier"), ("swpal\tw0, w1, [x2]", "is atomic or a barrier"),
                ("dmb\tish", "is atomic or a barrier")):
            self.assertEqual(self.path(instruction, "ret"), (1, f"'{instruction}' {complaint}"))

    def test_allowed(self):
        for instruction in ("stlrb\twzr, [x2]", "ldr\tx1, [x2, #8]", "ldp\tx5, x4, [x3]", "ldrh\tw3, [x3, x1, lsl #1]",
                            "str\tx0, [x3, #8]!", "mrs\tx2, tpidr_el0", "ldrsb\tw0, [x1]", "strb\tw1, [x2]"):
            self.assertEqual(self.path(instruction, "ret"), (2, None), instruction)


class Lists(unittest.TestCase):

    def test_lists(self):
        """Every name of the requirements is in the list of exported symbols."""
        names = {name for name, _ in abi_test.read_list("exported_symbols.txt")}
        plain = ("malloc free calloc realloc reallocarray memalign aligned_alloc posix_memalign "
                 "valloc pvalloc malloc_usable_size malloc_trim mallopt mallinfo mallinfo2 "
                 "malloc_info malloc_stats free_sized free_aligned_sized cfree").split()
        wanted = set(plain)
        wanted |= {f"tc_{name}" for name in plain if name != "malloc_usable_size"}
        wanted |= {f"__libc_{name}" for name in ("malloc free calloc realloc reallocarray memalign "
                                                 "valloc pvalloc cfree").split()}
        nothrow, aligned = "RKSt9nothrow_t", "St11align_val_t"
        for array in "wa":
            wanted |= {f"_Zn{array}m{tail}" for tail in ("", nothrow, aligned, aligned + nothrow)}
        for array in "la":
            wanted |= {f"_Zd{array}Pv{tail}"
                       for tail in ("", nothrow, aligned, aligned + nothrow, "m", "m" + aligned)}
        self.assertEqual(wanted - names, set())


if __name__ == "__main__":
    unittest.main()
