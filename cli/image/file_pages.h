// SPDX-License-Identifier: BSD-3-Clause
// FilePages: the memory of a process that was resident, as far as a file shows that. A snapshot has
// the kernel's data. A core file does not, so its pages that are not all zeroes count as resident.
#pragma once

#include <vector>

#include "image/core_image.h"
#include "image/resident.h"

namespace cli {

struct FilePages {
  std::vector<MappingUse> uses;
  PageSource pages;
};

// Reads all of a core but its holes. Throws BadImage.
FilePages ReadFilePages(CoreImage& core);

// Returns a source that finds, among these runs in the order of pages, those in a range.
PageSource SourceOf(std::vector<PageRun> runs);

}  // namespace cli
