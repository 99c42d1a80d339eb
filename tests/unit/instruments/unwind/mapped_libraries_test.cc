// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/mapped_libraries.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <search.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>

#include "base/compiler.h"
#include "instruments/profiles/profile_fixture.h"
#include "instruments/unwind/elf_image.h"
#include "own_memory.h"

extern "C" TC_OUT_OF_LINE int function_names_test_function(int n) { return n * 3 + 1; }

namespace tcmalloc {
namespace {

std::vector<std::pair<uintptr_t, uintptr_t>> asked;
bool Answer(uintptr_t start, uintptr_t limit, ElfImage* image) {
  asked.emplace_back(start, limit);
  image->bias = start + 1;
  image->build_id_bytes = 1;
  return true;
}

TEST(MappedLibrariesTest, KeepsExecutableMappingsThatHaveANameAndSkipsMalformedLines) {
  asked.clear();
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  constexpr std::string_view kText =
      "00001000-00002000 r--p 00000000 08:01 7   /bin/a b\n"
      "00002000-00004000 r-xp 00001000 08:01 7   /bin/a b\n"
      "00004000-00005000 rw-p 00003000 08:01 7   /bin/a b\n"
      "00005000-00006000 rw-p 00000000 00:00 0   [heap]\n"
      "\n"
      "00006000-00007000 rwxp 00000000 00:00 0 \n"
      "nonsense\n"
      "00007000-00008000 r-xp 00000000 08:01 9   /lib/x.so (deleted)\n"
      "00008000-00009000 r-xp 00004000 08:01 10  /lib/y.so\n"
      "0000a000-0000b000 --xp 00000000 08:01 11  /lib/unreadable\n"
      "0000c000-0000d000 r-xp 00000000 00:00 0   [vdso]";
  ASSERT_TRUE(libraries.Parse(kText, &Answer));
  std::vector<std::tuple<uintptr_t, uintptr_t, uint64_t, std::string_view, bool>> found;
  for (const MappedLibrary& l : libraries) {
    found.emplace_back(l.start, l.end, l.file_offset, l.name, l.is_image);
    EXPECT_EQ(l.image.build_id_bytes, l.is_image ? 1u : 0u);
  }
  const decltype(found) expected = {
      {0x2000, 0x4000, 0x1000, "/bin/a b", true},   {0x7000, 0x8000, 0, "/lib/x.so", true},
      {0x8000, 0x9000, 0x4000, "/lib/y.so", false}, {0xa000, 0xb000, 0, "/lib/unreadable", false},
      {0xc000, 0xd000, 0, "[vdso]", true},
  };
  EXPECT_EQ(found, expected);
  const decltype(asked) expected_asked = {{0x1000, 0x4000}, {0x7000, 0x8000}, {0xc000, 0xd000}};
  EXPECT_EQ(asked, expected_asked);
  EXPECT_EQ(libraries.Find(0x2000)->image.bias, 0x1001u);
  EXPECT_EQ(libraries.Find(0x3fff), libraries.begin());
  EXPECT_EQ(libraries.Find(0x7000), libraries.begin() + 1);
  for (const uintptr_t outside :
       {uintptr_t{0}, uintptr_t{0x1fff}, uintptr_t{0x4000}, uintptr_t{0x6fff}, UINTPTR_MAX}) {
    EXPECT_EQ(libraries.Find(outside), nullptr) << outside;
  }
  // If the first mapping of a file is missing, address minus bias is the file offset.
  EXPECT_EQ(libraries.Find(0x8000)->image.bias, 0x4000u);
}

TC_OUT_OF_LINE int HiddenFunction(int n) { return n * 7 + 2; }

uintptr_t AddressOf(int (*function)(int)) { return reinterpret_cast<uintptr_t>(function); }

struct Names {
  Names() : libraries(vm), names(vm) { EXPECT_TRUE(libraries.Read()); }
  std::string Written(uintptr_t address) const {
    char buffer[1024];
    TextWriter out(buffer, sizeof(buffer));
    names.Write(address, libraries, &out);
    return std::string(out.text());
  }

  SystemVirtualMemory vm;
  MappedLibraries libraries;
  FunctionNames names;
};

TEST(FunctionNamesTest, ProgramAndLibraries) {
  SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
  Names n;
  const uintptr_t own = AddressOf(&function_names_test_function);
  const uintptr_t hidden = AddressOf(&HiddenFunction);
  const auto in_library = reinterpret_cast<uintptr_t>(&qsort);
  for (const uintptr_t address : {own + 1, in_library + 2, hidden + 3, own + 1, uintptr_t{0x10}}) {
    ASSERT_TRUE(n.names.Add(address));
  }
  n.names.Resolve(n.libraries);
  std::string_view name;
  uintptr_t offset;
  // The file's full symbol table also has functions that no other file may call.
  ASSERT_TRUE(n.names.Find(own + 1, &name, &offset));
  EXPECT_EQ(name, "function_names_test_function");
  EXPECT_EQ(offset, 1u);
  ASSERT_TRUE(n.names.Find(hidden + 3, &name, &offset));
  EXPECT_NE(name.find("HiddenFunction"), std::string_view::npos);
  EXPECT_EQ(offset, 3u);
  ASSERT_TRUE(n.names.Find(in_library + 2, &name, &offset));
  EXPECT_NE(name.find("qsort"), std::string_view::npos) << name;
  EXPECT_FALSE(n.names.Find(0x10, &name, &offset));
  EXPECT_FALSE(n.names.Find(own, &name, &offset)) << "was not asked for";

  char program[4096] = "";
  ASSERT_GT(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
  const MappedLibrary* const library = n.libraries.Find(own);
  ASSERT_NE(library, nullptr);
  char expected[4400];
  snprintf(expected, sizeof(expected), "function_names_test_function+0x1 (%s+0x%zx)", program,
           static_cast<size_t>(own + 1 - library->image.bias));
  EXPECT_EQ(n.Written(own + 1), expected);
  EXPECT_EQ(n.Written(0x10), "0x10");
  // For an address that was not added, only the file is known.
  EXPECT_EQ(n.Written(own).substr(0, strlen(program)), program);
}

TEST(FunctionNamesTest, FirstToLastByteOfAFunction) {
  SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
  const auto start = reinterpret_cast<uintptr_t>(&lfind);
  // The dynamic linker knows the length of the function.
  Dl_info info;
  void* found = nullptr;
  ASSERT_NE(dladdr1(reinterpret_cast<void*>(start), &info, &found, RTLD_DL_SYMENT), 0);
  ASSERT_NE(found, nullptr);
  const uintptr_t end = start + static_cast<const ElfW(Sym)*>(found)->st_size;
  ASSERT_GT(end, start + 1);
  Names n;
  for (const uintptr_t address : {start - 1, start, end - 1, end}) {
    ASSERT_TRUE(n.names.Add(address));
  }
  n.names.Resolve(n.libraries);
  for (const uintptr_t address : {start, end - 1}) {
    std::string_view name;
    uintptr_t offset;
    ASSERT_TRUE(n.names.Find(address, &name, &offset)) << address - start;
    EXPECT_EQ(name, "lfind");
    EXPECT_EQ(offset, address - start);
  }
  for (const uintptr_t address : {start - 1, end}) {
    std::string_view name;
    uintptr_t offset;
    const bool is_known = n.names.Find(address, &name, &offset);
    EXPECT_FALSE(is_known && name == "lfind") << name << "+" << offset;
  }
}

// Without the file, the dynamic symbol table is used.
TEST(FunctionNamesTest, DynamicSymbolTableSuffices) {
  SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
  Names n;
  const auto address = reinterpret_cast<uintptr_t>(&qsort);
  const MappedLibrary* const library = n.libraries.Find(address);
  ASSERT_NE(library, nullptr);
  struct Found {
    uintptr_t address;
    bool has_name = false;
  } found = {address};
  const ElfFunctionVisitor visitor = {[](void* context, uintptr_t start, uintptr_t end) {
                                        const uintptr_t wanted =
                                            static_cast<const Found*>(context)->address;
                                        return start <= wanted && wanted < end;
                                      },
                                      [](void* context, std::string_view name) {
                                        static_cast<Found*>(context)->has_name |= name == "qsort";
                                      },
                                      &found};
  for (const char* file : {"", "/does/not/exist", "/proc/self/exe"}) {
    found.has_name = false;
    ForEachElfFunction(library->image_start, library->end, file, visitor);
    EXPECT_TRUE(found.has_name) << file;
  }
  // A mapping that is no image has no names.
  found.has_name = false;
  const auto nowhere = reinterpret_cast<uintptr_t>(&found);
  ForEachElfFunction(nowhere, nowhere + 4096, "", visitor);
  EXPECT_FALSE(found.has_name);
}

}  // namespace
}  // namespace tcmalloc
