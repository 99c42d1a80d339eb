// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork_witness.h"

#include <sys/mman.h>

#include <new>

#include "os/errno_keeper.h"
#include "os/process_id.h"

namespace tcmalloc {
namespace {

// Makes a page that is zero in a forked child. Null if the kernel refuses. The kernel rounds
// `bytes` up to a whole page.
void* NewPage(size_t bytes) {
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  // An emulator may agree to advice that it does not know.
  constexpr int kNoAdvice = -1;
  if (madvise(page, bytes, kNoAdvice) != 0 && madvise(page, bytes, MADV_WIPEONFORK) == 0) {
    return page;
  }
  munmap(page, bytes);
  return nullptr;
}

}  // namespace

ForkWitness::Page* ForkWitness::EnsurePage() {
  Page* page = page_.load(std::memory_order_acquire);
  if (page != nullptr) return page;
  void* const memory = NewPage(sizeof(Page));
  if (memory == nullptr) return nullptr;
  Page* const fresh = new (memory) Page;
  if (page_.compare_exchange_strong(page, fresh, std::memory_order_acq_rel)) return fresh;
  // Another thread has made one meanwhile.
  munmap(memory, sizeof(Page));
  return page;
}

void ForkWitness::Begin() {
  if (forking_.load(std::memory_order_relaxed) != 0) return;
  const ErrnoKeeper keeper;
  Page* const page = EnsurePage();
  if (page != nullptr) page->forking.store(1, std::memory_order_relaxed);
  forking_.store(page != nullptr ? kPageTells : ProcessId(), std::memory_order_relaxed);
}

const std::atomic<uint32_t>* ForkWitness::Watch() {
  const ErrnoKeeper keeper;
  Page* const page = EnsurePage();
  if (page == nullptr) return nullptr;
  page->watched.store(1, std::memory_order_relaxed);
  return &page->watched;
}

bool ForkWitness::OtherProcess(uint64_t process) { return process != ProcessId(); }

}  // namespace tcmalloc
