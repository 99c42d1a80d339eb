// SPDX-License-Identifier: BSD-3-Clause
// Any sequence of operations on a page heap beside a naive model: the set of spans that were handed
// out. Spans never overlap, are long enough and aligned, and a span that is said to be zero is.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <new>

#include "base/check.h"
#include "page/page_heap.h"

namespace {

using namespace tcmalloc;

// The real system calls. Some fail when the input says so.
class FailingVirtualMemory final : public VirtualMemory {
 public:
  Mapping Map(size_t bytes, size_t alignment) override {
    return fail_next ? Mapping() : system_.Map(bytes, alignment);
  }
  bool Unmap(void* start, size_t bytes) override {
    return !fail_next && system_.Unmap(start, bytes);
  }
  bool Release(void* start, size_t bytes) override {
    return !fail_next && system_.Release(start, bytes);
  }
  void AdviseHugepages(void* start, size_t bytes, bool wanted) override {
    system_.AdviseHugepages(start, bytes, wanted);
  }
  bool Populate(void* start, size_t bytes) override { return system_.Populate(start, bytes); }
  bool MayMove(const void* start, size_t bytes) override { return system_.MayMove(start, bytes); }
  bool Move(void* from, size_t bytes, void* to, size_t total) override {
    return !fail_next && system_.Move(from, bytes, to, total);
  }
  size_t hardware_page_size() const override { return system_.hardware_page_size(); }

  bool fail_next = false;

 private:
  SystemVirtualMemory system_;
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t Byte() { return left_ == 0 ? 0 : (--left_, *data_++); }

 private:
  const uint8_t* data_;
  size_t left_;
};

struct World {
  FailingVirtualMemory vm;
  MetadataArena arena{vm};
  // In zero-filled memory, which PageMap requires.
  PageMap& map = *new (mmap(nullptr, sizeof(PageMap), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) PageMap;
  PageHeap heap{vm, map, arena};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // One heap for all runs: its state is part of what is explored; every run frees what it took.
  static World& world = *new World;
  PageHeap& heap = world.heap;
  std::map<uintptr_t, Span*> live;
  Input input(data, size);
  while (!input.empty()) {
    const uint8_t op = input.Byte();
    world.vm.fail_next = (op & 0x80) != 0;
    switch (op % 4) {
      case 0:
      case 1: {
        const Length n(1 + input.Byte() * (op % 8 == 4 ? 16 : 1));
        const Length alignment(size_t{1} << (input.Byte() % 8));
        Span* const span = heap.New(n, SpanState::kLarge, alignment);
        if (span == nullptr) break;
        TC_CHECK(span->num_pages >= n && span->first_page.index() % alignment.pages() == 0);
        const auto next = live.lower_bound(span->first_page.index());
        TC_CHECK(next == live.end() || (span->first_page + span->num_pages).index() <= next->first);
        if (next != live.begin()) {
          const Span* const before = std::prev(next)->second;
          TC_CHECK(before->first_page + before->num_pages <= span->first_page);
        }
        char* const start = static_cast<char*>(span->start_address());
        if (span->zeroed()) TC_CHECK(start[0] == 0 && start[span->bytes() - 1] == 0);
        start[0] = start[span->bytes() - 1] = 'x';
        live[span->first_page.index()] = span;
        break;
      }
      case 2: {
        if (live.empty()) break;
        const auto it = std::next(live.begin(), input.Byte() % live.size());
        const char* const start = static_cast<char*>(it->second->start_address());
        TC_CHECK(!heap.DeleteLargeAt(it->second, start + 1));
        TC_CHECK(heap.DeleteLargeAt(it->second, start));
        live.erase(it);
        break;
      }
      case 3:
        heap.ReleaseAtLeast(Length(input.Byte()));
        break;
    }
    world.vm.fail_next = false;
  }
  heap.CheckInvariants();
  for (const auto& [page, span] : live) heap.Delete(span);
  heap.CheckInvariants();
  TC_CHECK(heap.GetStats().large_span_bytes == 0);
  return 0;
}
