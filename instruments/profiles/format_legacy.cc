// SPDX-License-Identifier: BSD-3-Clause
// The text of gperftools' heap profiler (complete profiles), heap sampler, and growth profile.
#include "base/text_writer.h"
#include "instruments/profiles/profile_formats.h"

namespace tcmalloc {
namespace {

// The recorded figures in the form of these formats. Profiles of allocated objects have the same
// figures as live and as allocated, so that readers show one kind.
struct Figures {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t allocated_objects = 0;
  uint64_t allocated_bytes = 0;
};

Figures FiguresOf(const ProfileEntry& entry, ProfileKind kind) {
  Figures figures = {entry.live_objects, entry.live_bytes, entry.allocated_objects,
                     entry.allocated_bytes};
  if (CountsAllocated(kind)) {
    figures.objects = entry.allocated_objects;
    figures.bytes = entry.allocated_bytes;
  }
  return figures;
}

void WriteFigures(const Figures& figures, TextWriter* text) {
  text->Number(figures.objects).Text(": ").Number(figures.bytes);
  text->Text(" [").Number(figures.allocated_objects).Text(": ");
  text->Number(figures.allocated_bytes).Text("] @");
}

}  // namespace

void WriteLegacyProfile(const Profile& profile, ByteSink* out) {
  char buffer[2048];
  TextWriter text(buffer, sizeof(buffer), &ByteSink::Text, out);
  Figures totals;
  for (size_t i = 0; i < profile.num_entries; ++i) {
    const Figures figures = FiguresOf(profile.entries[i], profile.kind);
    totals.objects += figures.objects;
    totals.bytes += figures.bytes;
    totals.allocated_objects += figures.allocated_objects;
    totals.allocated_bytes += figures.allocated_bytes;
  }
  text.Text("heap profile: ");
  WriteFigures(totals, &text);
  if (profile.kind == ProfileKind::kGrowth) {
    text.Text(" growth\n");
  } else if (profile.sample_period == 0) {
    text.Text(" heapprofile\n");
  } else {
    text.Text(" heap_v2/").Number(profile.sample_period).Text("\n");
  }
  for (size_t i = 0; i < profile.num_entries && out->ok(); ++i) {
    const ProfileEntry& entry = profile.entries[i];
    WriteFigures(FiguresOf(entry, profile.kind), &text);
    for (size_t frame = 0; frame < entry.depth; ++frame) text.Text(" ").Hex(entry.frames[frame]);
    text.Text("\n");
  }
  text.Text("\nMAPPED_LIBRARIES:\n");
  text.Flush();
}

}  // namespace tcmalloc
