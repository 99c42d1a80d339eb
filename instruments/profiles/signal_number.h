// SPDX-License-Identifier: BSD-3-Clause
// The signals that TCMALLOC_PROFILE can name. A pure function.
#pragma once

#include <string_view>

namespace tcmalloc {

// The number of the signal `name`: a name with or without SIG, or a decimal number. 0 when there is
// no such signal, or programs cannot handle it.
int SignalNumber(std::string_view name);

}  // namespace tcmalloc
