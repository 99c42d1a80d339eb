// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_registers.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

namespace tcmalloc {
namespace {

// The kernel's number; headers of the C library may differ.
constexpr long kGetRegisterSet = 0x4204;

#if defined(__x86_64__) && defined(__LP64__)
constexpr bool kKnown = true;
// Vector registers, the most complete set first.
constexpr long kVectorSets[] = {0x202, NT_PRFPREG};  // 0x202: NT_X86_XSTATE

uintptr_t StackPointer(const user_regs_struct& general) { return general.rsp; }

int ReadThreadPointer(int, const user_regs_struct& general, uintptr_t* pointer) {
  *pointer = general.fs_base;
  return 0;
}
#elif defined(__i386__)
constexpr bool kKnown = true;
constexpr long kVectorSets[] = {0x202, 0x46e62b7f, NT_PRFPREG};  // and NT_PRXFPREG

uintptr_t StackPointer(const user_regs_struct& general) {
  return static_cast<uintptr_t>(general.esp);
}

int ReadThreadPointer(int thread_id, const user_regs_struct& general, uintptr_t* pointer) {
  // The kernel's struct user_desc.
  struct {
    unsigned entry;
    unsigned base;
    unsigned limit;
    unsigned flags;
  } segment = {};
  constexpr long kGetThreadArea = 25;
  const long index = (general.xgs & 0xffff) >> 3;
  if (syscall(SYS_ptrace, kGetThreadArea, thread_id, index, &segment) != 0) return errno;
  *pointer = segment.base;
  return 0;
}
#elif defined(__aarch64__)
constexpr bool kKnown = true;
constexpr long kVectorSets[] = {NT_PRFPREG};

uintptr_t StackPointer(const user_regs_struct& general) { return general.sp; }

int ReadThreadPointer(int thread_id, const user_regs_struct&, uintptr_t* pointer) {
  constexpr long kThreadPointerSet = 0x401;  // NT_ARM_TLS
  // The kernel stores a second word on newer machines.
  uintptr_t words[2] = {};
  iovec place = {words, sizeof(words)};
  if (syscall(SYS_ptrace, kGetRegisterSet, thread_id, kThreadPointerSet, &place) != 0) return errno;
  *pointer = words[0];
  return 0;
}
#else
constexpr bool kKnown = false;
constexpr long kVectorSets[] = {NT_PRFPREG};

uintptr_t StackPointer(const user_regs_struct&) { return 0; }

int ReadThreadPointer(int, const user_regs_struct&, uintptr_t*) { return ENOSYS; }
#endif

// Stores one set of registers. `*bytes` is the room for it on entry, and its length on return.
int ReadSet(int thread_id, long set, void* to, size_t* bytes) {
  iovec place = {to, *bytes};
  if (syscall(SYS_ptrace, kGetRegisterSet, thread_id, set, &place) != 0) return errno;
  *bytes = place.iov_len;
  return 0;
}

}  // namespace

bool KnowsRegisters() { return kKnown; }

int ReadRegistersOf(int thread_id, uintptr_t* words, StoppedRegisters* registers) {
  *registers = {};
  size_t general_bytes = sizeof(user_regs_struct);
  if (const int error = ReadSet(thread_id, NT_PRSTATUS, words, &general_bytes)) return error;
  if (general_bytes != sizeof(user_regs_struct)) return ENOSYS;
  const user_regs_struct& general = *reinterpret_cast<const user_regs_struct*>(words);
  registers->stack_pointer = StackPointer(general);
  if (const int error = ReadThreadPointer(thread_id, general, &registers->thread_pointer)) {
    return error;
  }
  registers->num_words = general_bytes / sizeof(uintptr_t);
  for (const long set : kVectorSets) {
    size_t bytes = kMaxRegisterBytes - general_bytes;
    if (ReadSet(thread_id, set, words + registers->num_words, &bytes) != 0) continue;
    registers->num_words += bytes / sizeof(uintptr_t);
    break;
  }
  return 0;
}

}  // namespace tcmalloc
