// SPDX-License-Identifier: BSD-3-Clause
#include "heap/crash.h"

#include <algorithm>
#include <charconv>
#include <csignal>

#include "image/text.h"

namespace cli {
namespace {

constexpr size_t kAbortLineBytes = 256;
// The longest distance of a stack overflow's fault from the stack pointer, since the program may
// first touch any part of a frame; also the longest distance below the stack.
constexpr uint64_t kLargestFrame = uint64_t{1} << 20;
// The most bytes of an object that are searched for a pointer.
constexpr uint64_t kMostSearchedBytes = uint64_t{1} << 20;

uint64_t Distance(Address a, Address b) { return a < b ? b - a : a - b; }

bool IsFault(const SignalInfo& signal) {
  return (signal.number == SIGSEGV || signal.number == SIGBUS) && signal.code.value_or(0) > 0;
}

// True if the fault is below the stack, and the stack pointer is at the low end of the stack; then
// sets the stack.
bool IsStackOverflow(const Pointees& pointees, Address fault, Crash* crash) {
  const Address pointer = crash->thread.stack();
  if (Distance(fault, pointer) > kLargestFrame) return false;
  const Mapping* const at = pointees.MappingAt(fault);
  if (at != nullptr && (at->readable || at->writable)) return false;
  const Mapping* const stack = pointees.MappingAfter(at == nullptr ? fault : at->end - 1);
  const bool is_stack =
      stack != nullptr && stack->writable && (stack->name.empty() || stack->name.starts_with('['));
  if (!is_stack || stack->start - fault > 2 * kLargestFrame ||
      (pointer >= stack->start && pointer - stack->start > kLargestFrame)) {
    return false;
  }
  crash->stack_start = stack->start;
  crash->stack_end = stack->end;
  return true;
}

// Returns the first address in the line.
std::optional<Address> AddressIn(std::string_view line) {
  const size_t at = line.find("0x");
  if (at == std::string_view::npos) return std::nullopt;
  Address address = 0;
  constexpr int kHexadecimal = 16;
  const auto [end, error] =
      std::from_chars(line.data() + at + 2, line.data() + line.size(), address, kHexadecimal);
  return error == std::errc() ? std::make_optional(address) : std::nullopt;
}

bool IsWild(const Pointee& pointee) {
  return pointee.kind != Pointee::Kind::kHeap && pointee.kind != Pointee::Kind::kNull;
}

// Returns the values that may have been loaded from memory: the address, and the registers from
// which it is computed.
std::vector<uint64_t> WildValues(const Crash& crash) {
  std::vector<uint64_t> values = {crash.at->address};
  if (!crash.access.has_value()) return values;
  for (const Register& one : crash.thread.General()) {
    for (const std::string_view name : crash.access->registers) {
      if (name == one.name) values.push_back(one.value);
    }
  }
  // Small numbers are omitted, since they occur in every object.
  constexpr uint64_t kLeast = 4096;
  std::erase_if(values, [](uint64_t value) { return value < kLeast; });
  return values;
}

std::optional<PointerHolder> FindHolder(Image& image, const Pointees& pointees,
                                        const std::vector<HeapRegister>& registers,
                                        const Crash& crash) {
  const size_t word = crash.thread.machine->word_bytes;
  const std::vector<uint64_t> values = WildValues(crash);
  for (const HeapRegister& one : registers) {
    const Object& object = one.pointee.place.object;
    if (object.start == 0) continue;
    std::optional<PointerHolder> holder;
    for (uint64_t at = 0; at + word <= std::min(object.bytes, kMostSearchedBytes); at += word) {
      uint64_t value = 0;
      if (!image.Read(object.start + at, &value, word)) break;
      if (std::find(values.begin(), values.end(), value) == values.end()) continue;
      if (holder.has_value()) {
        ++holder->others;
      } else {
        holder = {.register_name = one.name, .object = one.pointee, .offset = at};
      }
    }
    if (!holder.has_value()) continue;
    if (object.start > one.pointee.place.span.start) {
      const Pointee before = pointees.At(object.start - 1);
      if (before.place.object.start != 0) holder->before = before.place;
    }
    return holder;
  }
  return std::nullopt;
}

// Returns the target of an instruction that calls, jumps or returns.
std::optional<Address> JumpTarget(Image& image, const Crash& crash) {
  const MemoryAccess& access = *crash.access;
  Address target = 0;
  if (access.target.has_value() || !access.jumps || !access.address.has_value() ||
      !image.Read(*access.address, &target, crash.thread.machine->word_bytes)) {
    return access.target;
  }
  return target;
}

void ReadFault(Image& image, const Pointees& pointees, const std::vector<HeapRegister>& registers,
               Crash* crash) {
  crash->cause = Crash::Cause::kAccess;
  crash->forbidden = crash->signal.number == SIGSEGV && crash->signal.code == SEGV_ACCERR;
  const std::optional<Address> fault = crash->signal.address;
  const Address instruction = crash->thread.instruction();
  if (fault == instruction) {
    crash->cause = Crash::Cause::kJump;
    crash->at = pointees.WithNeighbour(instruction);
  } else {
    crash->access = DecodeAccess(crash->thread, image, fault);
    std::optional<Address> address = fault;
    if (!fault.has_value() && crash->access.has_value()) {
      address = crash->access->address;
      // The processor reported the fault before the jump.
      if (const auto target = JumpTarget(image, *crash)) {
        crash->cause = Crash::Cause::kJump;
        address = target;
      }
    }
    if (!address.has_value()) return;
    crash->at = pointees.WithNeighbour(*address);
    // A thread's stack may be right after the pool of guarded objects.
    if (!crash->at->place.guarded && IsStackOverflow(pointees, *address, crash)) {
      crash->cause = Crash::Cause::kStackOverflow;
      return;
    }
  }
  if (IsWild(*crash->at)) crash->holder = FindHolder(image, pointees, registers, *crash);
}

}  // namespace

std::vector<HeapRegister> HeapRegisters(const ThreadRegisters& thread, const Pointees& pointees) {
  std::vector<HeapRegister> found;
  for (const Register& one : thread.General()) {
    const Pointee pointee = pointees.At(one.value);
    if (pointee.kind != Pointee::Kind::kHeap && pointee.kind != Pointee::Kind::kAfterHeap) continue;
    found.push_back({.name = one.name, .pointee = pointee});
  }
  return found;
}

std::string ReadAbortLine(Image& image, Address abort_line) {
  char line[kAbortLineBytes] = {};
  if (abort_line == 0 || !image.ReadValue(abort_line, &line)) return {};
  std::string_view text(line, sizeof(line));
  text = text.substr(0, text.find_first_of(std::string_view("\0\n", 2)));
  return CleanText(text);
}

Crash ReadCrash(Image& image, const Pointees& pointees, const std::vector<HeapRegister>& registers,
                std::string abort_line) {
  Crash crash{.thread = image.Threads()[0], .abort_line = std::move(abort_line)};
  crash.signal = crash.thread.signal;
  if (crash.signal.number == 0) return crash;
  if (IsFault(crash.signal)) {
    ReadFault(image, pointees, registers, &crash);
  } else if (crash.signal.number == SIGABRT && crash.signal.code != SI_USER) {
    crash.cause =
        crash.abort_line.empty() ? Crash::Cause::kAborted : Crash::Cause::kAllocatorAborted;
    if (const auto address = AddressIn(crash.abort_line)) {
      crash.at = pointees.WithNeighbour(*address);
    }
  } else {
    crash.cause = crash.signal.code.value_or(1) <= 0 ? Crash::Cause::kSent : Crash::Cause::kOther;
  }
  return crash;
}

std::optional<GuardMistake> FindMistake(const GuardedPool& guarded, const Crash& crash) {
  if (crash.cause == Crash::Cause::kAllocatorAborted) {
    // The program may have survived the mistake and aborted for another reason since then: the line
    // is that of the last abort, and contains the address or the object.
    const std::optional<GuardMistake> kept = guarded.Kept();
    const std::optional<Address> address = AddressIn(crash.abort_line);
    if (!kept.has_value() || !address.has_value()) return std::nullopt;
    const bool is_of_line =
        *address == kept->address || (kept->object.has_value() && *address == kept->object->start);
    return is_of_line ? kept : std::nullopt;
  }
  const bool is_fault = crash.cause == Crash::Cause::kAccess || crash.cause == Crash::Cause::kJump;
  if (!is_fault || !crash.at.has_value() || !guarded.Contains(crash.at->address)) {
    return std::nullopt;
  }
  GuardMistake mistake = guarded.Classify(crash.at->address);
  if (crash.access.has_value() && crash.access->reads != crash.access->writes) {
    mistake.access =
        crash.access->reads ? GuardMistake::Access::kRead : GuardMistake::Access::kWrite;
  }
  return mistake;
}

}  // namespace cli
