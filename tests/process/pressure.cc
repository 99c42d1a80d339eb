// SPDX-License-Identifier: BSD-3-Clause
//
// Memory pressure in a process of its own, from sources that the test writes to: nothing where it
// is off; events over a FIFO and over a socket, as a service manager sends them; the program's own
// loop; listeners; a forked child; a program that closes every descriptor it knows nothing of; a
// storm of events.
//
//   pressure off | watch fifo | watch socket | loop | listeners | fork | closed | storm | wrong
//
// Started with one of these it prepares what the variables name, sets them, and starts itself.
#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "tcmalloc/tcmalloc.h"

namespace {

size_t Property(const char* name) {
  size_t value = 0;
  CHECK(tcmalloc_get_numeric_property(name, &value) == 1);
  return value;
}

size_t Entries(const char* directory) {
  DIR* const open = opendir(directory);
  CHECK(open != nullptr);
  size_t n = 0;
  while (const dirent* const entry = readdir(open)) n += entry->d_name[0] != '.' ? 1 : 0;
  closedir(open);
  return n;
}
size_t Threads() { return Entries("/proc/self/task"); }
// Less the one that counts.
size_t Descriptors() { return Entries("/proc/self/fd") - 1; }

void SleepMs(long ms) {
  const timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

// Waits until it holds; ends the test when it never does.
template <typename Condition>
void Await(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return;
    SleepMs(10);
  }
  CHECK(!"it never came to that");
}

// What caches and free lists hold afterwards: some 64 MiB.
void Strand() {
  std::vector<void*> objects;
  for (size_t size = 64; size <= 32 << 10; size *= 2) {
    for (size_t bytes = 0; bytes < 8 << 20; bytes += size) {
      objects.push_back(Malloc(size));
      memset(objects.back(), 1, size);
    }
  }
  for (void* const object : objects) Free(object);
}

size_t Actions() { return Property("tcmalloc.pressure_releases"); }

// Opens a FIFO for writing; the reader is there by then.
int OpenWriter(const char* path) {
  int fd = -1;
  Await([&] { return (fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0; });
  return fd;
}

void Off() {
  CHECK(Threads() == 1);
  const size_t descriptors = Descriptors();
  Strand();
  CHECK(Threads() == 1);
  CHECK(Descriptors() == descriptors);
  CHECK(Property("tcmalloc.pressure_sources") == 0);
}

// An event gives back what is free, caches included, without the program's doing.
void Watch(int writer) {
  Strand();
  const size_t before = ResidentBytes();
  const size_t actions = Actions();
  CHECK(write(writer, "x", 1) == 1);
  Await([&] { return Actions() > actions; });
  Await([&] { return ResidentBytes() + (size_t{32} << 20) < before; });
  CHECK(Property("tcmalloc.pressure_events") >= 1);
  Exercise(1);
}

void Loop(const char* path) {
  CHECK(Threads() == 1);
  const int fd = tcmalloc_pressure_fd();
  CHECK(fd >= 0 && tcmalloc_pressure_fd() == fd);
  const int writer = OpenWriter(path);
  CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(Threads() == 1);
  Strand();
  const size_t before = ResidentBytes();
  CHECK(write(writer, "x", 1) == 1);
  int level = 0;
  for (int i = 0; i < 10 && level == 0; ++i) {
    pollfd wait = {fd, POLLIN, 0};
    CHECK(poll(&wait, 1, 20'000) == 1);
    level = tcmalloc_handle_pressure();
  }
  CHECK(level == 3);
  CHECK(ResidentBytes() + (size_t{32} << 20) < before);
  CHECK(Threads() == 1);
}

std::atomic<int> told_level{0};
std::atomic<int> told_calls{0};

void Listeners(int writer) {
  tcmalloc_pressure_listener listener = {};
  listener.notify = [](int level, void* context) {
    CHECK(context == &told_level);
    // Listeners may do as they like.
    Free(Malloc(100'000));
    told_level = level;
    ++told_calls;
  };
  listener.context = &told_level;
  tcmalloc_add_pressure_listener(&listener);
  CHECK(write(writer, "x", 1) == 1);
  Await([&] { return told_calls > 0; });
  CHECK(told_level == 3);
  tcmalloc_remove_pressure_listener(&listener);
  const int calls = told_calls;
  const size_t actions = Actions();
  CHECK(write(writer, "x", 1) == 1);
  Await([&] { return Actions() > actions; });
  CHECK(told_calls == calls);
}

int WaitFor(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Fork() {
  const size_t descriptors = Descriptors();
  const pid_t quiet = fork();
  if (quiet == 0) {
    // Allocates, but not for long enough; its parent's descriptors are not there.
    for (int i = 0; i < 1000; ++i) Free(Malloc(static_cast<size_t>(i) << 10));
    CHECK(Threads() == 1);
    CHECK(Descriptors() < descriptors);
    _exit(0);
  }
  CHECK(WaitFor(quiet) == 0);
  const pid_t busy = fork();
  if (busy == 0) {
    CHECK(Threads() == 1);
    Await([] {
      Free(Malloc(1 << 20));
      return Threads() == 2;
    });
    Await([&] { return Descriptors() == descriptors; });
    _exit(0);
  }
  CHECK(WaitFor(busy) == 0);
}

double ProcessorSeconds() {
  rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// As programs do that become daemons.
void Closed() {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  // Wakes nobody up any more, or finds that out.
  const double before = ProcessorSeconds();
  SleepMs(3000);
  CHECK(ProcessorSeconds() - before < 0.3);
  Exercise(2);
}

// A thousand events a second, of which none frees anything.
void Storm(int writer) {
  const double before = ProcessorSeconds();
  const size_t actions = Actions();
  for (int i = 0; i < 5000; ++i) {
    // A full pipe is a storm as well.
    CHECK(write(writer, "x", 1) == 1 || errno == EAGAIN);
    SleepMs(1);
  }
  const double spent = ProcessorSeconds() - before;
  dprintf(STDOUT_FILENO, "%zu actions, %.3f s of the processor, the writer's included\n",
          Actions() - actions, spent);
  CHECK(Actions() > actions);
  CHECK(Actions() - actions <= 6);
}

void Run(const std::string& what, const char* path, int writer) {
  if (what == "off" || what == "wrong") Off();
  if (what == "watch") Watch(writer);
  if (what == "loop") Loop(path);
  if (what == "listeners") Listeners(writer);
  if (what == "fork") Fork();
  if (what == "closed") Closed();
  if (what == "storm") Storm(writer);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 2);
  const std::string what = argv[1];
  if (argc == 4) {
    // Prepared: the source's name, and an open socket that listens.
    const std::string path = argv[2];
    int writer = -1;
    if (path != "-" && what != "loop") {
      const int socket = atoi(argv[3]);
      writer =
          socket < 0 ? OpenWriter(path.c_str()) : accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
      CHECK(writer >= 0);
      if (socket >= 0) close(socket);
    }
    if (what != "off" && what != "wrong" && what != "loop") {
      Await([] { return Threads() == 2 && Property("tcmalloc.pressure_sources") >= 1; });
    }
    Run(what, path.c_str(), writer);
    return 0;
  }
  std::string path = "-";
  int listening = -1;
  char folder[] = "/tmp/pressure-XXXXXX";
  if (what != "off" && what != "wrong") {
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
    if (what != "loop") CHECK(setenv("TCMALLOC_PRESSURE", "watch=on,interval=1s", 1) == 0);
    if (what == "loop") CHECK(setenv("TCMALLOC_PRESSURE", "", 1) == 0);
  }
  if (what == "wrong") CHECK(setenv("TCMALLOC_PRESSURE", "auto,level9=5", 1) == 0);
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], what.c_str(), path.c_str(), std::to_string(listening).c_str(),
          nullptr);
    _exit(127);
  }
  const int status = WaitFor(child);
  if (path != "-") {
    unlink(path.c_str());
    rmdir(folder);
  }
  return status;
}
