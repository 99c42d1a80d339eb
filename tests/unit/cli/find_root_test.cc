// SPDX-License-Identifier: BSD-3-Clause
// The search for the root reads nothing that would change the target, and finds what it should.
// tests/command/distrust_test.py has a process with a sparse file.
#include "image/find_root.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "image/modules.h"

namespace cli {
namespace {

constexpr Address kTestPage = 0x1000;

// A target. Only some of its pages are in memory. It remembers which pages were read.
class TargetWithMappings : public Image {
 public:
  void Add(const Mapping& mapping, std::vector<std::pair<Address, Address>> in_memory) {
    mappings_.push_back(mapping);
    for (const auto& [start, end] : in_memory) in_memory_.emplace_back(start, end);
  }
  // Puts a root whose pointers are null at the address.
  void PutRoot(Address address) {
    struct {
      char magic[8] = {'T', 'C', 'M', 'R', 'O', 'O', 'T', '\n'};
      uint32_t format = 1;
      uint16_t pointer_bytes = 8;
      uint16_t root_bytes = 32 + 9 * 8;
      char version[16] = "1.0";
      uint64_t pointers[9] = {};
    } root;
    root.pointers[0] = address;
    root_ = {reinterpret_cast<const char*>(&root), sizeof(root)};
    root_at_ = address;
  }

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    reads_.emplace_back(address, address + bytes);
    memset(out, 0, bytes);
    for (size_t i = 0; i < bytes; ++i) {
      if (address + i - root_at_ < root_.size()) {
        static_cast<char*>(out)[i] = root_[address + i - root_at_];
      }
    }
    return true;
  }
  std::vector<Mapping> Mappings() override { return mappings_; }
  std::vector<std::pair<Address, Address>> PartsInMemory(Address start, Address end) override {
    std::vector<std::pair<Address, Address>> parts;
    for (const auto& [first, last] : in_memory_) {
      if (std::max(start, first) < std::min(end, last)) {
        parts.emplace_back(std::max(start, first), std::min(end, last));
      }
    }
    return parts;
  }
  int64_t NowMs(int) override { return 0; }

  bool WasRead(Address start, Address end) const {
    return std::any_of(reads_.begin(), reads_.end(), [start, end](const auto& read) {
      return read.first < end && start < read.second;
    });
  }
  // Puts the head of a file with 256 segments of notes at the address.
  void PutFileOfNotes(Address address) {
    Elf64_Ehdr file = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}};
    file.e_phoff = sizeof(file);
    file.e_phentsize = sizeof(Elf64_Phdr);
    file.e_phnum = 256;
    const Elf64_Phdr notes = {.p_type = PT_NOTE, .p_filesz = 1 << 20};
    root_ = {reinterpret_cast<const char*>(&file), sizeof(file)};
    for (int i = 0; i < file.e_phnum; ++i) {
      root_.append(reinterpret_cast<const char*>(&notes), sizeof(notes));
    }
    root_at_ = address;
  }
  Address bytes_read() const {
    Address sum = 0;
    for (const auto& [start, end] : reads_) sum += end - start;
    return sum;
  }

 private:
  std::vector<Mapping> mappings_;
  std::vector<std::pair<Address, Address>> in_memory_;
  std::vector<std::pair<Address, Address>> reads_;
  std::string root_;
  Address root_at_ = 0;
};

Mapping Code(Address start, std::string name) {
  return {.start = start,
          .end = start + kTestPage,
          .readable = true,
          .name = std::move(name),
          .executable = true};
}

Mapping Variables(Address start, Address end, std::string name) {
  return {.start = start,
          .end = end,
          .file_offset = kTestPage,
          .readable = true,
          .writable = true,
          .name = std::move(name)};
}

TEST(FindRootTest, FindsARootInVariablesThatAreInMemory) {
  TargetWithMappings target;
  target.Add(Code(0x10000, "/bin/program"), {});
  target.Add(Variables(0x20000, 0x40000, "/bin/program"), {{0x31000, 0x33000}});
  target.PutRoot(0x32010);
  const auto root = FindRoot(target);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->address, 0x32010u);
  EXPECT_FALSE(target.WasRead(0x20000, 0x31000));
  EXPECT_FALSE(target.WasRead(0x34000, 0x40000));
  EXPECT_FALSE(FindRoot(target, Search::kNotes).has_value());
}

TEST(FindRootTest, ReadsNoFileOfData) {
  TargetWithMappings target;
  target.Add(Code(0x10000, "/bin/program"), {});
  Mapping shared = Variables(0x100000, 0x200000, "/bin/program");
  shared.shared = true;
  target.Add(shared, {{0x100000, 0x200000}});
  Mapping data = Variables(0x200000, 0x300000, "/var/data");
  data.file_offset = 0;
  target.Add(data, {{0x210000, 0x220000}});
  Mapping device = Code(0x300000, "/dev/card");
  device.shared = true;
  target.Add(device, {{0x300000, 0x301000}});
  target.Add(Variables(0x400000, 0x500000, "[heap]"), {{0x400000, 0x500000}});
  target.Add(Variables(0x600000, 0x700000, ""), {{0x600000, 0x700000}});
  EXPECT_FALSE(FindRoot(target).has_value());
  EXPECT_TRUE(ReadModules(target).empty());
  EXPECT_TRUE(target.WasRead(0x10000, 0x10010));
  EXPECT_FALSE(target.WasRead(0x100000, 0x700000));
}

TEST(FindRootTest, HasABound) {
  TargetWithMappings target;
  constexpr Address kEnd = Address{1} << 40;
  target.Add(Code(0x10000, "/bin/program"), {});
  target.Add(Variables(0x20000, kEnd, "/bin/program"), {{0x20000, kEnd}});
  EXPECT_FALSE(FindRoot(target).has_value());
  EXPECT_LT(target.bytes_read(), Address{1} << 30);
}

TEST(FindRootTest, ReadsFewNotes) {
  TargetWithMappings target;
  target.Add(Code(0x10000, "/bin/program"), {});
  target.PutFileOfNotes(0x10000);
  EXPECT_FALSE(FindRoot(target, Search::kNotes).has_value());
  EXPECT_LT(target.bytes_read(), Address{80} << 20);
  const Address before = target.bytes_read();
  static_cast<void>(ReadModules(target));
  EXPECT_LT(target.bytes_read() - before, Address{1} << 20);
}

// The code may be in other memory: of hugepages, or left out of a core.
TEST(FindRootTest, VariablesOfAFileWithoutCode) {
  TargetWithMappings target;
  target.Add(Variables(0x20000, 0x30000, "/bin/program"), {{0x20000, 0x30000}});
  target.PutRoot(0x20100);
  EXPECT_TRUE(FindRoot(target).has_value());
}

}  // namespace
}  // namespace cli
