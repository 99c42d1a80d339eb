// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/mapped_libraries.h"

#include <algorithm>
#include <cstring>

#include "instruments/unwind/elf_image.h"
#include "os/files.h"
#include "os/log.h"
#include "os/memory_map.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

// Room for a function's name and a path, each as long as the longest path (PATH_MAX).
constexpr size_t kBytesPerFrame = 8192;

constexpr size_t kFirstTextBytes = size_t{64} << 10;

// Appends the file's text, up to the first error. False when there is no memory.
bool ReadFile(const char* path, MappedArray<char>* text) {
  InputFile file(path);
  if (!file.is_open()) return true;
  bool has_room = text->Reserve(kFirstTextBytes);
  while (has_room) {
    const size_t n = file.Read(text->end(), text->capacity() - text->size());
    if (n == 0) break;
    text->Extend(n);
    if (text->size() == text->capacity()) has_room = text->Reserve(2 * text->size());
  }
  return has_room;
}

}  // namespace

bool MappedLibraries::Read() {
  return ReadFile(ProcessPath("maps").c_str(), &text_) &&
         Parse({text_.data(), text_.size()}, &ReadElfImage);
}

bool MappedLibraries::Parse(std::string_view maps, ImageReader read_image) {
  // The mapping of the first byte of the current lines' file.
  MappingLine first;
  while (!maps.empty()) {
    size_t length = 0;
    while (length < maps.size() && maps[length] != '\n') ++length;
    MappingLine line;
    const bool well_formed = ParseMappingLine({maps.data(), length}, &line);
    maps.remove_prefix(length < maps.size() ? length + 1 : length);
    if (!well_formed || line.name.empty()) continue;
    if (line.file_offset == 0) first = line;
    if (!line.executable) continue;

    MappedLibrary library;
    library.start = line.start;
    library.end = line.end;
    library.file_offset = line.file_offset;
    library.name = line.name;
    library.image.bias = line.start - static_cast<uintptr_t>(line.file_offset);
    ElfImage image;
    const bool same_file = first.file == line.file && first.name == line.name;
    if (same_file && first.readable && read_image(first.start, line.end, &image)) {
      library.is_image = true;
      library.image_start = first.start;
      library.image = image;
    }
    if (!libraries_.Push(library)) return false;
  }
  return true;
}

const MappedLibrary* MappedLibraries::Find(uintptr_t address) const {
  size_t low = 0;
  size_t high = libraries_.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (libraries_[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == libraries_.size() || address < libraries_[low].start) return nullptr;
  return &libraries_[low];
}

// Addresses of one library, while its functions are visited.
struct FunctionNames::Search {
  Entry* begin;
  Entry* end;
  MappedArray<char>* text;
  // The addresses in the current function.
  Entry* first = nullptr;
  Entry* last = nullptr;
  uintptr_t start = 0;

  bool Wants(uintptr_t function_start, uintptr_t function_end) {
    const auto before = [](const Entry& entry, uintptr_t address) {
      return entry.address < address;
    };
    first = std::lower_bound(begin, end, function_start, before);
    last = std::lower_bound(first, end, function_end, before);
    start = function_start;
    // Keep the first name, unless this function begins inside that one.
    while (first != last && first->start >= function_start) ++first;
    return first != last;
  }

  void Take(std::string_view name) {
    const size_t at = text->size();
    const size_t wanted = at + name.size();
    if (wanted > text->capacity() && !text->Reserve(std::max(wanted, 2 * text->capacity()))) return;
    memcpy(text->data() + at, name.data(), name.size());
    text->Extend(name.size());
    for (Entry* entry = first; entry != last; ++entry) {
      if (entry->start < start) *entry = {entry->address, start, at, name.size()};
    }
  }
};

bool FunctionNames::Add(uintptr_t address) { return entries_.Push({address, 0, 0, 0}); }

void FunctionNames::Resolve(const MappedLibraries& libraries) {
  const auto by_address = [](const Entry& a, const Entry& b) { return a.address < b.address; };
  std::sort(entries_.begin(), entries_.end(), by_address);
  Entry* const end =
      std::unique(entries_.begin(), entries_.end(),
                  [](const Entry& a, const Entry& b) { return a.address == b.address; });
  const size_t n = static_cast<size_t>(end - entries_.begin());
  entries_.Clear();
  entries_.Extend(n);
  for (Entry* at = entries_.begin(); at != entries_.end();) {
    const MappedLibrary* const library = libraries.Find(at->address);
    if (library == nullptr) {
      ++at;
      continue;
    }
    Search search = {at, at, &text_};
    while (search.end != entries_.end() && search.end->address < library->end) ++search.end;
    at = search.end;
    if (!library->is_image) continue;
    const FilePath path(library->name, "");
    const ElfFunctionVisitor visitor = {
        [](void* context, uintptr_t function_start, uintptr_t function_end) {
          return static_cast<Search*>(context)->Wants(function_start, function_end);
        },
        [](void* context, std::string_view name) { static_cast<Search*>(context)->Take(name); },
        &search};
    ForEachElfFunction(library->image_start, library->end, path.is_whole() ? path.c_str() : "",
                       visitor);
  }
}

const FunctionNames::Entry* FunctionNames::FindEntry(uintptr_t address) const {
  const Entry* const entry =
      std::lower_bound(entries_.begin(), entries_.end(), address,
                       [](const Entry& e, uintptr_t a) { return e.address < a; });
  return entry != entries_.end() && entry->address == address ? entry : nullptr;
}

bool FunctionNames::Find(uintptr_t address, std::string_view* name, uintptr_t* offset) const {
  const Entry* const entry = FindEntry(address);
  if (entry == nullptr || entry->start == 0) return false;
  *name = {text_.data() + entry->name_at, entry->name_bytes};
  *offset = address - entry->start;
  return true;
}

void FunctionNames::Write(uintptr_t address, const MappedLibraries& libraries,
                          TextWriter* out) const {
  std::string_view name;
  uintptr_t offset;
  const bool is_known = Find(address, &name, &offset);
  if (is_known) out->Text(name).Text("+").Hex(offset).Text(" (");
  const MappedLibrary* const library = libraries.Find(address);
  if (library != nullptr) {
    out->Text(library->name).Text("+").Hex(address - library->image.bias);
  } else {
    out->Hex(address);
  }
  if (is_known) out->Text(")");
}

void FunctionNames::WriteFrames(const uintptr_t* frames, size_t depth, std::string_view indent,
                                const MappedLibraries& libraries, TextWriter* out) const {
  for (size_t i = 0; i < depth; ++i) {
    out->Text(indent);
    Write(CallBefore(frames[i]), libraries, out);
    out->Text("\n");
  }
}

void WriteStackToStderr(const uintptr_t* frames, size_t depth, bool with_names, VirtualMemory& vm) {
  MappedLibraries libraries(vm);
  FunctionNames names(vm);
  if (with_names) {
    // If there is no memory, names are missing.
    static_cast<void>(libraries.Read());
    for (size_t i = 0; i < depth; ++i) {
      if (!names.Add(CallBefore(frames[i]))) break;
    }
    names.Resolve(libraries);
  }
  // With enough room the text is one write, so that lines of other threads do not come in between.
  MappedArray<char> text(vm);
  char small[1024];
  const bool has_room = text.Reserve(depth * kBytesPerFrame);
  TextWriter out(
      has_room ? text.data() : small, has_room ? text.capacity() : sizeof(small),
      [](std::string_view piece, void*) { WriteToStderr(piece); }, nullptr);
  names.WriteFrames(frames, depth, "    ", libraries, &out);
  out.Flush();
}

}  // namespace tcmalloc
