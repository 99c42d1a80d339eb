// SPDX-License-Identifier: BSD-3-Clause
// ByteSink: where bytes go that a writer makes, one piece after another. After the first piece that
// could not be written nothing more is; who writes need not look before the end.
#pragma once

#include <cstddef>
#include <string_view>

namespace tcmalloc {

class ByteSink {
 public:
  // Takes `size` bytes; false when that failed.
  using Function = bool (*)(const void* data, size_t size, void* context);

  ByteSink(Function function, void* context) : function_(function), context_(context) {}

  void Write(const void* data, size_t size) {
    if (ok_ && size > 0) ok_ = function_(data, size, context_);
  }

  // Everything was written.
  bool ok() const { return ok_; }

  // For a TextWriter, with the sink as its context.
  static void Text(std::string_view text, void* sink) {
    static_cast<ByteSink*>(sink)->Write(text.data(), text.size());
  }

 private:
  const Function function_;
  void* const context_;
  bool ok_ = true;
};

}  // namespace tcmalloc
