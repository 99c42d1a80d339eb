// SPDX-License-Identifier: BSD-3-Clause
// Passes the settings to the parts of a new heap, except those that are read from Heap::settings at
// each use. Called once, by EnsureHeapSlow, before any other thread has the heap.
#pragma once

#include "config/settings.h"
#include "heap/heap.h"

namespace tcmalloc {

void ApplySettings(const Settings& settings, Heap* heap);

}  // namespace tcmalloc
