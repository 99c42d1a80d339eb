// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/hugepages.h"

#include <sys/auxv.h>
#include <sys/prctl.h>

#include <string_view>

#include "base/text_fields.h"
#include "base/text_writer.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// Reads the beginning of a file, as much as fits; empty when it cannot be read.
std::string_view ReadFile(const char* directory, const char* name, char* buffer, size_t size) {
  char path[256];
  TextWriter writer(path, sizeof(path));
  writer.Text(directory).Text("/").Text(name);
  if (writer.truncated()) return {};
  InputFile file(path);
  return file.is_open() ? std::string_view(buffer, file.Read(buffer, size)) : std::string_view();
}

// Returns the number at the start of `text`; `otherwise` if there is none, or it has more than 64
// bits.
uint64_t NumberOr(std::string_view text, uint64_t otherwise) {
  uint64_t number;
  return TakeNumber(&text, &number) ? number : otherwise;
}

// On a 64-bit machine a page table fills a page with 8-byte entries, and one of these maps a
// hugepage: with pages of 4 KiB a hugepage has kHugepageSize bytes.
bool HugepageSizeFollows(size_t page_size) { return sizeof(void*) == 8 && page_size == 4096; }

bool Holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

HugepageSetting ReadHugepageSetting(const char* directory, size_t page_size) {
  const ErrnoKeeper keeper;
  // This process, or an ancestor, may have disabled hugepages.
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
