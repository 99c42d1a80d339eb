// SPDX-License-Identifier: BSD-3-Clause
#include "os/loaded_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "os/errno_keeper.h"

// The linker's: the dynamic section of this module.
extern ElfW(Dyn) _DYNAMIC[];
#pragma weak _DYNAMIC
#pragma weak dladdr
#pragma weak dlopen

namespace tcmalloc {
namespace {

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
