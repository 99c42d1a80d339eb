// SPDX-License-Identifier: BSD-3-Clause
#include "heap/requests.h"

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "heap/walks.h"

namespace cli {
namespace {

// The largest size of a request's text that is accepted from a library.
constexpr size_t kMaxTextBytes = 4096;
// The value of the sleep word that wakes the thread; see src/process/background_thread.h.
constexpr uint32_t kCalled = 3;

constexpr std::string_view kRootMagic = "TCMROOT\n";

// Computes FNV-1a over the words of the ticket, the kind and the text.
uint64_t CheckOf(uint32_t ticket, uint32_t kind, const std::vector<char>& text) {
  uint64_t check = 0xcbf29ce484222325;
  const auto add = [&check](uint32_t word) { check = (check ^ word) * 0x100000001b3; };
  add(ticket);
  add(kind);
  for (size_t at = 0; at + sizeof(uint32_t) <= text.size(); at += sizeof(uint32_t)) {
    uint32_t word;
    memcpy(&word, &text[at], sizeof(word));
    add(word);
  }
  return check;
}

}  // namespace

RequestRecord::RequestRecord(const Target& target, pid_t pid)
    : target_(target),
      writer_(pid),
      sleeper_(pid),
      record_(target.root().heap + target.Offset("Heap", "control")),
      request_(record_ + target.Offset("Control", "request_")),
      text_bytes_(target.layout().structure("ControlRequest").field("text").bytes) {
  if (text_bytes_ < sizeof(uint32_t) || text_bytes_ > kMaxTextBytes) {
    throw BadImage("the process's library has no room for requests");
  }
  if (!IsThere()) throw Failure(fmt::format("process {} has ended, or runs another program", pid));
}

bool RequestRecord::IsThere() const { return writer_.Has(target_.root().address, kRootMagic); }

RequestState ReadRequestState(const Target& target) {
  const Record record =
      target.Load("Control", target.root().heap + target.Offset("Heap", "control"));
  return {.access = static_cast<RequestState::Access>(record.Get("access_")),
          .ticket = static_cast<uint32_t>(record.Part("request_").Get("ticket")),
          .taken = static_cast<uint32_t>(record.Get("taken_")),
          .listener = record.Get("listener_"),
          .sleep_word = record.Get("sleep_word_")};
}

uint32_t RequestRecord::Send(RequestKind kind, std::string_view text) {
  const RequestState state = State();
  uint32_t ticket = 0;
  std::random_device random;
  while (ticket == 0 || ticket == state.ticket || ticket == state.taken) ticket = random();
  std::vector<char> padded(text_bytes_, '\0');
  memcpy(padded.data(), text.data(), text.size());
  const auto number = static_cast<uint32_t>(kind);
  const auto address = [this](std::string_view field) {
    return request_ + target_.Offset("ControlRequest", field);
  };
  writer_.WriteValue(address("kind"), number);
  writer_.Write(address("text"), padded.data(), padded.size());
  writer_.WriteValue(address("check"), CheckOf(ticket, number, padded));
  // The ticket is written last, since the process looks for a new one.
  writer_.WriteValue(address("ticket"), ticket);
  return ticket;
}

std::optional<Reply> RequestRecord::ReplyTo(uint32_t ticket) const {
  const Address address = record_ + target_.Offset("Control", "reply_");
  const auto answers = [&] {
    return target_.Load("ControlReply", address).Get("ticket") == ticket;
  };
  // The process writes the other fields before the ticket, and clears the ticket first for the next
  // reply.
  if (!answers()) return std::nullopt;
  const Record reply = target_.Load("ControlReply", address);
  if (!answers()) return std::nullopt;
  return Reply{.status = static_cast<Reply::Status>(reply.Get("status")),
               .bytes = reply.Get("bytes"),
               .before = reply.Text("before"),
               .after = reply.Text("after"),
               .message = reply.Text("message")};
}

void RequestRecord::Wake(const RequestState& state, bool is_stopped) {
  if (state.listener == 0) return;
  if (state.sleep_word != 0) {
    uint32_t value = 0;
    if (!target_.image().ReadValue(state.sleep_word, &value) || value == 0) return;
    writer_.WriteValue(state.sleep_word, kCalled);
  }
  if (!is_stopped) static_cast<void>(sleeper_.Interrupt(state.listener));
}

void RequestRecord::Alarm() {
  // Does what the library's Countdown::Alarm does. Caches never move, and their list only grows.
  constexpr uint8_t kAlarmed = 1;
  constexpr uint64_t kNothingLeft = 0;
  const Address alarmed = target_.Offset("ThreadCache", "alarmed");
  const Address left = target_.Offset("ThreadCache", "bytes_until_sample");
  SeenElements seen(target_.layout().structure("ThreadCache").bytes);
  const Record all = target_.LoadHeap().Part("registry").Part("all_");
  for (Address at = all.Get("newest_"); at != 0;) {
    seen.Add(at);
    const Address next = target_.Load("ThreadCache", at).Get("record.made_before");
    writer_.WriteValue(at + alarmed, kAlarmed);
    writer_.Write(at + left, &kNothingLeft, target_.pointer_bytes());
    at = next;
  }
}

void RequestRecord::Withdraw() {
  // Does not write an older ticket: it would seem new if the process had taken the ticket of
  // another command meanwhile.
  constexpr uint64_t kOfNoRequest = 0;
  writer_.WriteValue(request_ + target_.Offset("ControlRequest", "check"), kOfNoRequest);
}

}  // namespace cli
