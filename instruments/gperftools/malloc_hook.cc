// SPDX-License-Identifier: BSD-3-Clause
// The functions of gperftools/malloc_hook.h and malloc_hook_c.h, and tc_version.
#include "gperftools/malloc_hook.h"

#include <sys/mman.h>

#include "gperftools/tcmalloc.h"
#include "os/stack_trace.h"
#include "process/hooks.h"

// The frame of MallocHook_GetCallerStackTrace itself.
static constexpr size_t kStaticSkip = 1;

extern "C" {

int MallocHook_GetCallerStackTrace(void** result, int max_depth, int skip_count) {
  if (max_depth <= 0) return 0;
  const size_t depth = tcmalloc::GetCallerStackTrace(
      reinterpret_cast<uintptr_t*>(result), static_cast<size_t>(max_depth),
      static_cast<size_t>(skip_count > 0 ? skip_count : 0), tcmalloc::AllocatorFrames::kCallback,
      kStaticSkip);
  __asm__ volatile("");  // Prevents a tail call: this function must have a frame.
  return static_cast<int>(depth);
}

int MallocHook_AddNewHook(MallocHook_NewHook hook) { return tcmalloc::AddNewHook(hook); }
int MallocHook_RemoveNewHook(MallocHook_NewHook hook) { return tcmalloc::RemoveNewHook(hook); }
MallocHook_NewHook MallocHook_SetNewHook(MallocHook_NewHook hook) {
  return tcmalloc::SetNewHook(hook);
}

int MallocHook_AddDeleteHook(MallocHook_DeleteHook hook) { return tcmalloc::AddDeleteHook(hook); }
int MallocHook_RemoveDeleteHook(MallocHook_DeleteHook hook) {
  return tcmalloc::RemoveDeleteHook(hook);
}
MallocHook_DeleteHook MallocHook_SetDeleteHook(MallocHook_DeleteHook hook) {
  return tcmalloc::SetDeleteHook(hook);
}

// Hooks of system calls do not exist.
int MallocHook_AddPreMmapHook(MallocHook_PreMmapHook) { return 0; }
int MallocHook_RemovePreMmapHook(MallocHook_PreMmapHook) { return 0; }
MallocHook_PreMmapHook MallocHook_SetPreMmapHook(MallocHook_PreMmapHook) { return nullptr; }
int MallocHook_AddMmapHook(MallocHook_MmapHook) { return 0; }
int MallocHook_RemoveMmapHook(MallocHook_MmapHook) { return 0; }
MallocHook_MmapHook MallocHook_SetMmapHook(MallocHook_MmapHook) { return nullptr; }
int MallocHook_AddMunmapHook(MallocHook_MunmapHook) { return 0; }
int MallocHook_RemoveMunmapHook(MallocHook_MunmapHook) { return 0; }
MallocHook_MunmapHook MallocHook_SetMunmapHook(MallocHook_MunmapHook) { return nullptr; }
int MallocHook_AddMremapHook(MallocHook_MremapHook) { return 0; }
int MallocHook_RemoveMremapHook(MallocHook_MremapHook) { return 0; }
MallocHook_MremapHook MallocHook_SetMremapHook(MallocHook_MremapHook) { return nullptr; }
int MallocHook_AddPreSbrkHook(MallocHook_PreSbrkHook) { return 0; }
int MallocHook_RemovePreSbrkHook(MallocHook_PreSbrkHook) { return 0; }
MallocHook_PreSbrkHook MallocHook_SetPreSbrkHook(MallocHook_PreSbrkHook) { return nullptr; }
int MallocHook_AddSbrkHook(MallocHook_SbrkHook) { return 0; }
int MallocHook_RemoveSbrkHook(MallocHook_SbrkHook) { return 0; }
MallocHook_SbrkHook MallocHook_SetSbrkHook(MallocHook_SbrkHook) { return nullptr; }
int MallocHook_SetMmapReplacement(MallocHook_MmapReplacement) { return 0; }
int MallocHook_RemoveMmapReplacement(MallocHook_MmapReplacement) { return 0; }
int MallocHook_SetMunmapReplacement(MallocHook_MunmapReplacement) { return 0; }
int MallocHook_RemoveMunmapReplacement(MallocHook_MunmapReplacement) { return 0; }

}  // extern "C"

void* MallocHook::UnhookedMMap(void* start, size_t length, int prot, int flags, int fd,
                               off_t offset) {
  return mmap(start, length, prot, flags, fd, offset);
}

int MallocHook::UnhookedMUnmap(void* start, size_t length) { return munmap(start, length); }

extern "C" const char* tc_version(int* major, int* minor, const char** patch) noexcept {
  if (major != nullptr) *major = TC_VERSION_MAJOR;
  if (minor != nullptr) *minor = TC_VERSION_MINOR;
  if (patch != nullptr) *patch = TC_VERSION_PATCH;
  return TC_VERSION_STRING;
}
