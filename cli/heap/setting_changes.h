// SPDX-License-Identifier: BSD-3-Clause
// SettingChange: a setting of a target whose value differs from that of its start. The value was
// set while the target ran: by a request of the command, or by the program.
#pragma once

#include <string>
#include <vector>

#include "heap/record.h"

namespace cli {

struct SettingChange {
  std::string variable;  // TCMALLOC_SOFT_LIMIT
  std::string value;     // in the form of the answer to a request: see report/setting_text.h
};

// Returns the changes, in the order of the variables; none for a library that does not publish
// them. `heap` is the heap's record.
std::vector<SettingChange> ReadSettingChanges(const Record& heap);

}  // namespace cli
