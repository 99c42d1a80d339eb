// SPDX-License-Identifier: BSD-3-Clause
#include "os/uncancelled_io.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <string>
#include <thread>

namespace tcmalloc {
namespace {

// A pipe has less room than the text needs, and signals interrupt the writer repeatedly: writes are
// short, or fail with EINTR.
TEST(WriteAllToTest, WritesAllDespiteShortWritesAndSignals) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_GT(fcntl(pipe_ends[1], F_SETPIPE_SZ, 4096), 0);
  std::string text;
  for (size_t i = 0; i < 300'000; ++i) text += static_cast<char>('a' + i % 23);

  static int signals;
  signals = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { ++signals; };  // without SA_RESTART
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  bool ok = false;
  std::thread writer([&] { ok = WriteAllTo(pipe_ends[1], text.data(), text.size()); });
  std::string read_back;
  while (read_back.size() < text.size()) {
    pthread_kill(writer.native_handle(), SIGUSR1);
    char buffer[1000];
    const ssize_t n = read(pipe_ends[0], buffer, sizeof(buffer));
    if (n <= 0) break;
    read_back.append(buffer, static_cast<size_t>(n));
  }
  close(pipe_ends[0]);
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
  close(pipe_ends[1]);
  EXPECT_TRUE(ok);
  EXPECT_GT(signals, 0);
  EXPECT_TRUE(read_back == text) << read_back.size() << " of " << text.size();
}

TEST(WriteAllToTest, ReportsFailure) {
  EXPECT_FALSE(WriteAllTo(-1, "a", 1));
  EXPECT_EQ(errno, EBADF);
  EXPECT_TRUE(WriteAllTo(-1, "a", 0));
  const int full = OpenForWriting("/dev/full");
  ASSERT_GE(full, 0);
  EXPECT_FALSE(WriteAllTo(full, "a", 1));
  EXPECT_EQ(errno, ENOSPC);
  Close(full);
}

}  // namespace
}  // namespace tcmalloc
