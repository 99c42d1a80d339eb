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
// A function of whose memory accesses ThreadSanitizer knows nothing, also if they are atomic.
#if __has_attribute(disable_sanitizer_instrumentation)
#define TC_UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define TC_UNINSTRUMENTED __attribute__((no_sanitize("thread")))
#endif
// A function whose last statement is `TC_TAIL_CALL f(x);` jumps to f in every build, so backtraces
// have no frame of the function.
#ifdef __clang__
#define TC_ENDS_IN_TAIL_CALL
#define TC_TAIL_CALL [[clang::musttail]] return
#else
#define TC_ENDS_IN_TAIL_CALL __attribute__((optimize("O2")))
#define TC_TAIL_CALL return
#endif
// A function that every program runs when the library is loaded. The linker puts it next to the
// other functions that run then, so that it does not make 64 KiB of other functions resident.
#define TC_RUNS_AT_START __attribute__((section(".text.startup")))
// A symbol for programs. All others are hidden.
#define TC_EXPORT __attribute__((visibility("default")))
// A symbol that a program may define too: the program's definition replaces this one, in static
// linking as well.
#define TC_REPLACEABLE __attribute__((visibility("default"), weak))
// An entry point that nearly every malloc or free enters. Its code starts at a cache line, so its
// speed does not depend on the rest of the library.
#define TC_EXPORT_HOT __attribute__((visibility("default"), aligned(64)))
// Another name for a function of the same file. `target` is that function's name in the object
// file.
#define TC_ALIAS(target) __attribute__((alias(#target)))

// A variable whose address is a multiple of 4 KiB where that saves an instruction (see AtPage).
#if defined(__aarch64__)
#define TC_AT_PAGE __attribute__((aligned(4096), visibility("hidden")))
#else
#define TC_AT_PAGE
#endif

// Declares two members, in this order on 64-bit ARM and in reverse order elsewhere (see
// ThreadSlot).
#if defined(__aarch64__)
#define TC_FIRST_ON_ARM(first, second) first second
#else
#define TC_FIRST_ON_ARM(first, second) second first
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

// The machine instruction that loads a word. On these machines compilers emit two or three
// instructions for an atomic load, because they use only some addressing modes for atomics. None of
// these loads has a memory order. Builds with ThreadSanitizer use atomics, which it must see.
#if defined(__x86_64__) && !defined(TC_TSAN)
#define TC_LOAD_AND_ADD "addq %1, %0"
#define TC_LOAD_SHORT "movzwl %1, %k0"
#elif defined(__aarch64__) && !defined(TC_TSAN)
#define TC_LOAD_WORD "ldr %0, %1"
#define TC_LOAD_SHORT "ldrh %w0, %1"
#define TC_STORE_WORD "str %1, %0"
#endif

// A load of order relaxed.
template <typename Word>
TC_FAST_PATH Word LoadWord(const std::atomic<Word>& word) {
#if defined(TC_LOAD_WORD)
  static_assert(sizeof(Word) == 8);
  Word value;
  asm volatile(TC_LOAD_WORD : "=r"(value) : "m"(*reinterpret_cast<const Word*>(&word)));
  return value;
#else
  return word.load(std::memory_order_relaxed);
#endif
}

// A store of order relaxed.
template <typename Word>
TC_FAST_PATH void StoreWord(std::atomic<Word>& word, Word value) {
#if defined(TC_STORE_WORD)
  static_assert(sizeof(Word) == 8);
  asm volatile(TC_STORE_WORD : "=m"(*reinterpret_cast<Word*>(&word)) : "r"(value));
#else
  word.store(value, std::memory_order_relaxed);
#endif
}

// An acquire load for readers that use the loaded word as an address, and that read the published
// data only at addresses computed from it. ARM performs a load before every access to an address
// that is computed from what it loaded, and the compiler keeps that dependency, since it cannot
// know what an asm statement loads. An acquire load would cost time mostly by waiting: it is not
// performed before earlier release stores are visible.
template <typename Word>
TC_FAST_PATH Word LoadAddress(const std::atomic<Word>& word) {
#if defined(TC_LOAD_WORD)
  Word value = LoadWord(word);
  std::atomic_signal_fence(std::memory_order_acquire);
  return value;
#else
  return word.load(std::memory_order_acquire);
#endif
}

// Returns `value` plus the value of `word`: an atomic load of order relaxed or acquire, and an
// addition. Some machines have one instruction for both, which compilers do not use for atomics.
template <typename Word>
TC_FAST_PATH uintptr_t AddLoaded(const std::atomic<Word>& word, uintptr_t value,
                                 std::memory_order order) {
  static_assert(sizeof(Word) == sizeof(uintptr_t));
#if defined(TC_LOAD_AND_ADD)
  asm(TC_LOAD_AND_ADD : "+r"(value) : "m"(word) : "cc");
  if (order != std::memory_order_relaxed) std::atomic_signal_fence(order);
  return value;
#else
  const Word loaded = order == std::memory_order_relaxed ? LoadWord(word) : LoadAddress(word);
  return value + reinterpret_cast<uintptr_t>(loaded);
#endif
}

// A relaxed load of 16 bits in one instruction with any addressing mode. For an atomic, compilers
// compute the address in an additional instruction.
template <typename Short>
TC_FAST_PATH uintptr_t LoadShort(const std::atomic<Short>& word) {
  static_assert(sizeof(Short) == 2);
#if defined(TC_LOAD_SHORT)
  uintptr_t value;
  asm(TC_LOAD_SHORT : "=r"(value) : "m"(*reinterpret_cast<const Short*>(&word)));
  return value;
#else
  return static_cast<uintptr_t>(word.load(std::memory_order_relaxed));
#endif
}

// Returns `address`, the address of a TC_AT_PAGE variable. ARM computes an address in two steps,
// and the second one adds the lowest 12 bits, which are 0 here. (The instruction needs a constant,
// and only an optimising compiler recognises that the argument of an inline function is one.)
template <typename T>
TC_FAST_PATH T* AtPage(T* address) {
#if defined(__aarch64__) && defined(__OPTIMIZE__)
  T* result;
  asm("adrp %0, %1" : "=r"(result) : "S"(address));
  return result;
#else
  return address;
#endif
}

// Whether the fast path is written for the instructions of 64-bit ARM. It compares with numbers of
// up to 12 bits in one instruction, branches on one bit or on zero without a comparison, and has a
// load that also increments its address.
#if defined(__aarch64__)
inline constexpr bool kForArm = true;
#else
inline constexpr bool kForArm = false;
#endif

// Makes the compiler compute `value` at this point.
template <typename Word>
TC_FAST_PATH void ComputeHere(Word* value) {
  asm("" : "+r"(*value));
}

// Whether `value` is 2^kBits or more.
template <int kBits>
TC_FAST_PATH bool HasMoreBits(uintptr_t value) {
  if constexpr (kForArm) {
    // The compiler would compare with 2^kBits - 1, which takes one more instruction.
    value >>= kBits;
    ComputeHere(&value);
    return value != 0;
  } else {
    return value >= uintptr_t{1} << kBits;
  }
}

// Keeps the compiler from merging the conditions before and after this point into one.
TC_FAST_PATH void KeepConditionsApart() { asm volatile(""); }

// Make the compiler compute `value` in the register in which a function returns its result, or in
// another one. In malloc, g++ would choose the wrong one, which costs a move.
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
