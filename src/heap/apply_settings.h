// SPDX-License-Identifier: BSD-3-Clause
// Hands the settings to the parts of a new heap. What is read where it is needed (Heap::settings)
// is not here. Called once, by EnsureHeapSlow, before any other thread has the heap.
#pragma once

#include "config/settings.h"
#include "heap/heap.h"

namespace tcmalloc {

void ApplySettings(const Settings& settings, Heap* heap);

}  // namespace tcmalloc
