// SPDX-License-Identifier: BSD-3-Clause
// profile.proto, as https://github.com/google/pprof defines it.
#include "report/pprof.h"

#include <algorithm>
#include <unordered_map>

#include "report/proto_writer.h"

namespace cli {
namespace {

// Numbers of fields.
namespace profile_field {
constexpr uint32_t kSampleType = 1, kSample = 2, kMapping = 3, kLocation = 4, kFunction = 5,
                   kStringTable = 6, kTimeNanos = 9, kPeriodType = 11, kPeriod = 12,
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
constexpr uint32_t kId = 1, kMemoryStart = 2, kMemoryLimit = 3, kFilename = 5, kBuildId = 6,
                   kHasFunctions = 7, kHasFilenames = 8, kHasLineNumbers = 9, kHasInlineFrames = 10;
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

// Rounds an estimate as the library does.
uint64_t Rounded(double estimate) {
  constexpr double kTooLarge = 9223372036854775808.0;
  if (!(estimate > 0)) return 0;
  return estimate >= kTooLarge ? INT64_MAX : static_cast<uint64_t>(estimate + 0.5);
}

class PprofProfile {
 public:
  PprofProfile(const Profile& profile, const std::vector<Module>& modules, const NameFrames& names)
      : profile_(profile), modules_(modules), names_(names) {
    StringId("");  // the first one is empty
  }

  const std::string& Write(const std::string& program) {
    if (profile_.counts_allocated()) {
      WriteValueType(profile_field::kSampleType, "objects", "count");
      WriteValueType(profile_field::kSampleType, "space", "bytes");
      out_.Number(profile_field::kDefaultSampleType, StringId("space"));
    } else {
      WriteValueType(profile_field::kSampleType, "alloc_objects", "count");
      WriteValueType(profile_field::kSampleType, "alloc_space", "bytes");
      WriteValueType(profile_field::kSampleType, "inuse_objects", "count");
      WriteValueType(profile_field::kSampleType, "inuse_space", "bytes");
      out_.Number(profile_field::kDefaultSampleType, StringId("inuse_space"));
    }
    WriteValueType(profile_field::kPeriodType, "space", "bytes");
    out_.Number(profile_field::kPeriod, std::max<uint64_t>(profile_.interval, 1));
    out_.Number(profile_field::kTimeNanos, static_cast<uint64_t>(profile_.time_ns));
    WriteMappings(program);
    for (const ProfileEntry& entry : profile_.entries) WriteEntry(entry);
    for (const std::string& string : strings_) out_.Text(profile_field::kStringTable, string);
    return out_.bytes();
  }

 private:
  uint64_t StringId(const std::string& string) {
    const auto [at, is_new] = string_ids_.try_emplace(string, strings_.size());
    if (is_new) strings_.push_back(string);
    return at->second;
  }

  void WriteValueType(uint32_t field, const char* type, const char* unit) {
    ProtoWriter message;
    message.Number(value_type_field::kType, StringId(type));
    message.Number(value_type_field::kUnit, StringId(unit));
    out_.Message(field, message);
  }

  uint64_t MappingId(const Module* module) const {
    return module == nullptr ? 0 : static_cast<uint64_t>(module - modules_.data()) + 1;
  }

  // The program comes first, since readers assume that the first mapping is the program.
  void WriteMappings(const std::string& program) {
    for (const bool first : {true, false}) {
      for (const Module& module : modules_) {
        if ((module.path == program) == first) WriteMapping(module);
      }
    }
  }

  void WriteMapping(const Module& module) {
    ProtoWriter message;
    message.Number(mapping_field::kId, MappingId(&module));
    message.Number(mapping_field::kMemoryStart, module.start);
    message.Number(mapping_field::kMemoryLimit, module.end);
    message.Number(mapping_field::kFilename, StringId(module.path));
    message.Number(mapping_field::kBuildId, StringId(module.build_id));
    // These flags keep readers from looking for the names again.
    for (const uint32_t known : {mapping_field::kHasFunctions, mapping_field::kHasFilenames,
                                 mapping_field::kHasLineNumbers, mapping_field::kHasInlineFrames}) {
      message.Number(known, 1);
    }
    out_.Message(profile_field::kMapping, message);
  }

  uint64_t FunctionId(const SourceFrame& frame) {
    const std::string key = frame.linkage_name + '\n' + frame.function + '\n' + frame.file;
    const auto [at, is_new] = functions_.try_emplace(key, functions_.size() + 1);
    if (is_new) {
      ProtoWriter message;
      message.Number(function_field::kId, at->second);
      message.Number(function_field::kName, StringId(frame.function));
      message.Number(function_field::kSystemName,
                     StringId(frame.linkage_name.empty() ? frame.function : frame.linkage_name));
      message.Number(function_field::kFilename, StringId(frame.file));
      out_.Message(profile_field::kFunction, message);
    }
    return at->second;
  }

  uint64_t LocationId(Address address) {
    const auto [at, is_new] = locations_.try_emplace(address, locations_.size() + 1);
    if (is_new) {
      ProtoWriter message;
      message.Number(location_field::kId, at->second);
      message.Number(location_field::kMappingId, MappingId(FindModule(modules_, address)));
      message.Number(location_field::kAddress, address);
      for (const SourceFrame& frame : names_(address)) {
        ProtoWriter line;
        line.Number(line_field::kFunctionId, FunctionId(frame));
        line.Number(line_field::kLine, static_cast<uint64_t>(frame.line));
        message.Message(location_field::kLine, line);
      }
      out_.Message(profile_field::kLocation, message);
    }
    return at->second;
  }

  void WriteEntry(const ProfileEntry& entry) {
    std::vector<uint64_t> locations;
    for (const Address frame : entry.frames) locations.push_back(LocationId(CallBefore(frame)));
    std::vector<uint64_t> values = {Rounded(entry.allocated_objects),
                                    Rounded(entry.allocated_bytes)};
    if (!profile_.counts_allocated()) {
      values.push_back(Rounded(entry.in_use_objects));
      values.push_back(Rounded(entry.in_use_bytes));
    }
    ProtoWriter message;
    message.Numbers(sample_field::kLocationId, locations);
    message.Numbers(sample_field::kValue, values);
    if (entry.object_bytes > 0) {
      ProtoWriter label;
      label.Number(label_field::kKey, StringId("bytes"));
      label.Number(label_field::kNum, entry.object_bytes);
      label.Number(label_field::kNumUnit, StringId("bytes"));
      message.Message(sample_field::kLabel, label);
    }
    out_.Message(profile_field::kSample, message);
  }

  const Profile& profile_;
  const std::vector<Module>& modules_;
  const NameFrames& names_;
  ProtoWriter out_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, uint64_t> string_ids_;
  std::unordered_map<std::string, uint64_t> functions_;
  std::unordered_map<Address, uint64_t> locations_;
};

}  // namespace

std::string PprofOf(const Profile& profile, const std::vector<Module>& modules,
                    const std::string& program, const NameFrames& names) {
  return Gzip(PprofProfile(profile, modules, names).Write(program));
}

}  // namespace cli
