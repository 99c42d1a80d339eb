// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/os/pressure_watch.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "testing/cancelled.h"
#include "testing/fake_tree.h"
#include "testing/in_child.h"
#include "tools/pressure/os/psi.h"

namespace tcmalloc {
namespace {

// "some 200000 2000000" and a final zero.
constexpr char kTriggerBase64[] = "c29tZSAyMDAwMDAgMjAwMDAwMAA=";
const std::string kTriggerBytes("some 200000 2000000\0", 20);

short Polled(int fd, short events) {
  pollfd polled = {.fd = fd, .events = events, .revents = 0};
  EXPECT_GE(poll(&polled, 1, 0), 0);
  return polled.revents;
}

class PressureWatchTest : public testing::Test {
 protected:
  PressureWatchTest() { errno = 77; }
  ~PressureWatchTest() override {
    EXPECT_EQ(errno_after_, 77);
    EXPECT_EQ(NumDescriptors(), before_);
  }

  PressureWatch Open(const std::string& path, const char* write = kTriggerBase64) {
    return OpenRaw((tree_.root() + path).c_str(), write);
  }
  PressureWatch OpenRaw(const char* watch, const char* write = kTriggerBase64) {
    errno = 77;
    const PressureWatch watched = OpenPressureWatch(watch, write);
    if (errno_after_ == 77) errno_after_ = errno;
    EXPECT_EQ(watched.fd >= 0, watched.kind != PressureWatchKind::kOff);
    if (watched.fd >= 0) {
      EXPECT_EQ(watched.error, 0);
      EXPECT_TRUE(IsClosedByExec(watched.fd));
      EXPECT_TRUE(NeverBlocks(watched.fd));
    }
    return watched;
  }
  // Returns the error of a watch that must fail.
  int ErrorOf(const std::string& path, const char* write = kTriggerBase64) {
    const PressureWatch watched = Open(path, write);
    EXPECT_EQ(watched.fd, -1);
    return watched.error;
  }

  const FakeTree tree_;

 private:
  const int before_ = NumDescriptors();
  int errno_after_ = 77;
};

TEST_F(PressureWatchTest, IsOff) {
  for (const char* const watch : {static_cast<const char*>(nullptr), "", "/dev/null"}) {
    for (const char* const write : {static_cast<const char*>(nullptr), "", "no base64"}) {
      const PressureWatch watched = OpenRaw(watch, write);
      EXPECT_EQ(watched.kind, PressureWatchKind::kOff);
      EXPECT_EQ(watched.error, 0);
      EXPECT_EQ(watched.fd, -1);
    }
  }
}

TEST_F(PressureWatchTest, ARegularFileIsAPsiFile) {
  tree_.Write("/memory.pressure", "");
  const PressureWatch watched = Open("/memory.pressure");
  EXPECT_EQ(watched.kind, PressureWatchKind::kPsiFile);
  EXPECT_EQ(tree_.Read("/memory.pressure"), kTriggerBytes);
  close(watched.fd);
  // The trigger may have any bytes.
  tree_.Write("/memory.pressure", "");
  close(Open("/memory.pressure", "//4A").fd);
  EXPECT_EQ(tree_.Read("/memory.pressure"), std::string("\xff\xfe\0", 3));
}

// A PSI file without a trigger is an error, because poll would report it forever.
TEST_F(PressureWatchTest, APsiFileWithoutATrigger) {
  tree_.Write("/memory.pressure", "");
  EXPECT_EQ(ErrorOf("/memory.pressure", nullptr), ENODATA);
  EXPECT_EQ(ErrorOf("/memory.pressure", ""), ENODATA);
}

TEST_F(PressureWatchTest, UsesTheRoot) {
  tree_.Write("/run/memory.pressure", "");
  const PressureWatch watched =
      OpenPressureWatch("/run/memory.pressure", kTriggerBase64, tree_.root());
  EXPECT_EQ(watched.kind, PressureWatchKind::kPsiFile);
  close(watched.fd);
  // The root also applies to the name that means that there is nothing to watch.
  EXPECT_EQ(OpenPressureWatch("/dev/null", nullptr, tree_.root()).error, 0);
}

TEST_F(PressureWatchTest, AFifo) {
  ASSERT_EQ(mkfifo(tree_.Path("/fifo").c_str(), 0600), 0);
  const PressureWatch watched = Open("/fifo", nullptr);
  ASSERT_EQ(watched.kind, PressureWatchKind::kStream);
  EXPECT_EQ(Polled(watched.fd, POLLIN), 0);
  // The text is longer than one read returns.
  const int writer = open(tree_.Path("/fifo").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  const std::string text(3000, 'x');
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(writer, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(Polled(watched.fd, POLLIN), POLLIN);
    EXPECT_TRUE(DiscardInput(watched.fd));
    EXPECT_EQ(Polled(watched.fd, POLLIN), 0);
  }
  // When the last writer closes the FIFO, the watch does not end: another writer may open it.
  close(writer);
  EXPECT_EQ(Polled(watched.fd, POLLIN), 0);
  EXPECT_TRUE(DiscardInput(watched.fd));
  close(watched.fd);
}

TEST_F(PressureWatchTest, AFifoIsWrittenTo) {
  ASSERT_EQ(mkfifo(tree_.Path("/fifo").c_str(), 0600), 0);
  const PressureWatch watched = Open("/fifo");
  ASSERT_EQ(watched.kind, PressureWatchKind::kStream);
  char buffer[100];
  const ssize_t n = read(watched.fd, buffer, sizeof(buffer));
  ASSERT_GT(n, 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(n)), kTriggerBytes);
  EXPECT_EQ(Polled(watched.fd, POLLIN), 0);
  close(watched.fd);
}

// The listening end of a socket in the file system.
class Listener {
 public:
  explicit Listener(const std::string& path, int backlog = 5)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, backlog), 0);
  }
  ~Listener() { Close(); }
  int Accept() { return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); }
  void Shutdown() { shutdown(fd_, SHUT_RDWR); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

TEST_F(PressureWatchTest, ASocket) {
  Listener listener(tree_.Path("/socket"));
  const PressureWatch watched = Open("/socket");
  ASSERT_EQ(watched.kind, PressureWatchKind::kStream);
  const int peer = listener.Accept();
  ASSERT_GE(peer, 0);
  char buffer[100];
  const ssize_t n = read(peer, buffer, sizeof(buffer));
  ASSERT_GT(n, 0);
  EXPECT_EQ(std::string(buffer, static_cast<size_t>(n)), kTriggerBytes);
  EXPECT_EQ(Polled(watched.fd, POLLIN), 0);
  ASSERT_EQ(write(peer, "x", 1), 1);
  EXPECT_EQ(Polled(watched.fd, POLLIN), POLLIN);
  EXPECT_TRUE(DiscardInput(watched.fd));
  EXPECT_EQ(Polled(watched.fd, POLLIN), 0);
  // When the other end of a socket is closed, the watch ends.
  close(peer);
  EXPECT_NE(Polled(watched.fd, POLLIN) & POLLIN, 0);
  EXPECT_FALSE(DiscardInput(watched.fd));
  close(watched.fd);
  listener.Close();
}

TEST_F(PressureWatchTest, ASocketAndNothingToWrite) {
  Listener listener(tree_.Path("/socket"));
  const PressureWatch watched = Open("/socket", nullptr);
  ASSERT_EQ(watched.kind, PressureWatchKind::kStream);
  const int peer = listener.Accept();
  EXPECT_EQ(Polled(peer, POLLIN), 0);
  close(peer);
  close(watched.fd);
  listener.Close();
}

TEST_F(PressureWatchTest, SocketsThatCannotBeUsed) {
  {
    // If the queue of the socket is full, the result is an error instead of a wait.
    Listener listener(tree_.Path("/socket"), 0);
    const PressureWatch first = Open("/socket");
    EXPECT_EQ(first.kind, PressureWatchKind::kStream);
    EXPECT_EQ(ErrorOf("/socket"), EAGAIN);
    close(first.fd);
  }
  // No process listens to the socket any more.
  EXPECT_EQ(ErrorOf("/socket"), ECONNREFUSED);
  const std::string folder = "/" + std::string(120, 'd');
  std::filesystem::create_directory(tree_.root() + folder);
  std::filesystem::rename(tree_.root() + "/socket", tree_.root() + folder + "/socket");
  EXPECT_EQ(ErrorOf(folder + "/socket"), ENAMETOOLONG);
}

// The other end may close before the write. That must not raise a signal, which would end the
// process.
TEST_F(PressureWatchTest, NeverRaisesASignal) {
  struct sigaction action = {}, before;
  static volatile sig_atomic_t signals;
  signals = 0;
  action.sa_handler = [](int) { signals = signals + 1; };
  ASSERT_EQ(sigaction(SIGPIPE, &action, &before), 0);
  Listener listener(tree_.Path("/socket"));
  std::thread peer([&] {
    for (int fd; (fd = listener.Accept()) >= 0;) close(fd);
  });
  int refused = 0;
  for (int i = 0; i < 20'000 && refused < 3; ++i) {
    const PressureWatch watched = Open("/socket");
    if (watched.error == EPIPE) ++refused;
    if (watched.fd >= 0) close(watched.fd);
  }
  listener.Shutdown();
  peer.join();
  listener.Close();
  sigaction(SIGPIPE, &before, nullptr);
  EXPECT_EQ(signals, 0);
  printf("refused %d times\n", refused);
}

TEST_F(PressureWatchTest, ReturnsErrors) {
  EXPECT_EQ(OpenRaw("memory.pressure").error, EINVAL);
  EXPECT_EQ(OpenRaw("./memory.pressure").error, EINVAL);
  EXPECT_EQ(ErrorOf("/none"), ENOENT);
  EXPECT_FALSE(std::filesystem::exists(tree_.root() + "/none"));
  EXPECT_EQ(ErrorOf(""), EINVAL);  // names a folder
  EXPECT_EQ(OpenRaw("/dev/zero").error, EINVAL);
  EXPECT_EQ(ErrorOf("/" + std::string(5000, 'x')), ENAMETOOLONG);
  EXPECT_EQ(ErrorOf(std::string(5000, '/')), ENAMETOOLONG);
  tree_.Write("/file", "kept");
  EXPECT_EQ(ErrorOf("/file", "c29t*"), EBADMSG);
  EXPECT_EQ(ErrorOf("/file", "c29tZSAyMDAwMDAgMjAwMDAwMAA"), EBADMSG);
  EXPECT_EQ(tree_.Read("/file"), "kept");
}

TEST_F(PressureWatchTest, WritesUpToALimit) {
  tree_.Write("/file", "");
  // Four characters encode three bytes.
  std::string write(kMaxPressureWrite / 3 * 4, 'A');
  const PressureWatch watched = Open("/file", write.c_str());
  EXPECT_EQ(watched.kind, PressureWatchKind::kPsiFile);
  close(watched.fd);
  EXPECT_EQ(tree_.Read("/file").size(), kMaxPressureWrite / 3 * 3);
  write += "AAAA";
  EXPECT_EQ(ErrorOf("/file", write.c_str()), EBADMSG);
}

TEST_F(PressureWatchTest, WithoutPermission) {
  tree_.Write("/file", "");
  ASSERT_EQ(chmod(tree_.Path("/file").c_str(), 0444), 0);
  ASSERT_EQ(chmod(tree_.root().c_str(), 0755), 0);
  const std::string path = tree_.Path("/file");
  const int result = InChild([&] {
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 255;
    return OpenPressureWatch(path.c_str(), kTriggerBase64).error;
  });
  if (result == 255) GTEST_SKIP() << "privileges cannot be given up";
  EXPECT_EQ(result, EACCES);
}

TEST_F(PressureWatchTest, WithoutFileDescriptors) {
  tree_.Write("/file", "");
  const std::string path = tree_.Path("/file");
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const rlimit limit{static_cast<rlim_t>(NextDescriptor()), old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const PressureWatch watched = OpenPressureWatch(path.c_str(), kTriggerBase64);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
  EXPECT_EQ(watched.error, EMFILE);
}

TEST_F(PressureWatchTest, IsNoCancellationPoint) {
  Listener listener(tree_.Path("/socket"));
  ASSERT_EQ(mkfifo(tree_.Path("/fifo").c_str(), 0600), 0);
  tree_.Write("/file", "");
  const std::string paths[] = {tree_.Path("/socket"), tree_.Path("/fifo"), tree_.Path("/file")};
  for (const std::string& path : paths) {
    int fd = -1;
    EXPECT_TRUE(IsNoCancellationPoint([&] {
      fd = OpenPressureWatch(path.c_str(), kTriggerBase64).fd;
      if (path != paths[2]) DiscardInput(fd);
    })) << path;
    EXPECT_GE(fd, 0);
    close(fd);
  }
  listener.Close();
}

// Watches the kernel's own file, as systemd would name it.
TEST_F(PressureWatchTest, OfTheKernel) {
  const PressureWatch watched = OpenRaw("/proc/pressure/memory");
  switch (watched.error) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case EROFS:
    case EOPNOTSUPP:
      GTEST_SKIP() << "the system has no PSI, or none for this user: error " << watched.error;
  }
  ASSERT_EQ(watched.kind, PressureWatchKind::kPsiFile) << watched.error;
  EXPECT_EQ(Polled(watched.fd, POLLPRI) & ~POLLPRI, 0);
  close(watched.fd);
  // The kernel rejects the trigger "none".
  EXPECT_EQ(OpenRaw("/proc/pressure/memory", "bm9uZQ==").error, EINVAL);
}

TEST(DiscardInputTest, FailsWithoutInput) {
  errno = 77;
  EXPECT_FALSE(DiscardInput(-1));
  EXPECT_EQ(errno, 77);
}

// A writer that never ends does not block the reader forever.
TEST(DiscardInputTest, ReadsOnlyAPart) {
  const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(zeros, 0);
  EXPECT_TRUE(DiscardInput(zeros));
  close(zeros);
}

}  // namespace
}  // namespace tcmalloc
