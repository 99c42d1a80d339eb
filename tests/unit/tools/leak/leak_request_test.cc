// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/leak_request.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(LeakRequestTest, SettingsOfPointers) {
  Settings settings;
  settings.heap_check_max_pointer_offset = 77;
  EXPECT_EQ(LeakRequestBySettings(settings).max_pointer_offset, 77u);
  settings.heap_check_max_pointer_offset = -1;
  EXPECT_EQ(LeakRequestBySettings(settings).max_pointer_offset, SIZE_MAX);
  // The alignment is the largest power of two that exceeds neither the setting nor a word.
  const size_t word = sizeof(uintptr_t);
  const size_t alignments[][2] = {{0, 1}, {1, 1},       {2, 2},     {3, 2},
                                  {4, 4}, {word, word}, {100, word}};
  for (const auto& [setting, expected] : alignments) {
    settings.heap_check_pointer_source_alignment = setting;
    EXPECT_EQ(LeakRequestBySettings(settings).pointer_source_alignment, expected) << setting;
  }
  for (const bool is : {false, true}) {
    settings.heap_check_identify_leaks = is;
    settings.heap_check_show_contents = !is;
    EXPECT_EQ(LeakRequestBySettings(settings).by_object, is);
    EXPECT_EQ(LeakRequestBySettings(settings).show_contents, !is);
  }
}

TEST(LeakRequestTest, ModesOfProgramCheck) {
  struct Case {
    HeapCheckMode mode;
    bool global_live;
    bool thread_live;
    bool reachability;
    bool from_globals;
    bool from_threads;
    bool recorded_only;
    uint32_t since_period;
  };
  constexpr uint32_t kMain = 3;
  const Case cases[] = {
      {HeapCheckMode::kNormal, true, true, true, true, true, false, 0},
      {HeapCheckMode::kStrict, false, false, true, true, true, false, 0},
      {HeapCheckMode::kMinimal, true, true, true, true, true, true, kMain},
      {HeapCheckMode::kDraconian, true, true, false, true, true, true, 0},
      {HeapCheckMode::kAsIs, true, true, true, true, true, false, 0},
      {HeapCheckMode::kAsIs, false, true, true, false, true, false, 0},
      {HeapCheckMode::kAsIs, true, false, true, true, false, false, 0},
      // Without any roots everything is unreachable, so only recorded objects count.
      {HeapCheckMode::kAsIs, false, false, false, false, false, true, 0},
  };
  for (const Case& c : cases) {
    Settings settings;
    settings.heap_check = c.mode;
    settings.heap_check_ignore_global_live = c.global_live;
    settings.heap_check_ignore_thread_live = c.thread_live;
    const LeakRequest request = ProgramLeakRequest(settings, kMain);
    const int mode = static_cast<int>(c.mode);
    EXPECT_EQ(request.reachability, c.reachability) << mode;
    EXPECT_EQ(request.from_globals, c.from_globals) << mode;
    EXPECT_EQ(request.from_threads, c.from_threads) << mode;
    EXPECT_EQ(request.recorded_only, c.recorded_only) << mode;
    EXPECT_EQ(request.since_period, c.since_period) << mode;
  }
}

}  // namespace
}  // namespace tcmalloc
