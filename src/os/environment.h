// SPDX-License-Identifier: BSD-3-Clause
// The process's environment, also before the C library has set `environ` up (the dynamic linker
// allocates earlier), and the question whether the process runs with more rights than its user.
// Never changes the environment; never allocates.
#pragma once

#include <cstddef>

namespace tcmalloc {

// Calls `visit(name, name_length, value, context)` for each variable. Values are terminated by zero
// and live until `visit` returns.
using EnvironmentVisitor = void (*)(const char* name, size_t name_length, const char* value,
                                    void* context);
void ForEachEnvironmentVariable(EnvironmentVisitor visit, void* context);

// The program is set-uid, set-gid or has file capabilities (AT_SECURE).
bool RunsWithRaisedPrivileges();

}  // namespace tcmalloc
