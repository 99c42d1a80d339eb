// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_entries.h"

#include <gtest/gtest.h>
#include <link.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "instruments/unwind/call_frame_info.h"
#include "testing/guarded_pages.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

struct Part {
  uintptr_t begin;
  uintptr_t end;
};

// This program with the table that the linker wrote, and the program's constant parts, those
// without code first.
struct Program {
  Program() {
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* to) {
          static_cast<Program*>(to)->Take(*info);
          return 1;  // the program is the first object
        },
        this);
  }

  void Take(const dl_phdr_info& info) {
    object.begin = UINTPTR_MAX;
    for (size_t i = 0; i < info.dlpi_phnum; ++i) {
      const auto& segment = info.dlpi_phdr[i];
      const uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
      if (segment.p_type == PT_GNU_EH_FRAME) object.header = begin;
      if (segment.p_type != PT_LOAD) continue;
      object.begin = std::min(object.begin, begin);
      object.end = std::max(object.end, begin + segment.p_memsz);
      // Linkers for aarch64 put constants into the segment of the code.
      const Part part = {begin, begin + segment.p_filesz};
      if (segment.p_flags == PF_R) constants.insert(constants.begin(), part);
      if (segment.p_flags == (PF_R | PF_X)) constants.push_back(part);
    }
  }

  CallFrameSection FindSection() const {
    for (const Part& part : constants) {
      const CallFrameSection section =
          FindCallFrameSection(object, part.begin, part.end, CodeAddress());
      if (section.begin != 0) return section;
    }
    return {};
  }

  static uintptr_t CodeAddress() { return reinterpret_cast<uintptr_t>(&CodeAddress); }

  CallFrameObject object;
  std::vector<Part> constants;
};

// A table in the heap, and the object that it describes.
struct Made {
  Made(const CallFrameObject& program, const CallFrameSection& section)
      : memory(MadeCallFrameTable::Bytes(section.descriptions) / sizeof(uint64_t) + 1),
        table(reinterpret_cast<MadeCallFrameTable*>(memory.data())),
        object(program) {
    FillCallFrameTable(program, section, table);
    object.header = reinterpret_cast<uintptr_t>(table);
    object.has_made_table = true;
  }

  std::vector<uint64_t> memory;
  MadeCallFrameTable* table;
  CallFrameObject object;
};

class MadeCallFrameTableTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kHasInterruptedFrameInfo) GTEST_SKIP() << "SKIP: the machine's registers are not known";
    ASSERT_NE(program.object.header, 0u);
    section = program.FindSection();
    ASSERT_NE(section.begin, 0u);
  }

  Program program;
  CallFrameSection section;
};

TEST_F(MadeCallFrameTableTest, IsTheOneThatTheLinkerMakes) {
  const Made made(program.object, section);
  CallFrameTable linkers;
  CallFrameTable ours;
  ASSERT_TRUE(linkers.Read(program.object));
  ASSERT_TRUE(ours.Read(made.object));
  EXPECT_GT(ours.count, 1000u);
  ASSERT_EQ(ours.count, linkers.count);
  for (uint32_t i = 0; i < ours.count; ++i) {
    ASSERT_EQ(ours.Function(i), linkers.Function(i)) << i;
    ASSERT_EQ(ours.Description(i), linkers.Description(i)) << i;
  }
}

// Tests a copy of the section before an unreadable page. Functions have the same distance from the
// copy as from the original.
class CallFrameSectionCopyTest : public MadeCallFrameTableTest {
 protected:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kAlignment = 4;  // the alignment of entries

  void SetUp() override {
    MadeCallFrameTableTest::SetUp();
    if (section.begin == 0) return;
    bytes = section.end - section.begin;
    area.emplace((bytes / kPage + 1) * kPage);
  }

  // Places the first `n` bytes so that they end where the readable memory ends.
  CallFrameObject Place(size_t n) {
    const uintptr_t end = area->end();
    memcpy(reinterpret_cast<void*>(end - n), reinterpret_cast<const void*>(section.begin), n);
    return {.begin = end - n, .end = end};
  }
  CallFrameSection FindIn(const CallFrameObject& copy) const {
    const uintptr_t code = Program::CodeAddress() - section.begin + copy.begin;
    return FindCallFrameSection(copy, copy.begin, copy.end, code);
  }

  std::optional<GuardedPages> area;
  size_t bytes = 0;
};

TEST_F(CallFrameSectionCopyTest, TruncatedAndWrongBytesDoNoHarm) {
  ASSERT_EQ(bytes % kAlignment, 0u);
  EXPECT_EQ(FindIn(Place(bytes)).descriptions, section.descriptions);
  constexpr uint32_t kSeed = 2;
  SeededRandom random(kSeed);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(FindIn(Place(random.Below(bytes) / kAlignment * kAlignment)));
    const CallFrameObject copy = Place(bytes);
    for (int n = 0; n < 20; ++n) {
      *reinterpret_cast<char*>(copy.begin + random.Below(bytes)) =
          static_cast<char>(random.Below(256));
    }
    const CallFrameSection found = FindIn(copy);
    if (found.begin != 0) Made(copy, found);
  }
}

}  // namespace
}  // namespace tcmalloc
