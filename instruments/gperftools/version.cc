// SPDX-License-Identifier: BSD-3-Clause
#include "gperftools/tcmalloc.h"

extern "C" const char* tc_version(int* major, int* minor, const char** patch) noexcept {
  if (major != nullptr) *major = TC_VERSION_MAJOR;
  if (minor != nullptr) *minor = TC_VERSION_MINOR;
  if (patch != nullptr) *patch = TC_VERSION_PATCH;
  return TC_VERSION_STRING;
}
