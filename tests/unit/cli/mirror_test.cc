// SPDX-License-Identifier: BSD-3-Clause
#include "image/mirror.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cli/fake_image.h"
#include "heap/search_space.h"
#include "image/process_image.h"

namespace cli {
namespace {

const size_t kPageOfMirror = static_cast<size_t>(sysconf(_SC_PAGESIZE));

Address PlaceOf(const void* p) { return reinterpret_cast<Address>(p); }

// Pages of this process between two inaccessible ones.
class MappedPages {
 public:
  explicit MappedPages(size_t n, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1)
      : bytes_((n + 2) * kPageOfMirror),
        all_(static_cast<char*>(
            mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(mmap(start(), n * kPageOfMirror, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0),
              MAP_FAILED);
  }
  ~MappedPages() { munmap(all_, bytes_); }
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

  char* start() const { return all_ + kPageOfMirror; }
  char* page(size_t i) const { return start() + i * kPageOfMirror; }
  Address address() const { return PlaceOf(start()); }

 private:
  const size_t bytes_;
  char* const all_;
};

class MirrorOfThis {
 public:
  explicit MirrorOfThis(std::vector<std::pair<Address, Address>> wanted = {}) {
    mirror.Want(std::move(wanted));
    mirror.Prepare();
    mirror.Copy();
  }
  // The addresses of the pages in [start, end) that were copied.
  std::vector<Address> CopiedPages(Address start, Address end) const {
    std::vector<Address> pages;
    const Mirror::Area* const area = mirror.AreaAt(start);
    if (area == nullptr) return pages;
    for (const Range& run : area->runs) {
      for (Address at = run.address; at < run.address + run.bytes; at += kPageOfMirror) {
        if (at >= start && at < end) pages.push_back(at);
      }
    }
    return pages;
  }

  LiveImage image{getpid()};
  Mirror mirror{image, getpid()};
};

TEST(MirrorTest, HasTheMemoryOfTheMomentOfTheCopy) {
  const MappedPages pages(4);
  strcpy(pages.page(1), "before");
  const MirrorOfThis copy;
  strcpy(pages.page(1), "after");
  strcpy(pages.page(3), "after");
  Mirror& mirror = const_cast<Mirror&>(copy.mirror);
  char read[8] = {};
  ASSERT_TRUE(mirror.Read(PlaceOf(pages.page(1)), read, 7));
  EXPECT_STREQ(read, "before");
  // The program never wrote to this page.
  ASSERT_TRUE(mirror.Read(PlaceOf(pages.page(3)), read, 7));
  EXPECT_STREQ(read, "");
  EXPECT_EQ(copy.CopiedPages(pages.address(), pages.address() + 4 * kPageOfMirror),
            std::vector<Address>{PlaceOf(pages.page(1))});
  EXPECT_FALSE(mirror.Read(pages.address() - 1, read, 2));
  EXPECT_GT(mirror.copied_bytes(), kPageOfMirror);
}

TEST(MirrorTest, OfFilesOnlyWhatTheProcessWrote) {
  const int file = memfd_create("file", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(3 * kPageOfMirror)), 0);
  ASSERT_EQ(pwrite(file, "file", 4, 0), 4);
  const MappedPages pages(3, MAP_PRIVATE, file);
  EXPECT_EQ(pages.page(0)[0], 'f');  // the page is read from the file, and not written
  pages.page(2)[0] = 'w';
  const MirrorOfThis copy;
  EXPECT_EQ(copy.CopiedPages(pages.address(), pages.address() + 3 * kPageOfMirror),
            std::vector<Address>{PlaceOf(pages.page(2))});
  char read[8] = {};
  ASSERT_TRUE(const_cast<Mirror&>(copy.mirror).Read(pages.address(), read, 5));
  EXPECT_STREQ(read, "file");
  close(file);
}

// ---- Mirrors of a file.

constexpr Address kMirrored = 0x10000000;

class CoreLike : public FakeImage {
 public:
  std::vector<Mapping> Mappings() override {
    std::vector<Mapping> all = FakeImage::Mappings();
    all.insert(all.end(), more.begin(), more.end());
    std::sort(all.begin(), all.end(),
              [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    return all;
  }
  std::vector<Mapping> more;
};

TEST(MirrorTest, OfAFileWhatItHasAndWhatItLacks) {
  CoreLike core;
  core.Put(kMirrored, std::string(kPageOfMirror, 'a'), "");
  const auto add = [&core](size_t page, std::string name, bool writable, bool unwritten) {
    core.more.push_back({.start = kMirrored + page * kPageOfMirror,
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

}  // namespace
}  // namespace cli
