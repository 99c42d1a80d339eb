// SPDX-License-Identifier: BSD-3-Clause
// The environment of the process, even before the C library has set up `environ` (the dynamic
// linker allocates earlier), and whether the process has more privileges than its user. Never
// changes the environment; never allocates.
#pragma once

#include <cstddef>

namespace tcmalloc {

// Calls `visit(name, name_length, value, context)` for each variable. Values are zero-terminated
// and valid until `visit` returns.
using EnvironmentVisitor = void (*)(const char* name, size_t name_length, const char* value,
                                    void* context);
void ForEachEnvironmentVariable(EnvironmentVisitor visit, void* context);

// True if the program is setuid or setgid, or has file capabilities (AT_SECURE).
bool RunsWithRaisedPrivileges();

}  // namespace tcmalloc
