// SPDX-License-Identifier: BSD-3-Clause
// SampleLayout: the structure that the full library publishes besides the root. It leads to the
// samples, and to the objects and roots that the program registered with its leak checker.
#pragma once

#include "heap/record.h"

namespace cli {

// Addresses in the target; all are 0 for the minimal library.
struct SampleLayout {
  Address table = 0;  // of a pointer to the SampleTable
  Address registered_roots = 0;
  Address ignored_addresses = 0;
  Address record_session = 0;
};

// Throws BadImage when it is not readable, NotPublished for an older library that does not publish
// the leak checker's data.
SampleLayout ReadSampleLayout(const Target& target);

}  // namespace cli
