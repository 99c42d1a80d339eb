// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>

#include "instruments/pressure/event_sources.h"

namespace tcmalloc {
namespace {

constexpr PsiTrigger kTrigger = {.full = false, .stall_us = 200'000, .window_us = 2'000'000};

std::optional<PsiTrigger> ParseTrigger(std::string_view text) {
  PsiTrigger trigger;
  return ParsePsiTrigger(text, &trigger) ? std::optional(trigger) : std::nullopt;
}

TEST(PsiTriggerTest, Values) {
  EXPECT_EQ(ParseTrigger("some:200ms/2s"), kTrigger);
  EXPECT_EQ(ParseTrigger("some:200000us/2000000us"), kTrigger);
  EXPECT_EQ(ParseTrigger("full:1us/500ms"), (PsiTrigger{true, 1, 500'000}));
  EXPECT_EQ(ParseTrigger("some:10s/10s"), (PsiTrigger{false, 10'000'000, 10'000'000}));
  EXPECT_EQ(ParseTrigger("full:0001s/0002s"), (PsiTrigger{true, 1'000'000, 2'000'000}));
}

TEST(PsiTriggerTest, RejectsOtherText) {
  std::istringstream words(
      "some: some:200ms some:/2s some:200/2s some:200ms/2 some:0ms/2s some:3s/2s some:1us/0s "
      "none:200ms/2s some:-1ms/2s some:0.2s/2s some:200ms/2s/ some:200ms/11s some:1us/10000001us "
      "some:200ms/2m some:4294967297us/2s some:18446744073709551617us/2s");
  for (std::string word; words >> word;) EXPECT_EQ(ParseTrigger(word), std::nullopt) << word;
  for (const char* const text : {"", " some:200ms/2s", "some:200ms/2s "}) {
    EXPECT_EQ(ParseTrigger(text), std::nullopt) << text;
  }
  PsiTrigger kept = kTrigger;
  EXPECT_FALSE(ParsePsiTrigger("full:1ms/x", &kept));
  EXPECT_EQ(kept, kTrigger);
}

}  // namespace
}  // namespace tcmalloc
