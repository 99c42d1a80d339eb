// SPDX-License-Identifier: BSD-3-Clause
#include "process/control.h"

#include <cstring>

#include "base/config.h"
#include "os/spinlock.h"

namespace tcmalloc {

bool Control::IsIntact(uint32_t ticket, ControlKind* kind, char* text) const {
  ControlCheck check;
  check.Add(ticket);
  const uint32_t kind_word = request_.kind.load(std::memory_order_relaxed);
  check.Add(kind_word);
  for (size_t i = 0; i < ControlRequest::kTextWords; ++i) {
    const uint32_t word = request_.text[i].load(std::memory_order_relaxed);
    check.Add(word);
    memcpy(text + i * sizeof(word), &word, sizeof(word));
  }
  const uint64_t low = request_.check[0].load(std::memory_order_relaxed);
  const uint64_t high = request_.check[1].load(std::memory_order_relaxed);
  *kind = static_cast<ControlKind>(kind_word);
  return check.value() == (high << 32 | low) &&
         text[ControlRequest::kTextWords * sizeof(uint32_t) - 1] == '\0';
}

void Control::Answer(Heap& heap, uint32_t ticket) {
  reply_.ticket.store(0, std::memory_order_relaxed);
  // A reader must not see changes of the other fields before it sees the zero.
  std::atomic_thread_fence(std::memory_order_release);
  reply_.status = ControlReply::kDone;
  reply_.bytes = 0;
  reply_.before[0] = reply_.after[0] = reply_.message[0] = '\0';
  ControlKind kind;
  char text[ControlRequest::kTextWords * sizeof(uint32_t)];
  if (IsIntact(ticket, &kind, text)) {
    kCarryOut(heap, kind, text, &reply_);
  } else {
    reply_.status = ControlReply::kGarbled;
  }
  reply_.ticket.store(ticket, std::memory_order_release);
}

bool Control::Serve(Heap& heap) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  if (busy_.exchange(true, std::memory_order_acquire)) return false;
  const uint32_t ticket = request_.ticket.load(std::memory_order_acquire);
  const bool is_new = ticket != taken_.load(std::memory_order_relaxed);
  if (is_new) {
    taken_.store(ticket, std::memory_order_relaxed);
    if (access_.load(std::memory_order_relaxed) == kAccepted) Answer(heap, ticket);
  }
  busy_.store(false, std::memory_order_release);
  return is_new;
}

void Control::BeginListening(const void* frame, const std::atomic<uint32_t>* sleep_word) {
  sleep_word_.store(sleep_word, std::memory_order_relaxed);
  listener_.store(frame, std::memory_order_release);
}

void Control::EndListening(const void* frame) {
  // Another thread may have begun to listen meanwhile.
  listener_.compare_exchange_strong(frame, nullptr, std::memory_order_relaxed);
}

void Control::ResetInChild() {
  taken_.store(request_.ticket.load(std::memory_order_relaxed), std::memory_order_relaxed);
  busy_.store(false, std::memory_order_relaxed);
  reply_.ticket.store(0, std::memory_order_relaxed);
  listener_.store(nullptr, std::memory_order_relaxed);
}

}  // namespace tcmalloc
