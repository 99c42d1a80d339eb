// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/memory_figures.h"

#include <cstddef>

#include "base/text_fields.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/memory_map.h"

namespace tcmalloc {
namespace {

// All lines that are needed from these files are shorter.
using Lines = LineReader<128>;

struct CgroupFigures {
  std::string_view name;      // the wanted figure
  std::string_view own_name;  // used if the wanted one is missing
  std::optional<uint64_t> value;
  std::optional<uint64_t> own_value;
};

void VisitCgroupFigure(std::string_view line, void* context) {
  CgroupFigures* const figures = static_cast<CgroupFigures*>(context);
  MemoryFigure figure;
  if (!ParseMemoryFigure(line, &figure)) return;
  if (figure.name == figures->name) figures->value = figure.value;
  if (figure.name == figures->own_name) figures->own_value = figure.value;
}

struct SystemFigures {
  std::optional<uint64_t> total;
  std::optional<uint64_t> available;
};

void VisitSystemFigure(std::string_view line, void* context) {
  SystemFigures* const figures = static_cast<SystemFigures*>(context);
  MemoryFigure figure;
  if (!ParseMemoryFigure(line, &figure)) return;
  if (figure.name == "MemTotal") figures->total = figure.value;
  if (figure.name == "MemAvailable") figures->available = figure.value;
}

}  // namespace

bool ParseMemoryFigure(std::string_view line, MemoryFigure* figure) {
  std::string_view name = TakeField(&line, ' ');
  if (name.ends_with(':')) name.remove_suffix(1);
  if (name.empty()) return false;
  while (line.starts_with(' ')) line.remove_prefix(1);
  uint64_t value;
  if (!TakeNumber(&line, &value)) return false;
  if (line == " kB") {
    if (value > UINT64_MAX / 1024) return false;
    value *= 1024;
  } else if (!line.empty()) {
    return false;
  }
  figure->name = name;
  figure->value = value;
  return true;
}

std::optional<uint64_t> ReadProcessAnonymousBytes(std::string_view root) {
  const ErrnoKeeper keeper;
  const FilePath path(root, "/proc/self/statm");
  if (!path.is_whole()) return std::nullopt;
  const std::optional<ProcessMemory> memory = ReadProcessMemory(path.c_str());
  return memory.has_value() ? std::optional(memory->anonymous_bytes) : std::nullopt;
}

std::optional<uint64_t> ReadCgroupAnonymousBytes(CgroupVersion version,
                                                 std::string_view directory) {
  const ErrnoKeeper keeper;
  if (directory.empty()) return std::nullopt;
  const FilePath path(directory, "/memory.stat");
  // Version 1 lists the group's own figures first, then those that include its descendants.
  CgroupFigures figures;
  if (version == CgroupVersion::kV1) {
    figures.name = "total_rss";
    figures.own_name = "rss";
  } else {
    figures.name = "anon";
  }
  Lines lines;
  if (!path.is_whole() || !lines.ForEachLine(path.c_str(), VisitCgroupFigure, &figures)) {
    return std::nullopt;
  }
  return figures.value.has_value() ? figures.value : figures.own_value;
}

std::optional<SystemMemory> ReadSystemMemory(std::string_view root) {
  const ErrnoKeeper keeper;
  const FilePath path(root, "/proc/meminfo");
  SystemFigures figures;
  Lines lines;
  if (!path.is_whole() || !lines.ForEachLine(path.c_str(), VisitSystemFigure, &figures) ||
      !figures.total.has_value() || !figures.available.has_value()) {
    return std::nullopt;
  }
  return SystemMemory{.total_bytes = *figures.total, .available_bytes = *figures.available};
}

}  // namespace tcmalloc
