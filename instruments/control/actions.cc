// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/control/actions.h"

#include <cstdint>

#include "base/text_writer.h"
#include "process/heap.h"
#include "process/trim.h"

namespace tcmalloc {
namespace {

bool MayRelease(const Heap& heap, ControlReply* reply) {
  if (!heap.settings.disable_memory_release) return true;
  FailControl(reply, "TCMALLOC_DISABLE_MEMORY_RELEASE is set: nothing is released to the OS");
  return false;
}

void CarryOut(Heap& heap, ControlKind kind, std::string_view text, ControlReply* reply) {
  switch (kind) {
    case ControlKind::kFlush:
      reply->bytes = FlushCaches(heap);
      return;
    case ControlKind::kRelease:
      if (!MayRelease(heap, reply)) return;
      reply->bytes = heap.page_heap.ReleaseAtLeast(Length::ForBytes(SIZE_MAX / 2)).bytes();
      return;
    case ControlKind::kTrim:
      if (MayRelease(heap, reply)) reply->bytes = Trim(heap, 0);
      return;
    case ControlKind::kSet:
      return ChangeSetting(heap, text, reply);
    case ControlKind::kStartProfile:
      return StartProfile(heap, text, reply);
    case ControlKind::kStopProfile:
      return StopProfile(heap, reply);
  }
  FailControl(reply,
              "the process's library does not know this request: it is older than the "
              "command");
}

}  // namespace

void (*const kCarryOut)(Heap&, ControlKind, std::string_view, ControlReply*) = &CarryOut;

void FailControl(ControlReply* reply, std::string_view a, std::string_view b, std::string_view c) {
  reply->status = ControlReply::kRefused;
  TextWriter(reply->message, sizeof(reply->message)).Text(a).Text(b).Text(c);
}

}  // namespace tcmalloc
