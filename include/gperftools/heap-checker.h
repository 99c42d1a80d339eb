// SPDX-License-Identifier: BSD-3-Clause
// Leak checks: an object is leaked if it is allocated and unreachable. Only the full library
// (-ltcmalloc) has them. The environment variable HEAPCHECK turns the checks on;
// docs/leak-checker.md describes it. Without HEAPCHECK these functions check nothing, and the first
// call that would check prints a line on stderr. <tcmalloc/leak_checker.h> works without HEAPCHECK,
// and returns the leaks.
//
// Any thread may call these functions. A check stops all other threads while it runs
// (docs/leak-checker.md has its cost), so the caller must not hold a lock that they need.
#ifndef GPERFTOOLS_HEAP_CHECKER_H_
#define GPERFTOOLS_HEAP_CHECKER_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <vector>

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

// Checks a part of the program's life: objects allocated since the checker was created must not be
// leaked when NoLeaks is called.
//
//   HeapLeakChecker checker("parser");
//   Parse(text);
//   assert(checker.NoLeaks());
//
// Leaks are reported on stderr, and in a profile for pprof.
class PERFTOOLS_DLL_DECL HeapLeakChecker {
 public:
  // True if HEAPCHECK turns the checks on.
  static bool IsActive();

  // The checker of the whole program, for BytesLeaked and ObjectsLeaked after NoGlobalLeaks. Null
  // if HEAPCHECK does not request a check of the whole program. Do not delete it.
  static HeapLeakChecker* GlobalChecker();

  // Checks the whole program now; may be called repeatedly. False only if it found a leak.
  static bool NoGlobalLeaks();

  // Turns off the check at the end of the program.
  static void CancelGlobalCheck();

  // `name` appears in messages and in the profile's file name.
  explicit HeapLeakChecker(const char* name);

  // Aborts if the checker was active and NoLeaks was never called, since such a test checks
  // nothing.
  ~HeapLeakChecker();

  // True if no object allocated since the creation of this checker is leaked. The functions with
  // other names do the same, for programs that use these names.
  bool NoLeaks() { return DoNoLeaks(DO_NOT_SYMBOLIZE); }
  bool QuickNoLeaks() { return NoLeaks(); }
  bool BriefNoLeaks() { return NoLeaks(); }
  bool SameHeap() { return NoLeaks(); }
  bool QuickSameHeap() { return NoLeaks(); }
  bool BriefSameHeap() { return NoLeaks(); }

  // The leaks of the last of these calls, in requested bytes and in objects. 0 before the first
  // call, and while checks are off.
  ssize_t BytesLeaked() const;
  ssize_t ObjectsLeaked() const;

  // While one exists, objects that its thread allocates do not count as leaked, nor do objects that
  // are reachable from them. The thread that created it must destroy it.
  class Disabler {
   public:
    Disabler();
    ~Disabler();

   private:
    Disabler(const Disabler&);
    void operator=(const Disabler&);
  };

  // The object at `ptr`, which may point inside it, does not count as leaked, nor do objects that
  // are reachable from it. Do not free it before UnIgnoreObject is called with the same pointer.
  // Returns the pointer.
  template <typename T>
  static T* IgnoreObject(T* ptr) {
    DoIgnoreObject(static_cast<const void*>(const_cast<const T*>(ptr)));
    return ptr;
  }
  static void UnIgnoreObject(const void* ptr);

 private:
  enum ShouldSymbolize { SYMBOLIZE, DO_NOT_SYMBOLIZE };

  // The checker of the whole program.
  HeapLeakChecker();

  bool DoNoLeaks(ShouldSymbolize should_symbolize);
  static void DoIgnoreObject(const void* ptr);

  HeapLeakChecker(const HeapLeakChecker&);
  void operator=(const HeapLeakChecker&);

  // The class must have the size that it has in gperftools: programs that were compiled with that
  // header contain objects of it.
  void* reserved_[2];
  void* part_;
  bool has_checked_;
  ssize_t bytes_;
  ssize_t objects_;
  bool reserved_flag_;
};

// Holds a pointer in a form that the checker does not recognise. An object to which there is no
// other pointer counts as leaked.
template <class T>
class HiddenPointer {
 public:
  explicit HiddenPointer(T* t) : masked_t_(reinterpret_cast<uintptr_t>(t) ^ kHideMask) {}
  T* get() const { return reinterpret_cast<T*>(masked_t_ ^ kHideMask); }

 private:
  static const uintptr_t kHideMask = static_cast<uintptr_t>(0xF03A5F7BF03A5F7Bll);
  uintptr_t masked_t_;
};

// A function that runs before the check at the end of the program, to free what no other code
// frees; it does not run if there is no check. Use the macro to create one.
class PERFTOOLS_DLL_DECL HeapCleaner {
 public:
  typedef void (*void_function)(void);
  HeapCleaner(void_function f);  // NOLINT(google-explicit-constructor): as in gperftools
  static void RunHeapCleanups();
};

// At namespace scope: `body` is the body of a cleanup function, `name` a unique identifier.
#define REGISTER_HEAPCHECK_CLEANUP(name, body)                     \
  namespace {                                                      \
  void heapcheck_cleanup_##name() { body; }                        \
  HeapCleaner heapcheck_cleaner_##name(&heapcheck_cleanup_##name); \
  }

#endif  // GPERFTOOLS_HEAP_CHECKER_H_
