// SPDX-License-Identifier: BSD-3-Clause
#include "image/copied_image.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace cli {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

bool CopiedImage::Fill(Address start, Block* block) {
  block->contents.resize(kBlock);
  block->readable.assign(kBlock / kPage, true);
  if (source_.Read(start, block->contents.data(), kBlock)) return true;
  bool any = false;
  for (size_t i = 0; i < kBlock / kPage; ++i) {
    const bool readable =
        source_.Read(start + i * kPage, block->contents.data() + i * kPage, kPage);
    block->readable[i] = readable;
    any |= readable;
  }
  return any;
}

void CopiedImage::Refresh() {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    at = Fill(at->first, &at->second) ? std::next(at) : blocks_.erase(at);
  }
  complete_ = true;
}

CopiedImage::Block* CopiedImage::BlockAt(Address start) {
  const auto found = blocks_.find(start);
  if (found != blocks_.end()) return &found->second;
  if (bytes() >= kMaxBytes) throw BadImage("the heap's records take more than 8 GiB");
  Block block;
  if (!Fill(start, &block)) return nullptr;
  complete_ = false;
  return &blocks_.emplace(start, std::move(block)).first->second;
}

bool CopiedImage::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  if (address + bytes < address) return false;
  while (bytes > 0) {
    const Address start = address / kBlock * kBlock;
    const Block* const block = BlockAt(start);
    if (block == nullptr) return false;
    const size_t offset = address - start;
    const size_t n = std::min(bytes, kBlock - offset);
    for (size_t page = offset / kPage; page <= (offset + n - 1) / kPage; ++page) {
      if (!block->readable[page]) return false;
    }
    memcpy(next, block->contents.data() + offset, n);
    next += n;
    address += n;
    bytes -= n;
  }
  return true;
}

}  // namespace cli
