// SPDX-License-Identifier: BSD-3-Clause
// The entry to all formats, and the formats of text. The binary one is in
// instruments/profiles/profile_formats.cc.
//
// profile.proto, as https://github.com/google/pprof defines it.
#include "instruments/profiles/profile_formats.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "os/files.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

// Numbers of fields.
namespace profile_field {
constexpr uint32_t kSampleType = 1, kSample = 2, kMapping = 3, kLocation = 4, kStringTable = 6,
                   kTimeNanos = 9, kDurationNanos = 10, kPeriodType = 11, kPeriod = 12,
                   kDefaultSampleType = 14;
}
namespace value_type_field {
constexpr uint32_t kType = 1, kUnit = 2;
}
namespace sample_field {
constexpr uint32_t kLocationId = 1, kValue = 2, kLabel = 3;
}
namespace label_field {
constexpr uint32_t kKey = 1, kNum = 3, kNumUnit = 4;
}
namespace mapping_field {
constexpr uint32_t kId = 1, kMemoryStart = 2, kMemoryLimit = 3, kFileOffset = 4, kFilename = 5,
                   kBuildId = 6;
}
namespace location_field {
constexpr uint32_t kId = 1, kMappingId = 2, kAddress = 3;
}

// The numbers of strings in the table. The fixed strings come first, then a name and a build id for
// each library.
enum FixedString : uint32_t {
  kNothing,
  kCount,
  kBytes,
  kObjects,
  kSpace,
  kAllocObjects,
  kAllocSpace,
  kInuseObjects,
  kInuseSpace,
  kGuessedStack,
  kAge,
  kMilliseconds,
  kNumFixedStrings,
};
constexpr std::array<std::string_view, kNumFixedStrings> kFixedStrings = {"",
                                                                          "count",
                                                                          "bytes",
                                                                          "objects",
                                                                          "space",
                                                                          "alloc_objects",
                                                                          "alloc_space",
                                                                          "inuse_objects",
                                                                          "inuse_space",
                                                                          "guessed_stack",
                                                                          "age",
                                                                          "milliseconds"};

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
    if (CountsAllocated(profile_.kind)) {
      WriteValueType(profile_field::kSampleType, kObjects, kCount);
      WriteValueType(profile_field::kSampleType, kSpace, kBytes);
      proto_.Number(profile_field::kDefaultSampleType, kSpace);
    } else {
      WriteValueType(profile_field::kSampleType, kAllocObjects, kCount);
      WriteValueType(profile_field::kSampleType, kAllocSpace, kBytes);
      WriteValueType(profile_field::kSampleType, kInuseObjects, kCount);
      WriteValueType(profile_field::kSampleType, kInuseSpace, kBytes);
      proto_.Number(profile_field::kDefaultSampleType, kInuseSpace);
    }
    proto_.Number(profile_field::kTimeNanos, static_cast<uint64_t>(profile_.time_ns));
    proto_.Number(profile_field::kDurationNanos, static_cast<uint64_t>(profile_.duration_ns));
    WriteValueType(profile_field::kPeriodType, kSpace, kBytes);
    proto_.Number(profile_field::kPeriod, std::max(profile_.sample_period, size_t{1}));
    for (const std::string_view string : kFixedStrings) {
      proto_.String(profile_field::kStringTable, string);
    }
    WriteMappings();
    for (size_t i = 0; i < profile_.num_entries && out_->ok(); ++i) {
      if (!WriteEntry(profile_.entries[i])) return false;
    }
    writer_.Flush();
    return true;
  }

 private:
  void WriteValueType(uint32_t field, FixedString type, FixedString unit) {
    proto_.Message(field, [&](ProtoWriter* message) {
      message->Number(value_type_field::kType, type);
      message->Number(value_type_field::kUnit, unit);
    });
  }

  // Writes the program first, then its libraries, since readers assume that the first mapping is
  // the program.
  void WriteMappings() {
    const MappedLibrary* const program = libraries_.Find(ProgramEntry());
    if (program != nullptr) WriteMapping(*program);
    for (const MappedLibrary& library : libraries_) {
      if (&library != program) WriteMapping(library);
    }
    for (const MappedLibrary& library : libraries_) {
      proto_.String(profile_field::kStringTable, library.name);
      char text[2 * ElfImage::kMaxBuildIdBytes];
      const size_t bytes = library.image.build_id_bytes;
      for (size_t i = 0; i < bytes; ++i) {
        text[2 * i] = "0123456789abcdef"[library.image.build_id[i] / 16];
        text[2 * i + 1] = "0123456789abcdef"[library.image.build_id[i] % 16];
      }
      proto_.String(profile_field::kStringTable, {text, 2 * bytes});
    }
  }

  void WriteMapping(const MappedLibrary& library) {
    const uint32_t name = kNumFixedStrings + 2 * (MappingId(&library) - 1);
    const uint32_t build_id = library.image.build_id_bytes > 0 ? name + 1 : kNothing;
    proto_.Message(profile_field::kMapping, [&](ProtoWriter* message) {
      message->Number(mapping_field::kId, MappingId(&library));
      message->Number(mapping_field::kMemoryStart, library.start);
      message->Number(mapping_field::kMemoryLimit, library.end);
      message->Number(mapping_field::kFileOffset, library.file_offset);
      message->Number(mapping_field::kFilename, name);
      message->Number(mapping_field::kBuildId, build_id);
    });
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
      const uint32_t mapping = MappingId(libraries_.Find(address));
      proto_.Message(profile_field::kLocation, [&](ProtoWriter* message) {
        message->Number(location_field::kId, location.number);
        message->Number(location_field::kMappingId, mapping);
        message->Number(location_field::kAddress, address);
      });
    }
    return true;
  }

  bool WriteEntry(const ProfileEntry& entry) {
    if (!WriteLocations(entry)) return false;
    proto_.Message(profile_field::kSample, [&](ProtoWriter* message) {
      message->Message(sample_field::kLocationId, [&](ProtoWriter* ids) {
        for (const uint32_t id : ids_) ids->Varint(id);
      });
      message->Message(sample_field::kValue, [&](ProtoWriter* values) {
        WriteValue(entry.estimated_allocated_objects, values);
        WriteValue(entry.estimated_allocated_bytes, values);
        if (CountsAllocated(profile_.kind)) return;
        WriteValue(entry.estimated_live_objects, values);
        WriteValue(entry.estimated_live_bytes, values);
      });
      if (entry.object_size > 0) WriteLabel(kBytes, entry.object_size, kBytes, message);
      if (entry.guessed_stack) WriteLabel(kGuessedStack, 1, kNothing, message);
      if (entry.age_at_least_ms >= 0) {
        WriteLabel(kAge, static_cast<uint64_t>(entry.age_at_least_ms), kMilliseconds, message);
      }
    });
    return true;
  }

  static void WriteLabel(FixedString key, uint64_t number, FixedString unit, ProtoWriter* message) {
    message->Message(sample_field::kLabel, [&](ProtoWriter* label) {
      label->Number(label_field::kKey, key);
      label->Number(label_field::kNum, number);
      label->Number(label_field::kNumUnit, unit);
    });
  }

  static void WriteValue(double estimate, ProtoWriter* values) {
    values->Varint(static_cast<uint64_t>(RoundedEstimate(estimate)));
  }

  const Profile& profile_;
  const MappedLibraries& libraries_;
  AddressTable locations_;
  // The current entry's locations.
  MappedArray<uint32_t> ids_;
  ByteSink* const out_;
  char buffer_[2048];
  TextWriter writer_;
  ProtoWriter proto_;
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
