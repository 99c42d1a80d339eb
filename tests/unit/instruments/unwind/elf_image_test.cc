// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/elf_image.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "own_memory.h"
#include "testing/guarded_pages.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

const uintptr_t kMappedPage = getauxval(AT_PAGESZ);

// The start of this program's image.
uintptr_t OwnImage() {
  Dl_info info;
  EXPECT_NE(dladdr(reinterpret_cast<void*>(&OwnImage), &info), 0);
  return reinterpret_cast<uintptr_t>(info.dli_fbase);
}

std::string Hex(const ElfImage& image) {
  std::string text;
  for (size_t i = 0; i < image.build_id_bytes; ++i) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", image.build_id[i]);
    text += digits;
  }
  return text;
}

// Returns the build ID that readelf prints for the program's file.
std::string BuildIdOfOwnFile() {
  char path[4096] = {};
  EXPECT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
  FILE* const pipe = popen(("readelf -n '" + std::string(path) + "'").c_str(), "r");
  std::string text;
  for (int c; (c = fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0);
  const std::string label = "Build ID: ";
  const size_t at = text.find(label);
  if (at == std::string::npos) return "";
  const size_t begin = at + label.size();
  return text.substr(begin, text.find_first_not_of("0123456789abcdef", begin) - begin);
}

TEST(ReadOwnMemoryTest, ReadsOnlyReadableMemory) {
  SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
  const GuardedPages page(kMappedPage);
  memset(page.data(), 'x', page.bytes());
  char copy[100] = {};
  EXPECT_TRUE(ReadOwnMemory(page.end() - 100, copy, 100));
  EXPECT_EQ(std::string(copy, 100), std::string(100, 'x'));
  EXPECT_FALSE(ReadOwnMemory(page.end() - 99, copy, 100));
  EXPECT_FALSE(ReadOwnMemory(page.end(), copy, 1));
  EXPECT_FALSE(ReadOwnMemory(0, copy, 1));
  EXPECT_FALSE(ReadOwnMemory(UINTPTR_MAX, copy, 1));
  EXPECT_FALSE(ReadOwnMemory(UINTPTR_MAX - 10, copy, 100));
}

TEST(ElfImageTest, OfThisProgram) {
  SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
  ElfImage image;
  ASSERT_TRUE(ReadElfImage(OwnImage(), UINTPTR_MAX, &image));
  EXPECT_EQ(Hex(image), BuildIdOfOwnFile());
  EXPECT_GT(image.build_id_bytes, 0u);
  // The entry point minus the bias is the address in the file.
  ElfW(Ehdr) header;
  memcpy(&header, reinterpret_cast<const void*>(OwnImage()), sizeof(header));
  EXPECT_EQ(ProgramEntry() - image.bias, header.e_entry);
}

TEST(ElfImageTest, ReadsNothingBeyondTheLimit) {
  SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
  const uintptr_t start = OwnImage();
  ElfW(Ehdr) header;
  memcpy(&header, reinterpret_cast<const void*>(start), sizeof(header));
  const size_t headers = header.e_phoff + header.e_phnum * sizeof(ElfW(Phdr));
  ElfImage image;
  for (const size_t bytes : {size_t{0}, sizeof(header) - 1, sizeof(header), headers - 1}) {
    EXPECT_FALSE(ReadElfImage(start, start + bytes, &image)) << bytes;
  }
  EXPECT_TRUE(ReadElfImage(start, start + headers, &image));
  EXPECT_EQ(image.build_id_bytes, 0u);
}

// A writable copy of the beginning of this program's image.
class ChangedImageTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_IF_OWN_MEMORY_CANNOT_BE_READ();
    bytes_.resize(4 * kMappedPage);
    // Copies the image up to the first unreadable byte.
    while (!ReadOwnMemory(OwnImage(), bytes_.data(), bytes_.size())) {
      ASSERT_GT(bytes_.size(), kMappedPage);
      bytes_.resize(bytes_.size() - kMappedPage);
    }
    original_ = bytes_;
  }

  ElfW(Ehdr) * header() { return reinterpret_cast<ElfW(Ehdr)*>(bytes_.data()); }
  ElfW(Phdr) * segments() {
    return reinterpret_cast<ElfW(Phdr)*>(bytes_.data() + header()->e_phoff);
  }
  bool Read(ElfImage* image) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(bytes_.data());
    return ReadElfImage(start, start + bytes_.size(), image);
  }

  std::vector<char> bytes_;
  std::vector<char> original_;
};

// The changed image is like that of a program linked for a fixed address.
TEST_F(ChangedImageTest, ReadsAnImageForAFixedAddress) {
  ElfImage before, image;
  ASSERT_TRUE(Read(&before));
  for (size_t i = 0; i < header()->e_phnum; ++i) segments()[i].p_vaddr += 0x123000;
  ASSERT_TRUE(Read(&image));
  EXPECT_EQ(image.bias, before.bias - 0x123000);
  EXPECT_EQ(Hex(image), Hex(before));
}

TEST_F(ChangedImageTest, RejectsOtherKindsOfImages) {
  const std::function<void()> changes[] = {
      [&] { header()->e_ident[0] = 'E'; },
      [&] { header()->e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64; },
      [&] { header()->e_type = ET_CORE; },
      [&] { header()->e_phentsize += 8; },
      [&] { header()->e_phnum = 0xffff; },
      [&] { header()->e_phnum = 0; },
      [&] { header()->e_phoff = static_cast<ElfW(Off)>(0) - 64; },
      [&] {
        for (size_t i = 0; i < header()->e_phnum; ++i) {
          if (segments()[i].p_type == PT_LOAD) segments()[i].p_type = PT_NULL;
        }
      }};
  for (size_t i = 0; i < std::size(changes); ++i) {
    bytes_ = original_;
    ElfImage image;
    EXPECT_TRUE(Read(&image));
    changes[i]();
    EXPECT_FALSE(Read(&image)) << i;
  }
}

// Any damaged image has an answer, and nothing outside of the image is read. The sanitizer build
// and the limit check this.
TEST_F(ChangedImageTest, SurvivesDamage) {
  SeededRandom random(31);
  const size_t headers = header()->e_phoff + header()->e_phnum * sizeof(ElfW(Phdr));
  const size_t with_notes = std::min(bytes_.size(), headers + 400);
  size_t read = 0, identified = 0;
  for (int i = 0; i < 20'000; ++i) {
    bytes_ = original_;
    for (size_t n = random.Between(1, 4); n > 0; --n) {
      // Damages the first bytes only seldom, because then it would be no image.
      bytes_[random.Between(random.OneIn(4) ? 0 : sizeof(ElfW(Ehdr)), with_notes - 1)] =
          static_cast<char>(random.Next());
    }
    ElfImage image;
    read += Read(&image);
    identified += image.build_id_bytes > 0;
    ASSERT_LE(image.build_id_bytes, sizeof(image.build_id));
  }
  EXPECT_GT(read, 1000u);
  EXPECT_GT(identified, 1000u);
  EXPECT_LT(identified, read);
}

}  // namespace
}  // namespace tcmalloc
