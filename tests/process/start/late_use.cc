// SPDX-License-Identifier: BSD-3-Clause
// The allocator serves a thread until its very last destructor, and the process until its very last
// one. main returns 3. Only the last destructor of all, after checking that every other one ran,
// ends the process with 0.
#include <malloc.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "../check.h"

namespace {

// Each late user of the allocator counts itself here.
std::atomic<int> thread_local_destructors;
std::atomic<int> key_destructor_rounds;
std::atomic<int> exit_handlers;
std::atomic<int> global_destructors;

// Plain memory, which is used after every C++ object was destroyed.
char* until_the_end;

struct AllocatesWhenDestroyed {
  explicit AllocatesWhenDestroyed(std::atomic<int>* the_counter)
      : counter(the_counter), object(NewMarked(300, 0x31)) {}
  ~AllocatesWhenDestroyed() {
    FreeMarked(object, 300, 0x31);
    Exercise(3);
    auto text = std::make_unique<std::string>(1000, 'x');
    CHECK((*text)[999] == 'x');
    ++*counter;
  }
  std::atomic<int>* counter;
  char* object;
};

AllocatesWhenDestroyed global(&global_destructors);

thread_local std::unique_ptr<AllocatesWhenDestroyed> in_thread;

// Each key's destructor sets a value again, for this or another key, so that objects are allocated
// and freed in every round that the C library runs, including the last one.
pthread_key_t keys[3];

void KeyDestructor(void* value) {
  auto* object = static_cast<char*>(value);
  const auto round = static_cast<unsigned char>(object[0]);
  FreeMarked(object, 200, round);
  Exercise(round);
  ++key_destructor_rounds;
  for (pthread_key_t key : keys) {
    if (pthread_getspecific(key) == nullptr && round < PTHREAD_DESTRUCTOR_ITERATIONS) {
      CHECK(pthread_setspecific(key, NewMarked(200, round + 1u)) == 0);
      break;
    }
  }
}

void RunThread() {
  in_thread = std::make_unique<AllocatesWhenDestroyed>(&thread_local_destructors);
  for (pthread_key_t key : keys) CHECK(pthread_setspecific(key, NewMarked(200, 1)) == 0);
  Exercise(4);
}

void AtExit() {
  Exercise(5);
  ++exit_handlers;
}
// The last code of the program proper: after all atexit handlers and C++ destructors.
__attribute__((destructor(101))) void LastDestructor() {
  Exercise(7);
  FreeMarked(until_the_end, 400000, 0x33);
  CHECK(exit_handlers == 1);
  CHECK(global_destructors == 1);
  // The destructors of each thread and of the main thread have run.
  CHECK(thread_local_destructors == 301);
  _exit(0);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  for (pthread_key_t& key : keys) CHECK(pthread_key_create(&key, KeyDestructor) == 0);
  until_the_end = NewMarked(400000, 0x33);
  CHECK(atexit(AtExit) == 0);

  size_t in_use = 0;
  for (int i = 0; i < 300; ++i) {
    std::thread(RunThread).join();
    if (i == 100) in_use = mallinfo2().uordblks;
  }
  CHECK(thread_local_destructors == 300);
  CHECK(key_destructor_rounds == 300 * 3 * PTHREAD_DESTRUCTOR_ITERATIONS);
  // Nothing that the last destructors allocated and freed is leaked with its thread.
  const size_t now = mallinfo2().uordblks;
  CHECK(now <= in_use + 4096);

  // The main thread's own; its keys' destructors never run.
  in_thread = std::make_unique<AllocatesWhenDestroyed>(&thread_local_destructors);
  return 3;
}
