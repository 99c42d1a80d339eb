// SPDX-License-Identifier: BSD-3-Clause
// The pointers to an object, with names for their holders, as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heap/record.h"
#include "heap/referrers.h"
#include "image/symbolizer.h"
#include "image/thread_places.h"
#include "image/vtables.h"

namespace cli {

// HolderNames names what holds a pointer to an object: a variable, a call on a stack, a register,
// or another object with its type and call site.
class HolderNames {
 public:
  // `target` is that of the search. `program` is the path of the program. All outlive this object.
  HolderNames(const Target& target, const FileSearch& files, const std::string& program);

  // "offset 8 of an object of 32 bytes at 0x7f..., of type Node, allocated by Add"
  std::string Text(const Link& link);
  nlohmann::ordered_json Json(const Link& link);
  // A line for each file whose names are unknown.
  std::vector<std::string> Problems() const { return symbolizer_.Problems(); }

 private:
  struct Names {
    std::string type;      // of an object
    std::string variable;  // with an offset
    std::string file;      // of the variable
    std::string function;  // of a stack
    const ThreadRegisters* thread = nullptr;
    std::optional<ThreadPlace::Kind> in_thread;
    std::vector<Address> frames;  // of the sample
    std::string mapping;
  };

  Names NamesOf(const Link& link);
  void NameData(const Link& link, Names* names);
  void NameThreadPlace(const Link& link, Names* names);
  std::string AllocatedBy(const std::vector<Address>& frames);

  const Target& target_;
  const FileSearch& files_;
  const std::vector<Mapping> mappings_;
  Symbolizer symbolizer_;
  Vtables vtables_;
  ThreadPlaces places_;
};

// The pointers to an object, as text and as JSON.

std::string ReferrersText(const ReferrerSearch& search, HolderNames& names);
nlohmann::ordered_json ReferrersJson(const ReferrerSearch& search, HolderNames& names);

}  // namespace cli
