// SPDX-License-Identifier: BSD-3-Clause

// message-batches: producer threads make batches of messages, consumer threads read and free them.
// Each consumer has a bounded queue, at which threads sleep when they must wait. A message is a
// header and a separately allocated body of 16 to 1,000 bytes. The checksums of all messages that
// producers wrote and that consumers read must be equal.
#include <atomic>
#include <deque>
#include <utility>

#include "bench/common/arguments.h"
#include "bench/common/bounded_queue.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kSmallestBody = 16;
constexpr uint64_t kLargestBody = 1000;
constexpr size_t kQueuedBatches = 16;

struct Message {
  Message* next;
  uint64_t number;
  Object body;
};

// Computes the checksum of a message's body from its first and last bytes.
uint64_t Checksum(const Message& message) {
  uint64_t first;
  uint64_t last;
  memcpy(&first, message.body.memory, sizeof(first));
  memcpy(&last, message.body.memory + message.body.size - sizeof(last), sizeof(last));
  return (first ^ last) * 0x9e3779b97f4a7c15 + message.number + message.body.size;
}

Message* NewMessage(uint64_t number, Random* random) {
  auto* const message = static_cast<Message*>(Allocate(sizeof(Message)));
  message->number = number;
  message->body =
      Object::New(random->FastBetween(kSmallestBody, kLargestBody), static_cast<uint32_t>(number));
  memset(message->body.memory, static_cast<int>(number & 0xff), message->body.size);
  message->body.MarkThroughout();
  return message;
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Batches of messages from producers to consumers.");
  const uint64_t producers = arguments.Number("PRODUCERS", 1, 1, kMostThreads);
  const uint64_t consumers = arguments.Number("CONSUMERS", 1, 1, kMostThreads);
  const uint64_t batches = arguments.Number("BATCHES", 80'000, 1, 1'000'000'000);
  const uint64_t batch_size = arguments.Number("BATCH_SIZE", 100, 1, 1'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  std::deque<BoundedQueue<Message*>> queues;
  for (uint64_t i = 0; i < consumers; ++i) queues.emplace_back(kQueuedBatches);
  // Each thread changes these counts once, at its end.
  std::atomic<uint64_t> producers_left = producers;
  std::atomic<uint64_t> sent = 0;
  std::atomic<uint64_t> received = 0;

  MeasuredPart part;
  RunThreads(producers + consumers, [&](size_t thread) {
    uint64_t sum = 0;
    if (thread < producers) {
      Random random(seed + thread);
      for (uint64_t batch = 0; batch < batches; ++batch) {
        Message* first = nullptr;
        for (uint64_t i = 0; i < batch_size; ++i) {
          Message* const message = NewMessage(batch * batch_size + i, &random);
          sum += Checksum(*message);
          message->next = first;
          first = message;
        }
        queues[(thread + batch) % consumers].Push(first);
      }
      sent += sum;
      if (--producers_left == 0) {
        for (auto& queue : queues) queue.Close();
      }
      return;
    }
    for (Message* batch; queues[thread - producers].Pop(&batch);) {
      while (batch != nullptr) {
        sum += Checksum(*batch);
        free(batch->body.memory);
        free(std::exchange(batch, batch->next));
      }
    }
    received += sum;
  });
  part.End();
  if (sent != received) Fail("corrupt: the messages received are not those sent");
  Report report("message-batches", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("messages_per_s",
               static_cast<double>(producers * batches * batch_size) / part.wall_s(), "1/s",
               Better::kHigher);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
