// SPDX-License-Identifier: BSD-3-Clause
#include "image/target_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "image/process.h"

namespace cli {

TargetWriter::TargetWriter(pid_t pid) : pid_(pid) {
  memory_ = open(fmt::format("/proc/{}/mem", ThreadWithMemory(pid)).c_str(), O_RDWR | O_CLOEXEC);
  if (memory_ >= 0) return;
  if (errno != EROFS) throw Failure(ExplainDenial(pid_, errno, "write to"));
  throw Failure(
      fmt::format("cannot write to the memory of process {}: /proc is mounted read-only here: run "
                  "this command outside of the container, or where /proc can be written to",
                  pid_));
}

TargetWriter::~TargetWriter() { close(memory_); }

bool TargetWriter::TryLock() {
  return flock(memory_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool TargetWriter::Has(Address address, std::string_view content) const {
  std::string found(content.size(), '\0');
  return pread(memory_, found.data(), found.size(), static_cast<off_t>(address)) ==
             static_cast<ssize_t>(found.size()) &&
         found == content;
}

void TargetWriter::Write(Address address, const void* data, size_t bytes) {
  const ssize_t n = pwrite(memory_, data, bytes, static_cast<off_t>(address));
  if (n == static_cast<ssize_t>(bytes)) return;
  const int error = errno;
  if (n == 0) throw Failure(fmt::format("process {} has ended, or runs another program", pid_));
  if (n > 0 || error == EFAULT || error == EIO) {
    throw Failure(
        fmt::format("the memory of process {} at {:#x} cannot be written", pid_, address));
  }
  throw Failure(ExplainDenial(pid_, error, "write to"));
}

namespace {

// The library's threads use less of their stacks below the frame that they publish.
constexpr Address kStackBytes = Address{64} << 10;
// How long a thread may take to stop.
constexpr auto kSleeperPatience = std::chrono::milliseconds(200);

// Returns the stack pointer of a thread that is in a system call; 0 if it runs, or has ended.
Address StackPointer(pid_t pid, pid_t thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", pid, thread));
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  // The file has "running"; or the number of the call, its arguments, the stack pointer, and the
  // program counter.
  if (words.size() < 3) return 0;
  std::istringstream number(words[words.size() - 2]);
  Address pointer = 0;
  return number >> std::hex >> pointer ? pointer : 0;
}

pid_t SleeperAt(pid_t pid, Address frame) {
  for (const pid_t thread : ThreadsOf(pid)) {
    const Address pointer = StackPointer(pid, thread);
    if (pointer != 0 && pointer <= frame && frame - pointer < kStackBytes) return thread;
  }
  return 0;
}

}  // namespace

Sleeper::~Sleeper() {
  if (traced_ != 0) ContinueOnceStopped();
}

bool Sleeper::ContinueOnceStopped() {
  const auto end = std::chrono::steady_clock::now() + kSleeperPatience;
  while (std::chrono::steady_clock::now() < end) {
    int status = 0;
    const pid_t waited = waitpid(traced_, &status, __WALL | WNOHANG);
    if (waited < 0 || (waited == traced_ && !WIFSTOPPED(status))) {
      traced_ = 0;  // it has ended
      return false;
    }
    if (waited == traced_) {
      const int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
      ptrace(PTRACE_DETACH, traced_, nullptr, reinterpret_cast<void*>(intptr_t{signal}));
      traced_ = 0;
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return false;
}

bool Sleeper::Interrupt(Address frame) {
  if (traced_ != 0) return ContinueOnceStopped();
  const pid_t thread = SleeperAt(pid_, frame);
  if (thread == 0) return false;
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    const int error = errno;
    if (error == ESRCH) return false;
    const auto info = ReadProcessInfo(thread);
    if (info.has_value() && info->tracer != 0) {
      throw Failure(
          fmt::format("process {} is traced by process {}, so its thread that waits for "
                      "requests cannot be woken",
                      pid_, info->tracer));
    }
    throw Failure(ExplainDenial(pid_, error, "trace"));
  }
  traced_ = thread;
  ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  return ContinueOnceStopped();
}

}  // namespace cli
