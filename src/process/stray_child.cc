// SPDX-License-Identifier: BSD-3-Clause
#include "process/stray_child.h"

#include "os/c_library.h"
#include "os/fork_witness.h"
#include "os/spinlock.h"

namespace tcmalloc {
namespace {

constinit const std::atomic<uint32_t> no_witness{1};

// True from the first attempt to watch on. No data depends on it.
constinit std::atomic<bool> watching{false};

}  // namespace

constinit std::atomic<const std::atomic<uint32_t>*> stray_witness{&no_witness};

bool InStrayChildSlow() { return !SpinLock::InForkHold(); }

void WatchForStrayChildren() {
  const std::atomic<uint32_t>* const watched = stray_witness.load(std::memory_order_acquire);
  if (watched->load(std::memory_order_relaxed) == 0 && !InStrayChildSlow()) {
    // In a forked child, before its handler has run.
    stray_witness.store(&no_witness, std::memory_order_release);
    return;
  }
  // In a stray child it is true already: nothing changes there.
  if (watching.load(std::memory_order_relaxed) || !CLibraryMalloc::CanAllocate() ||
      watching.exchange(true, std::memory_order_relaxed)) {
    return;
  }
  const std::atomic<uint32_t>* const word = WatchForCopies();
  if (word != nullptr) stray_witness.store(word, std::memory_order_release);
}

void EndStrayWatchInChild() {
  stray_witness.store(&no_witness, std::memory_order_release);
  watching.store(false, std::memory_order_relaxed);
}

}  // namespace tcmalloc
