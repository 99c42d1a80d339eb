// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_number.h"

#include <sys/mman.h>

#include <new>

#include "os/environment.h"
#include "os/errno_keeper.h"

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

constinit ThreadNumbers thread_numbers;
constinit thread_local uint32_t this_thread_number __attribute__((tls_model("initial-exec"))) = 0;

uint32_t NumberThisThread() {
  const uint32_t number = thread_numbers.New();
  // A signal handler may have numbered the thread in between.
  if (this_thread_number == 0) this_thread_number = number;
  return this_thread_number;
}

uint32_t ThreadNumbers::New() {
  const auto next = [this] { return (given_.fetch_add(1, std::memory_order_relaxed) + 1) & kMask; };
  uint32_t number = next();
  if (number == 0) {
    may_repeat_.store(true, std::memory_order_relaxed);
    number = next();
  }
  NoteInChild(number);
  return number;
}

void ThreadNumbers::NoteInChild(uint32_t number) {
  if (!witness_.InChild()) return;
  const auto is_earlier = [number](uint32_t first) {
    return ((first - number) & kMask) <= kMask / 2;
  };
  uint32_t first = first_in_child_.load(std::memory_order_relaxed);
  while (first == 0 || is_earlier(first)) {
    if (first_in_child_.compare_exchange_weak(first, number, std::memory_order_acq_rel)) return;
  }
}

void ThreadNumbers::NoteFork() {
  // In a nested fork the child has already given numbers, and first_in_child_ stays valid.
  if (!witness_.InChild()) first_in_child_.store(0, std::memory_order_relaxed);
  witness_.Begin();
}

bool ThreadNumbers::IsOfForkedParent(uint32_t number) const {
  if (!witness_.InChild()) return false;
  const uint32_t first = first_in_child_.load(std::memory_order_acquire);
  if (first == 0) return true;
  // The child's numbers are those from its first one to the last one.
  const uint32_t last = given_.load(std::memory_order_relaxed) & kMask;
  return ((number - first) & kMask) > ((last - first) & kMask);
}

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
