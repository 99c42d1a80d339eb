// SPDX-License-Identifier: BSD-3-Clause
#include "commands/environment_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <string_view>

#include "commands/setting_names.h"
#include "image/text.h"
#include "report/sizes.h"

namespace cli {
namespace {

constexpr std::string_view kPrefix = "TCMALLOC_";
// A setting in bytes with a smaller value was probably meant in another unit.
constexpr uint64_t kFewBytes = uint64_t{64} << 10;

struct OthersVariable {
  std::string_view beginning;  // of the variable's name
  const char* allocator;
  const char* page;
};
constexpr OthersVariable kOthers[] = {
    {"MALLOC_CONF", "jemalloc", "docs/migrating-from-jemalloc.md"},
    {"_RJEM_MALLOC_CONF", "jemalloc", "docs/migrating-from-jemalloc.md"},
    {"MIMALLOC_", "mimalloc", "docs/migrating-from-mimalloc.md"},
    {"MALLOC_ARENA_", "glibc's malloc", "docs/migrating-from-glibc.md"},
    {"MALLOC_MMAP_", "glibc's malloc", "docs/migrating-from-glibc.md"},
    {"MALLOC_TRIM_THRESHOLD_", "glibc's malloc", "docs/migrating-from-glibc.md"},
    {"MALLOC_TOP_PAD_", "glibc's malloc", "docs/migrating-from-glibc.md"},
    {"MALLOC_PERTURB_", "glibc's malloc", "docs/migrating-from-glibc.md"},
    {"MALLOC_CHECK_", "glibc's malloc", "docs/migrating-from-glibc.md"},
};

// Names that are none of ours, and the setting that may be meant.
struct OtherName {
  std::string_view name;
  const char* setting;
};
constexpr OtherName kOtherNames[] = {
    {"HARD_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"},         {"HEAP_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"},
    {"MEMORY_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"},       {"SAMPLING", "TCMALLOC_SAMPLE_PARAMETER"},
    {"SAMPLE_INTERVAL", "TCMALLOC_SAMPLE_PARAMETER"},
};

// Settings in bytes that are not useful in units as small as that.
constexpr std::string_view kSizes[] = {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
                                       "TCMALLOC_RETENTION", "TCMALLOC_SOFT_LIMIT"};

std::string MeantSetting(std::string_view name) {
  const bool has_prefix = name.starts_with(kPrefix);
  const std::string_view plain = has_prefix ? name.substr(kPrefix.size()) : name;
  for (const OtherName& other : kOtherNames) {
    if (plain == other.name) return other.setting;
  }
  const std::string setting = fmt::format("{}{}", kPrefix, plain);
  return !has_prefix && IsSetting(setting) ? setting : "";
}

// Returns a hint about the variable; empty if it needs none.
std::string HintAbout(std::string_view name, std::string_view value) {
  for (const OthersVariable& other : kOthers) {
    if (!name.starts_with(other.beginning)) continue;
    return fmt::format("{} is for {} and has no effect here: see {}", CleanText(name),
                       other.allocator, other.page);
  }
  if (name == "GLIBC_TUNABLES" && value.find("glibc.malloc.") != std::string_view::npos) {
    return "GLIBC_TUNABLES: glibc.malloc.* has no effect here: see docs/migrating-from-glibc.md";
  }
  if (const std::string setting = MeantSetting(name); !setting.empty()) {
    return fmt::format("{} is not a setting of the allocator: {} is", name, setting);
  }
  if (std::find(std::begin(kSizes), std::end(kSizes), name) != std::end(kSizes)) {
    uint64_t bytes = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (error == std::errc() && rest == value.data() + value.size() && bytes > 0 &&
        bytes < kFewBytes) {
      return fmt::format("{}={} is {}: {}M would be {} MiB", name, bytes, CountOf(bytes, "byte"),
                         bytes, bytes);
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> HintsAbout(const std::vector<std::string>& environment) {
  std::set<std::string> hints;
  for (const std::string& variable : environment) {
    const std::string_view text = variable;
    const size_t end = text.find('=');
    if (end == std::string_view::npos) continue;
    std::string hint = HintAbout(text.substr(0, end), text.substr(end + 1));
    if (!hint.empty()) hints.insert(std::move(hint));
  }
  return {hints.begin(), hints.end()};
}

std::vector<std::string> EnvironmentOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  std::vector<std::string> environment;
  for (std::string variable; std::getline(file, variable, '\0');) {
    environment.push_back(std::move(variable));
  }
  return environment;
}

}  // namespace cli
