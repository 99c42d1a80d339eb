// SPDX-License-Identifier: BSD-3-Clause
#include "image/process.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "image/text.h"

namespace cli {
namespace {

std::string ReadLinkOf(const std::string& path) {
  std::array<char, PATH_MAX> buffer;
  const ssize_t n = readlink(path.c_str(), buffer.data(), buffer.size());
  return n < 0 ? std::string() : CleanText({buffer.data(), static_cast<size_t>(n)});
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the names of entries of `directory` that are numbers, as the kernel lists them.
std::vector<pid_t> ListedIn(const std::string& directory) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), &closedir);
  if (open == nullptr) return numbers;
  while (const dirent* const entry = readdir(open.get())) {
    pid_t number = 0;
    const char* const end = entry->d_name + strlen(entry->d_name);
    const auto [rest, error] = std::from_chars(entry->d_name, end, number);
    if (error == std::errc() && rest == end) numbers.push_back(number);
  }
  return numbers;
}

// Reads the file "status" of a process or of one of its threads; false when there is none.
bool ReadStatus(const std::string& directory, ProcessInfo* out) {
  std::ifstream status(directory + "/status");
  if (!status) return false;
  ProcessInfo& info = *out;
  for (std::string line; std::getline(status, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    std::istringstream value(line.substr(colon + 1));
    uint64_t kib = 0;
    if (key == "Name") {
      // The name follows a tab, and may have spaces anywhere.
      info.name = CleanText(std::string_view(line).substr(std::min(colon + 2, line.size())));
    } else if (key == "State") {
      value >> info.state;
    } else if (key == "TracerPid") {
      value >> info.tracer;
    } else if (key == "Threads") {
      value >> info.threads;
    } else if (key == "VmRSS" && value >> kib) {
      info.memory.resident_bytes = kib << 10;
    } else if (key == "RssAnon" && value >> kib) {
      info.memory.anonymous_bytes = kib << 10;
    } else if (key == "VmSwap" && value >> kib) {
      info.memory.swapped_bytes = kib << 10;
    } else if (key == "VmHWM" && value >> kib) {
      info.memory.peak_resident_bytes = kib << 10;
    }
  }
  return true;
}

// Returns the oldest thread after the first one, since it probably lasts longest; `pid` if there is
// none. The kernel lists threads by age; their numbers begin anew at some time.
pid_t SecondThread(pid_t pid) {
  const std::vector<pid_t> threads = ListedIn(fmt::format("/proc/{}/task", pid));
  const auto other =
      std::find_if(threads.begin(), threads.end(), [pid](pid_t thread) { return thread != pid; });
  return other == threads.end() ? pid : *other;
}

}  // namespace

std::vector<pid_t> NumbersIn(const std::string& directory) {
  std::vector<pid_t> numbers = ListedIn(directory);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<ProcessInfo> ReadProcessInfo(pid_t pid) {
  const std::string directory = fmt::format("/proc/{}", pid);
  ProcessInfo info{.pid = pid};
  if (!ReadStatus(directory, &info)) return std::nullopt;
  info.executable = ReadLinkOf(directory + "/exe");
  if (info.first_thread_has_ended() && info.threads > 1) {
    // The kernel shows no memory for the first thread, which has ended: read that of another one.
    ProcessInfo other{.pid = pid};
    const std::string living = fmt::format("/proc/{}", SecondThread(pid));
    if (ReadStatus(living, &other)) {
      info.memory = other.memory;
      info.executable = ReadLinkOf(living + "/exe");
    }
  }
  return info;
}

bool HasEnded(pid_t pid) {
  const std::optional<ProcessInfo> info = ReadProcessInfo(pid);
  return !info.has_value() || info->is_zombie() || info->memory.peak_resident_bytes == 0;
}

std::vector<std::string> StatFields(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  // The name may have spaces and parentheses.
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  return {std::istream_iterator<std::string>(fields), {}};
}

std::vector<pid_t> AllProcesses() { return NumbersIn("/proc"); }

std::vector<pid_t> ThreadsOf(pid_t pid) { return NumbersIn(fmt::format("/proc/{}/task", pid)); }

pid_t ProcessOf(pid_t thread) {
  std::ifstream status(fmt::format("/proc/{}/status", thread));
  const std::string key = "Tgid:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return atoi(line.c_str() + key.size());
  }
  return 0;
}

std::optional<User> UserOf(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  std::optional<User> user;
  // Four numbers: the real, the effective and the saved one, and the one for files.
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    uint32_t numbers[4] = {};
    words >> key;
    if (key != "Uid:" && key != "Gid:") continue;
    for (uint32_t& number : numbers) words >> number;
    if (!words) return std::nullopt;
    if (key == "Uid:") {
      user = User{.user = numbers[3]};
    } else if (user.has_value()) {
      user->group = numbers[3];
      return user;
    }
  }
  return std::nullopt;
}

bool HasSeccompFilter(pid_t pid, pid_t thread) {
  std::ifstream status(fmt::format("/proc/{}/task/{}/status", pid, thread));
  const std::string key = "Seccomp:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return atoi(line.c_str() + key.size()) != 0;
  }
  return false;  // the kernel has no filters, or the thread has ended
}

std::string ThreadName(pid_t pid, pid_t thread) {
  return CleanText(FirstLine(fmt::format("/proc/{}/task/{}/comm", pid, thread)));
}

std::optional<Mapping> ParseMapping(const std::string& line) {
  std::istringstream words(line);
  Mapping mapping;
  char dash = '\0';
  std::string rights;
  std::string device;
  uint64_t inode = 0;
  words >> std::hex >> mapping.start >> dash >> mapping.end >> rights >> mapping.file_offset >>
      device >> std::dec >> inode;
  if (!words || dash != '-' || rights.size() < 4) return std::nullopt;
  mapping.readable = rights[0] == 'r';
  mapping.writable = rights[1] == 'w';
  mapping.executable = rights[2] == 'x';
  mapping.shared = rights[3] == 's';
  unsigned major = 0;
  unsigned minor = 0;
  std::istringstream numbers(device);
  if (numbers >> std::hex >> major >> dash >> minor) mapping.device = makedev(major, minor);
  std::getline(words >> std::ws, mapping.name);
  mapping.name = CleanText(mapping.name);
  return mapping;
}

std::vector<Mapping> ReadMappings(pid_t pid) {
  std::vector<Mapping> mappings;
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    if (auto mapping = ParseMapping(line)) mappings.push_back(std::move(*mapping));
  }
  return mappings;
}

namespace {

// Adds the devices of the file systems in the mount table to those that a daemon serves, and to
// those that it does not.
void AddDevices(const std::string& process, std::set<uint64_t>* served,
                std::set<uint64_t>* others) {
  std::ifstream table(fmt::format("/proc/{}/mountinfo", process));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string id;
    std::string parent;
    char colon = '\0';
    unsigned major = 0;
    unsigned minor = 0;
    const size_t type = line.find(" - ");
    if (!(words >> id >> parent >> major >> colon >> minor) || type == std::string::npos) continue;
    (line.compare(type + 3, 4, "fuse") == 0 ? served : others)->insert(makedev(major, minor));
  }
}

}  // namespace

std::vector<std::pair<Address, Address>> ServedRanges(pid_t pid,
                                                      const std::vector<Mapping>& mappings) {
  std::set<uint64_t> served;
  std::set<uint64_t> others = {0};
  AddDevices("self", &served, &others);
  AddDevices(std::to_string(pid), &served, &others);
  // Shared anonymous memory is in a file system that is not mounted anywhere.
  struct stat shared = {};
  const int file = memfd_create("device", MFD_CLOEXEC);
  if (fstat(file, &shared) == 0) others.insert(shared.st_dev);
  close(file);
  std::vector<std::pair<Address, Address>> ranges;
  for (const Mapping& mapping : mappings) {
    const bool is_unknown = major(mapping.device) == 0 && !others.contains(mapping.device);
    if (served.contains(mapping.device) || is_unknown) {
      ranges.emplace_back(mapping.start, mapping.end);
    }
  }
  return ranges;
}

std::string OtherAllocator(const std::vector<Mapping>& mappings) {
  static constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {"libjemalloc", "jemalloc"},
      {"libmimalloc", "mimalloc"},
      {"libtcmalloc", "another TCMalloc (gperftools, or this library before it had a root)"},
      {"libsnmalloc", "snmalloc"},
      {"librpmalloc", "rpmalloc"},
      {"libhoard", "Hoard"},
      {"libscudo", "Scudo"},
      {"libasan", "AddressSanitizer"},
      {"ld-musl", "musl's malloc"},
      {"libc.so.6", "glibc's malloc"},
      {"libc-2.", "glibc's malloc"},
  };
  const auto has_file = [&mappings](std::string_view beginning) {
    return std::any_of(mappings.begin(), mappings.end(), [beginning](const Mapping& mapping) {
      const size_t slash = mapping.name.rfind('/');
      return slash != std::string::npos &&
             mapping.name.compare(slash + 1, beginning.size(), beginning) == 0;
    });
  };
  for (const auto& [beginning, name] : kKnown) {
    if (has_file(beginning)) return std::string(name);
  }
  // musl's dynamic linker is its C library, too.
  for (const std::string_view linker : {"ld-linux", "ld-2.", "ld64.so"}) {
    if (has_file(linker)) return "no allocator yet (it still loads its libraries)";
  }
  return "an unknown allocator (statically linked, or part of the program)";
}

std::string RemedyFor(std::string_view yama_scope, bool is_root) {
  if (yama_scope == "3") {
    return "kernel.yama.ptrace_scope is 3, which forbids it until the next boot; set it lower "
           "there";
  }
  if (yama_scope == "2") {
    return "kernel.yama.ptrace_scope is 2; run this command as root (CAP_SYS_PTRACE)";
  }
  if (yama_scope == "1") {
    return "run this command as root, or allow it with 'sysctl kernel.yama.ptrace_scope=0', or "
           "start the program with 'tcmalloc run'";
  }
  if (is_root) {
    return "root needs CAP_SYS_PTRACE: start the container with --cap-add=SYS_PTRACE, or run this "
           "command outside of it; some processes of the system are closed to root, too";
  }
  return "run this command as the process's user or as root";
}

std::string ExplainDenial(pid_t pid, int error, std::string_view action) {
  const std::optional<ProcessInfo> info = ReadProcessInfo(pid);
  if (!info.has_value() || error == ESRCH) return fmt::format("process {} has ended", pid);
  if (info->is_zombie()) return fmt::format("process {} has ended and waits for its parent", pid);
  if (error != EPERM && error != EACCES) {
    return fmt::format("cannot {} the memory of process {}: {}", action, pid, strerror(error));
  }
  const std::string remedy =
      RemedyFor(FirstLine("/proc/sys/kernel/yama/ptrace_scope"), geteuid() == 0);
  return fmt::format("not permitted to {} the memory of process {} ({}): {}", action, pid,
                     info->name, remedy);
}

pid_t LivingThread(pid_t pid) {
  const auto info = ReadProcessInfo(pid);
  return info.has_value() && info->first_thread_has_ended() ? SecondThread(pid) : pid;
}

pid_t ThreadWithMemory(pid_t pid) {
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value()) throw Failure(fmt::format("there is no process {}", pid));
  if (info->is_zombie()) throw Failure(ExplainDenial(pid, 0));
  return LivingThread(pid);
}

}  // namespace cli
