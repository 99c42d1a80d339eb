// SPDX-License-Identifier: BSD-3-Clause
#include "image/live_image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "image/process.h"
#include "image/resident.h"

namespace cli {

namespace {

// Returns by how much the monotonic clocks of the process's time namespace are ahead of the
// machine's.
int64_t ClockOffsetMs(const std::string& process) {
  std::ifstream offsets(fmt::format("/proc/{}/timens_offsets", process));
  for (std::string line; std::getline(offsets, line);) {
    std::istringstream words(line);
    std::string clock;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    if (words >> clock >> seconds >> nanoseconds && clock == "monotonic") {
      return seconds * 1000 + nanoseconds / 1'000'000;
    }
  }
  return 0;
}

}  // namespace

LiveImage::LiveImage(pid_t pid) : pid_(pid), thread_(ThreadWithMemory(pid)) {
  memory_ = open(fmt::format("/proc/{}/mem", thread_).c_str(), O_RDONLY | O_CLOEXEC);
  if (memory_ < 0) throw Failure(ExplainDenial(pid, errno));
  clock_offset_ms_ = ClockOffsetMs(std::to_string(pid)) - ClockOffsetMs("self");
}

LiveImage::~LiveImage() { close(memory_); }

bool LiveImage::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  // A read may end at the border of two mappings.
  while (bytes > 0) {
    iovec local = {next, bytes};
    iovec remote = {reinterpret_cast<void*>(address), bytes};
    ssize_t n = process_vm_readv(thread_, &local, 1, &remote, 1, 0);
    // Some sandboxes forbid the system call but not the file.
    if (n <= 0 && errno != EFAULT) {
      n = pread(memory_, next, bytes, static_cast<off_t>(address));
    }
    if (n <= 0) return false;
    next += n;
    address += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

size_t LiveImage::ReadRanges(std::span<const Range> ranges) {
  constexpr size_t kMostAtOnce = 1024;  // the most that a call takes
  std::array<iovec, kMostAtOnce> local;
  std::array<iovec, kMostAtOnce> remote;
  size_t done = 0;
  while (done < ranges.size()) {
    const size_t n = std::min(ranges.size() - done, kMostAtOnce);
    for (size_t i = 0; i < n; ++i) {
      const Range& range = ranges[done + i];
      local[i] = {range.out, range.bytes};
      remote[i] = {reinterpret_cast<void*>(range.address), range.bytes};
    }
    ssize_t copied = process_vm_readv(thread_, local.data(), n, remote.data(), n, 0);
    size_t whole = 0;
    for (; whole < n && copied >= static_cast<ssize_t>(local[whole].iov_len); ++whole) {
      copied -= static_cast<ssize_t>(local[whole].iov_len);
    }
    // The rest of the range may be readable as well: see Read.
    if (whole < n) {
      const Range& range = ranges[done + whole];
      if (!Read(range.address, range.out, range.bytes)) return done + whole;
      ++whole;
    }
    done += whole;
  }
  return done;
}

std::vector<Mapping> LiveImage::Mappings() { return ReadMappings(thread_); }

std::vector<std::pair<Address, Address>> LiveImage::PartsInMemory(Address start, Address end) {
  std::vector<std::pair<Address, Address>> parts;
  try {
    for (const PageRun& run :
         OpenPages(thread_)(start / kPageBytes, (end + kPageBytes - 1) / kPageBytes)) {
      parts.emplace_back(std::max(start, run.first * kPageBytes),
                         std::min(end, (run.first + run.pages) * kPageBytes));
    }
  } catch (const Failure&) {
  }
  return parts;
}

int64_t LiveImage::NowMs(int clock) {
  timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  const bool is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 +
         (is_monotonic ? clock_offset_ms_ : 0);
}

}  // namespace cli
