// SPDX-License-Identifier: BSD-3-Clause
// Folded stacks, which flamegraph.pl and similar tools read.
#include "base/text_writer.h"
#include "instruments/profiles/profile_formats.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

void WriteFrame(uintptr_t return_address, const MappedLibraries& libraries, TextWriter* text) {
  const uintptr_t address = CallBefore(return_address);
  const MappedLibrary* const library = libraries.Find(address);
  if (library == nullptr) {
    text->Hex(address);
    return;
  }
  // A semicolon would end the frame.
  for (const char& c : library->name) text->Text(c == ';' ? "_" : std::string_view(&c, 1));
  text->Text("+").Hex(address - library->image.bias);
}

}  // namespace

void WriteFoldedProfile(const Profile& profile, const MappedLibraries& libraries, ByteSink* out) {
  char buffer[2048];
  TextWriter text(buffer, sizeof(buffer), &ByteSink::Text, out);
  for (size_t i = 0; i < profile.num_entries && out->ok(); ++i) {
    const ProfileEntry& entry = profile.entries[i];
    const int64_t bytes =
        RoundedEstimate(CountsAllocated(profile.kind) ? entry.estimated_allocated_bytes
                                                      : entry.estimated_live_bytes);
    if (bytes == 0 || entry.depth == 0) continue;
    for (size_t frame = entry.depth; frame > 0; --frame) {
      if (frame < entry.depth) text.Text(";");
      WriteFrame(entry.frames[frame - 1], libraries, &text);
    }
    text.Text(" ").Number(static_cast<uint64_t>(bytes)).Text("\n");
  }
  text.Flush();
}

}  // namespace tcmalloc
