// SPDX-License-Identifier: BSD-3-Clause
#include "image/jit_names.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "image/confined_child.h"
#include "image/process.h"
#include "image/text.h"

namespace cli {
namespace {

constexpr size_t kMostJitNameBytes = 1000;
constexpr int64_t kNsPerSecond = 1'000'000'000;

struct Code {
  Address end = 0;
  std::string_view name;
};
// By start; they do not overlap.
using CodeMap = std::map<Address, Code>;

// Divides the function that contains the address, so that one begins there.
void DivideAt(Address address, CodeMap* map) {
  auto at = map->lower_bound(address);
  if (at == map->begin() || (at != map->end() && at->first == address)) return;
  --at;
  if (at->second.end <= address) return;
  map->emplace(address, at->second);
  at->second.end = address;
}

// Takes a hexadecimal number and the space after it; false if the text does not begin with them.
bool TakeNumber(std::string_view* line, uint64_t* number) {
  if (line->starts_with("0x") || line->starts_with("0X")) line->remove_prefix(2);
  const char* const end = line->data() + line->size();
  const auto [rest, error] = std::from_chars(line->data(), end, *number, 16);
  if (error != std::errc() || rest == end || *rest != ' ') return false;
  line->remove_prefix(static_cast<size_t>(rest - line->data()) + 1);
  return true;
}

void AddLine(std::string_view line, CodeMap* map) {
  uint64_t start = 0;
  uint64_t bytes = 0;
  if (!TakeNumber(&line, &start) || !TakeNumber(&line, &bytes)) return;
  line = line.substr(0, kMostJitNameBytes);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || bytes == 0 || bytes > ~start) return;
  const Address end = start + bytes;
  DivideAt(start, map);
  DivideAt(end, map);
  map->erase(map->lower_bound(start), map->lower_bound(end));
  map->emplace(start, Code{end, line});
}

// Returns the last lines; sets `all` to whether these are all.
std::string_view LastLines(std::string_view text, bool* all) {
  size_t lines = 0;
  for (size_t i = text.size(); i > 0; --i) {
    if (text[i - 1] == '\n' && i < text.size() && ++lines == kMostMapLines) {
      *all = false;
      return text.substr(i);
    }
  }
  return text;
}

// Returns the end of the file; sets `all` to whether this is the whole file.
std::string EndOf(int descriptor, bool* all) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return {};
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  const uint64_t start = file_bytes > kMostMapBytes ? file_bytes - kMostMapBytes : 0;
  std::string text(file_bytes - start, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n =
        pread(descriptor, text.data() + size, text.size() - size, static_cast<off_t>(start + size));
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  *all = start == 0;
  // The first line may lack its beginning.
  if (start != 0) text.erase(0, text.find('\n'));
  return text;
}

// Runs in the child. The answer: whether this is the whole map, then the functions.
std::string PackMap(int descriptor) {
  bool all = true;
  const std::string text = EndOf(descriptor, &all);
  const std::vector<JitFunction> functions = ParsePerfMap(LastLines(text, &all));
  Packer out;
  out.Add(uint64_t{all});
  for (const JitFunction& function : functions) {
    out.Add(function.start).Add(function.end).Add(function.name);
  }
  return out.Take();
}

// The process's number in its own namespace, by which it names its files.
pid_t OwnNumber(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(line.find(':') + 1));
    for (pid_t number = 0; numbers >> number;) pid = number;
  }
  return pid;
}

int64_t NowNs(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

// When the process started, since 1970; 0 if it is unknown.
int64_t StartOf(pid_t pid) {
  const std::vector<std::string> fields = StatFields(pid);
  if (fields.size() <= kStartTime) return 0;
  const int64_t ticks = atoll(fields[kStartTime].c_str());
  const int64_t after_boot_ns = ticks * (kNsPerSecond / sysconf(_SC_CLK_TCK));
  return NowNs(CLOCK_REALTIME) - NowNs(CLOCK_BOOTTIME) + after_boot_ns;
}

}  // namespace

std::vector<JitFunction> ParsePerfMap(std::string_view text) {
  CodeMap map;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    AddLine(text.substr(0, end), &map);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<JitFunction> functions;
  functions.reserve(map.size());
  for (const auto& [start, code] : map) {
    functions.push_back({.start = start, .end = code.end, .name = std::string(code.name)});
  }
  return functions;
}

std::string WhyNotTrusted(uid_t owner, int64_t written_ns, const std::optional<User>& user,
                          int64_t started_ns) {
  if (owner != 0 && (!user.has_value() || owner != user->user)) {
    return fmt::format("belongs to user {}, neither to the process's user nor to root", owner);
  }
  // The kernel counts the start of a process in ticks, and the times of files are coarse.
  if (written_ns + kNsPerSecond < started_ns) {
    return "was written before the process started, by another process with its number";
  }
  return {};
}

const std::vector<JitFunction>& JitNames::All() {
  if (is_read_) return functions_;
  is_read_ = true;
  if (files_.pid() == 0) {
    functions_ = image_.SavedJitFunctions();
    return functions_;
  }
  Stamp stamp;
  const int descriptor = Open(&stamp);
  if (descriptor >= 0) Read(descriptor, stamp);
  return functions_;
}

const JitFunction* JitNames::At(Address address) {
  const std::vector<JitFunction>& functions = All();
  const auto after =
      std::upper_bound(functions.begin(), functions.end(), address,
                       [](Address value, const JitFunction& f) { return value < f.start; });
  if (after == functions.begin()) return nullptr;
  const JitFunction& found = *std::prev(after);
  return address < found.end ? &found : nullptr;
}

bool JitNames::Update() {
  if (!is_read_ || files_.pid() == 0) return false;
  Stamp stamp;
  const int descriptor = Open(&stamp);
  if (descriptor < 0) return false;
  if (stamp == stamp_) {
    close(descriptor);
    return false;
  }
  Read(descriptor, stamp);
  return true;
}

int JitNames::Open(Stamp* stamp) {
  const pid_t pid = files_.pid();
  const std::string path = fmt::format("/tmp/perf-{}.map", OwnNumber(pid));
  const OpenedFile file = files_.Open(files_.BelowRoot(path));
  std::string problem = file.problem;
  struct stat status = {};
  if (file.descriptor >= 0 && fstat(file.descriptor, &status) == 0) {
    *stamp = {.file = status.st_ino,
              .bytes = static_cast<uint64_t>(status.st_size),
              .written_ns = status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec};
    problem = WhyNotTrusted(status.st_uid, stamp->written_ns, files_.user(), StartOf(pid));
    if (problem.empty()) return file.descriptor;
  }
  if (file.descriptor >= 0) close(file.descriptor);
  problem_ = problem.empty() ? "" : fmt::format("{}: {}", path, problem);
  return -1;
}

void JitNames::Read(int descriptor, const Stamp& stamp) {
  stamp_ = stamp;
  functions_.clear();
  problem_.clear();
  const std::string path = fmt::format("/tmp/perf-{}.map", OwnNumber(files_.pid()));
  // A user's own file system may never answer, so a child process waits for it.
  Confinement confinement{.user = files_.user(), .root = files_.OpenRoot()};
  confinement.descriptors = {descriptor};
  if (confinement.root >= 0) confinement.descriptors.push_back(confinement.root);
  ConfinedChild child(confinement, [descriptor]() -> ConfinedChild::Answer {
    return [descriptor](const std::string&) { return PackMap(descriptor); };
  });
  for (const int each : confinement.descriptors) close(each);
  const std::optional<std::string> answer = child.Ask({});
  if (!answer.has_value()) {
    problem_ = fmt::format("{}: {}", path, child.problem());
    return;
  }
  Unpacker in(*answer);
  if (in.Number() == 0) {
    problem_ = fmt::format("{}: only its last {} lines or {} MiB are read", path, kMostMapLines,
                           kMostMapBytes >> 20);
  }
  while (!in.is_empty()) {
    JitFunction& function = functions_.emplace_back();
    function.start = in.Number();
    function.end = in.Number();
    function.name = CleanText(in.Text());
  }
}

}  // namespace cli
