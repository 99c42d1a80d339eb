// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/hugepages.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#include <string_view>

#include "base/text_writer.h"
#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// The beginning of a file, as much as fits; empty when it cannot be read.
std::string_view ReadFile(const char* directory, const char* name, char* buffer, size_t size) {
  char path[256];
  TextWriter writer(path, sizeof(path));
  writer.Text(directory).Text("/").Text(name);
  const int fd = writer.truncated() ? -1 : OpenForReading(path);
  if (fd < 0) return {};
  ssize_t n;
  do {
    n = ReadFrom(fd, buffer, size);
  } while (n < 0 && errno == EINTR);
  Close(fd);
  return n <= 0 ? std::string_view() : std::string_view(buffer, static_cast<size_t>(n));
}

// The number at the start of `text`; `otherwise` if there is none, or it has more than 32 bits.
uint64_t NumberOr(std::string_view text, uint64_t otherwise) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return otherwise;
  uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') break;
    number = number * 10 + static_cast<uint64_t>(c - '0');
    if (number > UINT32_MAX) return otherwise;
  }
  return number;
}

// On a 64-bit machine a page table fills a page with 8-byte entries, and one of these maps a
// hugepage: with pages of 4 KiB it has kHugepageSize.
bool HugepageSizeFollows(size_t page_size) { return sizeof(void*) == 8 && page_size == 4096; }

bool Holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

HugepageSetting ReadHugepageSetting(const char* directory, size_t page_size) {
  const ErrnoKeeper keeper;
  // This process, or an ancestor, may have opted out.
  if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) > 0) return {HugepageMode::kNever};
  char buffer[64];
  // The selected word is in brackets.
  const std::string_view enabled = ReadFile(directory, "enabled", buffer, sizeof(buffer));
  if (Holds(enabled, "[never]")) return {HugepageMode::kNever};
  const HugepageMode mode =
      Holds(enabled, "[always]") ? HugepageMode::kAlways : HugepageMode::kAdvise;
  if (HugepageSizeFollows(page_size)) return {mode};
  const std::string_view size = ReadFile(directory, "hpage_pmd_size", buffer, sizeof(buffer));
  return {NumberOr(size, kHugepageSize) == kHugepageSize ? mode : HugepageMode::kNever};
}

HugepageSetting ReadHugepageSetting(const char* directory) {
  return ReadHugepageSetting(directory, getauxval(AT_PAGESZ));
}

const char* HugepageModeName(HugepageMode mode) {
  switch (mode) {
    case HugepageMode::kNever:
      return "never";
    case HugepageMode::kAdvise:
      return "advise";
    case HugepageMode::kAlways:
      return "always";
  }
  return "";
}

}  // namespace tcmalloc
