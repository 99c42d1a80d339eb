// SPDX-License-Identifier: BSD-3-Clause
// The actions that a program outside of this process may request (process/control.h). Each is an
// action that the program itself can take by a call of the public interface. The functions validate
// all values, since a request is untrusted input.
//
// Called by the thread that serves requests, one at a time, without locks. Never allocates from the
// heap. Makes only system calls that the program's own calls of the same kind would make.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "process/control.h"

namespace tcmalloc {

struct Heap;

// Sets kRefused and the message, in parts.
void FailControl(ControlReply* reply, std::string_view a, std::string_view b = "",
                 std::string_view c = "");

inline constexpr char kNoSamples[] = "libtcmalloc_minimal takes no samples";

// Converts the number of a setting. Its range is that of 64-bit machines; on other machines the
// number is clamped.
inline size_t ControlBytes(double number) {
  return static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(number), SIZE_MAX / 2));
}

// Changes a setting that may change while the process runs: `text` is NAME=VALUE, as in the
// environment.
void ChangeSetting(Heap& heap, std::string_view text, ControlReply* reply);

// Begins to record allocations for a profile of that kind. Switches sampling on if it is off;
// `interval`, unless it is empty, is the sampling interval.
void StartProfile(Heap& heap, std::string_view interval, ControlReply* reply);
// Ends the recording that StartProfile has begun, and restores the former sampling interval.
void StopProfile(Heap& heap, ControlReply* reply);

}  // namespace tcmalloc
