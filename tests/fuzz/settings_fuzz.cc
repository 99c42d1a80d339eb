// SPDX-License-Identifier: BSD-3-Clause
// Any name and value of a variable is read, or causes a complaint of one line.
#include <cstdint>
#include <string>

#include "base/config.h"
#include "config/settings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tcmalloc;
  const char* const names[] = {"MALLOCSTATS",
                               "TCMALLOC_CHECK",
                               "TCMALLOC_RELEASE_RATE",
                               "TCMALLOC_SOFT_LIMIT",
                               "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD",
                               ""};
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string name = names[data[0] % 6];
  std::string value = rest.substr(0, rest.find('\0'));
  const char* const suffixes[] = {"", "%", "M", "G"};
  if (name == "TCMALLOC_SOFT_LIMIT") value += suffixes[data[0] / 6 % 4];
  if (name.empty()) {
    const size_t equals = value.find('=');
    name = "TCMALLOC_" + value.substr(0, equals);
    value = equals == std::string::npos ? "" : value.substr(equals + 1);
  }
  Settings settings;
  char buffer[512];
  TextWriter complaint(buffer, sizeof(buffer));
  ReadSetting(name.data(), name.size(), value.c_str(), &settings, &complaint);
  TC_CHECK(!complaint.truncated());
  TC_CHECK(complaint.text().empty() || complaint.text().back() == '\n');
  TC_CHECK(settings.release_rate >= 0 && settings.release_rate <= 1000);
  TC_CHECK(settings.malloc_stats >= 0 && settings.malloc_stats <= 2);
  TC_CHECK(settings.large_report_threshold_bytes > 0);
  TC_CHECK(settings.soft_limit.percent <= 100 && settings.soft_limit.bytes > 0);
  return 0;
}
