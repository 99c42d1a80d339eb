// SPDX-License-Identifier: BSD-3-Clause
// A crash as text and as JSON: an explanation, then the registers that point to the heap, then the
// stack.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "heap/crash.h"
#include "image/call_stack.h"
#include "image/process.h"
#include "image/symbolizer.h"
#include "report/damage_report.h"

namespace cli {

struct ThreadReport {
  ThreadRegisters thread;
  std::vector<HeapRegister> registers;
  CallStack stack;
};

struct CrashReport {
  ProcessInfo info;
  Crash crash;
  // The misuse of a guarded object that led to the crash.
  std::optional<GuardMistake> mistake;
  MistakeTime mistake_time;
  bool own_malloc = true;    // the process ran on this allocator
  std::string other_malloc;  // else its name
  std::string held;          // the lock or the change flag of the heap that was set; empty if none
                             // was
  std::vector<ThreadReport> threads;  // the one that crashed first
  // The facts that are unknown, and the reasons, one line each.
  std::vector<std::string> incomplete;
};

// Returns the function of this allocator in which the thread is; empty if it is in none.
std::string AllocatorFunction(const CallStack& stack, const NameFrames& names);

// Explains the crash in sentences. `in_allocator` is the result of AllocatorFunction.
std::string CrashAnswer(const CrashReport& report, const std::string& in_allocator);
std::string CrashText(const CrashReport& report, const NameFrames& names);
nlohmann::ordered_json CrashJson(const CrashReport& report, const NameFrames& names);

}  // namespace cli
