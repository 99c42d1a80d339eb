// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_state.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/text.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// The beginning of a thread's file, which contains all fields that are needed here.
struct ThreadText {
  char bytes[1024];
  ssize_t length = -1;
  // The errno if the file could not be read.
  int error = 0;

  // Reads the file `path` in the directory `directory`.
  ThreadText(int directory, const char* path) {
    const int fd = static_cast<int>(syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC));
    if (fd >= 0) length = ReadFrom(fd, bytes, sizeof(bytes));
    if (length < 0) error = errno;
    if (fd >= 0) Close(fd);
  }
  std::string_view view() const { return {bytes, length < 0 ? 0 : static_cast<size_t>(length)}; }
};

}  // namespace

ThreadFile ThreadFileOf(int id, std::string_view name) {
  ThreadFile file;
  TextWriter(file.text, sizeof(file.text)).Number(static_cast<uint64_t>(id)).Text(name);
  return file;
}

ThreadStatus ParseThreadStatus(std::string_view text) {
  ThreadStatus status;
  while (!text.empty()) {
    std::string_view line = TakeField(&text, '\n');
    const std::string_view name = TakeField(&line, '\t');
    uint64_t number;
    if (name == "State:") {
      const char state = line.empty() ? '\0' : line[0];
      status.has_ended = state == 'Z' || state == 'X';
      status.is_uninterruptible = state == 'D';
    } else if (name == "TracerPid:" && TakeNumber(&line, &number)) {
      status.tracer = static_cast<int>(number);
    }
  }
  return status;
}

ThreadStatus ReadThreadStatus(int directory, const char* path) {
  const ThreadText file(directory, path);
  if (file.length <= 0) {
    return {.has_ended = file.error == 0 || file.error == ENOENT || file.error == ESRCH};
  }
  return ParseThreadStatus(file.view());
}

bool ParseThreadCount(std::string_view text, uint64_t* threads) {
  // The second field is the program's name in parentheses, which may contain any characters.
  text.remove_prefix(text.rfind(')') + 1);
  constexpr int kFieldsBetween = 18;
  for (int i = 0; i < kFieldsBetween; ++i) TakeField(&text, ' ');
  return TakeNumber(&text, threads);
}

bool CountThreads(int directory, const char* path, uint64_t* threads) {
  const ThreadText file(directory, path);
  return ParseThreadCount(file.view(), threads);
}

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
