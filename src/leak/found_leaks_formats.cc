// SPDX-License-Identifier: BSD-3-Clause
// Reports of lost memory as text and as JSON.
#include "base/text_writer.h"
#include "leak/found_leaks.h"
#include "profile/profile_formats.h"

namespace tcmalloc {
namespace {

std::string_view OutcomeName(LeakOutcome outcome) {
  switch (outcome) {
    case LeakOutcome::kDone:
      return "done";
    case LeakOutcome::kNoMemory:
      return "no memory";
    case LeakOutcome::kNotStopped:
      return "threads not stopped";
    case LeakOutcome::kImpossible:
      return "impossible";
  }
  return "";
}

// Where in which file the call is, which a return address is behind.
struct Place {
  Place(uintptr_t return_address, const MappedLibraries& libraries)
      : address(return_address == 0 ? 0 : return_address - 1), library(libraries.Find(address)) {
    offset = library == nullptr ? address : address - library->image.bias;
  }

  uintptr_t address;
  const MappedLibrary* library;
  uintptr_t offset;
};

void WriteCount(uint64_t objects, uint64_t bytes, TextWriter* out) {
  out->Number(bytes).Text(bytes == 1 ? " byte in " : " bytes in ").Number(objects);
  out->Text(objects == 1 ? " object" : " objects");
}

std::string_view AgeText(AgeBucket age) {
  switch (age) {
    case AgeBucket::kSecond:
      return "less than 1 s ago";
    case AgeBucket::kTenSeconds:
      return "1 s to 10 s ago";
    case AgeBucket::kMinute:
      return "10 s to 1 min ago";
    case AgeBucket::kTenMinutes:
      return "1 min to 10 min ago";
    case AgeBucket::kHour:
      return "10 min to 1 h ago";
    case AgeBucket::kOlder:
      return "1 h ago or earlier";
  }
  return "";
}

void WriteFrames(const uintptr_t* frames, size_t depth, std::string_view indent,
                 const MappedLibraries& libraries, TextWriter* out) {
  for (size_t i = 0; i < depth; ++i) {
    const Place place(frames[i], libraries);
    out->Text(indent).Text(place.library == nullptr ? "" : place.library->name);
    out->Text(place.library == nullptr ? "" : "+").Hex(place.offset).Text("\n");
  }
}

void WriteSite(const LeakSite& site, bool recorded, const MappedLibraries& libraries,
               TextWriter* out) {
  out->Text("  ");
  WriteCount(site.objects, site.bytes, out);
  if (site.direct_objects == 0) {
    out->Text(", all reached from other lost ones");
  } else if (site.direct_objects < site.objects) {
    out->Text(", of which directly lost: ");
    WriteCount(site.direct_objects, site.direct_bytes, out);
  }
  if (site.object_size > 0) {
    out->Text(", each of the size ").Number(site.object_size);
    out->Text(", in spans handed out ").Text(AgeText(site.age));
    if (recorded) out->Text(", from before allocations were recorded");
    out->Text("\n");
  } else {
    out->Text(", allocated from\n");
  }
  WriteFrames(site.frames, site.depth, "    ", libraries, out);
  if (site.nearest_depth > 0) {
    out->Text("    a hint, no evidence: the nearest sampled object of that size, allocated from\n");
    WriteFrames(site.nearest_frames, site.nearest_depth, "      ", libraries, out);
  }
  if (site.num_words == 0) return;
  out->Text("    one of them at ").Hex(site.example).Text(" begins with");
  for (size_t i = 0; i < site.num_words; ++i) out->Text(" ").Hex(site.words[i]);
  out->Text("\n");
}

void WriteJsonText(std::string_view text, TextWriter* out) {
  out->Text("\"");
  for (const char& c : text) {
    // Names are bytes, which JSON has no word for beyond ASCII.
    const bool plain = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    out->Text(plain ? std::string_view(&c, 1) : "?");
  }
  out->Text("\"");
}

void WriteJsonHex(uintptr_t value, TextWriter* out) { out->Text("\"").Hex(value).Text("\""); }

void WriteJsonFigures(uint64_t objects, uint64_t bytes, uint64_t direct_objects,
                      uint64_t direct_bytes, TextWriter* out) {
  out->Text("\"objects\":").Number(objects).Text(",\"bytes\":").Number(bytes);
  out->Text(",\"direct_objects\":").Number(direct_objects);
  out->Text(",\"direct_bytes\":").Number(direct_bytes);
}

// In milliseconds; without an end where there is none.
void WriteJsonAge(AgeBucket age, TextWriter* out) {
  out->Text(",\"span_age_ms\":{\"at_least\":");
  out->Number(static_cast<uint64_t>(AgeAtLeastMs(age)));
  if (age != AgeBucket::kOlder) {
    out->Text(",\"below\":").Number(static_cast<uint64_t>(AgeBelowMs(age)));
  }
  out->Text("}");
}

void WriteJsonFrames(const uintptr_t* frames, size_t depth, const MappedLibraries& libraries,
                     TextWriter* out) {
  out->Text("[");
  for (size_t i = 0; i < depth; ++i) {
    const Place place(frames[i], libraries);
    out->Text(i > 0 ? ",{" : "{").Text("\"address\":");
    WriteJsonHex(frames[i], out);
    if (place.library != nullptr) {
      out->Text(",\"file\":");
      WriteJsonText(place.library->name, out);
      out->Text(",\"call\":");
      WriteJsonHex(place.offset, out);
    }
    out->Text("}");
  }
  out->Text("]");
}

void WriteJsonSite(const LeakSite& site, const MappedLibraries& libraries, TextWriter* out) {
  out->Text("{");
  WriteJsonFigures(site.objects, site.bytes, site.direct_objects, site.direct_bytes, out);
  if (site.object_size > 0) {
    out->Text(",\"object_size\":").Number(site.object_size);
    WriteJsonAge(site.age, out);
  }
  out->Text(",\"example\":");
  WriteJsonHex(site.example, out);
  if (site.num_words > 0) {
    out->Text(",\"words\":[");
    for (size_t i = 0; i < site.num_words; ++i) {
      if (i > 0) out->Text(",");
      WriteJsonHex(site.words[i], out);
    }
    out->Text("]");
  }
  out->Text(",\"frames\":");
  WriteJsonFrames(site.frames, site.depth, libraries, out);
  if (site.nearest_depth > 0) {
    out->Text(",\"nearest_sample\":{\"hint\":true,\"frames\":");
    WriteJsonFrames(site.nearest_frames, site.nearest_depth, libraries, out);
    out->Text("}");
  }
  out->Text("}");
}

}  // namespace

void WriteLeakText(const FoundLeaks& report, std::string_view name, uint64_t max_sites,
                   const MappedLibraries& libraries, TextWriter* out) {
  out->Text("tcmalloc: leak check \"").Text(name).Text("\": ");
  if (!report.known()) {
    out->Text("nothing is known: ").Text(OutcomeName(report.outcome));
    if (report.error != 0)
      out->Text(" (error ").Number(static_cast<uint64_t>(report.error)).Text(")");
    out->Text("\n");
    return;
  }
  if (report.outcome == LeakOutcome::kNotStopped) {
    out->Text("other threads could not be stopped, and what they held may be among what follows; ");
  }
  if (report.objects == 0) {
    out->Text(report.everything ? "nothing is in use\n" : "nothing is lost\n");
    return;
  }
  WriteCount(report.objects, report.bytes, out);
  out->Text(report.everything ? " not freed" : " lost");
  if (!report.everything) {
    out->Text(", directly ");
    WriteCount(report.direct_objects, report.direct_bytes, out);
  }
  out->Text("; ").Number(report.num_sites());
  out->Text(report.num_sites() == 1 ? " place" : " places").Text(" of allocation\n");
  uint64_t written = 0;
  for (const LeakSite& site : report) {
    if (written == max_sites) break;
    ++written;
    WriteSite(site, report.recorded, libraries, out);
  }
  if (written < report.num_sites()) {
    out->Text("  and ").Number(report.num_sites() - written).Text(" more\n");
  }
}

void WriteLeakJson(const FoundLeaks& report, const MappedLibraries& libraries, TextWriter* out) {
  out->Text("{\"version\":1,\"outcome\":");
  WriteJsonText(OutcomeName(report.outcome), out);
  out->Text(",\"error\":").Number(static_cast<uint64_t>(report.error));
  out->Text(",\"recorded\":").Text(report.recorded ? "true" : "false");
  out->Text(",\"everything\":").Text(report.everything ? "true" : "false");
  out->Text(",\"time_ns\":").Number(static_cast<uint64_t>(report.time_ns));
  out->Text(",\"pause_ns\":").Number(static_cast<uint64_t>(report.pause_ns));
  out->Text(",\"threads\":").Number(report.threads);
  out->Text(",\"objects_in_use\":").Number(report.objects_in_use);
  out->Text(",\"bytes_in_use\":").Number(report.bytes_in_use).Text(",");
  WriteJsonFigures(report.objects, report.bytes, report.direct_objects, report.direct_bytes, out);
  out->Text(",\"sites\":[");
  bool first = true;
  for (const LeakSite& site : report) {
    if (!first) out->Text(",");
    first = false;
    WriteJsonSite(site, libraries, out);
  }
  out->Text("]}\n");
}

bool WriteLeakReport(const FoundLeaks& report, LeakFormat format, ByteSink::Function function,
                     void* context) {
  static_assert(static_cast<int>(LeakFormat::kProto) == static_cast<int>(ProfileFormat::kProto));
  static_assert(static_cast<int>(LeakFormat::kFolded) == static_cast<int>(ProfileFormat::kFolded));
  if (format != LeakFormat::kText && format != LeakFormat::kJson) {
    return WriteProfile(report.AsProfile(), static_cast<ProfileFormat>(format), function, context);
  }
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  if (!libraries.Read()) return false;
  ByteSink sink(function, context);
  char buffer[1024];
  TextWriter text(buffer, sizeof(buffer), &ByteSink::Text, &sink);
  if (format == LeakFormat::kText) {
    WriteLeakText(report, "on demand", UINT64_MAX, libraries, &text);
  } else {
    WriteLeakJson(report, libraries, &text);
  }
  text.Flush();
  return sink.ok();
}

}  // namespace tcmalloc
