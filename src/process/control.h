// SPDX-License-Identifier: BSD-3-Clause
// Control: the record by which a program outside of this process, the tcmalloc command, requests an
// action: to flush, to release, to change a setting (instruments/control/actions.h). It writes the
// request into this memory; a thread of this process carries it out and writes the reply, which the
// other program reads. docs/introspection.md describes the record for such programs,
// docs/control.md the commands.
//
// Which thread carries it out. The listener does, which is the thread that runs idle release
// (process/background_thread.h, instruments/pressure/pressure.h), and which the other program
// wakes. If there is no listener, the first thread of the program whose allocation takes the slow
// path does (process/limits.h). At that point it holds no lock and is not in the middle of an
// operation, since the same code empties caches when memory is short. The other program sends every
// thread to the slow path as Registry::AlarmAll does; it needs no lock for that, since caches are
// never destroyed. No thread carries out a request within another request or a callback of the
// program, or while it holds the heap (fork, leak check).
//
// The writer is another process, so no lock can guard the record, and nothing that the writer
// stores is trusted.
//
//  * Torn writes. Writing several words from outside is not atomic, and they may become visible in
//    any order. The writer first writes `check` and all that it covers, then writes `ticket` in a
//    separate call. A thread that sees a new ticket copies the request and computes the check of
//    the copy, in which the ticket counts: a mixture of two requests, a half-written ticket and
//    random words do not match the check, and are refused (status kGarbled). A refused request
//    changes nothing else. Its writer repeats the request with another ticket.
//  * Once. `busy_` admits one thread at a time. That thread stores the ticket in `taken_` before it
//    does anything else, so no request is carried out twice.
//  * Two writers. Tickets are random. Of two requests that are written at once, one replaces the
//    other, or their mixture is refused. The reply has the ticket of the request that was carried
//    out, so each writer knows whether it was its own. (The command also locks the file
//    /proc/PID/mem.)
//  * The reply. Its ticket is 0 while the reply changes, and is stored last, with release. A reader
//    that has found its ticket reads the rest, then compares the ticket again.
//  * Fork. A child has its parent's record, and may have been forked at any point of Serve. The
//    child's thread holds the heap until its handler has marked the request as taken and `busy_` as
//    free (ResetInChild), so it carries nothing out before. An action that a thread of the parent
//    had begun is as complete in the child as a call of the program in another thread would be.
//  * Exit. Nothing waits for a request. The writer sees that the process is gone.
//
// Cost where there is no request: two loads and a comparison in a slow path.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

struct Heap;

// A new kind gets a new number, since a writer may be of another version.
enum class ControlKind : uint32_t {
  kFlush = 1,
  kRelease = 2,
  kTrim = 3,
  kSet = 4,           // text: NAME=VALUE
  kStartProfile = 5,  // text: the sampling interval as of TCMALLOC_SAMPLE_PARAMETER, or empty
  kStopProfile = 6,
};

struct ControlRequest {
  static constexpr size_t kTextWords = 24;
  using Words = std::array<std::atomic<uint32_t>, kTextWords>;

  // Written from outside, read by the thread that serves requests. The ticket is loaded with
  // acquire order, since the writer stores it last. The writer's stores may still become visible in
  // another order; the check finds that. The other loads are relaxed.
  std::atomic<uint32_t> ticket{0};
  std::atomic<uint32_t> kind{0};
  std::array<std::atomic<uint32_t>, 2> check{};  // the low half first
  // Padded with zeroes; the last byte is always zero.
  Words text{};
};

struct ControlReply {
  enum Status : uint32_t { kDone = 1, kRefused = 2, kGarbled = 3 };

  // 0 while the rest changes. The thread that carries out requests writes the reply, and the ticket
  // last (release).
  std::atomic<uint32_t> ticket{0};
  uint32_t status = 0;
  uint64_t bytes = 0;
  // The changed value before and after the change, as text.
  char before[32] = {};
  char after[32] = {};
  char message[448] = {};  // why the request failed
};

// Computes a check from words: the ticket, the kind, the text.
class ControlCheck {
 public:
  constexpr void Add(uint32_t word) { value_ = (value_ ^ word) * 0x100000001b3; }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// Carries out a request; `text` ends with a zero. Fills in the reply except for its ticket and the
// status kGarbled. Called without locks. Defined in instruments/control/.
extern void (*const kCarryOut)(Heap& heap, ControlKind kind, std::string_view text,
                               ControlReply* reply);

class Control {
 public:
  // Whether requests are accepted. kForbidden: TCMALLOC_CONTROL forbids them. kPrivileged: the
  // program has more privileges than its user.
  enum Access : uint32_t { kForbidden = 0, kAccepted = 1, kPrivileged = 2 };

  void SetAccess(Access access) { access_.store(access, std::memory_order_relaxed); }

  // True if there may be a new request: see Serve.
  bool HasRequest() const {
    return __builtin_expect(
        request_.ticket.load(std::memory_order_relaxed) != taken_.load(std::memory_order_relaxed),
        false);
  }
  // Carries out one request, unless another thread does. True if there was one. No lock may be
  // held, and no callback may be running. Changes errno.
  bool Serve(Heap& heap);

  // Makes the calling thread the listener. `frame` is an address on its stack, above the frames of
  // all its sleeps. The listener calls HasRequest before each sleep. To wake it, another process
  // changes `*sleep_word`, the futex of the sleep, then interrupts the system call; if `sleep_word`
  // is null, the interruption suffices.
  void BeginListening(const void* frame, const std::atomic<uint32_t>* sleep_word);
  void EndListening(const void* frame);
  bool has_listener() const { return listener_.load(std::memory_order_relaxed) != nullptr; }

  // Called in a forked child, by its only thread.
  void ResetInChild();

  ControlRequest& request() { return request_; }
  const ControlReply& reply() const { return reply_; }

 private:
  bool IsIntact(uint32_t ticket, ControlKind* kind, char* text) const;
  void Answer(Heap& heap, uint32_t ticket);

  ControlRequest request_;
  // The last ticket that was carried out or refused. Written by the thread that carries out
  // requests; others read it as a hint (relaxed).
  std::atomic<uint32_t> taken_{0};
  // True while a thread carries out requests. Acquire and release pass the results of one such
  // thread to the next.
  std::atomic<bool> busy_{false};
  ControlReply reply_;
  // Written when the heap is built.
  std::atomic<uint32_t> access_{kForbidden};
  // Written by the listener. Other threads decide by it whether they carry out a request; relaxed,
  // since an old value does no harm. `sleep_word_` is written first, for readers outside.
  std::atomic<const void*> listener_{nullptr};
  std::atomic<const std::atomic<uint32_t>*> sleep_word_{nullptr};
};

}  // namespace tcmalloc
