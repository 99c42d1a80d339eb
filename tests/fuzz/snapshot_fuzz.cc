// SPDX-License-Identifier: BSD-3-Clause
// Snapshots of others. An input is the text of a note, or, if it begins with '#', a sequence of
// changes of a sound one. A reader ends, or throws Failure; the texts that it read may be shown.
#include <cstdint>
#include <string>

#include "changes.h"
#include "image/snapshot.h"

namespace {

using namespace cli;

std::string SoundText() {
  SnapshotFacts facts;
  facts.info = {.pid = 7, .name = "shop", .executable = "/srv/shop", .threads = 2};
  MappingUse use;
  use.mapping = {.start = 0x1000, .end = 0x3000, .readable = true, .name = "/srv/shop"};
  facts.mappings = {use};
  facts.pages = {{1, 2, true}, {5, 1, false}};
  facts.stacks = {{7, 0x1000}, {8, 0x2000}};
  facts.thread_names = {{7, "first"}, {8, "second"}};
  facts.jit_functions = {{.start = 0x5000, .end = 0x5010, .name = "work"},
                         {.start = 0x5010, .end = 0x5020, .name = "rest"}};
  return SnapshotText(facts);
}

void ReadText(const std::string& text) {
  const SnapshotFacts facts = ParseSnapshot(text);
  fuzz::RequireClean(facts.info.name);
  fuzz::RequireClean(facts.info.executable);
  Address end = 0;
  for (const MappingUse& use : facts.mappings) {
    fuzz::RequireClean(use.mapping.name);
    if (use.mapping.start < end || use.mapping.end <= use.mapping.start) abort();
    end = use.mapping.end;
  }
  for (const auto& [thread, name] : facts.thread_names) fuzz::RequireClean(name);
  end = 0;
  for (const JitFunction& function : facts.jit_functions) {
    fuzz::RequireClean(function.name);
    if (function.start < end || function.end <= function.start) abort();
    end = function.end;
  }
  // The result can be written and read again.
  static_cast<void>(ParseSnapshot(SnapshotText(facts)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string sound = SoundText();
  std::string text(reinterpret_cast<const char*>(data), size);
  if (size == 0 || data[0] == '#') {
    text = sound;
    if (size > 0) fuzz::Change(data + 1, size - 1, &text);
  }
  try {
    ReadText(text);
  } catch (const Failure& failure) {
    fuzz::RequireClean(failure.what());
    if (size == 0) abort();
  }
  return 0;
}
