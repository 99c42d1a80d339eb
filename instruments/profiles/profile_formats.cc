// SPDX-License-Identifier: BSD-3-Clause
// The entry to all formats, and the formats of text. The binary one is in
// instruments/profiles/format_proto.cc.
#include "instruments/profiles/profile_formats.h"

#include "base/text_writer.h"
#include "os/files.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

void CopyFile(const char* path, ByteSink* out) {
  InputFile file(path);
  char buffer[2048];
  while (file.is_open() && out->ok()) {
    const size_t n = file.Read(buffer, sizeof(buffer));
    if (n == 0) break;
    out->Write(buffer, n);
  }
}

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

bool WriteProfile(const Profile& profile, ProfileFormat format, ByteSink::Function function,
                  void* context) {
  ByteSink out(function, context);
  if (format == ProfileFormat::kLegacyText) {
    WriteLegacyProfile(profile, &out);
    CopyFile("/proc/self/maps", &out);
    return out.ok();
  }
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  if (!libraries.Read()) return false;
  if (format == ProfileFormat::kFolded) {
    WriteFoldedProfile(profile, libraries, &out);
    return out.ok();
  }
  return WriteProtoProfile(profile, libraries, vm, &out) && out.ok();
}

bool WriteProfileToFile(const Profile& profile, ProfileFormat format, int fd) {
  const ByteSink::Function write = [](const void* data, size_t size, void* file) {
    return WriteAllTo(*static_cast<const int*>(file), data, size);
  };
  return WriteProfile(profile, format, write, &fd);
}

// Folded stacks, which flamegraph.pl and similar tools read.
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

// The text of gperftools' heap profiler (complete profiles), heap sampler, and growth profile.
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
