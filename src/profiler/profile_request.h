// SPDX-License-Identifier: BSD-3-Clause
// What TCMALLOC_PROFILE asks for: PATH[,at=exit][,signal=NAME][,every=TIME][,peak]. Pure functions;
// the texts are parts of the setting's.
#pragma once

#include <cstdint>
#include <string_view>

#include "profile/profile_formats.h"

namespace tcmalloc {

struct ProfileRequest {
  // How names of files begin. A name that ends in a slash is a directory.
  std::string_view base;
  // How they end, with the dot; it says which format it is.
  std::string_view extension = ".heap";
  ProfileFormat format = ProfileFormat::kLegacyText;

  bool at_exit = false;
  bool peak = false;
  int signal = 0;           // 0: none
  int64_t interval_ms = 0;  // 0: none
};

// False for an empty path and for a wrong option, which is `wrong` then.
bool ParseProfileRequest(std::string_view text, ProfileRequest* request, std::string_view* wrong);

}  // namespace tcmalloc
