// SPDX-License-Identifier: BSD-3-Clause
// Chains of calls for stack_trace_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

inline constexpr size_t kLargeBytes = 9000;

struct Request {
  // Called by the innermost function.
  size_t (*take)(Request*);
  void* context = nullptr;
  size_t variable_bytes = 100;
  // The return addresses of the functions, the outermost's first.
  uintptr_t returns[8] = {};
  size_t num_returns = 0;
};

inline void Note(Request* request, void* address) {
  request->returns[request->num_returns++] = reinterpret_cast<uintptr_t>(address);
}

namespace with_frame_pointers {
size_t Outer(Request* request);
}  // namespace with_frame_pointers

namespace without_frame_pointers {
size_t Outer(Request* request);
}  // namespace without_frame_pointers

}  // namespace tcmalloc
