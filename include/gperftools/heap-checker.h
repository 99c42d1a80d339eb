// SPDX-License-Identifier: BSD-3-Clause
//
// Checking for leaks: memory that is allocated, and to which nothing leads any more. In the full
// library only (-ltcmalloc). docs/leak-checker.md describes how it works, and the environment
// variable HEAPCHECK that turns it on: without that nothing here checks anything, and the first
// call that would says so on stderr. <tcmalloc/leak_checker.h> works without it, and returns what
// it finds.
//
// All functions may be called by any thread.
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

// An object checks a part of the program's life: what was allocated since it was made must not be
// lost when NoLeaks is called.
//
//   HeapLeakChecker checker("parser");
//   Parse(text);
//   assert(checker.NoLeaks());
//
// What is lost is written to stderr, and as a profile for pprof.
class PERFTOOLS_DLL_DECL HeapLeakChecker {
 public:
  // Whether objects of this class check anything now.
  static bool IsActive();

  // The checker of the whole program, for BytesLeaked and ObjectsLeaked after NoGlobalLeaks; null
  // where HEAPCHECK does not ask for one. It stays.
  static HeapLeakChecker* GlobalChecker();

  // Checks the whole program now; as often as one likes. False only when something is lost.
  static bool NoGlobalLeaks();

  // The program is not checked when it ends.
  static void CancelGlobalCheck();

  // `name` becomes a part of messages and of the profile's file name.
  explicit HeapLeakChecker(const char* name);

  // Aborts when nobody has asked a checker that is active: a test that does not test.
  ~HeapLeakChecker();

  // True when nothing that was allocated since this object was made is lost. The other names are
  // for programs that have them; all do the same.
  bool NoLeaks() { return DoNoLeaks(DO_NOT_SYMBOLIZE); }
  bool QuickNoLeaks() { return NoLeaks(); }
  bool BriefNoLeaks() { return NoLeaks(); }
  bool SameHeap() { return NoLeaks(); }
  bool QuickSameHeap() { return NoLeaks(); }
  bool BriefSameHeap() { return NoLeaks(); }

  // What the last of these calls has found: bytes as the program asked for them. 0 before, and
  // where nothing is checked.
  ssize_t BytesLeaked() const;
  ssize_t ObjectsLeaked() const;

  // While one exists, what the thread that made it allocates is not lost, nor is what that leads
  // to. To be destroyed by the same thread.
  class Disabler {
   public:
    Disabler();
    ~Disabler();

   private:
    Disabler(const Disabler&);
    void operator=(const Disabler&);
  };

  // The object at or around `ptr` is not lost, nor is what it leads to. It must not be freed before
  // UnIgnoreObject, which is called with the same pointer. Returns the pointer.
  template <typename T>
  static T* IgnoreObject(T* ptr) {
    DoIgnoreObject(static_cast<const void*>(const_cast<const T*>(ptr)));
    return ptr;
  }
  static void UnIgnoreObject(const void* ptr);

 private:
  enum ShouldSymbolize { SYMBOLIZE, DO_NOT_SYMBOLIZE };

  // Of the whole program.
  HeapLeakChecker();

  bool DoNoLeaks(ShouldSymbolize should_symbolize);
  static void DoIgnoreObject(const void* ptr);

  HeapLeakChecker(const HeapLeakChecker&);
  void operator=(const HeapLeakChecker&);

  // As large as the class is in gperftools, whose programs have such objects.
  void* reserved_[2];
  void* part_;
  bool has_checked_;
  ssize_t bytes_;
  ssize_t objects_;
  bool reserved_flag_;
};

// Holds a pointer in a form that the checker does not take for one: what only this leads to is
// lost.
template <class T>
class HiddenPointer {
 public:
  explicit HiddenPointer(T* t) : masked_t_(reinterpret_cast<uintptr_t>(t) ^ kHideMask) {}
  T* get() const { return reinterpret_cast<T*>(masked_t_ ^ kHideMask); }

 private:
  static const uintptr_t kHideMask = static_cast<uintptr_t>(0xF03A5F7BF03A5F7Bll);
  uintptr_t masked_t_;
};

// Functions that run before the program is checked at its end, to free what nobody else frees; only
// where it is checked. Made by the macro.
class PERFTOOLS_DLL_DECL HeapCleaner {
 public:
  typedef void (*void_function)(void);
  HeapCleaner(void_function f);
  static void RunHeapCleanups();
};

// At namespace scope: `body` is such a function's; `name` is any identifier that is not used twice.
#define REGISTER_HEAPCHECK_CLEANUP(name, body)                     \
  namespace {                                                      \
  void heapcheck_cleanup_##name() { body; }                        \
  HeapCleaner heapcheck_cleaner_##name(&heapcheck_cleanup_##name); \
  }

#endif  // GPERFTOOLS_HEAP_CHECKER_H_
