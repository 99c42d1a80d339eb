// SPDX-License-Identifier: BSD-3-Clause
#include "os/stack_trace.h"

#include <ucontext.h>
#include <unistd.h>

#include <atomic>

#include "base/tuning.h"
#include "os/call_frame_cache.h"
#include "os/frame_mark.h"
#include "os/raw_memory.h"

namespace tcmalloc {
namespace {

constexpr uintptr_t kWord = sizeof(void*);

// Set when the settings have been read, and by tests; each walk reads it once, and nothing else
// hangs on it, so relaxed suffices.
constinit std::atomic<StackTraceMethod> method{StackTraceMethod::kAuto};

// What is known of a frame.
struct Registers {
  uintptr_t pc = 0;
  // As CallFrameRule::Register numbers them.
  uintptr_t values[CallFrameRule::kNumRegisters] = {};

  uintptr_t sp() const { return values[CallFrameRule::kStackPointer]; }
  uintptr_t fp() const { return values[CallFrameRule::kFramePointer]; }
};

// A pointer that was signed when it was stored, as it was.
uintptr_t WithoutSignature(uintptr_t address) {
#if defined(__aarch64__)
  register uintptr_t link __asm__("x30") = address;
  __asm__("hint #7" : "+r"(link));  // xpaclri, nothing on processors without signatures
  return link;
#else
  return address;
#endif
}

#if defined(__x86_64__)
Registers RegistersOf(const ucontext_t& context) {
  const auto& registers = context.uc_mcontext.gregs;
  return {static_cast<uintptr_t>(registers[REG_RIP]),
          {static_cast<uintptr_t>(registers[REG_RSP]), static_cast<uintptr_t>(registers[REG_RBP]),
           static_cast<uintptr_t>(registers[REG_RBX])}};
}
#elif defined(__i386__)
Registers RegistersOf(const ucontext_t& context) {
  const auto& registers = context.uc_mcontext.gregs;
  return {static_cast<uintptr_t>(registers[REG_EIP]),
          {static_cast<uintptr_t>(registers[REG_ESP]), static_cast<uintptr_t>(registers[REG_EBP]),
           static_cast<uintptr_t>(registers[REG_EBX])}};
}
#elif defined(__aarch64__)
Registers RegistersOf(const ucontext_t& context) {
  return {static_cast<uintptr_t>(context.uc_mcontext.pc),
          {static_cast<uintptr_t>(context.uc_mcontext.sp),
           static_cast<uintptr_t>(context.uc_mcontext.regs[29]), 0}};
}
#else
Registers RegistersOf(const ucontext_t&) { return {}; }
#endif

// Where a walk may read.
class StackMemory {
 public:
  // Before a walk has met a frame that a signal interrupted, the frames are those of calls that
  // were made. What was interrupted may have been so because its stack is not as it should be.
  void DistrustRegisters() { trusts_rules_ = false; }

  // How much is there for sure from the stack pointer on: the rest of the page in which the frame
  // below ends. That was read, or is the walker's own. The outermost frame of a stack may end where
  // the memory does, and have a rule all the same that says where its caller's is: nobody ever goes
  // there.
  uintptr_t Trusted(uintptr_t sp) const {
    return trusts_rules_ ? ((sp - 1) | (kPage - 1)) + 1 - sp : 0;
  }
  // All from the stack pointer to `address` can be read, and the word there, both in pages next to
  // each other.
  bool ReachesTo(uintptr_t sp, uintptr_t address) {
    if (((address ^ (sp - 1)) & ~(kPage - 1)) == 0) return true;
    return address - sp < kPage && IsReadableSlow(sp, address & ~(kWord - 1));
  }
  bool trusts_rules() const { return trusts_rules_; }

  // The word at `address`, which is to be at or above `sp`, or less than `trusted` bytes above it
  // for sure; false when it cannot be read.
  bool Load(uintptr_t sp, uintptr_t trusted, uintptr_t address, uintptr_t* value) {
    if (address - sp >= trusted && !IsReadableSlow(sp, address)) return false;
    *value = LoadRaw<uintptr_t>(address);
    return true;
  }

 private:
  // No page is smaller.
  static constexpr uintptr_t kPage = 4096;

  bool IsReadableSlow(uintptr_t sp, uintptr_t address) {
    if (address - sp >= kTuning.stack_traces.max_frame_bytes || address % kWord != 0) return false;
    const uintptr_t page = address & ~(kPage - 1);
    if (page == readable_page_) return true;
    if (!IsReadable(address)) return false;
    readable_page_ = page;
    return true;
  }

  bool trusts_rules_ = true;
  // No page's address at first.
  uintptr_t readable_page_ = 1;
};

enum class Step : uint8_t { kCalled, kInterrupted, kNoRule, kEnd };

// From a frame to its caller's by call frame information.
Step StepByRule(const CallFrameRule rule, Registers* registers, StackMemory* memory) {
  if (rule.address == CallFrameRule::kUnknown) return Step::kNoRule;
  if (rule.address == CallFrameRule::kOutermost) return Step::kEnd;
  const uintptr_t sp = registers->sp();
  uintptr_t address = registers->values[rule.address_register] +
                      static_cast<uintptr_t>(static_cast<intptr_t>(rule.address_offset));
  const uintptr_t trusted = memory->Trusted(sp);
  if (rule.address == CallFrameRule::kMemory) {
    if (!memory->Load(sp, trusted, address, &address)) return Step::kEnd;
  }
  // A caller's frame lies above, unless it was interrupted: then it may lie on another stack.
  if (!rule.interrupted && address <= sp) return Step::kEnd;
  Registers caller = *registers;
  const uintptr_t places[] = {0, address, sp, registers->fp()};
  const auto load = [&](uint64_t place, int64_t words, uintptr_t* value) {
    if (place == CallFrameRule::kUnchanged) return true;
    const uintptr_t offset = static_cast<uintptr_t>(static_cast<intptr_t>(words)) * kWord;
    const uintptr_t at = places[place] + offset;
    // What lies below has been popped into its register already: compilers do not say so where a
    // function ends.
    if (at < sp && value != &caller.pc) return true;
    return memory->Load(sp, trusted, at, value);
  };
  if (!load(rule.return_place, rule.return_words, &caller.pc) ||
      !load(rule.frame_place, rule.frame_words, &caller.values[CallFrameRule::kFramePointer]) ||
      !load(rule.base_place, rule.base_words, &caller.values[CallFrameRule::kBase])) {
    return Step::kEnd;
  }
  caller.values[CallFrameRule::kStackPointer] = address;
  *registers = caller;
  return rule.interrupted ? Step::kInterrupted : Step::kCalled;
}

// By the frame pointer: it points to the caller's, behind which lies the return address.
Step StepByFramePointer(Registers* registers, StackMemory* memory) {
  const uintptr_t fp = registers->fp();
  const uintptr_t sp = registers->sp();
  Registers caller;
  if (fp < sp || !memory->Load(sp, 0, fp, &caller.values[CallFrameRule::kFramePointer]) ||
      !memory->Load(sp, 0, fp + kWord, &caller.pc)) {
    return Step::kEnd;
  }
  caller.pc = WithoutSignature(caller.pc);
  caller.values[CallFrameRule::kStackPointer] = fp + 2 * kWord;
  *registers = caller;
  return Step::kCalled;
}

struct Request {
  uintptr_t* frames;
  int* sizes = nullptr;
  size_t max;
  size_t skip;
  bool leaves_out_leading = false;
  bool leaves_out_callback = false;
  RuleCache cache = RuleCache::kUsed;
};

// From where frames that may be the allocator's begin.
constexpr size_t kCallbackDepth = 16;

// Where the walk is, and what of it has been written.
class Walk {
 public:
  // `first` is written too, as what was interrupted, when `begins_here`.
  Walk(const Registers& first, bool interrupted, const Request& request)
      : registers_(first), interrupted_(interrupted), request_(request) {
    if (interrupted) memory_.DistrustRegisters();
  }

  // Goes to the end; returns the number of frames written.
  size_t Run(StackTraceMethod chosen, bool begins_here) {
    if (begins_here && !Write()) return written_;
    // Where the first frames lie in the shared library, which is compiled without frame pointers.
    bool by_rule = chosen != StackTraceMethod::kFramePointers || !OwnObjectIsProgram();
    const bool cached = request_.cache == RuleCache::kUsed;
    bool simple = cached && chosen != StackTraceMethod::kFramePointers && memory_.trusts_rules();
    for (;;) {
      if (simple && writes_plainly() && !StepByCachedRules()) return written_;
      if (chosen == StackTraceMethod::kFramePointers && by_rule)
        by_rule = InOwnObject(registers_.pc);
      const uintptr_t sp = registers_.sp();
      Step step = Step::kNoRule;
      if (by_rule) {
        const uintptr_t pc = registers_.pc - (interrupted_ ? 0 : 1);
        const CallFrameRule rule = cached ? CallFrameRuleAt(pc, &last_object_)
                                          : UncachedCallFrameRuleAt(pc, &last_object_);
        step = StepByRule(rule, &registers_, &memory_);
      }
      if (step == Step::kNoRule && chosen != StackTraceMethod::kCallFrameInfo) {
        // From here on a frame's pc may be any number, which must not be looked up: the requirement
        // of CallFrameRuleAt.
        by_rule = simple = false;
        step = StepByFramePointer(&registers_, &memory_);
      }
      if (step == Step::kNoRule || step == Step::kEnd || registers_.pc == 0) return written_;
      interrupted_ = step == Step::kInterrupted;
      if (interrupted_) {
        memory_.DistrustRegisters();
        simple = false;
      }
      SetSize(step == Step::kCalled ? registers_.sp() - sp : 0);
      if (!Write()) return written_;
    }
  }

 private:
  bool writes_plainly() const {
    return request_.sizes == nullptr && !request_.leaves_out_leading &&
           !request_.leaves_out_callback;
  }

  // All steps for which simple rules are in the cache, of objects that stay: nearly all there are.
  // Does what StepByRule and Write do. False at the end of the walk.
  bool StepByCachedRules() {
    uintptr_t pc = registers_.pc;
    uintptr_t sp = registers_.sp();
    uintptr_t fp = registers_.fp();
    uintptr_t base = registers_.values[CallFrameRule::kBase];
    size_t skip = request_.skip - skipped_;
    uintptr_t* to = request_.frames + written_;
    uintptr_t* const end = request_.frames + request_.max;
    bool goes_on = true;
    for (;;) {
      CallFrameRule rule;
      if (!call_frame_cache.FindPermanent(pc - 1, &rule) || !rule.IsSimple()) break;
      uintptr_t address = static_cast<uintptr_t>(static_cast<intptr_t>(rule.address_offset));
      if (rule.address_register == CallFrameRule::kStackPointer) {
        address += sp;
      } else {
        address += rule.address_register == CallFrameRule::kFramePointer ? fp : base;
        if (address - sp > kTuning.stack_traces.max_simple_frame_bytes) break;
      }
      const auto at = [address](int64_t words) {
        return address + static_cast<uintptr_t>(static_cast<intptr_t>(words)) * kWord;
      };
      // What is not saved is as if it were at the caller's frame.
      if (address <= sp || at(rule.frame_words) < sp || at(rule.base_words) < sp) break;
      if (rule.frame_words > 0 || rule.base_words > 0 || !memory_.ReachesTo(sp, address)) break;
      pc = LoadRaw<uintptr_t>(at(-1));
      if (rule.frame_place != CallFrameRule::kUnchanged)
        fp = LoadRaw<uintptr_t>(at(rule.frame_words));
      if (rule.base_place != CallFrameRule::kUnchanged)
        base = LoadRaw<uintptr_t>(at(rule.base_words));
      sp = address;
      if (pc == 0) {
        goes_on = false;
        break;
      }
      if (skip > 0) {
        --skip;
        continue;
      }
      *to++ = pc;  // there is room: a walk is over when there is none
      if (to == end) {
        goes_on = false;
        break;
      }
    }
    registers_ = {pc, {sp, fp, base}};
    skipped_ = request_.skip - skip;
    written_ = static_cast<size_t>(to - request_.frames);
    return goes_on;
  }

  // Of the frame that was written last.
  void SetSize(uintptr_t bytes) {
    if (request_.sizes == nullptr || written_ == 0) return;
    request_.sizes[written_ - 1] = bytes <= INT32_MAX ? static_cast<int>(bytes) : 0;
  }

  // False when there is no more room. Frames that are left out take none.
  bool Write() {
    if (IsLeftOut()) return true;
    if (skipped_ < request_.skip) {
      ++skipped_;
      return true;
    }
    // One more frame is gone to for the size of the last.
    if (written_ == request_.max) return request_.leaves_out_callback;
    request_.frames[written_++] = registers_.pc;
    SetSize(0);
    return written_ < request_.max || request_.sizes != nullptr || request_.leaves_out_callback;
  }

  bool IsLeftOut() {
    if (request_.leaves_out_leading) {
      if (InOwnObject(registers_.pc)) return true;
      request_.leaves_out_leading = false;
    } else if (request_.leaves_out_callback) {
      if (++seen_ > kCallbackDepth) request_.leaves_out_callback = false;
      if (InOwnObject(registers_.pc)) {
        written_ = skipped_ = 0;
        request_.leaves_out_callback = false;
        request_.leaves_out_leading = true;
        return true;
      }
    }
    return false;
  }

  Registers registers_;
  bool interrupted_;
  Request request_;
  StackMemory memory_;
  FoundCallFrameObject last_object_;
  size_t written_ = 0;
  size_t skipped_ = 0;
  size_t seen_ = 0;
};

// The registers in the function that this is inlined into, which then has a frame pointer. Returns
// true when that is the frame of its caller.
__attribute__((always_inline)) inline bool Capture(Registers* registers) {
  const uintptr_t frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#if defined(__x86_64__)
  uintptr_t sp;
  uintptr_t base;
  __asm__ volatile(
      "leaq 0(%%rip), %0\n\t"
      "movq %%rsp, %1\n\t"
      "movq %%rbx, %2"
      : "=&r"(registers->pc), "=&r"(sp), "=&r"(base));
  registers->values[CallFrameRule::kStackPointer] = sp;
  registers->values[CallFrameRule::kFramePointer] = frame;
  registers->values[CallFrameRule::kBase] = base;
  return false;
#else
  registers->pc = WithoutSignature(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  registers->values[CallFrameRule::kStackPointer] = frame + 2 * kWord;
  registers->values[CallFrameRule::kFramePointer] = LoadRaw<uintptr_t>(frame);
  return true;
#endif
}

TC_OUT_OF_LINE size_t Trace(const Registers& first, bool interrupted, bool begins_here,
                            const Request& request) {
  const StackTraceMethod chosen = method.load(std::memory_order_relaxed);
  if (request.max == 0 || chosen == StackTraceMethod::kNone) return 0;
  return Walk(first, interrupted, request).Run(chosen, begins_here);
}

}  // namespace

void SetStackTraceMethod(StackTraceMethod chosen) {
  method.store(chosen, std::memory_order_relaxed);
}

const char* StackTraceMethodName() {
  switch (method.load(std::memory_order_relaxed)) {
    case StackTraceMethod::kAuto:
      return HasCallFramesOfAllObjects() ? "call frame information, else frame pointers"
                                         : "frame pointers";
    case StackTraceMethod::kCallFrameInfo:
      return HasCallFramesOfAllObjects() ? "call frame information"
                                         : "call frame information, which the C library does not "
                                           "find";
    case StackTraceMethod::kFramePointers:
      return "frame pointers";
    case StackTraceMethod::kNone:
      return "none";
  }
  return "";
}

size_t GetStackTrace(uintptr_t* frames, size_t max, size_t skip) {
  Registers registers;
  const bool is_caller = Capture(&registers);
  return Trace(registers, false, is_caller, {.frames = frames, .max = max, .skip = skip});
}

size_t GetStackFrames(uintptr_t* frames, int* sizes, size_t max, size_t skip, const void* context) {
  Registers registers;
  bool begins_here = Capture(&registers);
  if (context != nullptr) {
    registers = RegistersOf(*static_cast<const ucontext_t*>(context));
    begins_here = true;
  }
  return Trace(registers, context != nullptr, begins_here,
               {.frames = frames, .sizes = sizes, .max = max, .skip = skip});
}

size_t GetCallerStackTrace(uintptr_t* frames, size_t max, size_t skip, AllocatorFrames left_out,
                           size_t static_skip, RuleCache cache) {
  Registers registers;
  const bool is_caller = Capture(&registers);
  Request request{.frames = frames, .max = max, .skip = skip, .cache = cache};
  if (OwnObjectIsProgram()) {
    request.skip += static_skip;
  } else {
    request.leaves_out_leading = true;
    // The frames of this call come first, then the callback's.
    request.leaves_out_callback = left_out == AllocatorFrames::kCallback;
  }
  return Trace(registers, false, is_caller, request);
}

}  // namespace tcmalloc
