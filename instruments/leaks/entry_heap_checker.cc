// SPDX-License-Identifier: BSD-3-Clause
// gperftools' class HeapLeakChecker and its helpers, implemented by the leak checker.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>

#include "base/compiler.h"
#include "base/text.h"
#include "gperftools/heap-checker.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/check.h"
#include "os/log.h"

namespace tcmalloc {
namespace {

// The layout of the class in programs that were compiled with gperftools' header.
struct GperftoolsLayout {
  void* lock;
  const char* name;
  void* start_snapshot;
  bool has_checked;
  ssize_t inuse_bytes_increase;
  ssize_t inuse_allocs_increase;
  bool keep_profiles;
};
static_assert(sizeof(::HeapLeakChecker) == sizeof(GperftoolsLayout));
static_assert(alignof(::HeapLeakChecker) == alignof(GperftoolsLayout));

alignas(::HeapLeakChecker) constinit char global_storage[sizeof(::HeapLeakChecker)] = {};
constinit std::atomic<bool> inactive_reported{false};

TC_SLOW_PATH void ReportInactive() {
  if (inactive_reported.exchange(true, std::memory_order_relaxed)) return;
  WriteToStderr(
      "tcmalloc: HeapLeakChecker reports no leaks, because it does not check: HEAPCHECK is not set "
      "(set HEAPCHECK=local to check where the program asks)\n");
}

[[noreturn]] TC_SLOW_PATH void AbortUnchecked(const PartCheck& part) {
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: HeapLeakChecker \"").Text(part.name());
  line.Text("\" was destroyed without a check: call NoLeaks() before\n");
  AbortWith(line.text());
}

bool IsGlobal(const void* checker) { return checker == global_storage; }

}  // namespace
}  // namespace tcmalloc

using tcmalloc::PartCheck;

bool HeapLeakChecker::IsActive() { return tcmalloc::LeakCheckerIsActive(); }

HeapLeakChecker* HeapLeakChecker::GlobalChecker() {
  if (!tcmalloc::ProgramCheckIsActive()) return nullptr;
  return std::launder(reinterpret_cast<HeapLeakChecker*>(tcmalloc::global_storage));
}

bool HeapLeakChecker::NoGlobalLeaks() {
  if (!tcmalloc::LeakCheckerIsActive()) tcmalloc::ReportInactive();
  return tcmalloc::CheckProgram();
}

void HeapLeakChecker::CancelGlobalCheck() { tcmalloc::CancelProgramCheck(); }

HeapLeakChecker::HeapLeakChecker(const char* name)
    : reserved_(),
      part_(PartCheck::New(name == nullptr ? "" : name)),
      has_checked_(false),
      bytes_(0),
      objects_(0),
      reserved_flag_(false) {}

HeapLeakChecker::~HeapLeakChecker() {
  PartCheck* const part = static_cast<PartCheck*>(part_);
  if (part == nullptr) return;
  if (!has_checked_) tcmalloc::AbortUnchecked(*part);
  PartCheck::Delete(part);
}

bool HeapLeakChecker::DoNoLeaks(ShouldSymbolize) {
  if (tcmalloc::IsGlobal(this)) return tcmalloc::CheckProgram();
  if (part_ == nullptr) {
    if (!tcmalloc::LeakCheckerIsActive()) tcmalloc::ReportInactive();
    return true;
  }
  PartCheck* const part = static_cast<PartCheck*>(part_);
  const bool none = part->Check();
  bytes_ = static_cast<ssize_t>(part->figures().bytes);
  objects_ = static_cast<ssize_t>(part->figures().objects);
  has_checked_ = true;
  return none;
}

ssize_t HeapLeakChecker::BytesLeaked() const {
  if (tcmalloc::IsGlobal(this)) return static_cast<ssize_t>(tcmalloc::LastProgramFigures().bytes);
  return bytes_;
}

ssize_t HeapLeakChecker::ObjectsLeaked() const {
  if (tcmalloc::IsGlobal(this)) return static_cast<ssize_t>(tcmalloc::LastProgramFigures().objects);
  return objects_;
}

HeapLeakChecker::Disabler::Disabler() { tcmalloc::DisableForThisThread(); }
HeapLeakChecker::Disabler::~Disabler() { tcmalloc::EnableForThisThread(); }

void HeapLeakChecker::DoIgnoreObject(const void* ptr) { tcmalloc::IgnoreAddress(ptr); }
void HeapLeakChecker::UnIgnoreObject(const void* ptr) { tcmalloc::UnignoreAddress(ptr); }

HeapCleaner::HeapCleaner(void_function f) { tcmalloc::AddCleanup(f); }
void HeapCleaner::RunHeapCleanups() { tcmalloc::RunCleanups(); }
