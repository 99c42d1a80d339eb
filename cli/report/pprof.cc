// SPDX-License-Identifier: BSD-3-Clause
#include "report/pprof.h"

#include <unordered_map>

#include "formats/profiles/profile_writers.h"

namespace cli {
namespace {

using tcmalloc::ProfileProto;

class PprofProfile {
 public:
  PprofProfile(const Profile& profile, const std::vector<Module>& modules, const NameFrames& names)
      : profile_(profile),
        modules_(modules),
        names_(names),
        text_(buffer_, sizeof(buffer_), &Append, &bytes_),
        proto_(&text_) {
    for (const std::string_view string : ProfileProto::kFixedStrings) StringId(std::string(string));
  }

  const std::string& Write(const std::string& program) {
    proto_.Begin(profile_.counts_allocated(), profile_.time_ns, 0, profile_.interval);
    WriteMappings(program);
    for (const ProfileEntry& entry : profile_.entries) WriteEntry(entry);
    for (size_t i = ProfileProto::kNumFixedStrings; i < strings_.size(); ++i) {
      proto_.String(strings_[i]);
    }
    text_.Flush();
    return bytes_;
  }

 private:
  static void Append(std::string_view text, void* bytes) {
    static_cast<std::string*>(bytes)->append(text);
  }

  uint64_t StringId(const std::string& string) {
    const auto [at, is_new] = string_ids_.try_emplace(string, strings_.size());
    if (is_new) strings_.push_back(string);
    return at->second;
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
    proto_.WriteMapping({.id = MappingId(&module),
                         .start = module.start,
                         .end = module.end,
                         .name = StringId(module.path),
                         .build_id = StringId(module.build_id),
                         .is_named = true});
  }

  uint64_t FunctionId(const SourceFrame& frame) {
    const std::string key = frame.linkage_name + '\n' + frame.function + '\n' + frame.file;
    const auto [at, is_new] = functions_.try_emplace(key, functions_.size() + 1);
    if (is_new) {
      const std::string& linkage_name =
          frame.linkage_name.empty() ? frame.function : frame.linkage_name;
      proto_.WriteFunction(at->second, StringId(frame.function), StringId(linkage_name),
                           StringId(frame.file));
    }
    return at->second;
  }

  uint64_t LocationId(Address address) {
    const auto [at, is_new] = locations_.try_emplace(address, locations_.size() + 1);
    if (is_new) {
      std::vector<ProfileProto::Line> lines;
      for (const SourceFrame& frame : names_(address)) {
        lines.push_back({FunctionId(frame), static_cast<uint64_t>(frame.line)});
      }
      proto_.WriteLocation(at->second, MappingId(FindModule(modules_, address)), address, lines);
    }
    return at->second;
  }

  void WriteEntry(const ProfileEntry& entry) {
    std::vector<uint64_t> locations;
    for (const Address frame : entry.frames) locations.push_back(LocationId(CallBefore(frame)));
    const ProfileProto::Label bytes = {ProfileProto::kBytes, entry.object_bytes,
                                       ProfileProto::kBytes};
    const double estimates[] = {entry.allocated_objects, entry.allocated_bytes,
                                entry.in_use_objects, entry.in_use_bytes};
    proto_.WriteSample(locations, std::span(estimates, profile_.counts_allocated() ? 2 : 4),
                       std::span(&bytes, entry.object_bytes > 0 ? 1 : 0));
  }

  const Profile& profile_;
  const std::vector<Module>& modules_;
  const NameFrames& names_;
  std::string bytes_;
  char buffer_[2048];
  tcmalloc::TextWriter text_;
  ProfileProto proto_;
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
