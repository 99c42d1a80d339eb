// SPDX-License-Identifier: BSD-3-Clause
// A C++ program that includes the headers by the names that they had before gperftools 2.0, beside
// the new ones.
#include <google/heap-checker.h>
#include <google/heap-profiler.h>
#include <google/malloc_extension.h>
#include <google/malloc_hook.h>
#include <google/stacktrace.h>
#include <google/tcmalloc.h>
#include <gperftools/malloc_extension.h>
#include <gperftools/tcmalloc.h>

#include "../process/check.h"

static_assert(sizeof(HeapLeakChecker::Disabler) > 0);

static int calls;

static void OnDelete(const void* object) { calls += object != nullptr; }

int main() {
  RequireLibraryUnderTest();
  MallocExtension* const heap = MallocExtension::instance();
  void* const object = tc_new(1000);
  CHECK(heap->GetAllocatedSize(object) == tc_malloc_size(object));
  CHECK(heap->GetOwnership(object) == MallocExtension::kOwned);
  CHECK(MallocHook::AddDeleteHook(&OnDelete));
  tc_delete(object);
  CHECK(MallocHook::RemoveDeleteHook(&OnDelete));
  CHECK(calls == 1);
  return 0;
}
