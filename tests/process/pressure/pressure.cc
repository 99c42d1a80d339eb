// SPDX-License-Identifier: BSD-3-Clause
// Tests memory pressure in a process of its own, from sources to which the test writes. It tests
// that there is no action where pressure is off; events over a FIFO and over a socket, as systemd
// sends them; the program's own loop; forked children; listeners that fork; and threads that fork
// while events arrive.
//
//   pressure off | watch fifo | watch socket | loop | fork | forking
//
// With one of these arguments it prepares the files that the variables name, sets the variables,
// and executes itself.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "../check.h"
#include "tcmalloc/tcmalloc.h"

namespace {

size_t Property(const char* name) {
  size_t value = 0;
  CHECK(tcmalloc_get_numeric_property(name, &value) == 1);
  return value;
}

// The number of descriptors, without the one that reads the directory.
ptrdiff_t Descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}) - 1;
}

// Waits until the condition is true; ends the test if it never is.
template <typename Condition>
void Await(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return;
    SleepMs(10);
  }
  CHECK(!"it never came to that");
}

// Leaves this much, and more, in caches and free lists.
constexpr size_t kStranded = size_t{64} << 20;
void Strand() {
  std::vector<void*> objects;
  for (size_t size = 64; size <= 32 << 10; size *= 2) {
    for (size_t bytes = 0; bytes < kStranded / 8; bytes += size) {
      objects.push_back(Malloc(size));
      memset(objects.back(), 1, size);
    }
  }
  for (void* const object : objects) Free(object);
}

size_t Actions() { return Property("tcmalloc.pressure_releases"); }
size_t Released() { return Property("tcmalloc.pageheap_unmapped_bytes"); }

// Opens a FIFO for writing; the reader has opened it by then.
int OpenWriter(const char* path) {
  int fd = -1;
  Await([&] { return (fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0; });
  return fd;
}

void Off() {
  CHECK(NumThreads() == 1);
  const ptrdiff_t descriptors = Descriptors();
  Strand();
  CHECK(NumThreads() == 1);
  CHECK(Descriptors() == descriptors);
  CHECK(Property("tcmalloc.pressure_sources") == 0);
}

// An event releases free memory, caches included, without an action of the program.
void Watch(int writer) {
  Strand();
  const size_t before = Released();
  const size_t actions = Actions();
  CHECK(write(writer, "x", 1) == 1);
  Await([&] { return Actions() > actions; });
  Await([&] { return Released() >= before + kStranded / 2; });
  CHECK(Property("tcmalloc.pressure_events") >= 1);
  Exercise(1);
}

void Loop(const char* path) {
  CHECK(NumThreads() == 1);
  const int fd = tcmalloc_pressure_fd();
  CHECK(fd >= 0 && tcmalloc_pressure_fd() == fd);
  const int writer = OpenWriter(path);
  CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(NumThreads() == 1);
  // Idle release must not release the memory.
  tcmalloc_set_memory_release_rate(0);
  Strand();
  const size_t before = Released();
  CHECK(write(writer, "x", 1) == 1);
  int level = 0;
  for (int i = 0; i < 10 && level == 0; ++i) {
    pollfd wait = {fd, POLLIN, 0};
    CHECK(poll(&wait, 1, 20'000) == 1);
    level = tcmalloc_handle_pressure();
  }
  CHECK(level == 3);
  CHECK(Released() >= before + kStranded / 2);
  CHECK(NumThreads() == 1);
}

int WaitFor(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Fork() {
  const ptrdiff_t descriptors = Descriptors();
  const pid_t quiet = fork();
  if (quiet == 0) {
    // The child allocates, but not for long enough; it does not have its parent's descriptors.
    for (int i = 0; i < 1000; ++i) Free(Malloc(static_cast<size_t>(i) << 10));
    CHECK(NumThreads() == 1);
    CHECK(Descriptors() < descriptors);
    _exit(0);
  }
  CHECK(WaitFor(quiet) == 0);
  const pid_t busy = fork();
  if (busy == 0) {
    CHECK(NumThreads() == 1);
    Await([] {
      Free(Malloc(1 << 20));
      return NumThreads() == 2;
    });
    Await([&] { return Descriptors() == descriptors; });
    _exit(0);
  }
  CHECK(WaitFor(busy) == 0);
}

std::atomic<int> children_ended{0};

// Tests a listener in the library's thread while other threads fork, allocate, and add and remove
// listeners, and events arrive.
void Forking(int writer) {
  tcmalloc_pressure_listener forks = {};
  forks.notify = [](int, void*) {
    const pid_t child = fork();
    if (child == 0) {
      Free(Malloc(100'000));
      _exit(3);
    }
    CHECK(WaitFor(child) == 3);
    ++children_ended;
  };
  tcmalloc_add_pressure_listener(&forks);
  std::atomic<bool> stop{false};
  std::atomic<long> calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        std::atomic<int> context{0};
        tcmalloc_pressure_listener come_and_go = {};
        come_and_go.notify = [](int, void* c) {
          CHECK(static_cast<std::atomic<int>*>(c)->fetch_add(1) >= 0);
        };
        come_and_go.context = &context;
        tcmalloc_add_pressure_listener(&come_and_go);
        Free(Malloc(1000));
        SleepMs(1);
        tcmalloc_remove_pressure_listener(&come_and_go);
        // Every later call of this listener fails the test.
        calls += context.exchange(-1'000'000);
      }
    });
  }
  std::vector<std::thread> forkers;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    forkers.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        if (child == 0) {
          // Some children execute a program at once, others continue for a while.
          if (t == 0) {
            execl("/bin/true", "true", nullptr);
            _exit(0);
          }
          tcmalloc_pressure_listener own = {};
          own.notify = [](int, void*) {};
          tcmalloc_add_pressure_listener(&own);
          for (int n = 0; n < 20; ++n) Free(Malloc(static_cast<size_t>(n) * 1000));
          tcmalloc_remove_pressure_listener(&own);
          _exit(0);
        }
        CHECK(child > 0);
        if (WaitFor(child) != 0) ++failed;
        if (write(writer, "x", 1) != 1) CHECK(errno == EAGAIN);
      }
    });
  }
  for (std::thread& forker : forkers) forker.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  dprintf(STDOUT_FILENO, "%d children of the listener, %ld calls of others\n",
          children_ended.load(), calls.load());
  CHECK(failed == 0);
  CHECK(children_ended > 0);
  tcmalloc_remove_pressure_listener(&forks);
  // The listening still works.
  const size_t actions = Actions();
  Await([&] {
    CHECK(write(writer, "x", 1) == 1 || errno == EAGAIN);
    return Actions() > actions;
  });
}

int Run(const std::string& what, const char* path, int writer) {
  if (what == "off") Off();
  if (what == "watch") Watch(writer);
  if (what == "loop") Loop(path);
  if (what == "fork") Fork();
  if (what == "forking") Forking(writer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 2);
  const std::string what = argv[1];
  if (argc == 4) {
    // Prepares the source's name, and an open socket that listens.
    const std::string path = argv[2];
    int writer = -1;
    if (path != "-" && what != "loop") {
      const int socket = atoi(argv[3]);
      writer =
          socket < 0 ? OpenWriter(path.c_str()) : accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
      CHECK(writer >= 0);
      if (socket >= 0) close(socket);
    }
    if (what != "off" && what != "loop") {
      Await([] { return NumThreads() == 2 && Property("tcmalloc.pressure_sources") >= 1; });
    }
    return Run(what, path.c_str(), writer);
  }
  std::string path = "-";
  int listening = -1;
  char folder[] = "/tmp/pressure-XXXXXX";
  if (what != "off") {
    CHECK(mkdtemp(folder) != nullptr);
    path = std::string(folder) + "/source";
    if (argc == 3 && strcmp(argv[2], "socket") == 0) {
      listening = socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      CHECK(path.size() < sizeof(address.sun_path));
      memcpy(address.sun_path, path.c_str(), path.size() + 1);
      CHECK(bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
      CHECK(listen(listening, 1) == 0);
    } else {
      CHECK(mkfifo(path.c_str(), 0600) == 0);
    }
    CHECK(setenv("MEMORY_PRESSURE_WATCH", path.c_str(), 1) == 0);
    const char* config = "watch=on,interval=1s";
    if (what == "forking") config = "watch=on,interval=100ms";
    if (what != "loop") CHECK(setenv("TCMALLOC_PRESSURE", config, 1) == 0);
    if (what == "loop") CHECK(setenv("TCMALLOC_PRESSURE", "", 1) == 0);
  }
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], what.c_str(), path.c_str(), std::to_string(listening).c_str(),
          nullptr);
    _exit(127);
  }
  const int status = WaitFor(child);
  if (path != "-") std::filesystem::remove_all(folder);
  return status;
}
