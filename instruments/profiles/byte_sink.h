// SPDX-License-Identifier: BSD-3-Clause
// ByteSink: passes the bytes of a writer to a function, one piece after another. After a failure it
// drops the rest, so a writer needs to check ok() only at the end. Thread safety: none.
#pragma once

#include <cstddef>
#include <string_view>

namespace tcmalloc {

class ByteSink {
 public:
  // Accepts `size` bytes; false when that failed.
  using Function = bool (*)(const void* data, size_t size, void* context);

  ByteSink(Function function, void* context) : function_(function), context_(context) {}

  void Write(const void* data, size_t size) {
    if (ok_ && size > 0) ok_ = function_(data, size, context_);
  }

  // True if everything so far was written.
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
