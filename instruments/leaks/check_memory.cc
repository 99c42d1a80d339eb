// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/check_memory.h"

#include "base/config.h"

namespace tcmalloc {
namespace {

constexpr size_t kHeaderBytes = kCacheLineSize;

constexpr size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

char* CheckMemory::Map(size_t bytes) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  const size_t page = vm_.hardware_page_size();
  if (bytes > SIZE_MAX - kHeaderBytes - page) return nullptr;
  const Mapping mapping = vm_.Map(RoundUp(bytes + kHeaderBytes, page), page);
  if (mapping.start == nullptr) return nullptr;
  Header* const header = static_cast<Header*>(mapping.start);
  *header = {mappings_, mapping.bytes};
  mappings_ = header;
  mapped_bytes_ += mapping.bytes;
  return static_cast<char*>(mapping.start) + kHeaderBytes;
}

void* CheckMemory::Allocate(size_t bytes) {
  if (bytes > kChunkBytes / 8) return Map(bytes);
  bytes = RoundUp(bytes == 0 ? 1 : bytes, kCacheLineSize);
  if (bytes > chunk_left_) {
    char* const chunk = Map(kChunkBytes - kHeaderBytes);
    if (chunk == nullptr) return nullptr;
    chunk_ = chunk;
    chunk_left_ = kChunkBytes - kHeaderBytes;
  }
  void* const memory = chunk_;
  chunk_ += bytes;
  chunk_left_ -= bytes;
  return memory;
}

void CheckMemory::FreeAll() {
  while (Header* const header = mappings_) {
    mappings_ = header->next;
    // A mapping stays if the OS refuses because there are too many mappings.
    static_cast<void>(vm_.Unmap(header, header->bytes));
  }
  chunk_ = nullptr;
  chunk_left_ = 0;
  mapped_bytes_ = 0;
}

bool CheckMemory::Contains(uintptr_t address) const {
  for (const Header* header = mappings_; header != nullptr; header = header->next) {
    if (address - reinterpret_cast<uintptr_t>(header) < header->bytes) return true;
  }
  return false;
}

}  // namespace tcmalloc
