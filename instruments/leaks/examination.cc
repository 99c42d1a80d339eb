// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/examination.h"

#include <algorithm>
#include <cstdint>

#include "formats/marker/root_map.h"
#include "instruments/annotations/program_annotations.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/leak_collector.h"
#include "instruments/leaks/program_object.h"
#include "instruments/profiles/record_session.h"

namespace tcmalloc {

void Examination::Run(const WorldStop& world) {
  // Threads that run may unmap and protect memory, and move mappings.
  if (!world.is_complete) careful_ = true;
  // The memory of freed objects may be protected by a page fence.
  if (kKeepsFreedObjects && heap_.settings.page_fence) careful_ = true;
  if (!careful_ || reader_.Works()) {
    outcome_ = LeakOutcome::kNoMemory;
    if (index_.Build(heap_)) {
      unsettled_ = !index_.settled();
      if (!unsettled_ && MarkAndCollect(world)) outcome_ = LeakOutcome::kDone;
    }
  }
  report_->threads = world.num_threads;
}

bool Examination::MarkAndCollect(const WorldStop& world) {
  // The program's pointer is to the byte after the header; with a large alignment there is more
  // room before that byte.
  size_t room = 0;
  if (kKeepsFreedObjects) {
    index_.ForEach([&](const LiveObject& object) {
      const ProgramObject seen = ProgramObjectOf(object, reader());
      if (seen.state == ProgramObject::State::kFreed) index_.RemoveFree(object.start);
      room = std::max<size_t>(room, seen.start - object.start);
    });
    index_.Count();
  }
  const size_t offset = request_.max_pointer_offset;
  // The marker is made here because its constructor reads the bounds of the index.
  Marker marker(index_, memory_,
                {.max_pointer_offset = offset + std::min(room, SIZE_MAX - offset),
                 .pointer_source_alignment = request_.pointer_source_alignment},
                reader());
  marker_ = &marker;
  if (!marker.Prepare() || (request_.reachability && !AddRoots(world)) || !Mark() ||
      !RootsStillValid(world)) {
    return false;
  }
  return LeakCollector(request_, index_, reader_, memory_, report_).Collect(&marker);
}

// ---- Roots.

bool Examination::ExcludeOwnFrames(WorldStop* world) {
  auto* const threads = memory_.AllocateArray<StoppedThread>(world->num_threads);
  if (threads == nullptr) return false;
  std::copy_n(world->threads, world->num_threads, threads);
  for (size_t i = 0; i < world->num_threads; ++i) {
    if (!threads[i].is_caller) continue;
    threads[i].stack_pointer = stack_;
    threads[i].num_registers = 0;
  }
  world->threads = threads;
  return true;
}

bool Examination::AddRoots(WorldStop world) {
  if (!ExcludeOwnFrames(&world)) return false;
  const LeakOutcome gathered = roots_.Gather(world, ProcessRegisteredRoots(), reader());
  if (gathered != LeakOutcome::kDone) {
    outcome_ = gathered;
    return false;
  }
  marker_->SetUnreadable(roots_.unreadable().data(), roots_.unreadable().size());
  const RootChoice choice = {.from_globals = request_.from_globals,
                             .from_threads = request_.from_threads};
  for (const RootRange& range : roots_.always()) {
    if (!AddRoot(*marker_, range, choice)) return false;
  }
  for (const RootRange& range : roots_.conditional()) {
    if (!AddRoot(*marker_, range, choice)) return false;
  }
  return !request_.from_threads || AddThreads(world);
}

bool Examination::AddThreads(const WorldStop& world) {
  for (size_t i = 0; i < world.num_threads; ++i) {
    const StoppedThread& thread = world.threads[i];
    const auto start = reinterpret_cast<uintptr_t>(thread.registers);
    if (!marker_->AddStack(start, start + thread.num_registers * sizeof(uintptr_t))) return false;
  }
  for (const uintptr_t stack : roots_.heap_stacks()) {
    if (!AddObjectAt(stack)) return false;
  }
  return true;
}

bool Examination::AddObjectAt(uintptr_t address) {
  LiveObject object;
  return !index_.Find(address, &object) || marker_->AddPointer(object.start);
}

// ---- Marking.

bool Examination::Mark() {
  struct Adding {
    Examination* examination;
    bool enough_memory = true;
  } adding{this};
  ForEachIgnored(
      [](void* context, uintptr_t address) {
        Adding& to = *static_cast<Adding*>(context);
        if (!to.examination->AddObjectAt(address)) to.enough_memory = false;
      },
      &adding);
  if (!adding.enough_memory || !marker_->Run()) return false;
  return !AnyThreadWasDisabled() || MarkFromIgnored();
}

bool Examination::MarkFromIgnored() {
  bool enough_memory = true;
  marker_->ForEachUnmarked([&](const LiveObject& object) {
    ObjectTable::Record record;
    if (FindRecord(ProgramObjectOf(object, reader()).start, &record) &&
        (record.mark & kIgnoredMark) != 0) {
      enough_memory = enough_memory && marker_->AddPointer(object.start);
    }
  });
  return enough_memory && marker_->Run();
}

bool Examination::RootsStillValid(const WorldStop& world) {
  unsettled_ = !world.is_complete && request_.reachability && !roots_.StillValid();
  return !unsettled_;
}

}  // namespace tcmalloc
