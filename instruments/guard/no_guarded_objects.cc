// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guarded_objects.h"

namespace tcmalloc {

void PrepareGuardedSamples(Heap&) {}
bool SetGuardedSample(Heap&, size_t n) { return n == 0; }
NewGuarded TakeGuarded(Heap&, size_t, size_t, AllocationKind) { return {}; }
void* PublishGuarded(Heap&, const NewGuarded& taken) { return taken.object; }
void ForEachGuarded(Heap&, void (*)(void*, size_t), void*) {}
void FreeGuarded(Heap&, void*, const FreeCall&) {}
size_t GuardedBytesToReallocate(Heap&, void*) { return 0; }
size_t GuardedUsableBytes(Heap&, const void*) { return 0; }

}  // namespace tcmalloc
