// SPDX-License-Identifier: BSD-3-Clause
// The files of the folder page/, which the build puts into the program.
#pragma once

#include <string_view>

namespace cli {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace cli
