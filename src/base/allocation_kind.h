// SPDX-License-Identifier: BSD-3-Clause
// AllocationKind: the family of functions that an object came from, and by which it must be freed.
// Only slow paths know it: a guarded sample (instruments/guard/) keeps it, other objects do not.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

enum class AllocationKind : uint8_t {
  kUnknown,   // matches every other kind
  kMalloc,    // malloc, calloc, realloc, the aligned forms; free
  kNew,       // operator new; operator delete
  kNewArray,  // operator new[]; operator delete[]
};

constexpr bool MayFree(AllocationKind freed_as, AllocationKind allocated_as) {
  return freed_as == allocated_as || freed_as == AllocationKind::kUnknown ||
         allocated_as == AllocationKind::kUnknown;
}

constexpr std::string_view AllocatorName(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kMalloc:
      return "malloc";
    case AllocationKind::kNew:
      return "operator new";
    case AllocationKind::kNewArray:
      return "operator new[]";
    case AllocationKind::kUnknown:
      break;
  }
  return "an unknown function";
}

constexpr std::string_view DeallocatorName(AllocationKind kind) {
  switch (kind) {
    case AllocationKind::kMalloc:
      return "free";
    case AllocationKind::kNew:
      return "operator delete";
    case AllocationKind::kNewArray:
      return "operator delete[]";
    case AllocationKind::kUnknown:
      break;
  }
  return "an unknown function";
}

}  // namespace tcmalloc
