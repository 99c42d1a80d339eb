// SPDX-License-Identifier: BSD-3-Clause
// Leak reports as text and as JSON.
#include <algorithm>
#include <csignal>
#include <iterator>

#include "base/text.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/profiles/profile.h"
#include "os/log.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

// In the order of LeakOutcome.
constexpr std::string_view kOutcomeNames[] = {"done", "no memory", "threads not stopped",
                                              "impossible"};
static_assert(static_cast<size_t>(LeakOutcome::kImpossible) + 1 == std::size(kOutcomeNames));

// Writes why there is no result, and what the user can do.
void WriteWhyUnknown(const FoundLeaks& report, TextWriter* out) {
  out->Text("not checked: ");
  if (report.outcome == LeakOutcome::kNoMemory) {
    out->Text("the system has no memory for the check\n");
  } else if (report.stuck_thread != 0) {
    out->Text("thread ").Number(static_cast<uint64_t>(report.stuck_thread));
    out->Text(
        " could not be stopped: it waits in the kernel, for a disk or network file system or "
        "for the child of its vfork to call exec; check again when that is over\n");
  } else if (report.signal == SIGSYS) {
    out->Text(
        "a sandbox ended the check at a system call; allow those that docs/system-calls.md lists "
        "for leak checks\n");
  } else if (report.signal != 0) {
    out->Text("the check was ended by signal ").Number(static_cast<uint64_t>(report.signal));
    out->Text("; the program was not affected\n");
  } else {
    out->Text("the process cannot read its own threads or mappings");
    if (report.error != 0) {
      out->Text(" (");
      WriteError(report.error, out);
      out->Text(")");
    }
    out->Text("; check that /proc is mounted and that no sandbox forbids ptrace and clone\n");
  }
}

void WriteCount(uint64_t objects, uint64_t bytes, TextWriter* out) {
  out->Number(bytes).Text(bytes == 1 ? " byte in " : " bytes in ").Number(objects);
  out->Text(objects == 1 ? " object" : " objects");
}

// In the order of AgeBucket.
constexpr std::string_view kAgeTexts[] = {"less than 1 s ago", "1 s to 10 s ago",
                                          "10 s to 1 min ago", "1 min to 10 min ago",
                                          "10 min to 1 h ago", "1 h ago or earlier"};
static_assert(static_cast<size_t>(AgeBucket::kOlder) + 1 == std::size(kAgeTexts));

void WriteSite(const LeakSite& site, bool recorded, const LeakSymbols& symbols, TextWriter* out) {
  out->Text("  ");
  WriteCount(site.objects, site.bytes, out);
  if (site.direct_objects == 0) {
    out->Text(", all reachable from other leaked objects");
  } else if (site.direct_objects < site.objects) {
    out->Text(", directly leaked: ");
    WriteCount(site.direct_objects, site.direct_bytes, out);
  }
  if (site.object_size > 0) {
    out->Text(", each of ").Number(site.object_size);
    out->Text(" bytes, in spans handed out ").Text(kAgeTexts[static_cast<size_t>(site.age)]);
    if (recorded) out->Text(", from before allocations were recorded");
    out->Text("\n");
  } else {
    out->Text(", allocated from\n");
  }
  symbols.names().WriteFrames(site.frames, site.depth, "    ", symbols.libraries(), out);
  if (site.nearest_depth > 0) {
    out->Text(
        "    a hint, not evidence: the nearest sampled object of this size, allocated from\n");
    symbols.names().WriteFrames(site.nearest_frames, site.nearest_depth, "      ",
                                symbols.libraries(), out);
  }
  if (site.num_words == 0) return;
  out->Text("    one of them at ").Hex(site.example).Text(" begins with");
  for (size_t i = 0; i < site.num_words; ++i) out->Text(" ").Hex(site.words[i]);
  out->Text("\n");
}

void WriteJsonText(std::string_view text, TextWriter* out) {
  out->Text("\"");
  for (const char& c : text) {
    // JSON has no notation for bytes that are not text: only printable ASCII is written.
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

// Writes the age in milliseconds; without "below" for the oldest bucket.
void WriteJsonAge(AgeBucket age, TextWriter* out) {
  out->Text(",\"span_age_ms\":{\"at_least\":");
  out->Number(static_cast<uint64_t>(AgeAtLeastMs(age)));
  if (age != AgeBucket::kOlder) {
    out->Text(",\"below\":").Number(static_cast<uint64_t>(AgeBelowMs(age)));
  }
  out->Text("}");
}

void WriteJsonFrames(const uintptr_t* frames, size_t depth, const LeakSymbols& symbols,
                     TextWriter* out) {
  out->Text("[");
  for (size_t i = 0; i < depth; ++i) {
    const uintptr_t call = CallBefore(frames[i]);
    const MappedLibrary* const library = symbols.libraries().Find(call);
    out->Text(i > 0 ? ",{" : "{").Text("\"address\":");
    WriteJsonHex(frames[i], out);
    if (library != nullptr) {
      out->Text(",\"file\":");
      WriteJsonText(library->name, out);
      out->Text(",\"call\":");
      WriteJsonHex(call - library->image.bias, out);
    }
    std::string_view function;
    uintptr_t offset;
    if (symbols.names().Find(call, &function, &offset)) {
      out->Text(",\"function\":");
      WriteJsonText(function, out);
      out->Text(",\"function_offset\":");
      WriteJsonHex(offset, out);
    }
    out->Text("}");
  }
  out->Text("]");
}

void WriteJsonSite(const LeakSite& site, const LeakSymbols& symbols, TextWriter* out) {
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
  WriteJsonFrames(site.frames, site.depth, symbols, out);
  if (site.nearest_depth > 0) {
    out->Text(",\"nearest_sample\":{\"hint\":true,\"frames\":");
    WriteJsonFrames(site.nearest_frames, site.nearest_depth, symbols, out);
    out->Text("}");
  }
  out->Text("}");
}

}  // namespace

void WriteLeakSummary(const FoundLeaks& report, TextWriter* out) {
  if (report.objects_in_use == 0) {
    out->Text("no object is in use, so nothing was checked; the program may have another malloc\n");
    return;
  }
  out->Text("no leaks found, ").Number(report.objects_in_use).Text(" objects, ");
  out->Number(report.bytes_in_use).Text(" bytes checked\n");
}

LeakSymbols::LeakSymbols(const FoundLeaks& report, uint64_t max_sites, VirtualMemory& vm)
    : libraries_(vm), names_(vm) {
  bool has_memory = libraries_.Read();
  uint64_t added = 0;
  for (const LeakSite& site : report) {
    if (added == max_sites) break;
    ++added;
    const auto add = [&](const uintptr_t* frames, size_t depth) {
      for (size_t i = 0; i < depth && has_memory; ++i) {
        has_memory = names_.Add(CallBefore(frames[i]));
      }
    };
    add(site.frames, site.depth);
    add(site.nearest_frames, site.nearest_depth);
  }
  names_.Resolve(libraries_);
}

void WriteLeakText(const FoundLeaks& report, std::string_view name, uint64_t max_sites,
                   const LeakSymbols& symbols, TextWriter* out) {
  const auto begin = [&]() { out->Text("tcmalloc: leak check \"").Text(name).Text("\": "); };
  if (!report.known()) {
    begin();
    WriteWhyUnknown(report, out);
    return;
  }
  if (report.outcome == LeakOutcome::kNotStopped) {
    begin();
    out->Text("other threads could not be stopped");
    if (report.error != 0) {
      out->Text(" (");
      WriteError(report.error, out);
      out->Text(")");
    }
    out->Text(": objects that only they hold may be reported as leaks\n");
  }
  if (report.objects == 0) {
    begin();
    WriteLeakSummary(report, out);
    return;
  }
  out->Text("tcmalloc: Leak check ").Text(name).Text(" detected leaks of ").Number(report.bytes);
  out->Text(" bytes in ").Number(report.objects).Text(" objects");
  if (report.everything) {
    out->Text(" that were not freed");
  } else {
    out->Text(", directly ");
    WriteCount(report.direct_objects, report.direct_bytes, out);
  }
  out->Text("; ").Number(report.num_sites());
  out->Text(report.num_sites() == 1 ? " call site\n" : " call sites\n");
  out->Text("tcmalloc: The ").Number(std::min<uint64_t>(report.num_sites(), max_sites));
  out->Text(" largest leaks:\n");
  uint64_t written = 0;
  for (const LeakSite& site : report) {
    if (written == max_sites) break;
    ++written;
    WriteSite(site, report.recorded, symbols, out);
  }
  if (written < report.num_sites()) {
    out->Text("  and ").Number(report.num_sites() - written).Text(" more\n");
  }
  if (report.reached_far_objects > 0) {
    out->Text("  of these, ");
    WriteCount(report.reached_far_objects, report.reached_far_bytes, out);
    out->Text(" are reachable by pointers beyond byte ").Number(report.max_pointer_offset);
    out->Text(
        " of an object, and probably not leaked: HEAP_CHECK_MAX_POINTER_OFFSET=-1 counts such "
        "pointers\n");
  }
  if (report.unread_bytes > 0) {
    out->Text("  ").Number(report.unread_bytes);
    out->Text(
        " bytes could not be read (protected, or unmapped during the check): objects that "
        "only they point to are among the leaks\n");
  }
}

void WriteLeakJson(const FoundLeaks& report, const LeakSymbols& symbols, TextWriter* out) {
  out->Text("{\"version\":1,\"outcome\":");
  WriteJsonText(kOutcomeNames[static_cast<size_t>(report.outcome)], out);
  out->Text(",\"error\":").Number(static_cast<uint64_t>(report.error));
  out->Text(",\"signal\":").Number(static_cast<uint64_t>(report.signal));
  out->Text(",\"stuck_thread\":").Number(static_cast<uint64_t>(report.stuck_thread));
  out->Text(",\"recorded\":").Text(report.recorded ? "true" : "false");
  out->Text(",\"everything\":").Text(report.everything ? "true" : "false");
  out->Text(",\"time_ns\":").Number(static_cast<uint64_t>(report.time_ns));
  out->Text(",\"pause_ns\":").Number(static_cast<uint64_t>(report.pause_ns));
  out->Text(",\"threads\":").Number(report.threads);
  out->Text(",\"objects_in_use\":").Number(report.objects_in_use);
  out->Text(",\"bytes_in_use\":").Number(report.bytes_in_use);
  out->Text(",\"unread_bytes\":").Number(report.unread_bytes).Text(",");
  WriteJsonFigures(report.objects, report.bytes, report.direct_objects, report.direct_bytes, out);
  out->Text(",\"reached_far_objects\":").Number(report.reached_far_objects);
  out->Text(",\"reached_far_bytes\":").Number(report.reached_far_bytes);
  out->Text(",\"sites\":[");
  bool first = true;
  for (const LeakSite& site : report) {
    if (!first) out->Text(",");
    first = false;
    WriteJsonSite(site, symbols, out);
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
  const LeakSymbols symbols(report, UINT64_MAX, vm);
  ByteSink sink(function, context);
  char buffer[1024];
  TextWriter text(buffer, sizeof(buffer), &ByteSink::Text, &sink);
  if (format == LeakFormat::kText) {
    WriteLeakText(report, "on demand", UINT64_MAX, symbols, &text);
  } else {
    WriteLeakJson(report, symbols, &text);
  }
  text.Flush();
  return sink.ok();
}

}  // namespace tcmalloc
