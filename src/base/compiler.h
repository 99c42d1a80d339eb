// SPDX-License-Identifier: BSD-3-Clause
// Attributes that the compilers spell differently, and the vocabulary of clang's thread-safety
// analysis.
#pragma once

#include <atomic>

// The straight line that most calls take: always inlined into its entry point.
#define TC_FAST_PATH __attribute__((always_inline)) inline
// What the straight line leaves to: never inlined, placed away from the hot code.
#define TC_SLOW_PATH __attribute__((noinline, cold))
// Not inlined, for the sake of the caller's stack; as fast as any other function.
#define TC_OUT_OF_LINE __attribute__((noinline))
// A symbol that programs may use; everything else is hidden.
#define TC_EXPORT __attribute__((visibility("default")))
// A symbol that a program may define as well: its own definition replaces this one when it is
// linked statically, too.
#define TC_REPLACEABLE __attribute__((visibility("default"), weak))
// One of those that nearly every call of malloc and free enters: its instructions start a cache
// line, so that how fast they run does not hang on what else is in the library.
#define TC_EXPORT_HOT __attribute__((visibility("default"), aligned(64)))
// One more name for a function of the same file, given by its name in the object file.
#define TC_ALIAS(target) __attribute__((alias(#target)))

#if defined(__clang__)
#define TC_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TC_THREAD_ANNOTATION(x)
#endif

#define TC_CAPABILITY(name) TC_THREAD_ANNOTATION(capability(name))
#define TC_SCOPED_CAPABILITY TC_THREAD_ANNOTATION(scoped_lockable)
#define TC_GUARDED_BY(lock) TC_THREAD_ANNOTATION(guarded_by(lock))
#define TC_REQUIRES(lock) TC_THREAD_ANNOTATION(requires_capability(lock))
#define TC_ACQUIRE(...) TC_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TC_TRY_ACQUIRE(...) TC_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TC_RELEASE(...) TC_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TC_EXCLUDES(lock) TC_THREAD_ANNOTATION(locks_excluded(lock))
#define TC_NO_THREAD_SAFETY_ANALYSIS TC_THREAD_ANNOTATION(no_thread_safety_analysis)

#if defined(__SANITIZE_THREAD__)
#define TC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TC_TSAN 1
#endif
#endif

namespace tcmalloc {

// Moves an atomic pointer up by one: a load and a store, both relaxed, that are one instruction
// where the machine has one for it. Not atomic together: by the only thread that writes.
template <typename AtomicPointer>
TC_FAST_PATH void StepUp(AtomicPointer& pointer) {
#if defined(__x86_64__) && !defined(TC_TSAN)
  asm("addq %1, %0" : "+m"(pointer) : "i"(sizeof(*pointer.load())) : "cc");
#else
  pointer.store(pointer.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
#endif
}

}  // namespace tcmalloc
