// SPDX-License-Identifier: BSD-3-Clause
// The functions of gperftools/malloc_extension_c.h: each calls the MallocExtension that is
// registered.
#include "gperftools/malloc_extension_c.h"

#include "gperftools/malloc_extension.h"

namespace tcmalloc {
namespace {

static_assert(static_cast<int>(::MallocExtension::kUnknownOwnership) ==
                  static_cast<int>(MallocExtension_kUnknownOwnership) &&
              static_cast<int>(::MallocExtension::kOwned) ==
                  static_cast<int>(MallocExtension_kOwned) &&
              static_cast<int>(::MallocExtension::kNotOwned) ==
                  static_cast<int>(MallocExtension_kNotOwned));
static_assert(kMallocHistogramSize == kMallocExtensionHistogramSize);

::MallocExtension* Extension() { return ::MallocExtension::instance(); }

}  // namespace
}  // namespace tcmalloc

using tcmalloc::Extension;

extern "C" {

int MallocExtension_VerifyAllMemory() { return Extension()->VerifyAllMemory(); }
int MallocExtension_VerifyNewMemory(const void* p) { return Extension()->VerifyNewMemory(p); }
int MallocExtension_VerifyArrayNewMemory(const void* p) {
  return Extension()->VerifyArrayNewMemory(p);
}
int MallocExtension_VerifyMallocMemory(const void* p) { return Extension()->VerifyMallocMemory(p); }
int MallocExtension_MallocMemoryStats(int* blocks, size_t* total,
                                      int histogram[kMallocExtensionHistogramSize]) {
  return Extension()->MallocMemoryStats(blocks, total, histogram);
}
void MallocExtension_GetStats(char* buffer, int buffer_length) {
  Extension()->GetStats(buffer, buffer_length);
}
int MallocExtension_GetNumericProperty(const char* property, size_t* value) {
  return Extension()->GetNumericProperty(property, value);
}
int MallocExtension_SetNumericProperty(const char* property, size_t value) {
  return Extension()->SetNumericProperty(property, value);
}
void MallocExtension_MarkThreadIdle() { Extension()->MarkThreadIdle(); }
void MallocExtension_MarkThreadBusy() { Extension()->MarkThreadBusy(); }
void MallocExtension_ReleaseToSystem(size_t num_bytes) { Extension()->ReleaseToSystem(num_bytes); }
void MallocExtension_ReleaseFreeMemory() { Extension()->ReleaseFreeMemory(); }
void MallocExtension_SetMemoryReleaseRate(double rate) { Extension()->SetMemoryReleaseRate(rate); }
double MallocExtension_GetMemoryReleaseRate() { return Extension()->GetMemoryReleaseRate(); }
size_t MallocExtension_GetEstimatedAllocatedSize(size_t size) {
  return Extension()->GetEstimatedAllocatedSize(size);
}
size_t MallocExtension_GetAllocatedSize(const void* p) { return Extension()->GetAllocatedSize(p); }
size_t MallocExtension_GetThreadCacheSize() { return Extension()->GetThreadCacheSize(); }
void MallocExtension_MarkThreadTemporarilyIdle() { Extension()->MarkThreadTemporarilyIdle(); }
MallocExtension_Ownership MallocExtension_GetOwnership(const void* p) {
  return static_cast<MallocExtension_Ownership>(Extension()->GetOwnership(p));
}

}  // extern "C"
