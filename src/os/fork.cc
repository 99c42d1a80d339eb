// SPDX-License-Identifier: BSD-3-Clause
#include "os/fork.h"

#include <sys/mman.h>

#include <new>

#include "os/errno_keeper.h"

namespace tcmalloc {
namespace {

using Word = std::atomic<uint32_t>;

// Null before the first call, and if the kernel has no such pages. Release and acquire pass the
// word to other threads.
constinit std::atomic<Word*> witness{nullptr};

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

Word* EnsureWord() {
  Word* word = witness.load(std::memory_order_acquire);
  if (word != nullptr) return word;
  void* const memory = NewPage(sizeof(Word));
  if (memory == nullptr) return nullptr;
  Word* const fresh = new (memory) Word(0);
  if (witness.compare_exchange_strong(word, fresh, std::memory_order_acq_rel)) return fresh;
  // Another thread has made one meanwhile.
  munmap(memory, sizeof(Word));
  return word;
}

}  // namespace

const Word* WatchForCopies() {
  const ErrnoKeeper keeper;
  Word* const word = EnsureWord();
  if (word != nullptr) word->store(1, std::memory_order_relaxed);
  return word;
}

}  // namespace tcmalloc
