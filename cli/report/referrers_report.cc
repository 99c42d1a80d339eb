// SPDX-License-Identifier: BSD-3-Clause
#include "report/referrers_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "heap/profile.h"
#include "report/profile_report.h"
#include "report/table.h"

namespace cli {
namespace {

const char* KindName(Holder::Kind kind) {
  switch (kind) {
    case Holder::Kind::kObject:
      return "object";
    case Holder::Kind::kMemory:
      return "memory";
    case Holder::Kind::kData:
      return "variable";
    case Holder::Kind::kRegistered:
      return "registered root";
    case Holder::Kind::kThreadData:
      return "thread-local storage";
    case Holder::Kind::kControlBlock:
      return "control block of an ended thread";
    case Holder::Kind::kStack:
      return "stack";
    case Holder::Kind::kRegister:
      return "register";
    case Holder::Kind::kCLibraryHeap:
      return "heap of the C library";
    case Holder::Kind::kIgnored:
      return "ignored object";
    case Holder::Kind::kRunsOn:
      return "stack pointer";
  }
  return "";
}

std::string WithOffset(const Variable& variable) {
  return variable.offset == 0 ? variable.name
                              : fmt::format("{}+{}", variable.name, variable.offset);
}

}  // namespace

HolderNames::HolderNames(const Target& target, const FileSearch& files, const std::string& program)
    : target_(target),
      files_(files),
      mappings_(target.image().Mappings()),
      symbolizer_(files, target.image()),
      vtables_(files, target.image()),
      places_(target.image(), symbolizer_.modules(), files_, program) {}

std::string HolderNames::AllocatedBy(const std::vector<Address>& frames) {
  const Profile one{
      .entries = {{.frames = frames, .samples = 1, .in_use_objects = 1, .in_use_bytes = 1}}};
  const std::vector<CallSite> sites = CallSitesOf(one, symbolizer_.names());
  if (sites.empty() || sites[0].frames.empty()) return {};
  return FrameText(*sites[0].frames[OwnFrame(sites[0])]);
}

void HolderNames::NameData(const Link& link, Names* names) {
  const Module* const module = FindModule(symbolizer_.modules(), link.at);
  if (module == nullptr) return;
  names->file = module->name();
  const std::optional<Variable> variable = symbolizer_.VariableAt(link.at);
  names->variable = variable.has_value()
                        ? WithOffset(*variable)
                        : fmt::format("{}+{:#x}", module->name(), link.at - module->bias);
}

void HolderNames::NameThreadPlace(const Link& link, Names* names) {
  const std::optional<ThreadPlace> place = places_.Find(link.at);
  if (!place.has_value()) return;
  names->thread = place->thread;
  names->in_thread = place->kind;
  if (place->frame.has_value()) {
    names->function = symbolizer_.FramesAt(place->frame->call()).back().function;
  }
  if (!place->program_offset.has_value()) return;
  const Module& program = *places_.program();
  names->file = program.name();
  if (const auto variable = symbolizer_.ThreadVariableAt(program, *place->program_offset)) {
    names->variable = WithOffset(*variable);
  }
}

HolderNames::Names HolderNames::NamesOf(const Link& link) {
  Names names;
  const Holder& holder = link.holder;
  switch (holder.kind) {
    case Holder::Kind::kObject: {
      Address word = 0;
      if (target_.image().Read(holder.start, &word, target_.pointer_bytes())) {
        names.type = vtables_.TypeOf(word);
      }
      if (holder.sample != 0) names.frames = ReadSample(target_, holder.sample).frames;
      break;
    }
    case Holder::Kind::kData:
    case Holder::Kind::kRegistered:
      NameData(link, &names);
      break;
    case Holder::Kind::kRegister:
      for (const ThreadRegisters& thread : target_.image().Threads()) {
        if (thread.thread == holder.thread) names.thread = &thread;
      }
      break;
    case Holder::Kind::kMemory:
      NameThreadPlace(link, &names);
      if (names.thread == nullptr) NameData(link, &names);
      break;
    default:
      NameThreadPlace(link, &names);
      break;
  }
  for (const Mapping& mapping : mappings_) {
    if (link.at >= mapping.start && link.at < mapping.end) names.mapping = mapping.name;
  }
  return names;
}

std::string HolderNames::Text(const Link& link) {
  const Names names = NamesOf(link);
  const Holder& holder = link.holder;
  const std::string at = fmt::format(", at {:#x}", link.at);
  const std::string thread = names.thread == nullptr ? std::string() : ThreadText(*names.thread);
  const auto in_thread = names.in_thread;
  if (in_thread == ThreadPlace::Kind::kThreadData && holder.kind != Holder::Kind::kRegister) {
    const std::string of = " of " + thread + at;
    if (names.variable.empty()) return "thread-local storage" + of;
    return fmt::format("thread-local variable {} in {}{}", names.variable, names.file, of);
  }
  if (in_thread == ThreadPlace::Kind::kControlBlock) {
    return "what the C library keeps of " + thread + at;
  }
  switch (holder.kind) {
    case Holder::Kind::kObject: {
      std::string text =
          fmt::format("offset {} of an object of {} at {:#x}", link.at - holder.start,
                      CountOf(holder.bytes, "byte"), holder.start);
      if (!names.type.empty()) text += ", of type " + names.type;
      const std::string by = AllocatedBy(names.frames);
      return by.empty() ? text : text + ", allocated by " + by;
    }
    case Holder::Kind::kData:
      return fmt::format("variable {} in {}{}", names.variable,
                         names.file.empty() ? names.mapping : names.file, at);
    case Holder::Kind::kRegistered:
      return (names.variable.empty()
                  ? std::string("memory that")
                  : fmt::format("variable {} in {}, which", names.variable, names.file)) +
             " the program has registered as a root" + at;
    case Holder::Kind::kRegister:
      return fmt::format("{} of {}",
                         holder.register_name.empty()
                             ? std::string("a vector register")
                             : fmt::format("register {}", holder.register_name),
                         thread);
    case Holder::Kind::kStack:
    case Holder::Kind::kMemory:
    case Holder::Kind::kThreadData:
      if (in_thread == ThreadPlace::Kind::kStack) {
        return fmt::format("stack of {}{}{}", thread,
                           names.function.empty() ? "" : ", in " + names.function, at);
      }
      if (holder.kind == Holder::Kind::kStack) return "a stack" + at;
      if (!names.variable.empty()) {
        return fmt::format("variable {} in {}{}", names.variable, names.file, at);
      }
      return fmt::format("{} of memory that the program has mapped{}{}", Size(holder.bytes),
                         names.mapping.empty() ? "" : ", " + names.mapping, at);
    case Holder::Kind::kControlBlock:
      return "what the C library keeps of a thread that has ended" + at;
    case Holder::Kind::kCLibraryHeap:
      return "the heap of the C library's own malloc" + at;
    case Holder::Kind::kIgnored:
      return "the program, which has told the leak checker to ignore the object";
    case Holder::Kind::kRunsOn:
      return "the stack pointer of a thread, which runs on the object";
  }
  return {};
}

nlohmann::ordered_json HolderNames::Json(const Link& link) {
  const Names names = NamesOf(link);
  const Holder& holder = link.holder;
  nlohmann::ordered_json json;
  const bool in_storage = names.in_thread == ThreadPlace::Kind::kThreadData;
  json["where"] = in_storage ? KindName(Holder::Kind::kThreadData)
                  : names.in_thread == ThreadPlace::Kind::kControlBlock
                      ? "control block of a thread"
                  : names.in_thread == ThreadPlace::Kind::kStack ? KindName(Holder::Kind::kStack)
                                                                 : KindName(holder.kind);
  if (link.at != 0) json["at"] = link.at;
  json["points_to"] = link.value;
  if (holder.kind == Holder::Kind::kObject) {
    json["object"] = {
        {"start", holder.start}, {"bytes", holder.bytes}, {"offset", link.at - holder.start}};
    if (!names.type.empty()) json["object"]["type"] = names.type;
  } else if (holder.kind == Holder::Kind::kMemory) {
    json["memory"] = {{"start", holder.start}, {"bytes", holder.bytes}};
  }
  if (!names.variable.empty()) json["variable"] = names.variable;
  if (!names.file.empty()) json["file"] = names.file;
  if (!names.mapping.empty()) json["mapping"] = names.mapping;
  if (names.thread != nullptr) {
    json["thread"] = names.thread->thread;
    if (!names.thread->name.empty()) json["thread_name"] = names.thread->name;
  }
  if (!names.function.empty()) json["function"] = names.function;
  if (holder.kind == Holder::Kind::kRegister) {
    json["register"] = holder.register_name.empty() ? "vector" : std::string(holder.register_name);
  }
  if (!names.frames.empty()) {
    nlohmann::ordered_json& frames = json["allocated_by"] = nlohmann::ordered_json::array();
    for (const Address frame : names.frames) {
      for (const SourceFrame& each : symbolizer_.FramesAt(CallBefore(frame))) {
        nlohmann::ordered_json& entry = frames.emplace_back();
        entry["function"] = each.function;
        if (!each.file.empty()) entry["file"] = each.file;
        if (each.line != 0) entry["line"] = each.line;
      }
    }
  }
  return json;
}

namespace {

std::string Count(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

bool IsObject(const ReferrerSearch& search) { return search.place.object.start != 0; }

// Returns "the object"; "the address" for an address that is in no object.
const char* Subject(const ReferrerSearch& search) {
  return IsObject(search) ? "the object" : "the address";
}

const char* EndName(Chain::End end) {
  switch (end) {
    case Chain::End::kRoot:
      return "root";
    case Chain::End::kLeaked:
      return "leaked";
    case Chain::End::kItself:
      return "itself";
  }
  return "";
}

const char* EndText(const Chain& chain, bool complete) {
  switch (chain.end) {
    case Chain::End::kRoot:
      return "";
    case Chain::End::kLeaked:
      return complete ? ", which is leaked" : ", which is unreachable as far as is known";
    case Chain::End::kItself:
      return chain.links.size() == 1 ? ", which is the object itself"
                                     : ", which is the object itself: a cycle";
  }
  return "";
}

void AddChain(const ReferrerSearch& search, size_t number, HolderNames& names, std::string* out) {
  const Chain& chain = search.chains[number];
  for (size_t i = 0; i < chain.links.size(); ++i) {
    const Link& link = chain.links[i];
    if (chain.gap > 0 && i == chain.links_before_gap) {
      fmt::format_to(std::back_inserter(*out), "        ... {}\n", Count(chain.gap, "more object"));
    }
    const std::string start = i == 0 ? fmt::format("  {:>3}.", number + 1) : "       from";
    *out += start + " " + names.Text(link);
    const Address pointee = i == 0 ? search.place.object.start : chain.links[i - 1].holder.start;
    const bool in_object =
        i == 0 ? pointee != 0 : chain.links[i - 1].holder.kind == Holder::Kind::kObject;
    const bool is_after_gap = chain.gap > 0 && i == chain.links_before_gap;
    if (in_object && !is_after_gap && link.value != pointee) {
      fmt::format_to(std::back_inserter(*out), " (points {} into it)",
                     Count(link.value - pointee, "byte"));
    }
    if (i + 1 == chain.links.size()) *out += EndText(chain, search.incomplete.empty());
    *out += '\n';
  }
}

}  // namespace

std::string ReferrersText(const ReferrerSearch& search, HolderNames& names) {
  std::string out;
  const auto to = std::back_inserter(out);
  if (search.words == 0) {
    const char* const nothing =
        search.place.kind == Place::Kind::kInUse && search.incomplete.empty()
            ? ": it is leaked, or the pointer is hidden"
            : "";
    fmt::format_to(to, "No referrer found: nothing that was searched points to {}{}\n",
                   Subject(search), nothing);
  } else {
    fmt::format_to(
        to, "{} to {}, the shortest ways from roots first:\n",
        search.words == 1 ? "1 word points" : fmt::format("{} words point", search.words),
        Subject(search));
    for (size_t i = 0; i < search.chains.size(); ++i) {
      AddChain(search, i, names, &out);
    }
    if (search.words > search.chains.size()) {
      fmt::format_to(to, "  and {} more\n", search.words - search.chains.size());
    }
    if (search.words == search.words_leaked + search.words_itself) {
      const bool is_known = search.place.kind == Place::Kind::kInUse && search.incomplete.empty();
      fmt::format_to(to, "No root reaches {}{}\n", Subject(search),
                     is_known ? ": it is leaked" : "");
    }
  }
  if (search.only_objects > 0) {
    fmt::format_to(to, "{} of {} can be reached through this one alone.\n",
                   Count(search.only_objects, "more object"), Size(search.only_bytes));
  }
  for (const std::string& line : search.incomplete) fmt::format_to(to, "incomplete: {}\n", line);
  return out;
}

nlohmann::ordered_json ReferrersJson(const ReferrerSearch& search, HolderNames& names) {
  nlohmann::ordered_json json;
  json["words"] = search.words;
  json["words_in_leaked_objects"] = search.words_leaked;
  json["words_in_cycles"] = search.words_itself;
  json["reachable"] = search.words > search.words_leaked + search.words_itself;
  json["only_through_this"] = {{"objects", search.only_objects}, {"bytes", search.only_bytes}};
  json["registered_roots"] = nlohmann::ordered_json::array();
  for (const auto& [start, end] : search.registered_roots) {
    json["registered_roots"].push_back({{"start", start}, {"bytes", end - start}});
  }
  json["complete"] = search.incomplete.empty();
  json["incomplete"] = search.incomplete;
  json["chains"] = nlohmann::ordered_json::array();
  for (const Chain& chain : search.chains) {
    nlohmann::ordered_json& one = json["chains"].emplace_back();
    one["ends"] = EndName(chain.end);
    if (chain.gap > 0) {
      one["not_shown"] = {{"objects", chain.gap}, {"after", chain.links_before_gap}};
    }
    one["links"] = nlohmann::ordered_json::array();
    for (const Link& link : chain.links) one["links"].push_back(names.Json(link));
  }
  return json;
}

}  // namespace cli
