// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork_witness.h"

#include <sys/mman.h>

#include <new>

#include "os/errno_keeper.h"
#include "os/process_id.h"

namespace tcmalloc {
namespace {

// The kernel rounds the mapping's size up to whole pages.
using Word = std::atomic<uint32_t>;

// Makes a page that is zero in a forked child. Null if the kernel refuses.
std::atomic<uint32_t>* NewPage() {
  void* const page =
      mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  // An emulator may agree to advice that it does not know.
  constexpr int kNoAdvice = -1;
  if (madvise(page, sizeof(Word), kNoAdvice) != 0 &&
      madvise(page, sizeof(Word), MADV_WIPEONFORK) == 0) {
    return new (page) Word(0);
  }
  munmap(page, sizeof(Word));
  return nullptr;
}

}  // namespace

void ForkWitness::Begin() {
  if (forking_.load(std::memory_order_relaxed) != 0) return;
  const ErrnoKeeper keeper;
  std::atomic<uint32_t>* page = page_.load(std::memory_order_relaxed);
  if (page == nullptr) {
    page = NewPage();
    page_.store(page, std::memory_order_relaxed);
  }
  if (page != nullptr) page->store(1, std::memory_order_relaxed);
  forking_.store(page != nullptr ? kPageTells : ProcessId(), std::memory_order_relaxed);
}

bool ForkWitness::OtherProcess(uint64_t process) { return process != ProcessId(); }

}  // namespace tcmalloc
