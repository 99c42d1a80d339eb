// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/signal_number.h"

#include <signal.h>

#include <cstdint>

#include "base/text_fields.h"

namespace tcmalloc {

int SignalNumber(std::string_view name) {
  struct Named {
    std::string_view name;
    int signal;
  };
  // Signals that a user may send. SIGKILL and SIGSTOP cannot be handled; fault signals must not be.
  constexpr Named kSignals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},    {"QUIT", SIGQUIT},
                                {"USR1", SIGUSR1}, {"USR2", SIGUSR2},  {"ALRM", SIGALRM},
                                {"TERM", SIGTERM}, {"CONT", SIGCONT},  {"URG", SIGURG},
                                {"PROF", SIGPROF}, {"WINCH", SIGWINCH}};
  uint64_t number = 0;
  if (TakeNumber(&name, &number)) {
    constexpr uint64_t kMaxSignal = 64;
    constexpr uint64_t kFirstRealTime = 34;  // the C library reserves some lower ones
    if (!name.empty() || number > kMaxSignal) return 0;
    for (const Named& known : kSignals) {
      if (static_cast<uint64_t>(known.signal) == number) return known.signal;
    }
    return number >= kFirstRealTime ? static_cast<int>(number) : 0;
  }
  if (StartsWith(name, "SIG")) name.remove_prefix(3);
  for (const Named& known : kSignals) {
    if (known.name == name) return known.signal;
  }
  return 0;
}

}  // namespace tcmalloc
