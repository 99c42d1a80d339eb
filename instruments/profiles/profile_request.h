// SPDX-License-Identifier: BSD-3-Clause
// The parsed value of TCMALLOC_PROFILE: PATH[,at=exit][,signal=NAME][,every=TIME][,peak]. Pure
// functions; texts refer to the text of the setting.
#pragma once

#include <cstdint>
#include <string_view>

#include "instruments/profiles/profile_formats.h"

namespace tcmalloc {

struct ProfileRequest {
  // The beginning of the files' names; if it ends with a slash, it is a directory.
  std::string_view base;
  // The end of the files' names, with the dot. It decides the format.
  std::string_view extension = ".heap";
  ProfileFormat format = ProfileFormat::kLegacyText;

  bool at_exit = false;
  bool peak = false;
  int signal = 0;           // 0: none
  int64_t interval_ms = 0;  // 0: none
};

// False for an empty path, and for a wrong option, to which `wrong` is set.
bool ParseProfileRequest(std::string_view text, ProfileRequest* request, std::string_view* wrong);

}  // namespace tcmalloc
