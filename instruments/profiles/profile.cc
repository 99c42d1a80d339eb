// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"
#include "base/units.h"
#include "os/files.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

// A total order in which equal stacks with equal sizes are adjacent.
bool Before(const ProfileEntry& a, const ProfileEntry& b) {
  if (a.depth != b.depth) return a.depth < b.depth;
  if (a.object_size != b.object_size) return a.object_size < b.object_size;
  for (size_t i = 0; i < a.depth; ++i) {
    if (a.frames[i] != b.frames[i]) return a.frames[i] < b.frames[i];
  }
  return false;
}

void Add(const ProfileEntry& from, ProfileEntry* to) {
  to->live_objects += from.live_objects;
  to->live_bytes += from.live_bytes;
  to->allocated_objects += from.allocated_objects;
  to->allocated_bytes += from.allocated_bytes;
  to->estimated_live_objects += from.estimated_live_objects;
  to->estimated_live_bytes += from.estimated_live_bytes;
  to->estimated_allocated_objects += from.estimated_allocated_objects;
  to->estimated_allocated_bytes += from.estimated_allocated_bytes;
}

}  // namespace

bool ProfileMemory::Reserve(VirtualMemory& vm, size_t entries, size_t frames) {
  Free();
  vm_ = &vm;
  if (entries > SIZE_MAX / 2 / sizeof(ProfileEntry) || frames > SIZE_MAX / 4 / sizeof(uintptr_t)) {
    return false;
  }
  const size_t wanted = entries * sizeof(ProfileEntry) + frames * sizeof(uintptr_t);
  bytes_ =
      std::max(kPageSize, (wanted + vm.hardware_page_size() - 1) & ~(vm.hardware_page_size() - 1));
  memory_ = vm.Map(bytes_, kPageSize).start;
  if (memory_ == nullptr) return false;
  entries_ = static_cast<ProfileEntry*>(memory_);
  frames_ = reinterpret_cast<uintptr_t*>(entries_ + entries);
  max_entries_ = entries;
  frames_left_ = frames;
  profile = Profile();
  profile.entries = entries_;
  return true;
}

void ProfileMemory::Free() {
  // Memory that cannot be unmapped is at least released.
  if (memory_ != nullptr && !vm_->Unmap(memory_, bytes_)) {
    static_cast<void>(vm_->Release(memory_, bytes_));
  }
  memory_ = nullptr;
  profile = Profile();
}

bool ProfileMemory::Append(const ProfileEntry& entry) {
  if (profile.num_entries == max_entries_ || entry.depth > frames_left_) return false;
  std::copy_n(entry.frames, entry.depth, frames_);
  ProfileEntry& own = entries_[profile.num_entries++];
  own = entry;
  own.frames = frames_;
  frames_ += entry.depth;
  frames_left_ -= entry.depth;
  return true;
}

void ProfileMemory::UseEstimates() {
  const auto rounded = [](double estimate) {
    return static_cast<uint64_t>(RoundedEstimate(estimate));
  };
  for (size_t i = 0; i < profile.num_entries; ++i) {
    ProfileEntry& entry = entries_[i];
    entry.live_objects = rounded(entry.estimated_live_objects);
    entry.live_bytes = rounded(entry.estimated_live_bytes);
    entry.allocated_objects = rounded(entry.estimated_allocated_objects);
    entry.allocated_bytes = rounded(entry.estimated_allocated_bytes);
  }
}

void ProfileMemory::Finish() {
  if (profile.kind == ProfileKind::kGrowth || profile.num_entries == 0) return;
  std::sort(entries_, entries_ + profile.num_entries, &Before);
  size_t last = 0;
  for (size_t i = 1; i < profile.num_entries; ++i) {
    if (Before(entries_[last], entries_[i])) {
      entries_[++last] = entries_[i];
    } else {
      Add(entries_[i], &entries_[last]);
    }
  }
  profile.num_entries = last + 1;
}

namespace {

class ProtoProfile {
 public:
  ProtoProfile(const Profile& profile, const MappedLibraries& libraries, VirtualMemory& vm,
               ByteSink* out)
      : profile_(profile),
        libraries_(libraries),
        locations_(vm),
        ids_(vm),
        out_(out),
        writer_(buffer_, sizeof(buffer_), &ByteSink::Text, out),
        proto_(&writer_) {}

  // A location is written before the first sample that has it, so that only its number must be
  // kept.
  bool Write() {
    proto_.Begin(CountsAllocated(profile_.kind), profile_.time_ns, profile_.duration_ns,
                 profile_.sample_period);
    WriteMappings();
    for (size_t i = 0; i < profile_.num_entries && out_->ok(); ++i) {
      if (!WriteEntry(profile_.entries[i])) return false;
    }
    writer_.Flush();
    return true;
  }

 private:
  // Writes the program first, then its libraries, since readers assume that the first mapping is
  // the program.
  void WriteMappings() {
    const MappedLibrary* const program = libraries_.Find(ProgramEntry());
    if (program != nullptr) WriteMapping(*program);
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an empty list has no elements.
    for (const MappedLibrary& library : libraries_) {
      if (&library != program) WriteMapping(library);
    }
    for (const MappedLibrary& library : libraries_) {
      proto_.String(library.name);
      char text[2 * ElfImage::kMaxBuildIdBytes];
      const size_t bytes = library.image.build_id_bytes;
      for (size_t i = 0; i < bytes; ++i) {
        text[2 * i] = "0123456789abcdef"[library.image.build_id[i] / 16];
        text[2 * i + 1] = "0123456789abcdef"[library.image.build_id[i] % 16];
      }
      proto_.String({text, 2 * bytes});
    }
  }

  void WriteMapping(const MappedLibrary& library) {
    const uint32_t id = MappingId(&library);
    const uint32_t name = ProfileProto::kNumFixedStrings + 2 * (id - 1);
    proto_.WriteMapping(
        {.id = id,
         .start = library.start,
         .end = library.end,
         .file_offset = library.file_offset,
         .name = name,
         .build_id = library.image.build_id_bytes > 0 ? name + 1 : ProfileProto::kNothing});
  }

  uint32_t MappingId(const MappedLibrary* library) const {
    return library == nullptr ? 0 : static_cast<uint32_t>(library - libraries_.begin() + 1);
  }

  // Writes the entry's new locations, and sets ids_.
  bool WriteLocations(const ProfileEntry& entry) {
    ids_.Clear();
    for (size_t i = 0; i < entry.depth; ++i) {
      const uintptr_t address = CallBefore(entry.frames[i]);
      const AddressTable::Result location = locations_.FindOrInsert(address);
      if (location.number == 0 || !ids_.Push(location.number)) return false;
      if (!location.is_new) continue;
      proto_.WriteLocation(location.number, MappingId(libraries_.Find(address)), address, {});
    }
    return true;
  }

  bool WriteEntry(const ProfileEntry& entry) {
    if (!WriteLocations(entry)) return false;
    std::array<ProfileProto::Label, 3> labels;
    size_t n = 0;
    if (entry.object_size > 0) {
      labels[n++] = {ProfileProto::kBytes, entry.object_size, ProfileProto::kBytes};
    }
    if (entry.guessed_stack) labels[n++] = {ProfileProto::kGuessedStack, 1, ProfileProto::kNothing};
    if (entry.age_at_least_ms >= 0) {
      labels[n++] = {ProfileProto::kAge, static_cast<uint64_t>(entry.age_at_least_ms),
                     ProfileProto::kMilliseconds};
    }
    const double estimates[] = {entry.estimated_allocated_objects, entry.estimated_allocated_bytes,
                                entry.estimated_live_objects, entry.estimated_live_bytes};
    proto_.WriteSample(ids_, std::span(estimates, CountsAllocated(profile_.kind) ? 2 : 4),
                       std::span(labels.data(), n));
    return true;
  }

  const Profile& profile_;
  const MappedLibraries& libraries_;
  AddressTable locations_;
  // The current entry's locations.
  MappedArray<uint32_t> ids_;
  ByteSink* const out_;
  char buffer_[2048];
  TextWriter writer_;
  ProfileProto proto_;
};

}  // namespace

bool WriteProtoProfile(const Profile& profile, const MappedLibraries& libraries, VirtualMemory& vm,
                       ByteSink* out) {
  return ProtoProfile(profile, libraries, vm, out).Write();
}

AddressTable::Result AddressTable::FindOrInsert(uintptr_t address) {
  if (slots_.size() == 0 && !Grow()) return {0, false};
  const Slot& slot = SlotOf(address);
  if (slot.number != 0) return {slot.number, false};
  if (count_ >= slots_.size() / 2 && !Grow()) return {0, false};
  SlotOf(address) = {address, ++count_};
  return {count_, true};
}

AddressTable::Slot& AddressTable::SlotOf(uintptr_t address) {
  const size_t mask = slots_.size() - 1;
  const uint64_t mixed = uint64_t{address} * 0x9e3779b97f4a7c15;
  size_t at = static_cast<size_t>(mixed >> 32) & mask;
  while (slots_[at].number != 0 && slots_[at].address != address) at = (at + 1) & mask;
  return slots_[at];
}

bool AddressTable::Grow() {
  const size_t size = slots_.size() == 0 ? kFirstSlots : 2 * slots_.size();
  MappedArray<Slot> smaller(vm_);
  smaller.Swap(&slots_);
  if (!slots_.Reserve(size)) {
    smaller.Swap(&slots_);
    return false;
  }
  slots_.Extend(size);
  for (const Slot& slot : smaller) {
    if (slot.number != 0) SlotOf(slot.address) = slot;
  }
  return true;
}

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

}  // namespace

bool WriteProfile(const Profile& profile, ProfileFormat format, ByteSink::Function function,
                  void* context) {
  ByteSink out(function, context);
  if (format == ProfileFormat::kLegacyText) {
    WriteLegacyProfile(profile, &out);
    CopyFile(ProcessPath("maps").c_str(), &out);
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

// Profiles of allocated objects have the same figures as live and as allocated, so that readers
// show one kind.
void WriteLegacyProfile(const Profile& profile, ByteSink* out) {
  char buffer[2048];
  TextWriter text(buffer, sizeof(buffer), &ByteSink::Text, out);
  const bool allocated = CountsAllocated(profile.kind);
  WriteLegacyText(
      std::span(profile.entries, profile.num_entries), profile.kind == ProfileKind::kGrowth,
      profile.sample_period,
      [allocated](const ProfileEntry& entry) {
        return LegacyEntry{.objects = allocated ? entry.allocated_objects : entry.live_objects,
                           .bytes = allocated ? entry.allocated_bytes : entry.live_bytes,
                           .allocated_objects = entry.allocated_objects,
                           .allocated_bytes = entry.allocated_bytes,
                           .frames = {entry.frames, entry.depth}};
      },
      &text);
  text.Flush();
}

}  // namespace tcmalloc
