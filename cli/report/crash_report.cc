// SPDX-License-Identifier: BSD-3-Clause
#include "report/crash_report.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "report/pointee_text.h"
#include "report/profile_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kMostSampleFrames = 8;

std::string SignalName(int number) {
  const char* const name = sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

// Breaks the text into lines of at most kColumns, unless a word is longer.
std::string Wrapped(const std::string& text) {
  std::string out;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (line > 0) {
      const bool fits = line + 1 + (end - at) <= kColumns;
      out += fits ? ' ' : '\n';
      line = fits ? line + 1 : 0;
    }
    out.append(text, at, end - at);
    line += end - at;
    at = end + 1;
  }
  return out;
}

std::string_view AccessText(const Crash& crash) {
  if (!crash.access.has_value() || crash.access->reads == crash.access->writes) return "access to";
  return crash.access->reads ? "read of" : "write to";
}

std::string ForbiddenText(const Crash& crash) {
  if (!crash.forbidden) return {};
  if (crash.cause == Crash::Cause::kJump) return ", where there is no code";
  if (!crash.access.has_value() || crash.access->reads == crash.access->writes) {
    return ", where access is not permitted";
  }
  return crash.access->reads ? ", where reading is not permitted"
                             : ", where writing is not permitted";
}

std::string CauseText(const CrashReport& report) {
  const Crash& crash = report.crash;
  const std::string what =
      fmt::format("{} in {}: ", SignalName(crash.signal.number), ThreadText(crash.thread));
  switch (crash.cause) {
    case Crash::Cause::kNoSignal:
      return "No signal ended the process: its core was written while it ran.";
    case Crash::Cause::kAllocatorAborted:
      return fmt::format("{}the allocator aborted the program: \"{}\".", what, crash.abort_line);
    case Crash::Cause::kAborted:
      return what + "the program aborted itself. The allocator did not ask for it.";
    case Crash::Cause::kSent:
      return what +
             "a process sent it: another one, or this one, for example by a handler that raises "
             "the "
             "signal again.";
    case Crash::Cause::kStackOverflow:
      return fmt::format(
          "{}the stack overflowed: {} {:#x}, {} bytes below the thread's stack, which has {} from "
          "{:#x} on.",
          what, AccessText(crash), crash.at->address, crash.stack_start - crash.at->address,
          Size(crash.stack_end - crash.stack_start), crash.stack_start);
    case Crash::Cause::kAccess:
      if (report.mistake.has_value()) return what + MistakeLine(*report.mistake) + '.';
      if (!crash.at.has_value()) {
        return what +
               "an access to memory. The address is not known: the core has neither the "
               "address nor the instruction.";
      }
      return fmt::format("{}{} {:#x}, which is {}{}.", what, AccessText(crash), crash.at->address,
                         PointeeText(*crash.at), ForbiddenText(crash));
    case Crash::Cause::kJump:
      if (report.mistake.has_value()) {
        return fmt::format("{}a jump: {}.", what, MistakeLine(*report.mistake));
      }
      return fmt::format("{}a jump to {:#x}, which is {}{}.", what, crash.at->address,
                         PointeeText(*crash.at), ForbiddenText(crash));
    case Crash::Cause::kOther:
      return what + "no access to memory causes it.";
  }
  return {};
}

// Describes the source of a wild pointer.
std::string HolderText(const Crash& crash) {
  if (!crash.holder.has_value()) return {};
  const PointerHolder& holder = *crash.holder;
  std::string text = fmt::format("This value is at offset {}", holder.offset);
  if (holder.others > 0) text += fmt::format(" (and {} times after it)", holder.others);
  text += fmt::format(" of {}, to which {} points", ObjectText(holder.object.place),
                      holder.register_name);
  if (holder.object.IsFree())
    return text + ": the program probably used the object after it freed it.";
  text += ". If the program did not put it there, it was overwritten: past the end of ";
  text += holder.before.has_value() ? ObjectText(*holder.before) : "an object before it";
  return text + ", or through a pointer to an object that was there before and was freed.";
}

// Describes other possible causes of a fault.
std::string RegistersText(const CrashReport& report) {
  if (report.crash.cause != Crash::Cause::kAccess && report.crash.cause != Crash::Cause::kJump) {
    return {};
  }
  if (report.crash.holder.has_value() || report.mistake.has_value() || report.threads.empty()) {
    return {};
  }
  std::string text;
  std::vector<Address> seen;
  for (const HeapRegister& one : report.threads[0].registers) {
    const Address start = one.pointee.place.object.start;
    const bool is_new = std::find(seen.begin(), seen.end(), start) == seen.end();
    if (!one.pointee.IsFree() || start == 0 || !is_new) continue;
    seen.push_back(start);
    text += fmt::format("{}{} points to {}", text.empty() ? "Register " : ", ", one.name,
                        ObjectText(one.pointee.place));
  }
  if (text.empty()) return {};
  return text + ": the program may use an object that it freed.";
}

std::string AbortedText(const Crash& crash) {
  if (crash.cause != Crash::Cause::kAllocatorAborted || !crash.at.has_value()) return {};
  return fmt::format("{:#x} is {}.", crash.at->address, PointeeText(*crash.at));
}

std::string InAllocatorText(const CrashReport& report, const std::string& in_allocator) {
  const Crash::Cause cause = report.crash.cause;
  std::string text;
  if (!in_allocator.empty() && !report.mistake.has_value() &&
      (cause == Crash::Cause::kAccess || cause == Crash::Cause::kJump)) {
    text = fmt::format(
        "The thread was in the allocator ({}): it was given a wrong pointer, or the program "
        "overwrote the allocator's records.",
        in_allocator);
  }
  if (!report.held.empty()) {
    if (!text.empty()) text += ' ';
    text += fmt::format(
        "{} was in use: what was changing may be missing or appear twice in what follows.",
        report.held);
  }
  return text;
}

std::string AgeText(const Pointee& pointee) {
  return fmt::format("{} {:.1f} seconds before",
                     pointee.place.guarded ? "it was allocated" : "its span was handed out",
                     static_cast<double>(pointee.age_ms) / 1000);
}

std::string FunctionsText(const std::vector<Address>& stack, size_t most, const NameFrames& names) {
  std::string out;
  size_t n = 0;
  for (const SourceFrame* const frame : ProgramFrames(stack, names)) {
    if (n++ == most) return out + "             ...\n";
    out += fmt::format("{:13}{}\n", "", FrameText(*frame));
  }
  return out;
}

std::string RegistersTable(const std::vector<HeapRegister>& registers, const NameFrames& names) {
  std::string out;
  std::vector<Address> shown;
  for (const HeapRegister& first : registers) {
    const Pointee& pointee = first.pointee;
    if (std::find(shown.begin(), shown.end(), pointee.address) != shown.end()) continue;
    shown.push_back(pointee.address);
    std::string those;
    for (const HeapRegister& one : registers) {
      if (one.pointee.address != pointee.address) continue;
      those += fmt::format("{}{}", those.empty() ? "" : ", ", one.name);
    }
    out += fmt::format("  {:<8} {:#x}  {}\n", those, pointee.address, PointeeText(pointee));
    if (pointee.kind == Pointee::Kind::kHeap && pointee.place.object.start != 0) {
      out += fmt::format("{:11}{}\n", "", AgeText(pointee));
    }
    if (pointee.sample.has_value() && pointee.place.kind == Place::Kind::kInUse) {
      out += fmt::format("{:11}{} bytes were requested by\n{}", "", pointee.sample->requested_bytes,
                         FunctionsText(pointee.sample->frames, kMostSampleFrames, names));
    }
  }
  return out;
}

std::string StackText(const CallStack& stack, const NameFrames& names) {
  std::string out;
  for (size_t n = 0; n < stack.frames.size(); ++n) {
    if (stack.guessed && n == 1) {
      out += "  The rest could not be unwound. Words on the stack that may be return addresses:\n";
    }
    const CallFrame& frame = stack.frames[n];
    for (const SourceFrame& function : names(frame.call())) {
      // True if the address is in no module.
      const bool unknown = function.function == fmt::format("{:#x}", frame.call());
      out += fmt::format("  #{:<3} {}\n", n,
                         unknown ? fmt::format("{:#x}", frame.address) : FrameText(function));
    }
    size_t same = 0;
    while (n + 1 < stack.frames.size() && stack.frames[n + 1].address == frame.address) {
      ++n;
      ++same;
    }
    if (same > 0) out += fmt::format("  and {} more calls from the same place\n", same);
  }
  if (stack.cut) out += "  and the calls around these\n";
  return out;
}

nlohmann::ordered_json StackJson(const CallStack& stack, const NameFrames& names) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < stack.frames.size(); ++i) {
    for (const SourceFrame& function : names(stack.frames[i].call())) {
      nlohmann::ordered_json& entry = json.emplace_back();
      entry["address"] = stack.frames[i].address;
      entry["function"] = function.function;
      if (!function.file.empty()) entry["file"] = function.file;
      if (function.line != 0) entry["line"] = function.line;
      if (stack.guessed && i > 0) entry["guessed"] = true;
    }
  }
  return json;
}

const char* CauseName(Crash::Cause cause) {
  switch (cause) {
    case Crash::Cause::kNoSignal:
      return "none";
    case Crash::Cause::kAllocatorAborted:
      return "abort of the allocator";
    case Crash::Cause::kAborted:
      return "abort";
    case Crash::Cause::kSent:
      return "sent";
    case Crash::Cause::kStackOverflow:
      return "stack overflow";
    case Crash::Cause::kAccess:
      return "access";
    case Crash::Cause::kJump:
      return "jump";
    case Crash::Cause::kOther:
      return "other";
  }
  return "";
}

bool IsOfAllocator(const std::string& function) {
  for (const std::string_view prefix :
       {"tcmalloc::", "tcmalloc_", "tc_", "operator new", "operator delete"}) {
    if (function.starts_with(prefix)) return true;
  }
  for (const std::string_view name : {"malloc", "free", "calloc", "realloc", "memalign",
                                      "posix_memalign", "aligned_alloc", "cfree"}) {
    if (function == name) return true;
  }
  return false;
}

std::string InAllocator(const CrashReport& report, const NameFrames& names) {
  if (!report.own_malloc || report.threads.empty()) return {};
  return AllocatorFunction(report.threads[0].stack, names);
}

}  // namespace

std::string AllocatorFunction(const CallStack& stack, const NameFrames& names) {
  if (stack.frames.empty()) return {};
  // The innermost frame decides whether the thread is in the allocator; the result is the outermost
  // function of the allocator, which the program called.
  std::string outermost;
  for (const CallFrame& frame : stack.frames) {
    const std::string& function = names(frame.call()).back().function;
    if (!IsOfAllocator(function)) break;
    outermost = function;
  }
  return outermost;
}

std::string CrashAnswer(const CrashReport& report, const std::string& in_allocator) {
  std::string answer;
  for (const std::string& sentence :
       {CauseText(report), AbortedText(report.crash), HolderText(report.crash),
        RegistersText(report), InAllocatorText(report, in_allocator)}) {
    if (sentence.empty()) continue;
    if (!answer.empty()) answer += ' ';
    answer += sentence;
  }
  return answer;
}

std::string CrashText(const CrashReport& report, const NameFrames& names) {
  std::string out = Wrapped(CrashAnswer(report, InAllocator(report, names))) + "\n";
  if (!report.own_malloc) {
    out += fmt::format("The program ran on {}, not on this TCMalloc.\n", report.other_malloc);
  }
  if (report.mistake.has_value() && report.mistake->object.has_value()) {
    out += "\nThe object was\n";
    out += MistakeHistory(*report.mistake, report.mistake_time, "  ", names);
  }
  for (const ThreadReport& one : report.threads) {
    if (report.own_malloc) {
      out += fmt::format("\nRegisters of {} that point to the heap:{}\n", ThreadText(one.thread),
                         one.registers.empty() ? " none" : "");
    }
    out += RegistersTable(one.registers, names);
    out += fmt::format("\nStack of {}:\n{}", ThreadText(one.thread), StackText(one.stack, names));
  }
  if (!report.incomplete.empty()) out += '\n';
  for (const std::string& line : report.incomplete) out += fmt::format("incomplete: {}\n", line);
  return out;
}

nlohmann::ordered_json CrashJson(const CrashReport& report, const NameFrames& names) {
  const Crash& crash = report.crash;
  nlohmann::ordered_json json = ProcessJson(report.info);
  json["allocator"] = report.own_malloc ? "tcmalloc" : report.other_malloc;
  json["cause"] = CauseName(crash.cause);
  const std::string in_allocator = InAllocator(report, names);
  json["answer"] = CrashAnswer(report, in_allocator);
  if (crash.signal.number != 0) {
    json["signal"] = {{"number", crash.signal.number}, {"name", SignalName(crash.signal.number)}};
    if (crash.signal.code.has_value()) json["signal"]["code"] = *crash.signal.code;
  }
  if (crash.access.has_value()) {
    json["reads"] = crash.access->reads;
    json["writes"] = crash.access->writes;
  }
  if (crash.at.has_value()) json["at"] = PointeeJson(*crash.at);
  if (report.mistake.has_value()) json["guarded"] = MistakeJson(*report.mistake, names);
  if (crash.holder.has_value()) {
    json["loaded_from"] = {{"register", crash.holder->register_name},
                           {"offset", crash.holder->offset},
                           {"pointee", PointeeJson(crash.holder->object)}};
  }
  if (!crash.abort_line.empty()) json["abort_line"] = crash.abort_line;
  if (!in_allocator.empty()) json["allocator_function"] = in_allocator;
  if (!report.held.empty()) json["held"] = report.held;
  auto& threads = json["threads_shown"] = nlohmann::ordered_json::array();
  for (const ThreadReport& one : report.threads) {
    nlohmann::ordered_json& thread = threads.emplace_back();
    thread["thread"] = one.thread.thread;
    if (!one.thread.name.empty()) thread["name"] = one.thread.name;
    auto& registers = thread["registers"] = nlohmann::ordered_json::array();
    for (const HeapRegister& pointing : one.registers) {
      nlohmann::ordered_json entry{{"register", pointing.name}};
      entry.update(PointeeJson(pointing.pointee));
      registers.push_back(std::move(entry));
    }
    thread["stack"] = StackJson(one.stack, names);
  }
  json["incomplete"] = report.incomplete;
  return json;
}

}  // namespace cli
