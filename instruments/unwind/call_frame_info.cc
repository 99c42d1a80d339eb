// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_info.h"

#include "instruments/unwind/call_frame_entries.h"
#include "instruments/unwind/call_frame_program.h"

namespace tcmalloc {
namespace {

constexpr intptr_t kSavedUnit = sizeof(void*);

// Whether `value` fits into a signed field of `kBits` bits.
template <int kBits>
constexpr bool Fits(int64_t value) {
  return value >= -(int64_t{1} << (kBits - 1)) && value < int64_t{1} << (kBits - 1);
}

bool IsExpressible(const CallFrameRow::Saved& saved) {
  return !saved.lost && saved.offset % kSavedUnit == 0 && Fits<9>(saved.offset / kSavedUnit);
}

// Packs a row into a rule; kUnknown if the rule's fields cannot express it.
CallFrameRule RuleOf(const CallFrameRow& row, bool interrupted) {
  CallFrameRule rule;
  const CallFrameRow::Saved& returns = row.saved[CallFrameRow::kReturn];
  if (returns.undefined) {
    rule.address = CallFrameRule::kOutermost;
    return rule;
  }
  const CallFrameRow::Saved& frame = row.saved[CallFrameRow::kFrame];
  const CallFrameRow::Saved& base = row.saved[CallFrameRow::kBase];
  CallFrameRule::Register address_register;
  const bool has_return =
      DwarfRegister::kReturnInRegister || returns.place != CallFrameRule::kUnchanged;
  if (!IsExpressible(returns) || !has_return || !IsExpressible(frame) || !IsExpressible(base) ||
      !Fits<26>(row.address_offset) || !FollowedRegister(row.address_register, &address_register)) {
    return rule;
  }
  rule.address = row.address;
  rule.address_register = address_register;
  rule.interrupted = interrupted;
  rule.return_place = returns.place;
  rule.frame_place = frame.place;
  rule.base_place = base.place;
  rule.return_words = returns.offset / kSavedUnit;
  rule.frame_words = frame.offset / kSavedUnit;
  rule.base_words = base.offset / kSavedUnit;
  rule.address_offset = row.address_offset;
  return rule;
}

}  // namespace

const bool kHasCallFrameInfo = DwarfRegister::kKnown && !DwarfRegister::kReturnInRegister;
const bool kHasInterruptedFrameInfo = DwarfRegister::kKnown;

bool FindCallFrameRule(const CallFrameObject& object, uintptr_t pc, CallFrameResult* result) {
  CallFrameTable table;
  if (!table.Read(object)) return false;
  const uint32_t functions = table.CountUpTo(pc);
  if (functions == 0) return false;
  const uint32_t index = functions - 1;
  FrameDescription description;
  if (!description.Read(object, table.Description(index))) return false;
  if (pc < description.function || pc - description.function >= description.function_bytes) {
    return false;
  }
  const CommonFrameEntry& common = description.common;
  const CallFrameContext context = {.code_alignment = common.code_alignment,
                                    .data_alignment = common.data_alignment,
                                    .encoding = common.encoding,
                                    .function = description.function,
                                    .pc = pc};
  CallFrameRow row;
  if (!RunCallFramePrograms(context, common.program, description.program, &row)) return false;
  result->rule = RuleOf(row, common.interrupted);
  result->index = index;
  return true;
}

}  // namespace tcmalloc
