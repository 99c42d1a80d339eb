// SPDX-License-Identifier: BSD-3-Clause
#include "profiler/heap_profile_text.h"

#include <cerrno>

#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

void WriteFigures(const ProfileEntry& entry, TextWriter* out) {
  out->Number(entry.live_objects, 6).Text(": ").Number(entry.live_bytes, 8);
  out->Text(" [").Number(entry.allocated_objects, 6).Text(": ");
  out->Number(entry.allocated_bytes, 8).Text("] @");
}

void CopyFile(const char* path, TextWriter* out) {
  const int descriptor = OpenForReading(path);
  if (descriptor < 0) return;
  char piece[1024];
  for (;;) {
    const ssize_t bytes = ReadFrom(descriptor, piece, sizeof(piece));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    out->Text({piece, static_cast<size_t>(bytes)});
  }
  Close(descriptor);
}

}  // namespace

void WriteHeapProfileText(const Profile& profile, TextWriter* out) {
  const ErrnoKeeper keeper;
  ProfileEntry sum;
  for (size_t i = 0; i < profile.num_entries; ++i) {
    const ProfileEntry& entry = profile.entries[i];
    sum.live_objects += entry.live_objects;
    sum.live_bytes += entry.live_bytes;
    sum.allocated_objects += entry.allocated_objects;
    sum.allocated_bytes += entry.allocated_bytes;
  }
  out->Text("heap profile: ");
  WriteFigures(sum, out);
  out->Text(" heapprofile\n");
  for (size_t i = 0; i < profile.num_entries; ++i) {
    const ProfileEntry& entry = profile.entries[i];
    WriteFigures(entry, out);
    for (size_t frame = 0; frame < entry.depth; ++frame) out->Text(" ").Hex(entry.frames[frame]);
    out->Text("\n");
  }
  out->Text("\nMAPPED_LIBRARIES:\n");
  CopyFile("/proc/self/maps", out);
  out->Flush();
}

}  // namespace tcmalloc
