// SPDX-License-Identifier: BSD-3-Clause
#include "stats/process_facts.h"

#include <algorithm>
#include <cstring>

#include "base/compiler.h"
#include "base/text_writer.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/environment.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/memory_map.h"

namespace tcmalloc {
namespace {

struct LibraryName {
  uintptr_t address;
  char* name;
};

void SeeMapping(std::string_view line, void* context) {
  const LibraryName& wanted = *static_cast<LibraryName*>(context);
  MappingLine mapping;
  if (!ParseMappingLine(line, &mapping) || wanted.address < mapping.start ||
      wanted.address >= mapping.end) {
    return;
  }
  const size_t length = std::min(mapping.name.size(), ProcessFacts::kMaxName - 1);
  memcpy(wanted.name, mapping.name.data(), length);
  wanted.name[length] = '\0';
}

// Finds the file from which this code was loaded.
TC_SLOW_PATH void FindLibrary(char* name) {
  LibraryName wanted = {reinterpret_cast<uintptr_t>(&CollectProcessFacts), name};
  LineReader<512> lines;
  lines.ForEachLine("/proc/self/maps", &SeeMapping, &wanted);
}

void WriteJsonText(std::string_view text, TextWriter* out) {
  out->Text("\"");
  for (const char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->Text("\\").Text({&c, 1});
    } else if (code < 0x20 || code >= 0x7f) {
      // The encoding of file names is unknown, so other bytes are escaped.
      constexpr char kDigits[] = "0123456789abcdef";
      out->Text("\\u00").Text({&kDigits[code >> 4], 1}).Text({&kDigits[code & 15], 1});
    } else {
      out->Text({&c, 1});
    }
  }
  out->Text("\"");
}

const char* NameOr(const char* name) { return *name == '\0' ? "(unknown file)" : name; }

}  // namespace

const std::string_view kLibraryVersion = TCMALLOC_VERSION;

void CollectProcessFacts(const Settings& settings, ProcessFacts* facts) {
  const ErrnoKeeper keeper;
  facts->pid = ProcessId();
  facts->seconds = WallClockNanoseconds() / 1'000'000'000;
  facts->program[ReadLink("/proc/self/exe", facts->program, ProcessFacts::kMaxName - 1)] = '\0';
  facts->settings = settings.given;
  facts->library[0] = '\0';
  FindLibrary(facts->library);
  const std::optional<ProcessMemory> memory = ReadProcessMemory();
  facts->resident_bytes = memory.has_value() ? memory->resident_bytes : 0;
  facts->anonymous_bytes = memory.has_value() ? memory->anonymous_bytes : 0;
}

void WriteBanner(const ProcessFacts& facts, TextWriter* out) {
  out->Text("TCMalloc ").Text(kLibraryVersion).Text(", ").Text(NameOr(facts.library)).Text("\n");
  out->Text("Process ").Number(facts.pid).Text(", ").Text(NameOr(facts.program)).Text(", ");
  WriteUtcTime(facts.seconds, out);
  if (facts.resident_bytes == 0) {
    out->Text("\nResident memory unknown: /proc/self/statm cannot be read\n");
  } else {
    out->Text("\nResident memory ").Mebibytes(facts.resident_bytes);
    out->Text(" MiB, anonymous ").Mebibytes(facts.anonymous_bytes);
    out->Text(" MiB (the kernel's figures for the whole process)\n");
  }
  out->Text("Settings: ").Text(*facts.settings == '\0' ? "default" : facts.settings).Text("\n");
}

void WriteFactsAsJson(const ProcessFacts& facts, TextWriter* out) {
  out->Text("\"version\":\"").Text(kLibraryVersion).Text("\",\"time\":\"");
  WriteUtcTime(facts.seconds, out);
  out->Text("\",\"pid\":").Number(facts.pid).Text(",\"program\":");
  WriteJsonText(facts.program, out);
  out->Text(",\"library\":");
  WriteJsonText(facts.library, out);
  out->Text(",\"settings\":");
  WriteJsonText(facts.settings, out);
  out->Text(",\"process_resident_bytes\":").Number(facts.resident_bytes);
  out->Text(",\"process_anonymous_bytes\":").Number(facts.anonymous_bytes).Text(",");
}

}  // namespace tcmalloc
