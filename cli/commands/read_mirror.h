// SPDX-License-Identifier: BSD-3-Clause
// Copies all memory of a process that may hold pointers, at a moment at which its heap is at rest.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "commands/open_process.h"
#include "image/mirror.h"

namespace cli {

// Reads the data of a report from the mirror, and adds the guards that must not be set in it.
// `stopped` is true if the mirror is of one moment. It is called several times; the last call
// counts.
using MirrorReading =
    std::function<void(Mirror&, const Target&, bool stopped, std::vector<Guard>*)>;

// As ReadAtRest, but with a copy of all the memory. Returns the mirror of the last call. Without
// mode.stop the memory is copied while the process runs.
std::unique_ptr<Mirror> ReadMirror(OpenProcess& process, ReadMode* mode, const MirrorReading& read);

}  // namespace cli
