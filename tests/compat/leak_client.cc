// SPDX-License-Identifier: BSD-3-Clause
// A program that uses <gperftools/heap-checker.h>, compiled with our header and with Debian's. Its
// first argument is the value of HEAPCHECK: "local", "normal" or "off".
#include <gperftools/heap-checker.h>
#include <sys/wait.h>

#include <new>
#include <thread>

#include "../process/check.h"
#include "../process/leaks/no_stray_pointers.h"

namespace {

bool active = false;

struct Object {
  Object* next;
  char rest[92];
};

Object* volatile held = nullptr;
uintptr_t hidden[100];

Object* New() {
  auto* const object = new Object();
  memset(static_cast<void*>(object), 0, sizeof(*object));
  return Opaque(object);
}

constexpr ssize_t kSize = sizeof(Object);

void TestLeak() {
  HeapLeakChecker checker("leak");
  CHECK(checker.BytesLeaked() == 0 && checker.ObjectsLeaked() == 0);
  Elsewhere([] {
    for (int i = 0; i < 3; ++i) hidden[i] = ~reinterpret_cast<uintptr_t>(New());
  });
  CHECK(checker.NoLeaks() == !active);
  CHECK(checker.BytesLeaked() == (active ? 3 * kSize : 0));
  CHECK(checker.ObjectsLeaked() == (active ? 3 : 0));
  // A later checker does not report them.
  HeapLeakChecker later("later");
  CHECK(later.NoLeaks() && later.SameHeap() && later.QuickNoLeaks() && later.BriefNoLeaks() &&
        later.QuickSameHeap() && later.BriefSameHeap());
  CHECK(later.BytesLeaked() == 0);
  // The first checker reports them until they are freed.
  CHECK(checker.NoLeaks() == !active);
  for (int i = 0; i < 3; ++i) delete reinterpret_cast<Object*>(~hidden[i]);
  CHECK(checker.NoLeaks() && checker.BytesLeaked() == 0 && checker.ObjectsLeaked() == 0);
}

void TestHeld() {
  HeapLeakChecker checker("held");
  Elsewhere([] {
    held = New();
    held->next = New();
  });
  CHECK(checker.NoLeaks());
  Elsewhere([] {
    hidden[0] = ~reinterpret_cast<uintptr_t>(held);
    held = nullptr;
  });
  CHECK(checker.NoLeaks() == !active && checker.ObjectsLeaked() == (active ? 2 : 0));
  delete reinterpret_cast<Object*>(~hidden[0])->next;
  delete reinterpret_cast<Object*>(~hidden[0]);
  CHECK(checker.NoLeaks());
}

void TestIgnored() {
  HeapLeakChecker checker("ignored");
  Elsewhere([] {
    Object* const object = HeapLeakChecker::IgnoreObject(New());
    object->next = New();
    hidden[0] = ~reinterpret_cast<uintptr_t>(object);
  });
  CHECK(checker.NoLeaks());
  Elsewhere([] { HeapLeakChecker::UnIgnoreObject(reinterpret_cast<Object*>(~hidden[0])); });
  CHECK(checker.NoLeaks() == !active && checker.ObjectsLeaked() == (active ? 2 : 0));
  Elsewhere([] {
    auto* const object = reinterpret_cast<Object*>(~hidden[0]);
    delete object->next;
    delete object;
  });
  Elsewhere([] {
    const HeapLeakChecker::Disabler disabler;
    Object* object;
    {
      const HeapLeakChecker::Disabler inner;
      object = New();
    }
    object->next = New();
    hidden[0] = ~reinterpret_cast<uintptr_t>(object);
    // The Disabler does not apply to another thread.
    std::thread([] { hidden[1] = ~reinterpret_cast<uintptr_t>(New()); }).join();
  });
  CHECK(checker.NoLeaks() == !active && checker.ObjectsLeaked() == (active ? 1 : 0));
  Elsewhere([] {
    auto* const object = reinterpret_cast<Object*>(~hidden[0]);
    delete object->next;
    delete object;
    delete reinterpret_cast<Object*>(~hidden[1]);
  });
  CHECK(checker.NoLeaks());
}

void TestHiddenPointer() {
  HeapLeakChecker checker("hidden");
  static HiddenPointer<Object>* pointer = nullptr;
  Elsewhere([] { pointer = new HiddenPointer<Object>(New()); });
  CHECK(checker.NoLeaks() == !active && checker.BytesLeaked() == (active ? kSize : 0));
  Elsewhere([] {
    delete pointer->get();
    delete pointer;
  });
  CHECK(checker.NoLeaks());
}

// An object writes only within its size, which is that of gperftools' class.
void TestLayout() {
  alignas(HeapLeakChecker) static char memory[3 * sizeof(HeapLeakChecker)];
  memset(memory, 0x5a, sizeof(memory));
  auto* const checker = new (memory + sizeof(HeapLeakChecker)) HeapLeakChecker("layout");
  CHECK(checker->NoLeaks());
  checker->~HeapLeakChecker();
  for (size_t i = 0; i < sizeof(HeapLeakChecker); ++i) {
    CHECK(memory[i] == 0x5a && memory[2 * sizeof(HeapLeakChecker) + i] == 0x5a);
  }
  CHECK(sizeof(HeapLeakChecker) == 7 * sizeof(void*));
}

template <typename F>
int StatusOfChild(F f) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    f();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

void TestUnasked() {
  const int status = StatusOfChild([] { HeapLeakChecker checker("unasked"); });
  CHECK(active ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT : status == 0);
}

// A forked child checks on request, but not at its end.
void TestFork() {
  const int status = StatusOfChild([] {
    HeapLeakChecker checker("child");
    Elsewhere([] { hidden[0] = ~reinterpret_cast<uintptr_t>(New()); });
    CHECK(checker.NoLeaks() == !active);
    exit(0);
  });
  CHECK(status == 0);
}

int cleanups = 0;
void* volatile freed_by_cleanup = nullptr;

void TestGlobal(bool whole_program) {
  CHECK((HeapLeakChecker::GlobalChecker() != nullptr) == whole_program);
  CHECK(HeapLeakChecker::NoGlobalLeaks());
  if (!whole_program) return;
  HeapLeakChecker* const global = HeapLeakChecker::GlobalChecker();
  Elsewhere([] { hidden[0] = ~reinterpret_cast<uintptr_t>(New()); });
  for (int i = 0; i < 3; ++i) CHECK(!HeapLeakChecker::NoGlobalLeaks());
  CHECK(global->BytesLeaked() == kSize && global->ObjectsLeaked() == 1);
  CHECK(!global->NoLeaks());
  delete reinterpret_cast<Object*>(~hidden[0]);
  CHECK(HeapLeakChecker::NoGlobalLeaks() && global->BytesLeaked() == 0);
}

}  // namespace

REGISTER_HEAPCHECK_CLEANUP(count, ++cleanups; free(freed_by_cleanup); freed_by_cleanup = nullptr)

int main(int argc, char** argv) {
  CHECK(argc == 2 || argc == 3);
  active = strcmp(argv[1], "off") != 0;
  CHECK(HeapLeakChecker::IsActive() == active);
  if (argc == 3) {
    // Leaks an object; with "cancel" the program is not checked at its end.
    Elsewhere([] { hidden[0] = ~reinterpret_cast<uintptr_t>(New()); });
    if (strcmp(argv[2], "cancel") == 0) HeapLeakChecker::CancelGlobalCheck();
    return 0;
  }
  TestLeak();
  TestHeld();
  TestIgnored();
  TestHiddenPointer();
  TestLayout();
  TestUnasked();
  TestFork();
  TestGlobal(strcmp(argv[1], "normal") == 0);
  freed_by_cleanup = malloc(10);
  HeapCleaner::RunHeapCleanups();
  CHECK(cleanups == 1 && freed_by_cleanup == nullptr);
  return 0;
}
