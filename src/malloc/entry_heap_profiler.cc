// SPDX-License-Identifier: BSD-3-Clause
// The heap profiler for programs (gperftools/heap-profiler.h), in the full library.
#include <cstring>
#include <string_view>

#include "gperftools/heap-profiler.h"

#include "base/compiler.h"
#include "malloc/fast_path.h"
#include "malloc/slow_path.h"
#include "profiler/heap_profiler.h"

namespace tcmalloc {
namespace {

// Text of any length in memory from the system.
class GrowingText {
 public:
  explicit GrowingText(VirtualMemory& vm) : vm_(vm) {}
  ~GrowingText() { Drop(start_, capacity_); }
  GrowingText(const GrowingText&) = delete;
  GrowingText& operator=(const GrowingText&) = delete;

  static void Append(std::string_view text, void* context) {
    static_cast<GrowingText*>(context)->Append(text);
  }

  bool failed() const { return failed_; }
  std::string_view text() const { return {start_, length_}; }

 private:
  void Append(std::string_view text) {
    while (!failed_ && capacity_ - length_ < text.size()) Grow();
    if (failed_) return;
    memcpy(start_ + length_, text.data(), text.size());
    length_ += text.size();
  }

  void Grow() {
    const size_t bytes = capacity_ == 0 ? size_t{1} << 20 : 2 * capacity_;
    char* const fresh = static_cast<char*>(vm_.Map(bytes, vm_.hardware_page_size()).start);
    if (fresh == nullptr) {
      failed_ = true;
      return;
    }
    if (length_ > 0) memcpy(fresh, start_, length_);
    Drop(start_, capacity_);
    start_ = fresh;
    capacity_ = bytes;
  }

  void Drop(char* start, size_t bytes) {
    if (start == nullptr || vm_.Unmap(start, bytes)) return;
    static_cast<void>(vm_.Release(start, bytes));
  }

  VirtualMemory& vm_;
  char* start_ = nullptr;
  size_t length_ = 0;
  size_t capacity_ = 0;
  bool failed_ = false;
};

}  // namespace
}  // namespace tcmalloc

using namespace tcmalloc;  // NOLINT: this file is nothing but entry points

extern "C" {

TC_EXPORT void HeapProfilerStart(const char* prefix) {
  if (prefix != nullptr) StartHeapProfiler(prefix);
}

TC_EXPORT int IsHeapProfilerRunning() { return HeapProfilerRuns() ? 1 : 0; }

TC_EXPORT void HeapProfilerStop() { StopHeapProfiler(); }

TC_EXPORT void HeapProfilerDump(const char* reason) {
  DumpHeapProfile(reason == nullptr ? "" : reason);
}

TC_EXPORT char* GetHeapProfile() {
  GrowingText text(ExistingHeap().virtual_memory);
  char buffer[1024];
  TextWriter writer(buffer, sizeof(buffer), &GrowingText::Append, &text);
  WriteHeapProfile(&writer);
  if (text.failed()) return nullptr;
  const size_t length = text.text().size();
  char* const result = static_cast<char*>(Allocate<&AllocateSlow>(length + 1));
  if (result == nullptr) return nullptr;
  if (length > 0) memcpy(result, text.text().data(), length);
  result[length] = '\0';
  return result;
}

}  // extern "C"
