// SPDX-License-Identifier: BSD-3-Clause
// Attributes that compilers spell differently, and the annotations of clang's thread-safety
// analysis.
#pragma once

#include <atomic>

// The fast path of most calls: always inlined into its entry point.
#define TC_FAST_PATH __attribute__((always_inline)) inline
// Calls from the fast path: never inlined, placed away from the hot code.
#define TC_SLOW_PATH __attribute__((noinline, cold))
// Not inlined, to limit the caller's stack; otherwise an ordinary function.
#define TC_OUT_OF_LINE __attribute__((noinline))
// A symbol for programs. All others are hidden.
#define TC_EXPORT __attribute__((visibility("default")))
// A symbol that a program may define too: the program's definition replaces this one, in static
// linking as well.
#define TC_REPLACEABLE __attribute__((visibility("default"), weak))
// An entry point that nearly every malloc or free enters. Its instructions start a cache line, so
// that its speed does not depend on the other contents of the library.
#define TC_EXPORT_HOT __attribute__((visibility("default"), aligned(64)))
// Another name for a function of the same file, which `target` names as in the object file.
#define TC_ALIAS(target) __attribute__((alias(#target)))

// Two members, in this order; in the other one in the library that a test of the introspection root
// builds.
#if defined(TCMALLOC_OTHER_LAYOUT)
#define TC_MEMBERS(first, second) second first
#else
#define TC_MEMBERS(first, second) first second
#endif

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

// Advances an atomic pointer by one: a relaxed load and a relaxed store, in one instruction where
// the machine has one. Not an atomic read-modify-write: only one thread may write.
template <typename AtomicPointer>
TC_FAST_PATH void StepUp(AtomicPointer& pointer) {
#if defined(__x86_64__) && !defined(TC_TSAN)
  asm("addq %1, %0" : "+m"(pointer) : "i"(sizeof(*pointer.load())) : "cc");
#else
  pointer.store(pointer.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
#endif
}

}  // namespace tcmalloc
