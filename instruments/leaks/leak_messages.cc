// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include "base/compiler.h"
#include "instruments/leaks/check.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/profiles/process.h"
#include "instruments/profiles/profile_formats.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/log.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// The path of the program's file; empty if it is unknown.
class ProgramPath {
 public:
  ProgramPath() { length_ = ReadLink("/proc/self/exe", text_, sizeof(text_)); }
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
