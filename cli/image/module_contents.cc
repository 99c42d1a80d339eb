// SPDX-License-Identifier: BSD-3-Clause
#include "image/module_contents.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "image/module_files.h"

namespace cli {

ModuleContents::~ModuleContents() {
  for (const auto& [module, file] : open_) {
    if (file.descriptor >= 0) close(file.descriptor);
  }
}

void ModuleContents::Learn() {
  // ReadModules reads the image, which may call this function again for memory that it lacks.
  if (modules_.has_value() || learning_) return;
  learning_ = true;
  modules_ = ReadModules(image_);
  learning_ = false;
  for (const Module& module : *modules_) {
    for (const LoadedPart& part : LoadedPartsOf(module)) {
      if (!part.writable) parts_.try_emplace(part.start, Part{part, &module});
    }
  }
}

const ModuleContents::Part* ModuleContents::PartAt(Address address) {
  Learn();
  const auto after = parts_.upper_bound(address);
  if (after == parts_.begin()) return nullptr;
  const Part& part = std::prev(after)->second;
  return address - part.loaded.start < part.loaded.file_bytes ? &part : nullptr;
}

const ModuleContents::File& ModuleContents::FileOf(const Module& module) {
  const auto [at, is_new] = open_.try_emplace(&module);
  if (is_new) {
    ModuleFile file = OpenModuleFile(files_, module, FileUse::kContents);
    at->second = {file.descriptor, std::move(file.problem)};
  }
  return at->second;
}

size_t ModuleContents::Read(Address address, void* out, size_t bytes) {
  const Part* const part = PartAt(address);
  if (part == nullptr) return 0;
  const File& file = FileOf(*part->module);
  if (file.descriptor < 0) return 0;
  const uint64_t at = address - part->loaded.start;
  const size_t wanted = std::min<uint64_t>(bytes, part->loaded.file_bytes - at);
  const ssize_t n =
      pread(file.descriptor, out, wanted, static_cast<off_t>(part->loaded.file_offset + at));
  return n < 0 ? 0 : static_cast<size_t>(n);
}

std::string ModuleContents::ProblemAt(Address address) {
  const Part* const part = PartAt(address);
  return part == nullptr ? std::string() : FileOf(*part->module).problem;
}

}  // namespace cli
