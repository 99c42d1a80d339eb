// SPDX-License-Identifier: BSD-3-Clause
// NoMemory: an OS that maps nothing and refuses every call.
#pragma once

#include <cstddef>

#include "os/memory/virtual_memory.h"

namespace tcmalloc {

class NoMemory final : public VirtualMemory {
 public:
  Mapping Map(size_t, size_t) override { return {}; }
  bool Unmap(void*, size_t) override { return false; }
  bool Release(void*, size_t) override { return false; }
  void AdviseHugepages(void*, size_t, bool) override {}
  bool Populate(void*, size_t) override { return false; }
  bool MayMove(const void*, size_t) override { return false; }
  bool Move(void*, size_t, void*, size_t) override { return false; }
  size_t hardware_page_size() const override { return 4096; }
};

}  // namespace tcmalloc
