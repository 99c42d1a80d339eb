// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/call_frame_info.h"

#include "instruments/unwind/call_frame_entries.h"

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

namespace {

using CallFrameColumn = CallFrameRow::Column;

// Operations of expressions (DW_OP_...).
constexpr uint8_t kOpLoad = 0x06;
constexpr uint8_t kOpRegister = 0x70;  // to 0x8f: a register and a signed offset
constexpr uint8_t kOpLiteral = 0x30;   // to 0x4f
constexpr uint8_t kOpAnd = 0x1a;
constexpr uint8_t kOpNotLess = 0x2a;
constexpr uint8_t kOpShift = 0x24;
constexpr uint8_t kOpAdd = 0x22;

// Returns the column of a register; kColumns for a register that has none.
CallFrameColumn ColumnOf(uint64_t number) {
  return number == DwarfRegister::kReturn         ? CallFrameRow::kReturn
         : number == DwarfRegister::kFramePointer ? CallFrameRow::kFrame
         : number == DwarfRegister::kBase         ? CallFrameRow::kBase
                                                  : CallFrameRow::kColumns;
}

// The state of the interpreter.
class CallFrameMachine {
 public:
  explicit CallFrameMachine(const CallFrameContext& context)
      : context_(context), location_(context.function) {}

  // Stops at the first instruction for code after `pc`. False if the program is invalid.
  bool Run(CallFrameReader program) {
    while (!program.at_end() && !passed_) {
      if (!Execute(&program)) return false;
    }
    return !program.failed() || passed_;
  }
  // Makes the current row the one that DW_CFA_restore returns to.
  void KeepInitial() { initial_ = row_; }
  const CallFrameRow& row() const { return row_; }

 private:
  // Call frame instructions (DW_CFA_...).
  enum Instruction : uint8_t {
    // The first operand is in the lower six bits.
    kAdvance = 0x40,  // advance_loc
    kOffset = 0x80,
    kRestore = 0xc0,
    kShortForms = 0xc0,  // the bits that distinguish these
    // Move to the next row.
    kSetLocation = 0x01,
    kAdvance1 = 0x02,
    kAdvance2 = 0x03,
    kAdvance4 = 0x04,
    // Define the canonical frame address.
    kDefineAddress = 0x0c,  // def_cfa
    kDefineAddressRegister = 0x0d,
    kDefineAddressOffset = 0x0e,
    kDefineAddressExpression = 0x0f,
    kDefineAddressSigned = 0x12,
    kDefineAddressOffsetSigned = 0x13,
    // Say where the caller's value of a register is.
    kOffsetExtended = 0x05,
    kRestoreExtended = 0x06,
    kUndefined = 0x07,
    kSameValue = 0x08,
    kRegister = 0x09,
    kExpression = 0x10,
    kOffsetExtendedSigned = 0x11,
    kValueOffset = 0x14,
    kValueOffsetSigned = 0x15,
    kValueExpression = 0x16,
    kNegativeOffsetExtended = 0x2f,  // of GNU
    // Others.
    kNop = 0x00,
    kRememberState = 0x0a,
    kRestoreState = 0x0b,
    kNegateReturnStateWithPc = 0x2c,  // of aarch64
    kNegateReturnState = 0x2d,        // of aarch64
    kArgumentsSize = 0x2e,            // of GNU
  };

  // The most remembered states. Compilers nest them only once.
  static constexpr size_t kDeepest = 4;

  void MoveTo(uint64_t location) {
    if (location > context_.pc) {
      passed_ = true;
    } else {
      location_ = location;
    }
  }
  void Advance(uint64_t delta) { MoveTo(location_ + delta * context_.code_alignment); }

  int64_t Factored(uint64_t offset) const {
    return static_cast<int64_t>(offset * static_cast<uint64_t>(context_.data_alignment));
  }

  void Save(uint64_t number, CallFrameRow::Saved saved) {
    const CallFrameColumn column = ColumnOf(number);
    if (column != CallFrameRow::kColumns) row_.saved[column] = saved;
  }
  void SaveAt(uint64_t number, int64_t offset) {
    Save(number, {.place = CallFrameRule::kFromAddress, .offset = offset});
  }
  void Restore(uint64_t number) {
    const CallFrameColumn column = ColumnOf(number);
    if (column != CallFrameRow::kColumns) row_.saved[column] = initial_.saved[column];
  }

  void DefineAddress(uint64_t number, int64_t offset) {
    row_.address = CallFrameRule::kRegister;
    row_.address_register = number;
    row_.address_offset = offset;
  }

  static CallFrameReader Block(CallFrameReader* program) {
    const uint64_t bytes = program->Unsigned();
    CallFrameReader block = *program;
    block.Limit(bytes);
    program->Skip(bytes);
    return block;
  }

  // Reads a register and an offset from the start of an expression. False if it starts otherwise.
  static bool RegisterAndOffset(CallFrameReader* block, uint64_t* number, int64_t* offset) {
    const uint8_t operation = block->Take<uint8_t>();
    if (operation < kOpRegister || operation >= kOpRegister + 32) return false;
    *number = operation - kOpRegister;
    *offset = block->Signed();
    return !block->failed();
  }

  // Compilers and linkers write three forms:
  //   register + offset
  //   the word at register + offset
  //   stack pointer + word + (((pc & 15) >= n) << shift)
  // The last one describes the stubs of the linker: each stub has 16 bytes, and its second half
  // runs after a push.
  void AddressExpression(CallFrameReader block) {
    uint64_t number = 0;
    int64_t offset = 0;
    row_.address = CallFrameRule::kUnknown;
    if (!RegisterAndOffset(&block, &number, &offset)) return;
    if (block.at_end()) return DefineAddress(number, offset);
    if (const uint8_t operation = block.Take<uint8_t>(); operation == kOpLoad) {
      if (!block.at_end()) return;
      DefineAddress(number, offset);
      row_.address = CallFrameRule::kMemory;
    } else if (operation == kOpRegister + DwarfRegister::kReturn) {
      uint8_t bytes[8];
      for (uint8_t& byte : bytes) byte = block.Take<uint8_t>();
      if (block.failed() || !block.at_end() || bytes[0] != 0 || bytes[1] != kOpLiteral + 15 ||
          bytes[2] != kOpAnd || bytes[3] < kOpLiteral || bytes[3] > kOpLiteral + 15 ||
          bytes[4] != kOpNotLess || bytes[5] < kOpLiteral || bytes[5] > kOpLiteral + 15 ||
          bytes[6] != kOpShift || bytes[7] != kOpAdd) {
        return;
      }
      const bool pushed = (context_.pc & 15) >= static_cast<uintptr_t>(bytes[3] - kOpLiteral);
      DefineAddress(number, offset + (int64_t{pushed} << (bytes[5] - kOpLiteral)));
    }
  }

  void SaveByExpression(uint64_t number, CallFrameReader block) {
    CallFrameRow::Saved saved{.lost = true};
    uint64_t base = 0;
    CallFrameRule::Register followed;
    if (RegisterAndOffset(&block, &base, &saved.offset) && block.at_end() &&
        FollowedRegister(base, &followed) && followed != CallFrameRule::kBase) {
      saved.lost = false;
      saved.place = followed == CallFrameRule::kStackPointer ? CallFrameRule::kFromStackPointer
                                                             : CallFrameRule::kFromFramePointer;
    }
    Save(number, saved);
  }

  // Runs one instruction. False if it is invalid.
  bool Execute(CallFrameReader* program) {
    const uint8_t operation = program->Take<uint8_t>();
    if ((operation & kShortForms) != 0) {
      ExecuteShort(operation, program);
      return true;
    }
    switch (operation) {
      case kNop:
        return true;
      case kSetLocation:
      case kAdvance1:
      case kAdvance2:
      case kAdvance4:
        ExecuteMove(operation, program);
        return true;
      case kDefineAddress:
      case kDefineAddressRegister:
      case kDefineAddressOffset:
      case kDefineAddressExpression:
      case kDefineAddressSigned:
      case kDefineAddressOffsetSigned:
        ExecuteAddress(operation, program);
        return true;
      case kOffsetExtended:
      case kRestoreExtended:
      case kUndefined:
      case kSameValue:
      case kRegister:
      case kExpression:
      case kOffsetExtendedSigned:
      case kValueOffset:
      case kValueOffsetSigned:
      case kValueExpression:
      case kNegativeOffsetExtended:
        ExecuteRegister(operation, program);
        return true;
      case kRememberState:
        return RememberState();
      case kRestoreState:
        return RestoreState();
      // These only say that the return address is signed. The walk removes signatures in any case.
      case kNegateReturnStateWithPc:
      case kNegateReturnState:
        return DwarfRegister::kReturnInRegister;
      case kArgumentsSize:
        program->Unsigned();
        return true;
      default:
        return false;
    }
  }

  // An instruction whose first operand is in its own byte.
  void ExecuteShort(uint8_t operation, CallFrameReader* program) {
    const uint8_t operand = operation & ~kShortForms;
    switch (operation & kShortForms) {
      case kAdvance:
        Advance(operand);
        return;
      case kOffset:
        SaveAt(operand, Factored(program->Unsigned()));
        return;
      case kRestore:
        Restore(operand);
        return;
    }
  }

  // An instruction that moves to the next row.
  void ExecuteMove(uint8_t operation, CallFrameReader* program) {
    switch (operation) {
      case kSetLocation:
        MoveTo(program->Pointer(context_.encoding));
        return;
      case kAdvance1:
        Advance(program->Take<uint8_t>());
        return;
      case kAdvance2:
        Advance(program->Take<uint16_t>());
        return;
      case kAdvance4:
        Advance(program->Take<uint32_t>());
        return;
    }
  }

  // An instruction that defines the canonical frame address.
  void ExecuteAddress(uint8_t operation, CallFrameReader* program) {
    switch (operation) {
      case kDefineAddress: {
        const uint64_t number = program->Unsigned();
        DefineAddress(number, static_cast<int64_t>(program->Unsigned()));
        return;
      }
      case kDefineAddressSigned: {
        const uint64_t number = program->Unsigned();
        DefineAddress(number, Factored(static_cast<uint64_t>(program->Signed())));
        return;
      }
      case kDefineAddressRegister:
        DefineAddress(program->Unsigned(), row_.address_offset);
        return;
      case kDefineAddressOffset:
        row_.address_offset = static_cast<int64_t>(program->Unsigned());
        return;
      case kDefineAddressOffsetSigned:
        row_.address_offset = Factored(static_cast<uint64_t>(program->Signed()));
        return;
      case kDefineAddressExpression:
        AddressExpression(Block(program));
        return;
    }
  }

  // An instruction that says where the caller's value of a register is.
  void ExecuteRegister(uint8_t operation, CallFrameReader* program) {
    const uint64_t number = program->Unsigned();
    switch (operation) {
      case kOffsetExtended:
        SaveAt(number, Factored(program->Unsigned()));
        return;
      case kOffsetExtendedSigned:
        SaveAt(number, Factored(static_cast<uint64_t>(program->Signed())));
        return;
      case kNegativeOffsetExtended:
        SaveAt(number, Factored(0 - program->Unsigned()));
        return;
      case kRestoreExtended:
        Restore(number);
        return;
      case kUndefined:
        Save(number, {.undefined = true});
        return;
      case kSameValue:
        Save(number, {});
        return;
      case kExpression:
        SaveByExpression(number, Block(program));
        return;
      // A rule cannot express the others.
      case kRegister:
      case kValueOffset:
      case kValueOffsetSigned:
        program->Unsigned();
        Save(number, {.lost = true});
        return;
      case kValueExpression:
        Block(program);
        Save(number, {.lost = true});
        return;
    }
  }

  bool RememberState() {
    if (depth_ == kDeepest) return false;
    remembered_[depth_++] = row_;
    return true;
  }
  bool RestoreState() {
    if (depth_ == 0) return false;
    row_ = remembered_[--depth_];
    return true;
  }

  const CallFrameContext& context_;
  uint64_t location_;
  bool passed_ = false;
  CallFrameRow row_;
  CallFrameRow initial_;
  size_t depth_ = 0;
  CallFrameRow remembered_[kDeepest];
};

}  // namespace

bool RunCallFramePrograms(const CallFrameContext& context, CallFrameReader initial,
                          CallFrameReader own, CallFrameRow* row) {
  CallFrameMachine machine(context);
  if (!machine.Run(initial)) return false;
  machine.KeepInitial();
  if (!machine.Run(own)) return false;
  *row = machine.row();
  return true;
}

}  // namespace tcmalloc
