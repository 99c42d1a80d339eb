// SPDX-License-Identifier: BSD-3-Clause
#include "heap/sample_layout.h"

#include <fmt/format.h>

namespace cli {

SampleLayout ReadSampleLayout(const Target& target) {
  SampleLayout layout;
  if (target.root().samples == 0) return layout;
  const size_t pointer = target.pointer_bytes();
  const auto read = [&](size_t i) {
    const Address at = target.root().samples + i * pointer;
    Address value = 0;
    if (!target.image().Read(at, &value, pointer)) {
      throw BadImage(fmt::format("the process's SampleLayout at {:#x} is not readable", at));
    }
    return value;
  };
  // Words 0 and 1 are the text and its length: the minimal library has none.
  if (read(1) == 0) return layout;
  layout.table = read(2);
  // The structure of an older library ends here.
  static_cast<void>(target.layout().structure("RegisteredRoots"));
  layout.registered_roots = read(3);
  layout.ignored_addresses = read(4);
  static_cast<void>(target.layout().structure("RecordSession"));
  layout.record_session = read(5);
  return layout;
}

}  // namespace cli
