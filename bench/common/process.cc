// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

namespace tcmalloc::bench {
namespace {

constexpr int kCouldNotExecute = 127;

// Returns a null-terminated array, as execve needs it. The strings must outlive the result.
std::vector<char*> Pointers(std::span<const std::string> strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::string& preload) {
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(kPreload)) environment.emplace_back(*entry);
  }
  if (!preload.empty()) environment.push_back(std::string(kPreload) + preload);
  return environment;
}

[[noreturn]] void ThrowErrno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string ReadToEnd(int descriptor) {
  std::string output;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) ThrowErrno("read from a benchmark process");
    if (count == 0) return output;
    output.append(buffer.data(), static_cast<size_t>(count));
  }
}

std::string DescribeFailure(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status)) return "failed (exit status " + std::to_string(WEXITSTATUS(status)) + ")";
  if (WTERMSIG(status) == SIGALRM) return "hung (ended by the time limit)";
  return std::string("crashed (") + strsignal(WTERMSIG(status)) + ")";
}

}  // namespace

ProcessResult RunPreloaded(std::span<const std::string> command, const std::string& preload,
                           unsigned timeout_seconds) {
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<std::string> environment_strings = EnvironmentWith(preload);
  const std::vector<char*> environment = Pointers(environment_strings);
  std::array<int, 2> pipe_ends;
  if (pipe(pipe_ends.data()) != 0) ThrowErrno("pipe");

  const pid_t child = fork();
  if (child < 0) ThrowErrno("fork");
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    alarm(timeout_seconds);  // An alarm outlives execve.
    execve(arguments[0], arguments.data(), environment.data());
    _exit(kCouldNotExecute);
  }
  close(pipe_ends[1]);
  ProcessResult result;
  result.output = ReadToEnd(pipe_ends[0]);
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) ThrowErrno("waitpid");
  }
  result.failure = DescribeFailure(status);
  return result;
}

}  // namespace tcmalloc::bench
