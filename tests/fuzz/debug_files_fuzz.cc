// SPDX-License-Identifier: BSD-3-Clause
// Symbols and debug information that others made: ELF, DWARF, a linked file, split and compressed
// debug information. The child that parses them may crash or give up; this program answers
// nevertheless, with names that may be shown. The files are those of debug_files.cc, changed.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "changes.h"
#include "image/module_files.h"
#include "image/modules.h"
#include "image/open_file.h"
#include "image/symbolizer.h"
#include "testing/fake_tree.h"

namespace {

using namespace cli;

constexpr Address kBias = 0x7f0000000000;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One way to have debug information: a library in a folder of its own, and perhaps a second file.
struct Form {
  const char* folder;
  const char* library;
  const char* other;
};
constexpr Form kForms[] = {
    {"/plain", "/plain/shop.so", ""},
    {"/compressed", "/compressed/shop.so", ""},
    {"/linked", "/linked/shop.so", "/linked/shop.debug"},
    {"/split", "/split/shop.so", "/split/shop.dwo"},
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tcmalloc::FakeTree folder;  // of the changed files
  setenv("DEBUGINFOD_URLS", "", 1);
  const Form& form = kForms[size > 0 ? data[0] % 4 : 0];
  const bool changes_other = size > 0 && *form.other != '\0' && (data[0] / 4) % 2 == 1;
  std::string library = Contents(std::string(DEBUG_FILES) + form.library);
  std::string other;
  if (*form.other != '\0') other = Contents(std::string(DEBUG_FILES) + form.other);
  if (library.empty()) abort();
  if (size > 1) fuzz::Change(data + 1, size - 1, changes_other ? &other : &library);
  folder.Write(form.library, library);
  if (*form.other != '\0') folder.Write(form.other, other);

  const std::string path = folder.root() + form.library;
  const OpenedFile opened = OpenRegularFile(AT_FDCWD, path, Resolve::kAnywhere);
  if (opened.descriptor < 0) abort();
  Module module{.start = kBias, .end = kBias + 0x10000, .bias = kBias, .path = path};
  module.build_id = BuildIdOf(opened.descriptor);
  module.head.assign(library.begin(), library.begin() + static_cast<ptrdiff_t>(
                                                            std::min<size_t>(library.size(), 64)));
  static_cast<void>(HasCode(opened.descriptor));
  close(opened.descriptor);
  const FileSearch files(0, {folder.root() + form.folder});
  DebugInfo info(module, files);
  bool has_line = false;
  for (Address at = 0x1000; at < 0x1200; at += 0x20) {
    for (const SourceFrame& frame : info.FramesAt(kBias + at)) {
      fuzz::RequireClean(frame.function);
      fuzz::RequireClean(frame.linkage_name);
      fuzz::RequireClean(frame.file);
      has_line = has_line || frame.line > 0;
    }
  }
  for (Address at = 0x3e80; at < 0x4040; at += 8) {
    if (const auto variable = info.VariableAt(kBias + at)) fuzz::RequireClean(variable->name);
  }
  for (const VtableSymbol& table : info.Vtables()) fuzz::RequireClean(table.type);
  fuzz::RequireClean(info.problem());
  // Without changes each form has lines.
  if (size == 1 && !has_line) {
    fprintf(stderr, "%s: no line: %s\n", form.library, info.problem().c_str());
    abort();
  }
  return 0;
}
