// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/found_leaks.h"

#include <algorithm>
#include <cerrno>

#include "base/compiler.h"
#include "base/config.h"
#include "instruments/leaks/check.h"
#include "instruments/profiles/profile.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/log.h"
#include "os/process.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

constexpr size_t kFirstSlots = 1024;

uint64_t HashOf(const uintptr_t* frames, size_t depth, size_t object_size, AgeBucket age) {
  uint64_t hash = (object_size ^ static_cast<uint64_t>(age) << 60) * 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < depth; ++i) hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
  return hash >> 20;
}

// Sorts by leaked bytes, most first; the other criteria make reports comparable.
bool Before(const LeakSite& a, const LeakSite& b) {
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  if (a.objects != b.objects) return a.objects > b.objects;
  if (a.age != b.age) return a.age > b.age;
  return a.example < b.example;
}

}  // namespace

uint32_t& FoundLeaks::SlotOf(const uintptr_t* frames, size_t depth, size_t object_size,
                             AgeBucket age) {
  const size_t mask = slots_.size() - 1;
  size_t i = HashOf(frames, depth, object_size, age) & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    const LeakSite& site = sites_[slots_[i] - 1];
    if (site.depth == depth && site.object_size == object_size && site.age == age &&
        std::equal(frames, frames + depth, site.frames)) {
      break;
    }
  }
  return slots_[i];
}

bool FoundLeaks::GrowSlots() {
  const size_t wanted = std::max(kFirstSlots, 2 * slots_.size());
  MappedArray<uint32_t> larger(vm_);
  if (!larger.Reserve(wanted)) return false;
  larger.Extend(wanted);
  slots_.Swap(&larger);
  for (size_t i = 0; i < sites_.size(); ++i) {
    const LeakSite& site = sites_[i];
    SlotOf(site.frames, site.depth, site.object_size, site.age) = static_cast<uint32_t>(i + 1);
  }
  return true;
}

void FoundLeaks::Clear() {
  MappedArray<uint32_t> none(vm_);
  slots_.Swap(&none);
  sites_.Clear();
  entries_.Clear();
  frames_.FreeAll();
  static_cast<LeakSummary&>(*this) = {};
}

LeakSite* FoundLeaks::Add(const LeakedObject& object, bool by_object) {
  // If the stack is known, it alone identifies a site.
  const size_t depth = object.depth;
  const size_t object_size = depth > 0 ? 0 : object.object_size;
  const AgeBucket age = depth > 0 ? AgeBucket::kSecond : object.age;
  LeakSite* site = nullptr;
  if (!by_object) {
    if (2 * (sites_.size() + 1) > slots_.size() && !GrowSlots()) return nullptr;
    uint32_t& slot = SlotOf(object.frames, depth, object_size, age);
    if (slot != 0) {
      site = &sites_[slot - 1];
    } else {
      slot = static_cast<uint32_t>(sites_.size() + 1);
    }
  }
  if (site == nullptr) {
    // With `by_object`, the object's address is the first frame; then the stack follows.
    uintptr_t* const own = frames_.AllocateArray<uintptr_t>(depth + 1);
    if (own == nullptr) return nullptr;
    own[0] = object.address;
    std::copy_n(object.frames, depth, own + 1);
    LeakSite fresh;
    fresh.frames = by_object ? own : own + 1;
    fresh.depth = by_object ? depth + 1 : depth;
    fresh.object_size = object_size;
    fresh.age = age;
    if (!sites_.Push(fresh)) return nullptr;
    site = sites_.end() - 1;
  }
  if (site->objects == 0 || (object.direct && site->direct_objects == 0)) {
    site->example = object.address;
  }
  ++site->objects;
  site->bytes += object.requested_bytes;
  if (object.direct) {
    ++site->direct_objects;
    site->direct_bytes += object.requested_bytes;
  }
  if (object.reached_far) {
    ++reached_far_objects;
    reached_far_bytes += object.requested_bytes;
  }
  return site;
}

bool FoundLeaks::SetNearestStack(LeakSite* site, const uintptr_t* frames, size_t depth) {
  uintptr_t* const own = frames_.AllocateArray<uintptr_t>(depth);
  if (own == nullptr) return false;
  std::copy_n(frames, depth, own);
  site->nearest_frames = own;
  site->nearest_depth = depth;
  return true;
}

bool FoundLeaks::Finish() {
  {
    MappedArray<uint32_t> none(vm_);
    slots_.Swap(&none);
  }
  std::sort(sites_.begin(), sites_.end(), &Before);
  objects = bytes = direct_objects = direct_bytes = 0;
  for (const LeakSite& site : sites_) {
    objects += site.objects;
    bytes += site.bytes;
    direct_objects += site.direct_objects;
    direct_bytes += site.direct_bytes;
  }
  if (!entries_.Reserve(sites_.size())) return false;
  for (const LeakSite& site : sites_) {
    ProfileEntry entry;
    entry.frames = site.frames;
    entry.depth = site.depth;
    if (site.depth == 0) {
      entry.frames = site.nearest_frames;
      entry.depth = site.nearest_depth;
      entry.guessed_stack = site.nearest_depth > 0;
    }
    entry.object_size = site.object_size;
    if (site.object_size > 0) entry.age_at_least_ms = AgeAtLeastMs(site.age);
    entry.live_objects = entry.allocated_objects = site.objects;
    entry.live_bytes = entry.allocated_bytes = site.bytes;
    entry.estimated_live_objects = entry.estimated_allocated_objects =
        static_cast<double>(site.objects);
    entry.estimated_live_bytes = entry.estimated_allocated_bytes = static_cast<double>(site.bytes);
    if (!entries_.Push(entry)) return false;
  }
  return true;
}

Profile FoundLeaks::AsProfile() const {
  TC_ASSERT(entries_.size() == sites_.size());
  Profile profile;
  profile.kind = ProfileKind::kHeap;
  profile.time_ns = time_ns;
  profile.entries = entries_.data();
  profile.num_entries = entries_.size();
  return profile;
}

namespace {

// The path of the program's file; empty if it is unknown.
class ProgramPath {
 public:
  ProgramPath() { length_ = ReadLink(ProcessPath("exe").c_str(), text_, sizeof(text_)); }
  std::string_view text() const { return {text_, length_}; }
  std::string_view last_part() const {
    std::string_view part = text();
    const size_t slash = part.rfind('/');
    if (slash != std::string_view::npos) part.remove_prefix(slash + 1);
    return part;
  }

 private:
  char text_[kMaxPath];
  size_t length_ = 0;
};

// The path of the profile, with the name that gperftools gives it.
class ProfilePath {
 public:
  ProfilePath(const Settings& settings, const ProgramPath& program, std::string_view name)
      : writer_(text_, sizeof(text_)) {
    writer_.Text(settings.heap_check_dump_directory).Text("/").Text(program.last_part()).Text(".");
    writer_.Number(ProcessId()).Text(".").Text(name).Text("-end.heap");
  }
  const char* c_str() const { return text_; }
  std::string_view text() const { return writer_.text(); }

 private:
  char text_[kMaxPath];
  TextWriter writer_;
};

void WriteTextToStderr(std::string_view text, void*) { WriteToStderr(text); }

TC_SLOW_PATH void WriteReport(const FoundLeaks& report, std::string_view name,
                              const Settings& settings) {
  char buffer[1024];
  TextWriter out(buffer, sizeof(buffer), &WriteTextToStderr, nullptr);
  SystemVirtualMemory vm;
  const LeakSymbols symbols(report, settings.heap_check_max_leaks, vm);
  WriteLeakText(report, name, settings.heap_check_max_leaks, symbols, &out);
  out.Flush();
}

// Writes the profile, and the command that shows it.
TC_SLOW_PATH void WriteProfileFile(const FoundLeaks& report, std::string_view name,
                                   const Settings& settings) {
  const ProgramPath program;
  const ProfilePath path(settings, program, name);
  char buffer[1024];
  TextWriter out(buffer, sizeof(buffer), &WriteTextToStderr, nullptr);
  RemoveFile(path.c_str());
  const int file = CreateForWriting(path.c_str());
  bool written = file >= 0;
  if (written) {
    written = WriteProfileToFile(report.AsProfile(), ProfileFormat::kLegacyText, file);
    Close(file);
  }
  if (!written) {
    const int error = errno;
    out.Text("tcmalloc: leak check: cannot write ").Text(path.text()).Text(": ");
    WriteError(error, &out);
    out.Text("\n");
  } else {
    // Options come first: Go's pprof takes none after the files, gperftools' takes them anywhere.
    out.Text("tcmalloc: for all leaks with source lines (--gv instead of --text for a graph):\n");
    out.Text(settings.pprof_path).Text(" --text --lines --inuse_objects --edgefraction=1e-10 ");
    out.Text("--nodefraction=1e-10 \"").Text(program.text()).Text("\" \"").Text(path.text());
    out.Text("\"\n");
  }
  out.Flush();
}

// One line, so that a check without leaks differs from no check.
TC_SLOW_PATH void WriteNoLeaks(const FoundLeaks& report) {
  const ProgramPath program;
  char buffer[512];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: leak check \"")
      .Text(kProgramCheckName)
      .Text("\" of ")
      .Text(program.last_part());
  line.Text(" (pid ").Number(ProcessId()).Text("): ");
  WriteLeakSummary(report, &line);
  WriteToStderr(line.text());
}

}  // namespace

bool CheckAndReport(const LeakRequest& request, std::string_view name, bool at_end,
                    LeakFigures* figures) {
  const ErrnoKeeper keeper;
  Heap& heap = GlobalHeap();
  const Settings& settings = heap.settings;
  FoundLeaks report(heap.virtual_memory);
  CheckForLeaks(heap, request, &report);
  *figures = {report.objects, report.bytes};
  if (report.outcome == LeakOutcome::kDone && report.objects == 0) {
    if (at_end) WriteNoLeaks(report);
    return true;
  }
  WriteReport(report, name, settings);
  if (report.known() && report.objects > 0) WriteProfileFile(report, name, settings);
  return report.known() && report.objects == 0;
}

TC_SLOW_PATH void CheckDumpDirectory(const Settings& settings) {
  const int error = ErrorOfCreatingIn(settings.heap_check_dump_directory);
  if (error == 0) return;
  char buffer[kSettingTextBytes + 256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text("tcmalloc: HEAP_CHECK_DUMP_DIRECTORY: cannot create files in ");
  line.Text(settings.heap_check_dump_directory).Text(": ");
  WriteError(error, &line);
  line.Text("\n");
  WriteToStderr(line.text());
}

}  // namespace tcmalloc
