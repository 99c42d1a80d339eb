// SPDX-License-Identifier: BSD-3-Clause
#include "image/copied_image.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <utility>

namespace cli {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

bool CopiedImage::Fill(Address start, Block* block) {
  const size_t part = std::min(block_bytes_, kPage);
  block->contents.resize(block_bytes_);
  block->readable.assign(block_bytes_ / part, true);
  if (source_.Read(start, block->contents.data(), block_bytes_)) return true;
  bool any = false;
  for (size_t i = 0; i < block_bytes_ / part; ++i) {
    const bool readable = source_.Read(start + i * part, block->contents.data() + i * part, part);
    block->readable[i] = readable;
    any |= readable;
  }
  return any;
}

void CopiedImage::PrepareRefresh(std::vector<Guard> guards) {
  guards_ = std::move(guards);
  guard_words_.clear();
  ranges_.clear();
  std::set<Address> with_guards;
  for (const Guard& guard : guards_) {
    const Address start = guard.address / block_bytes_ * block_bytes_;
    const auto block = blocks_.find(start);
    const size_t offset = guard.address - start;
    const bool inside = block != blocks_.end() && offset + guard.bytes <= block_bytes_;
    guard_words_.push_back(inside ? block->second.contents.data() + offset : nullptr);
    if (inside) with_guards.insert(start);
  }
  for (const bool first : {true, false}) {
    for (auto& [start, block] : blocks_) {
      if (with_guards.contains(start) == first) {
        ranges_.push_back({start, block.contents.data(), block_bytes_});
        // The target may have mapped more pages since then. Copy finds those that cannot be read.
        block.readable.assign(block.readable.size(), true);
      }
    }
    if (first) ranges_with_guards_ = ranges_.size();
  }
}

void CopiedImage::Copy(size_t begin, size_t end) {
  const std::span<const Range> all(ranges_);
  while (begin < end) {
    begin += source_.ReadRanges(all.subspan(begin, end - begin));
    if (begin < end) {
      Fill(all[begin].address, &blocks_.at(all[begin].address));
      ++begin;
    }
  }
}

const Guard* CopiedImage::SetGuard() const {
  for (size_t i = 0; i < guards_.size(); ++i) {
    const char* const word = guard_words_[i];
    if (word == nullptr) continue;
    if (std::any_of(word, word + guards_[i].bytes, [](char c) { return c != 0; })) {
      return &guards_[i];
    }
  }
  return nullptr;
}

const Guard* CopiedImage::Refresh() {
  Copy(0, ranges_with_guards_);
  if (const Guard* const set = SetGuard()) return set;
  Copy(ranges_with_guards_, ranges_.size());
  complete_ = true;
  return nullptr;
}

void CopiedImage::ForEachPart(const std::function<void(Address, std::span<const char>)>& f) const {
  const size_t part = std::min(block_bytes_, kPage);
  for (const auto& [start, block] : blocks_) {
    for (size_t i = 0; i < block.readable.size(); ++i) {
      if (block.readable[i]) f(start + i * part, {block.contents.data() + i * part, part});
    }
  }
}

CopiedImage::Block* CopiedImage::BlockAt(Address start) {
  if (last_ != nullptr && start == last_start_) return last_;
  last_start_ = start;
  last_ = nullptr;
  const auto found = blocks_.find(start);
  if (found != blocks_.end()) return last_ = &found->second;
  if (bytes() >= kMaxBytes) throw BadImage("the heap's records take more than 8 GiB");
  Block block;
  if (!Fill(start, &block)) return nullptr;
  complete_ = false;
  return last_ = &blocks_.emplace(start, std::move(block)).first->second;
}

bool CopiedImage::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  if (address + bytes < address) return false;
  const size_t part = std::min(block_bytes_, kPage);
  while (bytes > 0) {
    const Address start = address / block_bytes_ * block_bytes_;
    const Block* const block = BlockAt(start);
    if (block == nullptr) return false;
    const size_t offset = address - start;
    const size_t n = std::min(bytes, block_bytes_ - offset);
    for (size_t i = offset / part; i <= (offset + n - 1) / part; ++i) {
      if (!block->readable[i]) return false;
    }
    memcpy(next, block->contents.data() + offset, n);
    next += n;
    address += n;
    bytes -= n;
  }
  return true;
}

}  // namespace cli
