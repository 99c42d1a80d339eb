// SPDX-License-Identifier: BSD-3-Clause
// Writers of profiles, for the library and the command: profile.proto, as
// https://github.com/google/pprof defines it, and the text of gperftools' profilers. They know the
// formats, and nothing of how a profile is made or kept.
//
// Nothing here allocates or takes a lock: all output goes to a TextWriter. Cost: a few nanoseconds
// per byte, plus the time of the TextWriter's sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/text.h"

namespace tcmalloc {

// ProtoWriter: the part of the encoding of protocol buffers that profiles need (varints, strings
// and nested messages). A message's length precedes it, so its contents are written twice; the
// first time only counts. Thread safety: none.
class ProtoWriter {
 public:
  explicit ProtoWriter(TextWriter* out) : out_(out) {}

  // Writes nothing for 0, which a reader assumes for a missing field.
  void Number(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    Varint(value);
  }

  void String(uint32_t field, std::string_view text) {
    Tag(field, kDelimited);
    Varint(text.size());
    Bytes(text);
  }

  // Writes a message whose fields `contents(ProtoWriter*)` writes. That function is called twice
  // and must write the same both times.
  template <typename F>
  void Message(uint32_t field, const F& contents) {
    ProtoWriter counter(nullptr);
    contents(&counter);
    Tag(field, kDelimited);
    Varint(counter.size_);
    contents(this);
  }

  // Writes a number within a packed field.
  void Varint(uint64_t value) {
    char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = static_cast<char>(value | 0x80);
    bytes[n++] = static_cast<char>(value);
    Bytes({bytes, n});
  }

 private:
  static constexpr uint32_t kDelimited = 2;

  void Tag(uint32_t field, uint32_t kind) { Varint(field << 3 | kind); }

  void Bytes(std::string_view bytes) {
    size_ += bytes.size();
    if (out_ != nullptr) out_->Text(bytes);
  }

  TextWriter* const out_;  // null: only counts
  size_t size_ = 0;
};

constexpr int64_t RoundedEstimate(double estimate) {
  constexpr double kTooLarge = 9223372036854775808.0;
  if (!(estimate > 0)) return 0;
  if (estimate >= kTooLarge) return INT64_MAX;
  // From 2^51 on, doubles are multiples of 0.5, so rounding is not necessary.
  const double half = estimate < kTooLarge / 4096 ? 0.5 : 0;
  return static_cast<int64_t>(estimate + half);
}

namespace profile_proto {

// Numbers of fields.
namespace profile_field {
constexpr uint32_t kSampleType = 1, kSample = 2, kMapping = 3, kLocation = 4, kFunction = 5,
                   kStringTable = 6, kTimeNanos = 9, kDurationNanos = 10, kPeriodType = 11,
                   kPeriod = 12, kDefaultSampleType = 14;
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
                   kBuildId = 6, kHasFunctions = 7, kHasFilenames = 8, kHasLineNumbers = 9,
                   kHasInlineFrames = 10;
}
namespace location_field {
constexpr uint32_t kId = 1, kMappingId = 2, kAddress = 3, kLine = 4;
}
namespace line_field {
constexpr uint32_t kFunctionId = 1, kLine = 2;
}
namespace function_field {
constexpr uint32_t kId = 1, kName = 2, kSystemName = 3, kFilename = 4;
}

// ProfileProto: writes the messages of profile.proto. Thread safety: none.
class ProfileProto {
 public:
  // The numbers of the strings that Begin writes. Those that String writes later follow, in its
  // order.
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

  // Names and build ids are numbers of strings; ids are from 1 on.
  struct Mapping {
    uint64_t id = 0;
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t file_offset = 0;
    uint64_t name = kNothing;
    uint64_t build_id = kNothing;
    // The profile has the names of its functions, so that a reader need not look for them.
    bool is_named = false;
  };
  struct Line {
    uint64_t function = 0;  // an id
    uint64_t line = 0;
  };
  struct Label {
    uint64_t key;
    uint64_t number;
    uint64_t unit;
  };

  explicit ProfileProto(TextWriter* out) : proto_(out) {}

  // Begins a profile of allocated objects, or of live ones. Times are in nanoseconds; a duration of
  // 0 is unknown.
  void Begin(bool allocated, int64_t time_ns, int64_t duration_ns, uint64_t period) {
    if (allocated) {
      WriteType(profile_field::kSampleType, kObjects, kCount);
      WriteType(profile_field::kSampleType, kSpace, kBytes);
      proto_.Number(profile_field::kDefaultSampleType, kSpace);
    } else {
      WriteType(profile_field::kSampleType, kAllocObjects, kCount);
      WriteType(profile_field::kSampleType, kAllocSpace, kBytes);
      WriteType(profile_field::kSampleType, kInuseObjects, kCount);
      WriteType(profile_field::kSampleType, kInuseSpace, kBytes);
      proto_.Number(profile_field::kDefaultSampleType, kInuseSpace);
    }
    proto_.Number(profile_field::kTimeNanos, static_cast<uint64_t>(time_ns));
    proto_.Number(profile_field::kDurationNanos, static_cast<uint64_t>(duration_ns));
    WriteType(profile_field::kPeriodType, kSpace, kBytes);
    proto_.Number(profile_field::kPeriod, period == 0 ? 1 : period);
    for (const std::string_view string : kFixedStrings) String(string);
  }

  void String(std::string_view text) { proto_.String(profile_field::kStringTable, text); }

  // Readers assume that the first mapping is the program.
  void WriteMapping(const Mapping& mapping) {
    proto_.Message(profile_field::kMapping, [&](ProtoWriter* message) {
      message->Number(mapping_field::kId, mapping.id);
      message->Number(mapping_field::kMemoryStart, mapping.start);
      message->Number(mapping_field::kMemoryLimit, mapping.end);
      message->Number(mapping_field::kFileOffset, mapping.file_offset);
      message->Number(mapping_field::kFilename, mapping.name);
      message->Number(mapping_field::kBuildId, mapping.build_id);
      for (const uint32_t known :
           {mapping_field::kHasFunctions, mapping_field::kHasFilenames,
            mapping_field::kHasLineNumbers, mapping_field::kHasInlineFrames}) {
        message->Number(known, mapping.is_named ? 1 : 0);
      }
    });
  }

  void WriteFunction(uint64_t id, uint64_t name, uint64_t system_name, uint64_t file) {
    proto_.Message(profile_field::kFunction, [&](ProtoWriter* message) {
      message->Number(function_field::kId, id);
      message->Number(function_field::kName, name);
      message->Number(function_field::kSystemName, system_name);
      message->Number(function_field::kFilename, file);
    });
  }

  // Lines of functions that are inlined into one another are innermost first.
  void WriteLocation(uint64_t id, uint64_t mapping, uint64_t address, std::span<const Line> lines) {
    proto_.Message(profile_field::kLocation, [&](ProtoWriter* message) {
      message->Number(location_field::kId, id);
      message->Number(location_field::kMappingId, mapping);
      message->Number(location_field::kAddress, address);
      for (const Line& line : lines) {
        message->Message(location_field::kLine, [&](ProtoWriter* part) {
          part->Number(line_field::kFunctionId, line.function);
          part->Number(line_field::kLine, line.line);
        });
      }
    });
  }

  // `locations` are ids, innermost first. `estimates` are objects and bytes: the allocated ones,
  // then in a profile of live objects these.
  template <typename Ids>
  void WriteSample(const Ids& locations, std::span<const double> estimates,
                   std::span<const Label> labels) {
    proto_.Message(profile_field::kSample, [&](ProtoWriter* message) {
      message->Message(sample_field::kLocationId, [&](ProtoWriter* ids) {
        for (const auto id : locations) ids->Varint(id);
      });
      message->Message(sample_field::kValue, [&](ProtoWriter* values) {
        for (const double estimate : estimates) {
          values->Varint(static_cast<uint64_t>(RoundedEstimate(estimate)));
        }
      });
      for (const Label& label : labels) {
        message->Message(sample_field::kLabel, [&](ProtoWriter* part) {
          part->Number(label_field::kKey, label.key);
          part->Number(label_field::kNum, label.number);
          part->Number(label_field::kNumUnit, label.unit);
        });
      }
    });
  }

  static constexpr std::string_view kFixedStrings[kNumFixedStrings] = {"",
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

 private:
  void WriteType(uint32_t field, FixedString type, FixedString unit) {
    proto_.Message(field, [&](ProtoWriter* message) {
      message->Number(value_type_field::kType, type);
      message->Number(value_type_field::kUnit, unit);
    });
  }

  ProtoWriter proto_;
};

}  // namespace profile_proto

using profile_proto::ProfileProto;

// The text of gperftools' heap profiler (complete profiles), heap sampler, and growth profile.
// Figures are the recorded ones, which readers scale.

struct LegacyEntry {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t allocated_objects = 0;
  uint64_t allocated_bytes = 0;
  std::span<const uintptr_t> frames = {};  // return addresses, innermost first
};

// Writes the part that precedes the text of /proc/PID/maps. `entry_of` returns the LegacyEntry of
// one of the entries. `period` is 0 if readers must not scale the figures.
template <typename Entries, typename F>
void WriteLegacyText(const Entries& entries, bool growth, uint64_t period, const F& entry_of,
                     TextWriter* text) {
  const auto write_figures = [text](const LegacyEntry& entry) {
    text->Number(entry.objects).Text(": ").Number(entry.bytes);
    text->Text(" [").Number(entry.allocated_objects).Text(": ");
    text->Number(entry.allocated_bytes).Text("] @");
  };
  LegacyEntry totals;
  for (const auto& each : entries) {
    const LegacyEntry entry = entry_of(each);
    totals.objects += entry.objects;
    totals.bytes += entry.bytes;
    totals.allocated_objects += entry.allocated_objects;
    totals.allocated_bytes += entry.allocated_bytes;
  }
  text->Text("heap profile: ");
  write_figures(totals);
  if (growth) {
    text->Text(" growth\n");
  } else if (period == 0) {
    text->Text(" heapprofile\n");
  } else {
    text->Text(" heap_v2/").Number(period).Text("\n");
  }
  for (const auto& each : entries) {
    const LegacyEntry entry = entry_of(each);
    write_figures(entry);
    for (const uintptr_t frame : entry.frames) text->Text(" ").Hex(frame);
    text->Text("\n");
  }
  text->Text("\nMAPPED_LIBRARIES:\n");
}

}  // namespace tcmalloc
