// SPDX-License-Identifier: BSD-3-Clause
#include "process/hooks.h"

#include "os/errno_keeper.h"
#include "os/spinlock.h"
#include "process/current_thread.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

constinit HookList<NewHook> new_hooks;
constinit HookList<DeleteHook> delete_hooks;

bool AnyHook() { return !new_hooks.empty() || !delete_hooks.empty(); }

// Called with the registry's lock held, so the last caller sees all earlier changes.
bool Wanted() {
  const bool wanted = AnyHook();
  hooks_installed.store(wanted, std::memory_order_relaxed);
  return wanted;
}

// Called after a change of the hooks. Returns true.
bool FollowChange() {
  const ErrnoKeeper keeper;
  Heap& heap = ExistingHeap();
  // No thread can use the cached objects while there are hooks.
  if (AnyHook() && !hooks_installed.load(std::memory_order_relaxed)) {
    heap.registry.FlushAll(current_slot.cache);
  }
  heap.registry.UpdateBypass(&Wanted, current_slot.cache);
  return true;
}

}  // namespace

constinit std::atomic<bool> hooks_installed{false};

bool AddNewHook(NewHook hook) { return new_hooks.Add(hook) && FollowChange(); }
bool RemoveNewHook(NewHook hook) { return new_hooks.Remove(hook) && FollowChange(); }
NewHook SetNewHook(NewHook hook) {
  const NewHook former = new_hooks.Set(hook);
  FollowChange();
  return former;
}

bool AddDeleteHook(DeleteHook hook) { return delete_hooks.Add(hook) && FollowChange(); }
bool RemoveDeleteHook(DeleteHook hook) { return delete_hooks.Remove(hook) && FollowChange(); }
DeleteHook SetDeleteHook(DeleteHook hook) {
  const DeleteHook former = delete_hooks.Set(hook);
  FollowChange();
  return former;
}

void RunNewHooks(const void* object, size_t size) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  new_hooks.Call(object, size);
}

void RunDeleteHooks(const void* object) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const ErrnoKeeper keeper;
  delete_hooks.Call(object);
}

}  // namespace tcmalloc
