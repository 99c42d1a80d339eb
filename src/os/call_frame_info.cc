// SPDX-License-Identifier: BSD-3-Clause
#include "os/call_frame_info.h"

#include "os/raw_memory.h"

namespace tcmalloc {
namespace {

// The numbers that DWARF gives to registers, and the column of the return address.
#if defined(__x86_64__)
constexpr uint64_t kStackPointerNumber = 7;
constexpr uint64_t kFramePointerNumber = 6;
constexpr uint64_t kBaseNumber = 3;
constexpr uint64_t kReturnNumber = 16;
constexpr bool kKnownMachine = true;
#elif defined(__i386__)
constexpr uint64_t kStackPointerNumber = 4;
constexpr uint64_t kFramePointerNumber = 5;
constexpr uint64_t kBaseNumber = 3;
constexpr uint64_t kReturnNumber = 8;
constexpr bool kKnownMachine = true;
#else
constexpr uint64_t kStackPointerNumber = 31;
constexpr uint64_t kFramePointerNumber = 29;
constexpr uint64_t kBaseNumber = 19;
constexpr uint64_t kReturnNumber = 30;
constexpr bool kKnownMachine = false;
#endif

constexpr intptr_t kWord = sizeof(void*);

// How pointers are written (DW_EH_PE_...): the low bits say how long, the next ones from where.
constexpr uint8_t kAbsolute = 0x00;
constexpr uint8_t kUnsigned2 = 0x02;
constexpr uint8_t kUnsigned4 = 0x03;
constexpr uint8_t kUnsigned8 = 0x04;
constexpr uint8_t kSigned2 = 0x0a;
constexpr uint8_t kSigned4 = 0x0b;
constexpr uint8_t kSigned8 = 0x0c;
constexpr uint8_t kFormatMask = 0x0f;
constexpr uint8_t kFromHere = 0x10;
constexpr uint8_t kFromHeader = 0x30;

// Operations of expressions (DW_OP_...).
constexpr uint8_t kOpLoad = 0x06;
constexpr uint8_t kOpRegister = 0x70;  // to 0x8f: register and signed offset

// A cursor over part of an object. What lies behind the end reads as 0, and makes it fail.
class Reader {
 public:
  Reader(const CallFrameObject& object, uintptr_t at) : at_(at), end_(object.end) {
    if (at < object.begin || at > object.end) Fail();
  }

  bool failed() const { return failed_; }
  bool at_end() const { return at_ >= end_; }
  uintptr_t at() const { return at_; }
  void Fail() {
    failed_ = true;
    at_ = end_;
  }
  // Nothing behind the next `bytes` belongs to what is read.
  void Limit(uint64_t bytes) {
    if (bytes > end_ - at_) return Fail();
    end_ = at_ + static_cast<uintptr_t>(bytes);
  }
  void Skip(uint64_t bytes) {
    if (bytes > end_ - at_) return Fail();
    at_ += static_cast<uintptr_t>(bytes);
  }

  template <typename T>
  T Take() {
    if (sizeof(T) > end_ - at_) {
      Fail();
      return 0;
    }
    const T value = LoadRaw<T>(at_);
    at_ += sizeof(T);
    return value;
  }

  uint64_t Unsigned() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = Take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }

  int64_t Signed() {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
      byte = Take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while (byte >= 0x80);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }

  // The number alone, in one of the formats.
  uint64_t Value(uint8_t format) {
    switch (format & kFormatMask) {
      case kAbsolute:
        return Take<uintptr_t>();
      case kUnsigned2:
        return Take<uint16_t>();
      case kUnsigned4:
        return Take<uint32_t>();
      case kUnsigned8:
        return Take<uint64_t>();
      case kSigned2:
        return static_cast<uint64_t>(int64_t{Take<int16_t>()});
      case kSigned4:
        return static_cast<uint64_t>(int64_t{Take<int32_t>()});
      case kSigned8:
        return static_cast<uint64_t>(Take<int64_t>());
      default:
        Fail();
        return 0;
    }
  }

  // An address: that, from where the encoding says.
  uintptr_t Pointer(uint8_t encoding) {
    const uintptr_t here = at_;
    const uintptr_t value = static_cast<uintptr_t>(Value(encoding));
    switch (encoding & ~kFormatMask) {
      case 0:
        return value;
      case kFromHere:
        return here + value;
      default:
        Fail();
        return 0;
    }
  }

 private:
  uintptr_t at_;
  uintptr_t end_;
  bool failed_ = false;
};

// .eh_frame_hdr: a table of functions in the order of their addresses, as all linkers write it.
struct Table {
  // The version, and how what follows is written: the distance to .eh_frame in 32 bits, the number
  // of entries, the entries.
  static constexpr uint8_t kForm[] = {1, kFromHere | kSigned4, kUnsigned4, kFromHeader | kSigned4};
  static constexpr uintptr_t kHeaderBytes = 12;
  // Pairs of 32-bit numbers from the header's address: the function's, its description's.
  static constexpr uintptr_t kEntryBytes = 8;

  bool Read(const CallFrameObject& object) {
    if (object.header < object.begin || object.header > object.end ||
        object.end - object.header < kHeaderBytes ||
        LoadRaw<uint32_t>(object.header) != __builtin_bit_cast(uint32_t, kForm)) {
      return false;
    }
    count = LoadRaw<uint32_t>(object.header + 8);
    entries = object.header + kHeaderBytes;
    return count <= (object.end - entries) / kEntryBytes;
  }

  uintptr_t Function(const CallFrameObject& object, uint32_t i) const {
    return object.header +
           static_cast<uintptr_t>(intptr_t{LoadRaw<int32_t>(entries + i * kEntryBytes)});
  }
  uintptr_t Description(const CallFrameObject& object, uint32_t i) const {
    return object.header +
           static_cast<uintptr_t>(intptr_t{LoadRaw<int32_t>(entries + i * kEntryBytes + 4)});
  }

  uintptr_t entries = 0;
  uint32_t count = 0;
};

// What functions have in common (a "common information entry").
struct Common {
  bool Read(const CallFrameObject& object, uintptr_t at) {
    Reader reader(object, at);
    const uint32_t length = reader.Take<uint32_t>();
    // 0 ends the section; all ones is the form for more than 4 GiB.
    if (length == 0 || length == UINT32_MAX) return false;
    reader.Limit(length);
    if (reader.Take<uint32_t>() != 0) return false;
    const uint8_t version = reader.Take<uint8_t>();
    if (version != 1 && version != 3) return false;
    // Letters, each for a value in the data behind, the first of which says that there are data.
    const uintptr_t letters = reader.at();
    size_t num_letters = 0;
    while (reader.Take<uint8_t>() != 0) ++num_letters;
    code_alignment = reader.Unsigned();
    data_alignment = reader.Signed();
    const uint64_t return_column = version == 1 ? reader.Take<uint8_t>() : reader.Unsigned();
    if (reader.failed() || return_column != kReturnNumber) return false;
    if (num_letters > 0) {
      if (LoadRaw<uint8_t>(letters) != 'z') return false;
      has_data = true;
      const uint64_t bytes = reader.Unsigned();
      Reader data = reader;
      data.Limit(bytes);
      reader.Skip(bytes);
      for (size_t i = 1; i < num_letters; ++i) {
        switch (LoadRaw<uint8_t>(letters + i)) {
          case 'R':
            encoding = data.Take<uint8_t>();
            break;
          case 'L':
            data.Take<uint8_t>();
            break;
          case 'P':
            data.Value(data.Take<uint8_t>());
            break;
          case 'S':
            interrupted = true;
            break;
          default:
            return false;
        }
      }
      if (data.failed()) return false;
    }
    program = reader;
    return !reader.failed();
  }

  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  uint8_t encoding = kAbsolute;
  bool has_data = false;
  bool interrupted = false;
  Reader program{CallFrameObject{}, 0};
};

// A function's own (a "frame description entry").
struct Description {
  // Where the entry ends, and its common part; false where it is none.
  static bool Find(const CallFrameObject& object, uintptr_t at, Reader* reader, uintptr_t* common) {
    *reader = Reader(object, at);
    const uint32_t length = reader->Take<uint32_t>();
    if (length == 0 || length == UINT32_MAX) return false;
    reader->Limit(length);
    const uintptr_t here = reader->at();
    const uint32_t distance = reader->Take<uint32_t>();
    *common = here - distance;
    return !reader->failed() && distance != 0 && distance <= here;
  }
};

// A row of the table that the program describes: how registers are found at some instruction.
struct Row {
  struct Saved {
    uint8_t place = CallFrameRule::kUnchanged;
    bool lost = false;
    bool undefined = false;
    int64_t offset = 0;
  };
  enum Column : uint8_t { kReturn, kFrame, kBase, kColumns };

  uint8_t address = CallFrameRule::kUnknown;
  uint64_t address_register = 0;
  int64_t address_offset = 0;
  Saved saved[kColumns];
};

// The register's column; kColumns for those that are not followed.
Row::Column ColumnOf(uint64_t number) {
  return number == kReturnNumber         ? Row::kReturn
         : number == kFramePointerNumber ? Row::kFrame
         : number == kBaseNumber         ? Row::kBase
                                         : Row::kColumns;
}

bool FollowedRegister(uint64_t number, CallFrameRule::Register* result) {
  if (number == kStackPointerNumber) return *result = CallFrameRule::kStackPointer, true;
  if (number == kFramePointerNumber) return *result = CallFrameRule::kFramePointer, true;
  if (number == kBaseNumber) return *result = CallFrameRule::kBase, true;
  return false;
}

// Runs the programs up to `pc`.
class Machine {
 public:
  Machine(const Common& common, uintptr_t first, uintptr_t pc)
      : common_(common), location_(first), pc_(pc) {}

  bool Run(Reader program) {
    while (!program.at_end() && !passed_) {
      if (!Execute(&program)) return false;
    }
    return !program.failed() || passed_;
  }
  // What has been reached is what DW_CFA_restore goes back to.
  void KeepInitial() { initial_ = row_; }
  const Row& row() const { return row_; }

 private:
  // What nested regions remember. Compilers nest once.
  static constexpr size_t kDeepest = 4;

  void Advance(uint64_t delta) {
    const uint64_t next = location_ + delta * common_.code_alignment;
    if (next > pc_) {
      passed_ = true;
    } else {
      location_ = next;
    }
  }

  int64_t Factored(uint64_t offset) const {
    return static_cast<int64_t>(offset * static_cast<uint64_t>(common_.data_alignment));
  }

  void Save(uint64_t number, Row::Saved saved) {
    const Row::Column column = ColumnOf(number);
    if (column != Row::kColumns) row_.saved[column] = saved;
  }
  void SaveAt(uint64_t number, int64_t offset) {
    Save(number, {.place = CallFrameRule::kFromAddress, .offset = offset});
  }
  void Restore(uint64_t number) {
    const Row::Column column = ColumnOf(number);
    if (column != Row::kColumns) row_.saved[column] = initial_.saved[column];
  }

  void DefineAddress(uint64_t number, int64_t offset) {
    row_.address = CallFrameRule::kRegister;
    row_.address_register = number;
    row_.address_offset = offset;
  }

  static Reader Block(Reader* program) {
    const uint64_t bytes = program->Unsigned();
    Reader block = *program;
    block.Limit(bytes);
    program->Skip(bytes);
    return block;
  }

  // An expression that is a register and an offset, and what comes behind it.
  static bool RegisterAndOffset(Reader* block, uint64_t* number, int64_t* offset) {
    const uint8_t operation = block->Take<uint8_t>();
    if (operation < kOpRegister || operation >= kOpRegister + 32) return false;
    *number = operation - kOpRegister;
    *offset = block->Signed();
    return !block->failed();
  }

  // The forms that there are: that; the word there; and the one of the linker's stubs, whose
  // second half has pushed a word, in 16 bytes that are alike:
  //   stack pointer + word + (((pc & 15) >= n) << shift)
  void AddressExpression(Reader block) {
    uint64_t number = 0;
    int64_t offset = 0;
    row_.address = CallFrameRule::kUnknown;
    if (!RegisterAndOffset(&block, &number, &offset)) return;
    if (block.at_end()) return DefineAddress(number, offset);
    if (const uint8_t operation = block.Take<uint8_t>(); operation == kOpLoad) {
      if (!block.at_end()) return;
      DefineAddress(number, offset);
      row_.address = CallFrameRule::kMemory;
    } else if (operation == kOpRegister + kReturnNumber) {
      constexpr uint8_t kLiteral = 0x30;  // to 0x4f
      constexpr uint8_t kAnd = 0x1a;
      constexpr uint8_t kNotLess = 0x2a;
      constexpr uint8_t kShift = 0x24;
      constexpr uint8_t kAdd = 0x22;
      uint8_t bytes[8];
      for (uint8_t& byte : bytes) byte = block.Take<uint8_t>();
      if (block.failed() || !block.at_end() || bytes[0] != 0 || bytes[1] != kLiteral + 15 ||
          bytes[2] != kAnd || bytes[3] < kLiteral || bytes[3] > kLiteral + 15 ||
          bytes[4] != kNotLess || bytes[5] < kLiteral || bytes[5] > kLiteral + 15 ||
          bytes[6] != kShift || bytes[7] != kAdd) {
        return;
      }
      const bool pushed = (pc_ & 15) >= static_cast<uintptr_t>(bytes[3] - kLiteral);
      DefineAddress(number, offset + (int64_t{pushed} << (bytes[5] - kLiteral)));
    }
  }

  void SaveByExpression(uint64_t number, Reader block) {
    Row::Saved saved{.lost = true};
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

  bool Execute(Reader* program) {
    const uint8_t operation = program->Take<uint8_t>();
    const uint8_t low = operation & 0x3f;
    switch (operation & 0xc0) {
      case 0x40:  // DW_CFA_advance_loc
        Advance(low);
        return true;
      case 0x80:  // DW_CFA_offset
        SaveAt(low, Factored(program->Unsigned()));
        return true;
      case 0xc0:  // DW_CFA_restore
        Restore(low);
        return true;
    }
    switch (operation) {
      case 0x00:  // DW_CFA_nop
        return true;
      case 0x01: {  // DW_CFA_set_loc
        const uintptr_t location = program->Pointer(common_.encoding);
        if (location > pc_) {
          passed_ = true;
        } else {
          location_ = location;
        }
        return true;
      }
      case 0x02:  // DW_CFA_advance_loc1
        Advance(program->Take<uint8_t>());
        return true;
      case 0x03:  // DW_CFA_advance_loc2
        Advance(program->Take<uint16_t>());
        return true;
      case 0x04:  // DW_CFA_advance_loc4
        Advance(program->Take<uint32_t>());
        return true;
      case 0x05: {  // DW_CFA_offset_extended
        const uint64_t number = program->Unsigned();
        SaveAt(number, Factored(program->Unsigned()));
        return true;
      }
      case 0x06:  // DW_CFA_restore_extended
        Restore(program->Unsigned());
        return true;
      case 0x07:  // DW_CFA_undefined
        Save(program->Unsigned(), {.undefined = true});
        return true;
      case 0x08:  // DW_CFA_same_value
        Save(program->Unsigned(), {});
        return true;
      case 0x09: {  // DW_CFA_register
        const uint64_t number = program->Unsigned();
        program->Unsigned();
        Save(number, {.lost = true});
        return true;
      }
      case 0x0a:  // DW_CFA_remember_state
        if (depth_ == kDeepest) return false;
        remembered_[depth_++] = row_;
        return true;
      case 0x0b:  // DW_CFA_restore_state
        if (depth_ == 0) return false;
        row_ = remembered_[--depth_];
        return true;
      case 0x0c: {  // DW_CFA_def_cfa
        const uint64_t number = program->Unsigned();
        DefineAddress(number, static_cast<int64_t>(program->Unsigned()));
        return true;
      }
      case 0x0d:  // DW_CFA_def_cfa_register
        DefineAddress(program->Unsigned(), row_.address_offset);
        return true;
      case 0x0e:  // DW_CFA_def_cfa_offset
        row_.address_offset = static_cast<int64_t>(program->Unsigned());
        return true;
      case 0x0f:  // DW_CFA_def_cfa_expression
        AddressExpression(Block(program));
        return true;
      case 0x10: {  // DW_CFA_expression
        const uint64_t number = program->Unsigned();
        SaveByExpression(number, Block(program));
        return true;
      }
      case 0x11: {  // DW_CFA_offset_extended_sf
        const uint64_t number = program->Unsigned();
        SaveAt(number, Factored(static_cast<uint64_t>(program->Signed())));
        return true;
      }
      case 0x12: {  // DW_CFA_def_cfa_sf
        const uint64_t number = program->Unsigned();
        DefineAddress(number, Factored(static_cast<uint64_t>(program->Signed())));
        return true;
      }
      case 0x13:  // DW_CFA_def_cfa_offset_sf
        row_.address_offset = Factored(static_cast<uint64_t>(program->Signed()));
        return true;
      case 0x14: {  // DW_CFA_val_offset
        const uint64_t number = program->Unsigned();
        program->Unsigned();
        Save(number, {.lost = true});
        return true;
      }
      case 0x15: {  // DW_CFA_val_offset_sf
        const uint64_t number = program->Unsigned();
        program->Signed();
        Save(number, {.lost = true});
        return true;
      }
      case 0x16: {  // DW_CFA_val_expression
        const uint64_t number = program->Unsigned();
        Block(program);
        Save(number, {.lost = true});
        return true;
      }
      case 0x2e:  // DW_CFA_GNU_args_size
        program->Unsigned();
        return true;
      case 0x2f: {  // DW_CFA_GNU_negative_offset_extended
        const uint64_t number = program->Unsigned();
        SaveAt(number, Factored(0 - program->Unsigned()));
        return true;
      }
      default:
        return false;
    }
  }

  const Common& common_;
  uint64_t location_;
  const uintptr_t pc_;
  bool passed_ = false;
  Row row_;
  Row initial_;
  size_t depth_ = 0;
  Row remembered_[kDeepest];
};

// Whether `value` fits into a signed field of that many bits.
template <int kBits>
constexpr bool Fits(int64_t value) {
  return value >= -(int64_t{1} << (kBits - 1)) && value < int64_t{1} << (kBits - 1);
}

bool IsWords(const Row::Saved& saved) {
  return !saved.lost && saved.offset % kWord == 0 && Fits<9>(saved.offset / kWord);
}

CallFrameRule RuleOf(const Row& row, bool interrupted) {
  CallFrameRule rule;
  const Row::Saved& returns = row.saved[Row::kReturn];
  if (returns.undefined) {
    rule.address = CallFrameRule::kOutermost;
    return rule;
  }
  const Row::Saved& frame = row.saved[Row::kFrame];
  const Row::Saved& base = row.saved[Row::kBase];
  CallFrameRule::Register address_register;
  if (!IsWords(returns) || returns.place == CallFrameRule::kUnchanged || !IsWords(frame) ||
      !IsWords(base) || !Fits<26>(row.address_offset) ||
      !FollowedRegister(row.address_register, &address_register)) {
    return rule;
  }
  rule.address = row.address;
  rule.address_register = address_register;
  rule.interrupted = interrupted;
  rule.return_place = returns.place;
  rule.frame_place = frame.place;
  rule.base_place = base.place;
  rule.return_words = returns.offset / kWord;
  rule.frame_words = frame.offset / kWord;
  rule.base_words = base.offset / kWord;
  rule.address_offset = row.address_offset;
  return rule;
}

uint64_t Mix(uint64_t sum, uint64_t value) {
  sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
  return sum ^ (sum >> 29);
}

// Mixes in the entry of .eh_frame at `at`, its length in front; false when it does not end in the
// object.
bool MixEntry(const CallFrameObject& object, uintptr_t at, uint64_t* sum) {
  if (at < object.begin || at > object.end || object.end - at < 2 * sizeof(uint32_t)) return false;
  const uint32_t length = LoadRaw<uint32_t>(at);
  const uintptr_t room = object.end - at - sizeof(uint32_t);
  if (length > room) return false;
  const uintptr_t end = at + sizeof(uint32_t) + length;
  for (; end - at >= sizeof(uint64_t); at += sizeof(uint64_t))
    *sum = Mix(*sum, LoadRaw<uint64_t>(at));
  for (; at < end; ++at) *sum = Mix(*sum, LoadRaw<uint8_t>(at));
  return true;
}

}  // namespace

const bool kHasCallFrameInfo = kKnownMachine;

bool FindCallFrameRule(const CallFrameObject& object, uintptr_t pc, CallFrameResult* result) {
  Table table;
  if (!table.Read(object)) return false;
  // The last function that begins at or before `pc`.
  uint32_t low = 0;
  uint32_t high = table.count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (table.Function(object, middle) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  Reader reader(object, object.begin);
  uintptr_t common_at = 0;
  Common common;
  if (!Description::Find(object, table.Description(object, low - 1), &reader, &common_at) ||
      !common.Read(object, common_at)) {
    return false;
  }
  const uintptr_t first = reader.Pointer(common.encoding);
  const uint64_t size = reader.Value(common.encoding);
  if (common.has_data) reader.Skip(reader.Unsigned());
  if (reader.failed() || pc < first || pc - first >= size) return false;
  Machine machine(common, first, pc);
  if (!machine.Run(common.program)) return false;
  machine.KeepInitial();
  if (!machine.Run(reader)) return false;
  result->rule = RuleOf(machine.row(), common.interrupted);
  result->index = low - 1;
  return true;
}

uint64_t CallFrameFingerprint(const CallFrameObject& object, uint32_t index) {
  Table table;
  if (!table.Read(object) || index >= table.count) return 0;
  const uintptr_t description = table.Description(object, index);
  uint64_t sum = Mix(object.header, description);
  if (!MixEntry(object, description, &sum)) return 0;
  // Behind the length is the distance to the common part.
  const uintptr_t distance_at = description + sizeof(uint32_t);
  if (!MixEntry(object, distance_at - LoadRaw<uint32_t>(distance_at), &sum)) return 0;
  return sum == 0 ? 1 : sum;
}

}  // namespace tcmalloc
