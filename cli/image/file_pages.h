// SPDX-License-Identifier: BSD-3-Clause
// FilePages: which memory of a process was resident, as far as a file says it. A snapshot has what
// the kernel said. A core does not: pages that are not all zeroes count.
#pragma once

#include <vector>

#include "image/core_image.h"
#include "image/resident.h"

namespace cli {

struct FilePages {
  std::vector<MappingUse> uses;
  PageSource pages;
};

// Reads all of a core. Throws BadImage.
FilePages ReadFilePages(CoreImage& core);

// Of these runs, in the order of pages, those in a range.
PageSource SourceOf(std::vector<PageRun> runs);

}  // namespace cli
