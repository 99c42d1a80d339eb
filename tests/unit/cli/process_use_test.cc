// SPDX-License-Identifier: BSD-3-Clause
#include "heap/process_use.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

namespace cli {
namespace {

const uint64_t kHardwarePage = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

// Adjacent mappings, all resident.
class FakeProcess {
 public:
  MappingUse& Add(std::string name, uint64_t pages, bool writable = true) {
    const Address start = next_;
    next_ += pages * kHardwarePage;
    mappings_.push_back({.mapping = {.start = start,
                                     .end = next_,
                                     .readable = writable,
                                     .writable = writable,
                                     .name = std::move(name)},
                         .resident_bytes = writable ? pages * kHardwarePage : 0});
    return mappings_.back();
  }

  ProcessUse Use() {
    uint64_t resident = 0;
    for (const MappingUse& use : mappings_) resident += use.resident_bytes;
    ResidentPages pages(
        [](uint64_t first, uint64_t end) {
          return std::vector<PageRun>{{.first = first, .pages = end - first}};
        },
        mappings_);
    const ProcessUse use = ReadProcessUse(pages, {});
    EXPECT_EQ(use.sum(), resident);
    return use;
  }

 private:
  Address next_ = uint64_t{1} << 30;
  std::vector<MappingUse> mappings_;
};

TEST(ProcessUseTest, DividesMappingsByName) {
  FakeProcess process;
  process.Add("/usr/bin/server", 10).anonymous_bytes = 3 * kHardwarePage;
  process.Add("/memfd:cache (deleted)", 20);
  process.Add("/dev/shm/queue", 4);
  process.Add("[heap]", 5);
  process.Add("", 6).lazily_freed_bytes = 2 * kHardwarePage;
  process.Add("[anon:arena]", 7);
  process.Add("[vdso]", 1);
  process.Add("[stack]", 8);
  process.Add("/usr/lib/libc.so.6", 2).hugetlb_bytes = 9 * kHardwarePage;
  const ProcessUse use = process.Use();
  EXPECT_EQ(use.files, (7 + 1 + 2) * kHardwarePage);
  EXPECT_EQ(use.file_data, 3 * kHardwarePage);
  EXPECT_EQ(use.shared, 24 * kHardwarePage);
  EXPECT_EQ(use.anonymous, (5 + 4 + 7) * kHardwarePage);
  EXPECT_EQ(use.lazily_freed, 2 * kHardwarePage);
  EXPECT_EQ(use.stacks, 8 * kHardwarePage);
  EXPECT_EQ(use.num_stacks, 1u);
  EXPECT_EQ(use.hugetlb, 9 * kHardwarePage);
  EXPECT_EQ(use.largest_files[0].name, "/usr/bin/server");
  EXPECT_EQ(use.largest_anonymous[0].name, "[anon:arena]");
}

TEST(ProcessUseTest, VariablesWithoutInitialValuesAreOfTheFile) {
  FakeProcess process;
  process.Add("/usr/bin/server", 2);
  process.Add("", 9);
  process.Add("", 5);
  process.Add("/memfd:cache", 2);
  process.Add("", 1);
  const ProcessUse use = process.Use();
  EXPECT_EQ(use.file_data, 9 * kHardwarePage);
  EXPECT_EQ(use.anonymous, 6 * kHardwarePage);
}

}  // namespace
}  // namespace cli
