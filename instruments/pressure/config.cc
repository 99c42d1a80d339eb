// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/config.h"

#include <cstring>

#include "base/text.h"

namespace tcmalloc {
namespace {

using Of = PressureThreshold::Of;

// (The members of std::string_view that check ranges need the function of the C++ runtime that
// throws a range error.)
bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && memcmp(text.data(), prefix.data(), prefix.size()) == 0;
}

bool ParsePart(std::string_view name, Of* of) {
  struct Part {
    std::string_view name;
    Of of;
  };
  for (const Part& part : {Part{"", Of::kLimit}, Part{"cgroup", Of::kCgroup},
                           Part{"heap", Of::kHeap}, Part{"system", Of::kSystem}}) {
    if (part.name == name) return *of = part.of, true;
  }
  return false;
}

bool ParseThreshold(std::string_view text, PressureThreshold* threshold) {
  if (text == "off") return *threshold = PressureThreshold(), true;
  PressureThreshold read;
  if (!TakeNumber(&text, &read.value) || read.value == 0) return false;
  if (StartsWith(text, "%")) {
    text.remove_prefix(1);
    *threshold = read;
    return read.value <= 100 && ParsePart(text, &threshold->of);
  }
  read.of = Of::kBytes;
  *threshold = read;
  if (text.empty()) return true;
  if (text.size() != 1) return false;
  uint64_t unit = 1;
  for (const char suffix : {'k', 'm', 'g', 't'}) {
    unit *= 1024;
    // Capital letters differ only in this bit.
    if ((text.front() | 0x20) == suffix) {
      return !__builtin_mul_overflow(read.value, unit, &threshold->value);
    }
  }
  return false;
}

bool ParseSwitch(std::string_view text, bool* on) {
  *on = text == "on";
  return *on || text == "off";
}

// Parses a number with "ms" or "s".
bool ParseInterval(std::string_view text, uint32_t* ms) {
  uint64_t number = 0;
  if (!TakeNumber(&text, &number) || number > kMaxPressureIntervalMs) return false;
  if (text == "s") {
    number *= 1000;
  } else if (text != "ms") {
    return false;
  }
  *ms = static_cast<uint32_t>(number);
  return number > 0 && number <= kMaxPressureIntervalMs;
}

bool ParsePsi(std::string_view text, PressureConfig* config) {
  config->psi = text != "off";
  return !config->psi || ParsePsiTrigger(text, &config->psi_trigger);
}

void SetAuto(PressureConfig* config) {
  *config = PressureConfig();
  config->psi = true;
  config->watch = true;
  config->cgroup_events = true;
  for (size_t i = 0; i < kPressureLevels; ++i) {
    config->levels[i] = {Of::kLimit, kAutoPercent[i]};
  }
}

bool ParseWord(std::string_view word, PressureConfig* config) {
  for (const std::string_view on : {"auto", "1", "yes", "true", "on"}) {
    if (word == on) return SetAuto(config), true;
  }
  for (const std::string_view off : {"off", "0", "no", "false"}) {
    if (word == off) return *config = PressureConfig(), true;
  }
  const auto take = [&word](std::string_view prefix) {
    if (!StartsWith(word, prefix)) return false;
    word.remove_prefix(prefix.size());
    return true;
  };
  if (take("level")) {
    if (word.size() < 2 || word[0] < '1' || word[0] > '3' || word[1] != '=') return false;
    PressureThreshold* const level = &config->levels[static_cast<size_t>(word[0] - '1')];
    word.remove_prefix(2);
    return ParseThreshold(word, level);
  }
  if (take("psi=")) return ParsePsi(word, config);
  if (take("watch=")) return ParseSwitch(word, &config->watch);
  if (take("thread=")) return ParseSwitch(word, &config->thread);
  if (take("interval=")) return ParseInterval(word, &config->interval_ms);
  return false;
}

}  // namespace

bool ParsePressureConfig(std::string_view text, PressureConfig* config, std::string_view* wrong) {
  *config = PressureConfig();
  while (!text.empty()) {
    const std::string_view word = TakeField(&text, ',');
    if (!ParseWord(word, config)) {
      *wrong = word;
      return false;
    }
  }
  return true;
}

}  // namespace tcmalloc
