// SPDX-License-Identifier: BSD-3-Clause
// The process's environment, also before the C library has set `environ` up (the dynamic linker
// allocates earlier), and the question whether the process runs with more rights than its user.
// Never allocates.
#pragma once

#include <cstddef>

namespace tcmalloc {

// Calls `visit(name, name_length, value, context)` for each variable. Values are terminated by zero
// and live until `visit` returns.
using EnvironmentVisitor = void (*)(const char* name, size_t name_length, const char* value,
                                    void* context);
void ForEachEnvironmentVariable(EnvironmentVisitor visit, void* context);

// Adds `entry` ("NAME=value", which lives as long as the process) for the programs that this one
// starts, in place of what has that name. Before other threads read the environment: while the
// library is loaded. False when there is no memory, or no environment.
bool AddToEnvironment(const char* entry);

// The program is set-uid, set-gid or has file capabilities (AT_SECURE).
bool RunsWithRaisedPrivileges();

}  // namespace tcmalloc
