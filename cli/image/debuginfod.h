// SPDX-License-Identifier: BSD-3-Clause
// Gets files by build id from the servers in DEBUGINFOD_URLS. Without libdebuginfod.so.1 or the
// variable, no server is used.
#pragma once

#include <string>

namespace cli {

// Returns the path of a program or a library in the cache of libdebuginfod; empty if no server has
// it.
std::string ExecutableFromServers(const std::string& build_id);
// As ExecutableFromServers, for the file with its debug information.
std::string DebugFileFromServers(const std::string& build_id);
// True when servers are used.
bool AsksServers();

}  // namespace cli
