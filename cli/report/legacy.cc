// SPDX-License-Identifier: BSD-3-Clause
#include "report/legacy.h"

#include <fmt/format.h>

#include <iterator>

namespace cli {
namespace {

struct Recorded {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

// A reader cannot scale samples of several intervals, so it gets the estimates then.
Recorded RecordedOf(const Profile& profile, const ProfileEntry& entry) {
  if (profile.interval != 0) return {entry.samples, entry.samples * entry.object_bytes};
  return {static_cast<uint64_t>(profile.objects(entry) + 0.5),
          static_cast<uint64_t>(profile.bytes(entry) + 0.5)};
}

// Writes the same figures as in use and as allocated, since readers show only one kind.
std::string FiguresText(const Recorded& figures) {
  return fmt::format("{0}: {1} [{0}: {1}] @", figures.objects, figures.bytes);
}

}  // namespace

std::string LegacyOf(const Profile& profile, const std::string& maps) {
  Recorded total;
  for (const ProfileEntry& entry : profile.entries) {
    const Recorded figures = RecordedOf(profile, entry);
    total.objects += figures.objects;
    total.bytes += figures.bytes;
  }
  std::string out = "heap profile: " + FiguresText(total);
  const auto to = std::back_inserter(out);
  if (profile.interval == 0) {
    out += " heapprofile\n";
  } else {
    fmt::format_to(to, " heap_v2/{}\n", profile.interval);
  }
  for (const ProfileEntry& entry : profile.entries) {
    out += FiguresText(RecordedOf(profile, entry));
    for (const Address frame : entry.frames) fmt::format_to(to, " {:#x}", frame);
    out += '\n';
  }
  return out + "\nMAPPED_LIBRARIES:\n" + maps;
}

}  // namespace cli
