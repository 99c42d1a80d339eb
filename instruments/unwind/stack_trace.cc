// SPDX-License-Identifier: BSD-3-Clause
// The walk along a stack, from a frame outwards. It decides which frames to record or omit, and by
// which method it finds the next frame. Takes no lock and allocates nothing.
#include "os/stack_trace.h"

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "base/compiler.h"
#include "instruments/unwind/call_frame_cache.h"
#include "instruments/unwind/frame_step.h"

namespace tcmalloc {
namespace {

// The longest frame that is walked by cached rules. That walk does not check whether memory is
// readable, and a wrong register may hold any address. Longer frames are rare. At most the smallest
// page.
constexpr uintptr_t kMaxSimpleFrameBytes = 2048;

// The output of a walk. `skip` counts frames that are not left out by the flags.
struct StackWalkRequest {
  uintptr_t* frames;
  // Null if sizes are not wanted.
  int* sizes = nullptr;
  size_t max;
  size_t skip;
  // Omit frames of the allocator: the first flag omits the innermost ones, the second all up to the
  // allocator's outermost one among the first few frames.
  bool leaves_out_leading = false;
  bool leaves_out_callback = false;
  RuleCache cache = RuleCache::kUsed;
};

// With leaves_out_callback, the outermost frame of the allocator is among this many frames.
constexpr size_t kCallbackDepth = 16;

class StackWalk {
 public:
  // With `begins_here`, records `first` itself, too.
  StackWalk(const FrameRegisters& first, bool interrupted, const StackWalkRequest& request)
      : registers_(first), interrupted_(interrupted), request_(request) {
    if (interrupted) memory_.DistrustRules();
  }

  // Walks to the end; returns the number of frames recorded.
  size_t Run(StackTraceMethod chosen, bool begins_here) {
    if (begins_here && !Write()) return written_;
    // Frames in the shared library need rules: it is compiled without frame pointers.
    bool by_rule = chosen != StackTraceMethod::kFramePointers || !OwnObjectIsProgram();
    const bool cached = request_.cache == RuleCache::kUsed;
    bool simple = kHasCallFrameInfo && cached && chosen != StackTraceMethod::kFramePointers &&
                  memory_.trusts_rules();
    for (;;) {
      if (simple && writes_plainly() && !StepByCachedRules()) return written_;
      if (chosen == StackTraceMethod::kFramePointers && by_rule)
        by_rule = InOwnObject(registers_.pc);
      const uintptr_t sp = registers_.sp();
      FrameStep step = FrameStep::kNoRule;
      if (by_rule && (kHasCallFrameInfo || interrupted_)) {
        const uintptr_t pc = registers_.pc - (interrupted_ ? 0 : 1);
        const CallFrameRule rule = cached ? CallFrameRuleAt(pc, &last_object_)
                                          : UncachedCallFrameRuleAt(pc, &last_object_);
        step = StepByRule(rule, &registers_, &memory_);
      }
      if (step == FrameStep::kNoRule && chosen != StackTraceMethod::kCallFrameInfo) {
        // From here on a frame's pc may be any number, for which CallFrameRuleAt must not be
        // called.
        by_rule = simple = false;
        step = StepByFramePointer(&registers_, &memory_);
      }
      if (step == FrameStep::kNoRule || step == FrameStep::kEnd || registers_.pc == 0)
        return written_;
      interrupted_ = step == FrameStep::kInterrupted;
      if (interrupted_) {
        memory_.DistrustRules();
        simple = false;
      }
      SetSize(step == FrameStep::kCalled ? registers_.sp() - sp : 0);
      if (!Write()) return written_;
    }
  }

 private:
  bool writes_plainly() const {
    return request_.sizes == nullptr && !request_.leaves_out_leading &&
           !request_.leaves_out_callback;
  }

  // Walks on in a tight loop, which does the work of StepByRule and Write, as long as the next
  // step has a simple rule in the cache, of an object that is never unloaded. Nearly all steps do.
  // False at the end of the walk.
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
        if (address - sp > kMaxSimpleFrameBytes) break;
      }
      const auto at = [address](int64_t words) {
        return address + static_cast<uintptr_t>(static_cast<intptr_t>(words)) * kStackWord;
      };
      // A register that is not saved has place 0, which is at the caller's frame.
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
      *to++ = pc;  // there is room: otherwise the walk has ended
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

  // Sets the size of the last frame recorded.
  void SetSize(uintptr_t bytes) {
    if (request_.sizes == nullptr || written_ == 0) return;
    request_.sizes[written_ - 1] = bytes <= INT32_MAX ? static_cast<int>(bytes) : 0;
  }

  // Records the frame, unless it is left out. False when the walk ends for lack of room.
  bool Write() {
    if (IsLeftOut()) return true;
    if (skipped_ < request_.skip) {
      ++skipped_;
      return true;
    }
    // With sizes, the walk continues for one more frame, to get the size of the last one.
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

  FrameRegisters registers_;
  bool interrupted_;
  StackWalkRequest request_;
  StackMemory memory_;
  FoundCallFrameObject last_object_;
  size_t written_ = 0;
  size_t skipped_ = 0;
  size_t seen_ = 0;
};

// Walks outwards from `first`. `interrupted` is true if a signal interrupted that frame. With
// `begins_here` the frame itself is recorded, too. Returns the number of frames recorded. Requires:
// method is not kNone; max > 0.
TC_OUT_OF_LINE size_t WalkStack(const FrameRegisters& first, bool interrupted, bool begins_here,
                                StackTraceMethod method, const StackWalkRequest& request) {
  return StackWalk(first, interrupted, request).Run(method, begins_here);
}

// Written when the settings are read, and by tests; each walk reads it once. Relaxed, since no
// other data depends on it.
constinit std::atomic<StackTraceMethod> method{StackTraceMethod::kAuto};

size_t Trace(const FrameRegisters& first, bool interrupted, bool begins_here,
             const StackWalkRequest& request) {
  const StackTraceMethod chosen = method.load(std::memory_order_relaxed);
  if (request.max == 0 || chosen == StackTraceMethod::kNone) return 0;
  return WalkStack(first, interrupted, begins_here, chosen, request);
}

}  // namespace

void SetStackTraceMethod(StackTraceMethod chosen) {
  method.store(chosen, std::memory_order_relaxed);
}

size_t GetStackTrace(uintptr_t* frames, size_t max, size_t skip) {
  FrameRegisters registers;
  const bool is_caller = CaptureFrameRegisters(&registers);
  return Trace(registers, false, is_caller, {.frames = frames, .max = max, .skip = skip});
}

size_t GetStackFrames(uintptr_t* frames, int* sizes, size_t max, size_t skip, const void* context) {
  FrameRegisters registers;
  bool begins_here = CaptureFrameRegisters(&registers);
  if (context != nullptr) {
    registers = FrameRegistersOf(*static_cast<const ucontext_t*>(context));
    begins_here = true;
  }
  return Trace(registers, context != nullptr, begins_here,
               {.frames = frames, .sizes = sizes, .max = max, .skip = skip});
}

size_t GetCallerStackTrace(uintptr_t* frames, size_t max, size_t skip, AllocatorFrames left_out,
                           size_t static_skip, RuleCache cache) {
  FrameRegisters registers;
  const bool is_caller = CaptureFrameRegisters(&registers);
  StackWalkRequest request{.frames = frames, .max = max, .skip = skip, .cache = cache};
  if (OwnObjectIsProgram()) {
    request.skip += static_skip;
  } else {
    request.leaves_out_leading = true;
    // The frames of this call are the innermost ones; those of the callback follow.
    request.leaves_out_callback = left_out == AllocatorFrames::kCallback;
  }
  return Trace(registers, false, is_caller, request);
}

}  // namespace tcmalloc
