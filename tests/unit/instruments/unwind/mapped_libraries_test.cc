// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/mapped_libraries.h"

#include <tuple>

#include "instruments/profiles/profile_fixture.h"

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

}  // namespace
}  // namespace tcmalloc
