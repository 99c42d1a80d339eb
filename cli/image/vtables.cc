// SPDX-License-Identifier: BSD-3-Clause
#include "image/vtables.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "image/call_stack.h"

namespace cli {
namespace {

constexpr std::string_view kTypeInfoFor = "typeinfo for ";
constexpr size_t kMostNameBytes = 4096;
// The most words whose types are remembered: a program may have an unlimited number of different
// words in its objects.
constexpr size_t kMostKnown = 10'000'000;

std::string Without(std::string_view prefix, const std::string& text) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string();
}

// Whether the character may occur in a type's name in memory, which is a mangled name.
bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '$';
}

}  // namespace

Vtables::Vtables(FileSearch files, Image& image)
    : files_(std::move(files)), image_(image), modules_(ReadModules(image)) {
  if (!modules_.empty() && modules_[0].head[EI_CLASS] == ELFCLASS32) word_bytes_ = 4;
}

const std::string& Vtables::TypeOf(Address word) {
  static const std::string none;
  if (word % word_bytes_ != 0 || FindModule(modules_, word) == nullptr) return none;
  const auto found = known_.find(word);
  if (found != known_.end()) return found->second;
  if (known_.size() == kMostKnown) return none;
  return known_.emplace(word, Find(word)).first->second;
}

uint64_t Vtables::WordAt(Address address, bool* readable) {
  uint64_t value = 0;
  *readable = image_.Read(address, &value, word_bytes_);
  return value;
}

std::string Vtables::Find(Address word) {
  // The words before it are the offset to the top of the object and the type.
  bool readable = false;
  const uint64_t offset_to_top = WordAt(word - 2 * word_bytes_, &readable);
  if (readable && offset_to_top != 0) return {};
  std::string type = FromSymbols(*FindModule(modules_, word), word);
  return type.empty() ? FromMemory(word) : type;
}

Vtables::ModuleTypes& Vtables::TypesOf(const Module& module) {
  const auto [at, is_new] = types_.try_emplace(module.start);
  ModuleTypes& types = at->second;
  if (is_new) {
    types.names = std::make_unique<DebugInfo>(module, files_);
    types.tables = types.names->Vtables();
  }
  return types;
}

std::vector<std::string> Vtables::problems() const {
  std::vector<std::string> problems;
  for (const auto& [start, types] : types_) {
    if (!types.names->problem().empty()) problems.push_back(types.names->problem());
  }
  return problems;
}

std::string Vtables::FromSymbols(const Module& module, Address word) {
  const std::vector<VtableSymbol>& tables = TypesOf(module).tables;
  const auto after = std::upper_bound(
      tables.begin(), tables.end(), word,
      [](Address value, const VtableSymbol& table) { return value < table.start; });
  if (after == tables.begin()) return {};
  const VtableSymbol& table = *std::prev(after);
  const uint64_t offset = word - table.start;
  // With virtual bases, the offsets of these bases are before the two words.
  return offset < 2 * word_bytes_ || offset >= table.bytes ? std::string() : table.type;
}

bool Vtables::IsInCode(Address address) const {
  const Module* const module = FindModule(modules_, address);
  return module != nullptr && HasCodeAt(*module, address);
}

std::optional<std::string> Vtables::NameAt(Address address) {
  std::string name;
  for (char c = 0; name.size() < kMostNameBytes; name.push_back(c)) {
    if (!image_.ReadValue(address + name.size(), &c)) return std::nullopt;
    if (c == '\0') return name;
    // The character is the mark of a type that is compared by its address.
    if (!IsNameCharacter(c) && (c != '*' || !name.empty())) break;
  }
  return std::string();
}

std::string Vtables::FromMemory(Address word) {
  const Module& module = *FindModule(modules_, word);
  bool readable = false;
  const uint64_t function = WordAt(word, &readable);
  if (!readable) unreadable_ += HasCodeAt(module, word) ? 0 : 1;
  if (!readable || !IsInCode(function)) return {};
  const Address type = WordAt(word - word_bytes_, &readable);
  if (!readable || type % word_bytes_ != 0 || FindModule(modules_, type) == nullptr) return {};
  // The type's description begins with a pointer to a vtable itself; then its name.
  const Address description = WordAt(type, &readable);
  if (readable && FindModule(modules_, description) == nullptr) return {};
  const Address name_at = readable ? WordAt(type + word_bytes_, &readable) : 0;
  std::optional<std::string> name;
  if (readable) name = NameAt(name_at);
  if (!name.has_value()) {
    ++unnamed_;
    return fmt::format("class with the vtable {}+{:#x}", module.name(), word - module.bias);
  }
  if (name->starts_with('*')) name->erase(0, 1);
  return name->empty() ? std::string()
                       : Without(kTypeInfoFor, demangler_.Demangled("_ZTI" + *name));
}

}  // namespace cli
