// SPDX-License-Identifier: BSD-3-Clause
// LeakRequest: the options of a check for leaks, as a value, and how settings set them.
//
// Pure functions. Thread safety: any thread. Cost: a few instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/settings.h"
#include "tools/leak/object_index.h"

namespace tcmalloc {

struct LeakRequest {
  // False: every object in use counts as leaked, except those that the program ignores.
  bool reachability = true;
  // The roots: data of the program and its libraries; stacks, registers and thread-local storage.
  bool from_globals = true;
  bool from_threads = true;
  // A pointer into an object counts up to this many bytes after its start, SIZE_MAX for anywhere.
  // Pointers lie at multiples of the second number.
  size_t max_pointer_offset = 1024;
  size_t pointer_source_alignment = sizeof(uintptr_t);
  // Objects that are not recorded do not count, nor those of earlier periods
  // (tools/leak/annotations.h).
  bool recorded_only = false;
  uint32_t since_period = 0;
  // Objects in this index do not count; null: none.
  const ObjectIndex* before = nullptr;
  // Report each object as a site of its own.
  bool by_object = false;
  bool show_contents = false;
  // The caller's stack belongs to the program from this address on; 0: from the frame of
  // CheckForLeaks on. The library's own frames below have words in them that the program left there
  // before.
  uintptr_t program_stack = 0;
};

// The options that the settings give for every check.
LeakRequest LeakRequestBySettings(const Settings& settings);

// The check of the whole program in the mode that HEAPCHECK asks for. `main_period`: the period
// that began with main.
LeakRequest ProgramLeakRequest(const Settings& settings, uint32_t main_period);

}  // namespace tcmalloc
