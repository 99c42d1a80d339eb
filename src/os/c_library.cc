// SPDX-License-Identifier: BSD-3-Clause
#include "os/c_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "os/errno_keeper.h"
#include "os/memory_map.h"

// These functions exist only in the dynamic C library, or only in recent versions; they are null if
// missing.
extern "C" {
struct dl_find_object;
__attribute__((weak)) int _dl_find_object(void* address, struct dl_find_object* result) noexcept;
__attribute__((weak)) extern void* __libc_stack_end;
}
#pragma weak dlopen
#pragma weak dlsym

// The linker's: the dynamic section of this module.
extern ElfW(Dyn) _DYNAMIC[];
#pragma weak _DYNAMIC
#pragma weak dladdr

namespace tcmalloc {
namespace {

using FreeFunction = void (*)(void*);
using ReallocFunction = void* (*)(void*, size_t);
using AlignedFunction = void* (*)(size_t alignment, size_t size);
using UsableSizeFunction = size_t (*)(void*);
// The layout of glibc's struct mallinfo2.
struct MallocInfo {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
using MallocInfoFunction = MallocInfo (*)();

// True when Resolve has run. It is stored with release order after the functions, which are then
// constant. Constructors in two threads may run Resolve at once; both find the same functions.
constinit std::atomic<bool> resolved{false};
constinit FreeFunction real_free = nullptr;
constinit ReallocFunction real_realloc = nullptr;
constinit AlignedFunction real_memalign = nullptr;
constinit UsableSizeFunction real_usable_size = nullptr;
constinit MallocInfoFunction real_mallinfo2 = nullptr;

// True when the C library's allocator has allocated. Relaxed, since it only changes from false to
// true.
constinit std::atomic<bool> seen_allocating{false};

// The kernel keeps at least this much free of mappings below the start of the main thread's stack
// (MIN_GAP in its mmap layout code). A stack is larger only if the program requested that.
constexpr uintptr_t kStackNeighbourhood = uintptr_t{128} << 20;

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

bool HasAllocated() {
  if (seen_allocating.load(std::memory_order_relaxed)) return true;
  if (real_mallinfo2 == nullptr) return true;  // It is unknown, so assume that it has.
  const MallocInfo info = real_mallinfo2();
  if (info.arena == 0 && info.hblkhd == 0) return false;
  seen_allocating.store(true, std::memory_order_relaxed);
  return true;
}

bool InModuleImage(const void* p) {
  // Room for glibc's struct dl_find_object on any machine.
  alignas(16) char result[256];
  return _dl_find_object != nullptr &&
         _dl_find_object(const_cast<void*>(p), reinterpret_cast<struct dl_find_object*>(result)) ==
             0;
}

bool InStack(uintptr_t address, CLibraryMalloc::StackHolds stack_holds) {
  const uintptr_t main_stack =
      &__libc_stack_end != nullptr ? reinterpret_cast<uintptr_t>(__libc_stack_end) : 0;
  const uintptr_t from_main = address < main_stack ? main_stack - address : address - main_stack;
  // On 32-bit machines the range may exceed the address space.
  const uintptr_t limit =
      address < UINTPTR_MAX - kStackNeighbourhood ? address + kStackNeighbourhood : UINTPTR_MAX;
  if (from_main >= kStackNeighbourhood && !stack_holds(address, limit)) return false;
  // A stack is one mapping, with its guard page below. An address in another mapping is not in that
  // stack, whatever the frames suggest (a frame may belong to a coroutine, whose stack is
  // anywhere). An address in the same mapping need not be in the stack, since the kernel merges
  // adjacent mappings. So the main thread's control block, which is in no stack, and stacks without
  // a guard page share a mapping with large objects of the C library.
  MemoryMapping mapping;
  if (!FindMemoryMapping(address, &mapping)) return false;
  return mapping.is_main_stack || stack_holds(address, mapping.end);
}

// True if the dynamic linker never unloads the module that has this dynamic section. Only programs
// have DT_DEBUG.
bool StaysLoaded(const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_DEBUG) return true;
    if (entry->d_tag == DT_FLAGS_1 && (entry->d_un.d_val & (DF_1_NODELETE | DF_1_PIE)) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

void CLibraryMalloc::Resolve() {
  if (dlopen == nullptr || dlsym == nullptr || resolved.load(std::memory_order_acquire)) return;
  const ErrnoKeeper keeper;
  // Before the C library is initialised, dlopen would initialise it, but with an empty environment
  // (the C library's own, not set up yet). RTLD_NEXT suffices at that time: there is only one
  // lookup order, in which the C library comes after this library. Later there may be several
  // orders.
  const bool starting = environ == nullptr;
  void* const library = starting ? RTLD_NEXT : dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (starting || library != nullptr) {
    Find(library, "realloc", &real_realloc);
    Find(library, "memalign", &real_memalign);
    Find(library, "malloc_usable_size", &real_usable_size);
    Find(library, "mallinfo2", &real_mallinfo2);
    Find(library, "free", &real_free);
  }
  resolved.store(true, std::memory_order_release);
}

CLibraryMalloc::Verdict CLibraryMalloc::Classify(const void* p, StackHolds stack_holds) {
  const ErrnoKeeper keeper;
  if (InModuleImage(p)) return Verdict::kModuleImage;
  if (InStack(reinterpret_cast<uintptr_t>(p), stack_holds)) return Verdict::kStack;
  // This call is necessary only in constructors of other libraries, which may run before this
  // library's constructor and free objects of the C library.
  Resolve();
  return real_free == nullptr || !HasAllocated() ? Verdict::kNoSuchAllocator : Verdict::kForward;
}

bool CLibraryMalloc::CanAllocate() {
  return resolved.load(std::memory_order_acquire) && real_free != nullptr &&
         real_realloc != nullptr && real_memalign != nullptr && real_usable_size != nullptr;
}

void* CLibraryMalloc::Allocate(size_t size, size_t alignment) {
  return alignment <= alignof(std::max_align_t) ? real_realloc(nullptr, size)
                                                : real_memalign(alignment, size);
}

void CLibraryMalloc::Free(void* p) { real_free(p); }

void* CLibraryMalloc::Realloc(void* p, size_t size) { return real_realloc(p, size); }

size_t CLibraryMalloc::UsableSize(void* p) { return real_usable_size(p); }

void KeepModuleLoaded() {
  // A static program has no dynamic section, or no dlopen.
  const ElfW(Dyn)* const dynamic = _DYNAMIC;
  if (dynamic == nullptr || dladdr == nullptr || dlopen == nullptr || StaysLoaded(dynamic)) return;
  const ErrnoKeeper keeper;
  Dl_info module;
  if (dladdr(dynamic, &module) == 0) return;
  // The handle is not closed.
  static_cast<void>(dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

}  // namespace tcmalloc
