// SPDX-License-Identifier: BSD-3-Clause
#include "report/legacy.h"

#include "formats/profiles/profile_writers.h"

namespace cli {

std::string LegacyOf(const Profile& profile, const std::string& maps) {
  std::string out;
  char buffer[2048];
  tcmalloc::TextWriter text(
      buffer, sizeof(buffer),
      [](std::string_view part, void* all) { static_cast<std::string*>(all)->append(part); }, &out);
  // A reader cannot scale samples of several intervals, so it gets the estimates then. It shows
  // only one kind of figures: those in use and those allocated are the same.
  const auto entry_of = [&profile](const ProfileEntry& entry) {
    const bool scaled = profile.interval == 0;
    const uint64_t objects =
        scaled ? static_cast<uint64_t>(profile.objects(entry) + 0.5) : entry.samples;
    const uint64_t bytes = scaled ? static_cast<uint64_t>(profile.bytes(entry) + 0.5)
                                  : entry.samples * entry.object_bytes;
    return tcmalloc::LegacyEntry{objects, bytes, objects, bytes, entry.frames};
  };
  tcmalloc::WriteLegacyText(profile.entries, false, profile.interval, entry_of, &text);
  text.Flush();
  return out + maps;
}

}  // namespace cli
