// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/pressure.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

using Levels = std::vector<int>;

PressureListener Logging(Levels* levels) {
  PressureListener listener;
  listener.notify = [](int level, void* l) { static_cast<Levels*>(l)->push_back(level); };
  listener.context = levels;
  return listener;
}

struct Remover {
  PressureListeners* listeners;
  std::vector<PressureListener*> removes;
  int calls = 0;
};

TEST(PressureListenersTest, AListenerMayRemoveItselfAndThoseBehindIt) {
  PressureListeners listeners;
  Levels levels[3];
  PressureListener nodes[3] = {Logging(&levels[0]), Logging(&levels[1]), Logging(&levels[2])};
  for (PressureListener& node : nodes) listeners.Add(&node);
  Remover remover = {&listeners, {}};
  PressureListener first;
  first.notify = [](int, void* context) {
    auto* const r = static_cast<Remover*>(context);
    ++r->calls;
    for (PressureListener* const other : r->removes) r->listeners->Remove(other);
  };
  first.context = &remover;
  remover.removes = {&first, &nodes[2], &nodes[1]};
  listeners.Add(&first);
  listeners.Notify(1);
  listeners.Notify(2);
  EXPECT_EQ(remover.calls, 1);
  EXPECT_EQ(levels[0], (Levels{1, 2}));
  EXPECT_TRUE(levels[1].empty() && levels[2].empty());
}

struct Blocker {
  std::atomic<bool> entered{false};
  std::atomic<bool> leave{false};
  std::atomic<bool> left{false};
};

TEST(PressureListenersTest, RemoveWaitsUntilTheListenerIsNotCalledAnyMore) {
  PressureListeners listeners;
  Blocker blocker;
  PressureListener node;
  node.notify = [](int, void* context) {
    auto* const b = static_cast<Blocker*>(context);
    b->entered = true;
    while (!b->leave) std::this_thread::yield();
    b->left = true;
  };
  node.context = &blocker;
  listeners.Add(&node);
  std::thread teller([&] { listeners.Notify(1); });
  while (!blocker.entered) std::this_thread::yield();
  std::atomic<bool> left_before_removed{false};
  std::thread remover = StartUntilAsleep([&] {
    listeners.Remove(&node);
    left_before_removed = blocker.left.load();
  });
  blocker.leave = true;
  remover.join();
  teller.join();
  EXPECT_TRUE(left_before_removed);
}

}  // namespace
}  // namespace tcmalloc
