// SPDX-License-Identifier: BSD-3-Clause
// Tests mirrors of files. tests/command/command_leaks_test.py searches mirrors of processes.
#include "image/mirror.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "cli/fake_image.h"
#include "heap/search_space.h"
#include "testing/fake_tree.h"

namespace cli {
namespace {

const size_t kPageOfMirror = static_cast<size_t>(sysconf(_SC_PAGESIZE));
constexpr Address kMirrored = 0x10000000;

TEST(MirrorTest, OfAFileWhatItHasAndWhatItLacks) {
  FakeImage core;
  core.Put(kMirrored, std::string(kPageOfMirror, 'a'), "");
  const auto add = [&core](size_t page, std::string name, bool writable, bool unwritten) {
    core.AddMapping({.start = kMirrored + page * kPageOfMirror,
                     .end = kMirrored + (page + 1) * kPageOfMirror,
                     .writable = writable,
                     .name = std::move(name),
                     .missing = !unwritten,
                     .unwritten = unwritten});
  };
  add(1, "", true, true);
  add(2, "", true, false);
  add(3, "/file", false, false);
  add(4, "/file", true, false);
  Mirror mirror(core, 0);
  mirror.Copy();
  EXPECT_EQ(mirror.copied_bytes(), kPageOfMirror);
  EXPECT_FALSE(mirror.AreaAt(kMirrored + kPageOfMirror)->missing);
  EXPECT_TRUE(mirror.AreaAt(kMirrored + 2 * kPageOfMirror)->missing);
  EXPECT_EQ(mirror.AreaAt(kMirrored + 3 * kPageOfMirror), nullptr) << "it was never written";
  EXPECT_TRUE(mirror.AreaAt(kMirrored + 4 * kPageOfMirror)->missing);
  char read[2] = {};
  EXPECT_TRUE(mirror.Read(kMirrored + kPageOfMirror - 1, read, 2));
  EXPECT_EQ(std::string(read, 2), std::string("a\0", 2));
  EXPECT_FALSE(mirror.Read(kMirrored + 2 * kPageOfMirror, read, 1));

  const tcmalloc::InFlightLayout layout = {};
  uint64_t missing = 0;
  MirrorMemory<uint64_t> memory(mirror, layout, &missing);
  tcmalloc::AddressRange rest = {kMirrored - kPageOfMirror, kMirrored + 5 * kPageOfMirror};
  tcmalloc::AddressRange part;
  ASSERT_TRUE(memory.TakeFirst(&rest, tcmalloc::WantedPages::kAny, &part));
  EXPECT_EQ(part.start, kMirrored);
  EXPECT_EQ(part.end, kMirrored + kPageOfMirror);
  EXPECT_FALSE(memory.TakeFirst(&rest, tcmalloc::WantedPages::kAny, &part));
  EXPECT_EQ(missing, 2 * kPageOfMirror);
  uintptr_t by = 0;
  ASSERT_TRUE(memory.FindDirect(kMirrored + 8, kMirrored + 16, &by));
  EXPECT_EQ(*reinterpret_cast<const char*>(kMirrored + 8 + by), 'a');
  EXPECT_FALSE(memory.FindDirect(kMirrored + kPageOfMirror - 8, kMirrored + kPageOfMirror + 8, &by))
      << "over the end of an area";
  std::string copied(16, '?');
  EXPECT_EQ(memory.Copy(copied.data(), kMirrored + kPageOfMirror - 8, 16), 16u);
  EXPECT_EQ(copied, std::string(8, 'a') + std::string(8, '\0'));
  EXPECT_EQ(memory.Copy(copied.data(), kMirrored + 2 * kPageOfMirror - 8, 16), 8u);
}

// An open that waited for the holder of the lease would take as long as the kernel lets it.
TEST(MirrorTest, OfAFileWithALeaseTheSharedPagesAreUnknown) {
  const tcmalloc::FakeTree tree;
  tree.Write("/file", std::string(kPageOfMirror, 'a'));
  const int file = open((tree.root() + "/file").c_str(), O_RDWR | O_CLOEXEC);
  void* const mapped = mmap(nullptr, kPageOfMirror, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::signal(SIGIO, SIG_IGN);
  if (fcntl(file, F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "the file system has no leases";
  const auto start = reinterpret_cast<Address>(mapped);
  FakeImage image;
  image.AddMapping({.start = start,
                    .end = start + kPageOfMirror,
                    .readable = true,
                    .name = "/f",
                    .shared = true});
  Mirror mirror(image, getpid());
  mirror.Want({{start, start + kPageOfMirror}});
  mirror.Copy();
  EXPECT_TRUE(mirror.shared_pages_unknown());
  munmap(mapped, kPageOfMirror);
  close(file);
}

}  // namespace
}  // namespace cli
