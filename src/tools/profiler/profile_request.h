// SPDX-License-Identifier: BSD-3-Clause
// What TCMALLOC_PROFILE asks for: PATH[,at=exit][,signal=NAME][,every=TIME][,peak]. Pure functions;
// texts are parts of the setting's.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/profile/profile_formats.h"

namespace tcmalloc {

struct ProfileRequest {
  // How names of files begin; with a slash at the end, a directory.
  std::string_view base;
  // How names end, with the dot. It decides the format.
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
