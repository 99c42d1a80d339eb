// SPDX-License-Identifier: BSD-3-Clause
// RequestRecord: the record in a running process into which requests are written, and from which
// replies are read. docs/introspection.md describes it; the library's src/process/control.h
// explains why torn writes, two writers and forks do no harm.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "heap/record.h"
#include "image/image.h"
#include "image/target_writer.h"

namespace cli {

enum class RequestKind : uint32_t {
  kFlush = 1,
  kRelease = 2,
  kTrim = 3,
  kSet = 4,           // text: NAME=VALUE, an environment variable
  kStartProfile = 5,  // text: the sampling interval, or empty
  kStopProfile = 6,
};

struct Reply {
  enum class Status : uint32_t { kDone = 1, kRefused = 2, kGarbled = 3 };
  Status status = Status::kDone;
  uint64_t bytes = 0;
  std::string before;
  std::string after;
  std::string message;
};

struct RequestState {
  enum class Access : uint32_t { kForbidden = 0, kAccepted = 1, kPrivileged = 2 };
  Access access = Access::kForbidden;
  uint32_t ticket = 0;     // of the last request that was written
  uint32_t taken = 0;      // of the last request that the process has seen
  Address listener = 0;    // on the stack of the thread that waits for requests; 0 if no thread
                           // waits
  Address sleep_word = 0;  // the word on which it sleeps; 0 if it sleeps otherwise

  bool is_pending() const { return ticket != taken; }
};

// Throws NotPublished when the library of the process is too old for requests.
RequestState ReadRequestState(const Target& target);

class RequestRecord {
 public:
  // The most characters of a request's text.
  size_t max_text() const { return text_bytes_ - 1; }

  // Throws NotPublished when the library of the process is too old for requests; throws Failure on
  // other errors.
  RequestRecord(const Target& target, pid_t pid);

  // Locks the record against other commands; false when another command has it.
  bool TryLock() { return writer_.TryLock(); }

  // True if the process still runs the program in whose memory the record is.
  bool IsThere() const;
  RequestState State() const { return ReadRequestState(target_); }
  // Writes a request; returns its ticket. Requires: text.size() <= max_text().
  uint32_t Send(RequestKind kind, std::string_view text);
  // Returns the reply to that ticket; nullopt until there is one.
  std::optional<Reply> ReplyTo(uint32_t ticket) const;
  // Wakes the thread that waits for requests, if it sleeps; in a stopped process, the thread wakes
  // when the process continues. Throws Failure.
  void Wake(const RequestState& state, bool is_stopped);
  // Makes the next allocation of each thread look for requests, also if the thread's cache can
  // serve it.
  void Alarm();
  // Withdraws the request: the process refuses it, unless it has begun to carry it out.
  void Withdraw();

 private:
  const Target& target_;
  TargetWriter writer_;
  Sleeper sleeper_;
  Address record_ = 0;
  Address request_ = 0;
  size_t text_bytes_ = 0;
};

}  // namespace cli
