// SPDX-License-Identifier: BSD-3-Clause
// Writes requests into a Control as another process does: first the check and the words that it
// covers, then the ticket.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "process/control.h"

namespace tcmalloc {

struct WrittenRequest {
  uint32_t ticket = 0;
  uint32_t kind = 0;
  uint64_t check = 0;
  std::array<uint32_t, ControlRequest::kTextWords> text{};

  WrittenRequest() = default;
  WrittenRequest(uint32_t number, ControlKind what, std::string_view characters)
      : ticket(number), kind(static_cast<uint32_t>(what)) {
    memcpy(text.data(), characters.data(), characters.size());
    ControlCheck sum;
    sum.Add(ticket);
    sum.Add(kind);
    for (const uint32_t word : text) sum.Add(word);
    check = sum.value();
  }

  void WriteBody(ControlRequest* to) const {
    to->kind.store(kind, std::memory_order_relaxed);
    for (size_t i = 0; i < text.size(); ++i) {
      to->text[i].store(text[i], std::memory_order_relaxed);
    }
    to->check[0].store(static_cast<uint32_t>(check), std::memory_order_relaxed);
    to->check[1].store(static_cast<uint32_t>(check >> 32), std::memory_order_relaxed);
  }
  void Write(ControlRequest* to) const {
    WriteBody(to);
    to->ticket.store(ticket, std::memory_order_release);
  }
};

}  // namespace tcmalloc
