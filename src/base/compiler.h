// SPDX-License-Identifier: BSD-3-Clause
// Attributes that compilers spell differently, and the annotations of clang's thread-safety
// analysis.
#pragma once

#include <atomic>
#include <cstdint>

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

// `value` plus what `word` holds: an atomic load of order relaxed or acquire, and an addition. In
// one instruction where the machine has one, which compilers do not use for atomics.
template <typename Word>
TC_FAST_PATH uintptr_t AddLoaded(const std::atomic<Word>& word, uintptr_t value,
                                 std::memory_order order) {
  static_assert(sizeof(Word) == sizeof(uintptr_t));
#if defined(__x86_64__) && !defined(TC_TSAN)
  asm("addq %1, %0" : "+r"(value) : "m"(word) : "cc");
  if (order != std::memory_order_relaxed) std::atomic_signal_fence(order);
  return value;
#else
  return value + reinterpret_cast<uintptr_t>(word.load(order));
#endif
}

// A relaxed load of 16 bits, by an instruction that takes any address: compilers spend one more on
// that of an atomic.
template <typename Short>
TC_FAST_PATH uintptr_t LoadShort(const std::atomic<Short>& word) {
  static_assert(sizeof(Short) == 2);
#if defined(__x86_64__) && !defined(TC_TSAN)
  uintptr_t value;
  asm("movzwl %1, %k0" : "=r"(value) : "m"(word));
  return value;
#else
  return static_cast<uintptr_t>(word.load(std::memory_order_relaxed));
#endif
}

// Has the compiler compute `value` in the register in which a function returns its result, or in
// another one. g++ chooses badly in malloc, which costs a move.
template <typename Word>
TC_FAST_PATH void KeepInResultRegister(Word* value) {
#if defined(__x86_64__) && !defined(__clang__)
  asm("" : "+a"(*value));
#endif
}
template <typename Word>
TC_FAST_PATH void KeepInOtherRegister(Word* value) {
#if defined(__x86_64__) && !defined(__clang__)
  asm("" : "+d"(*value));
#endif
}

}  // namespace tcmalloc
