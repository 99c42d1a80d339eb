// SPDX-License-Identifier: BSD-3-Clause
// LeakRequest: the options of a check for leaks, as a value, and functions that set them by the
// settings.
//
// Pure functions. Thread safety: any thread. Cost: a few instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/settings.h"
#include "instruments/leaks/object_index.h"

namespace tcmalloc {

struct LeakRequest {
  // If false, every object in use counts as leaked, except those that the program ignores.
  bool reachability = true;
  // The roots: data of the program and its libraries; stacks, registers and thread-local storage.
  bool from_globals = true;
  bool from_threads = true;
  // A pointer into an object counts up to this many bytes after the object's start; with SIZE_MAX,
  // everywhere. Pointers lie at multiples of the second number.
  size_t max_pointer_offset = 1024;
  size_t pointer_source_alignment = sizeof(uintptr_t);
  // If true, objects that are not recorded do not count, nor those of earlier periods
  // (instruments/leaks/annotations.h).
  bool recorded_only = false;
  uint32_t since_period = 0;
  // Objects in this index do not count; null if there is no index.
  const ObjectIndex* before = nullptr;
  // Whether to report each object as a separate site.
  bool by_object = false;
  bool show_contents = false;
  // The caller's stack belongs to the program from this address on; if it is 0, from the frame of
  // CheckForLeaks on. The library's own frames below contain words that the program left there
  // before.
  uintptr_t program_stack = 0;
};

// The options that the settings give for every check.
LeakRequest LeakRequestBySettings(const Settings& settings);

// Returns the request for the check of the whole program in the mode of HEAPCHECK. `main_period` is
// the period that began with main.
LeakRequest ProgramLeakRequest(const Settings& settings, uint32_t main_period);

}  // namespace tcmalloc
