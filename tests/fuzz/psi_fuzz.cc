// SPDX-License-Identifier: BSD-3-Clause
// Parses any text as a trigger of pressure stall information; some texts get a form that the parser
// accepts. The parser accepts what the kernel accepts, and a trigger means the same when it is
// written in microseconds.
#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/text.h"
#include "instruments/pressure/event_sources.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tcmalloc;
  if (size == 0) return 0;
  const char* const fronts[] = {"", "some:", "full:", "some:1"};
  const char* const ends[] = {"", "s", "ms/2s", "us/2000ms"};
  const std::string text = fronts[data[0] % 4] +
                           std::string(reinterpret_cast<const char*>(data) + 1, size - 1) +
                           ends[data[0] / 4 % 4];
  PsiTrigger trigger;
  if (!ParsePsiTrigger(text, &trigger)) {
    TC_CHECK(trigger == PsiTrigger());
    return 0;
  }
  TC_CHECK(trigger.stall_us > 0 && trigger.stall_us <= trigger.window_us);
  TC_CHECK(trigger.window_us <= kMaxPsiWindowUs);
  char buffer[32];
  TextWriter written(buffer, sizeof(buffer));
  WritePsiTrigger(trigger, &written);
  TC_CHECK(!written.truncated());
  const std::string words(written.text());
  const size_t space = words.rfind(' ');
  const std::string again = words.substr(0, 4) + ":" + words.substr(5, space - 5) + "us/" +
                            words.substr(space + 1) + "us";
  PsiTrigger reread;
  TC_CHECK(ParsePsiTrigger(again, &reread) && reread == trigger);
  return 0;
}
