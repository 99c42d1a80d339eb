// SPDX-License-Identifier: BSD-3-Clause
//
// Tests memory pressure in a process of its own, from sources that the test writes to: no action
// where it is off; events over a FIFO and over a socket, as systemd sends them; the program's own
// loop; listeners, also those that fork or end the program; forked children, also of threads that
// fork while events arrive; a program that closes every descriptor that it does not know and opens
// others; a storm of events; the cost of readings; a complete file system of the test.
//
//   pressure off | watch fifo | watch socket | loop | listeners | fork | closed | reused | wrong
//   pressure storm fifo | storm socket | readings | forking | fork_in_call | exit_in_call | tree
//
// With one of these arguments it prepares the files that the variables name, sets the variables,
// and executes itself.
#include <dirent.h>
#include <poll.h>
#include <sched.h>
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

size_t Entries(const char* directory) {
  DIR* const open = opendir(directory);
  CHECK(open != nullptr);
  size_t n = 0;
  while (const dirent* const entry = readdir(open)) n += entry->d_name[0] != '.' ? 1 : 0;
  closedir(open);
  return n;
}
size_t Threads() { return Entries("/proc/self/task"); }
// The number of descriptors, without the one that reads the directory.
size_t Descriptors() { return Entries("/proc/self/fd") - 1; }

void SleepMs(long ms) {
  const timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
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

// Leaves some 64 MiB in caches and free lists.
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

// Opens a FIFO for writing; the reader has opened it by then.
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

// An event releases free memory, caches included, without an action of the program.
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
  // Idle release must not release the memory.
  tcmalloc_set_memory_release_rate(0);
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
    // A listener may allocate and free.
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
    // The child allocates, but not for long enough; it does not have its parent's descriptors.
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

// Closes all descriptors, as programs do that become daemons.
void Closed() {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  // The library's thread is no longer woken, or notices that its descriptors are closed.
  const double before = ProcessorSeconds();
  SleepMs(3000);
  CHECK(ProcessorSeconds() - before < 0.3);
  Exercise(2);
}

// The CPU time of the library's thread, by that thread's clock.
double ListenerSeconds() {
  DIR* const tasks = opendir("/proc/self/task");
  CHECK(tasks != nullptr);
  double seconds = -1;
  while (const dirent* const entry = readdir(tasks)) {
    const std::string name = std::string("/proc/self/task/") + entry->d_name + "/comm";
    char text[32] = "";
    const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    CHECK(read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    if (strcmp(text, "tcmalloc-mem\n") != 0) continue;
    // Computes the clock of a thread from its number, as pthread_getcpuclockid does.
    const unsigned clock = (~static_cast<unsigned>(atoi(entry->d_name)) << 3) | 6;
    timespec time;
    CHECK(clock_gettime(static_cast<clockid_t>(clock), &time) == 0);
    seconds = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }
  closedir(tasks);
  CHECK(seconds >= 0);
  return seconds;
}

double Seconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Sends 5000 events, at most a thousand a second; none causes memory to be freed.
void Storm(int writer) {
  constexpr int kEvents = 5000;
  CHECK(fcntl(writer, F_SETFL, O_NONBLOCK) == 0);
  const size_t actions = Actions();
  const double before = ListenerSeconds();
  const double begin = Seconds();
  for (int sent = 1; sent <= kEvents; ++sent) {
    // A full pipe is a storm as well.
    CHECK(write(writer, "x", 1) == 1 || errno == EAGAIN);
    // Each event has its time; a delay does not shift the later ones.
    while (Seconds() - begin < sent / 1000.0) {
      const timespec pause = {.tv_sec = 0, .tv_nsec = 200'000};
      nanosleep(&pause, nullptr);
    }
  }
  const double seconds = Seconds() - begin;
  const size_t acted = Actions() - actions;
  const double share = (ListenerSeconds() - before) / seconds;
  dprintf(STDOUT_FILENO, "%d events in %.1f s, %zu actions, %.3f %% of a processor\n", kEvents,
          seconds, acted, share * 100);
  CHECK(acted > 0);
  // Between two actions is a second at least.
  CHECK(static_cast<double>(acted) <= seconds + 2);
  CHECK(share <= 0.01);
}

// Near a threshold all files are read ten times a second.
void Readings() {
  NewMarked(size_t{56} << 20, 1);
  SleepMs(1500);
  const double before = ListenerSeconds();
  SleepMs(5000);
  const double share = (ListenerSeconds() - before) / 5;
  dprintf(STDOUT_FILENO, "%.0f us for each wake-up with a reading\n", share / 10 * 1e6);
  CHECK(Actions() == 0);
  CHECK(share <= 0.01);
}

// Files that get the numbers of the library's descriptors are the program's, also in its children.
void Reused() {
  CHECK(Descriptors() > 3);
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  std::vector<int> own;
  for (int i = 0; i < 700; ++i) {
    own.push_back(open("/dev/null", O_RDONLY));
    CHECK(own.back() >= 0);
  }
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (const int fd : own) CHECK(fcntl(fd, F_GETFD) >= 0);
      _exit(0);
    }
    CHECK(WaitFor(child) == 0);
  }
  // The library notices it within ten seconds and listens again to the sources that still exist.
  Await([] { return Property("tcmalloc.pressure_sources") == 0; });
  Await([] { return Property("tcmalloc.pressure_sources") == 1; });
  for (const int fd : own) CHECK(fcntl(fd, F_GETFD) >= 0);
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

// A child that a listener forks has no other thread. When the listener returns in the child, the
// child continues to listen; the parent does in any case.
void ForkInCall(int writer) {
  static int result[2];
  CHECK(pipe2(result, O_CLOEXEC) == 0);
  tcmalloc_pressure_listener forks = {};
  forks.notify = [](int, void*) {
    static pid_t parent = getpid();
    if (getpid() != parent) {
      // This is the second event, in the child.
      CHECK(tcmalloc_pressure_fd() == -1 && errno == EBUSY);
      CHECK(write(result[1], "c", 1) == 1);
      _exit(0);
    }
    if (told_calls++ > 0) return;
    if (fork() == 0) CHECK(tcmalloc_handle_pressure() == 0);
  };
  tcmalloc_add_pressure_listener(&forks);
  CHECK(write(writer, "x", 1) == 1);
  Await([] { return told_calls == 1; });
  // Either process may read the FIFO's byte: writes until both have read one.
  char byte = 0;
  CHECK(fcntl(result[0], F_SETFL, O_NONBLOCK) == 0);
  Await([&] {
    CHECK(write(writer, "x", 1) == 1 || errno == EAGAIN);
    SleepMs(100);
    if (byte == 0) CHECK(read(result[0], &byte, 1) == 1 || errno == EAGAIN);
    return byte != 0 && told_calls > 1;
  });
  CHECK(byte == 'c');
  CHECK(waitpid(-1, nullptr, 0) > 0);
}

struct AtEnd {
  ~AtEnd() {
    if (listener.notify == nullptr) return;
    tcmalloc_remove_pressure_listener(&listener);
    CHECK(write(STDOUT_FILENO, "removed\n", 8) == 8);
  }
  tcmalloc_pressure_listener listener = {};
} at_end;

// The program ends in a listener, while other threads continue.
[[noreturn]] void ExitInCall(int writer) {
  at_end.listener.notify = [](int, void*) {
    Free(Malloc(1 << 20));
    exit(0);
  };
  tcmalloc_add_pressure_listener(&at_end.listener);
  for (int t = 0; t < 4; ++t) {
    std::thread([] {
      for (;;) Free(Malloc(1 << 20));
    }).detach();
  }
  CHECK(write(writer, "x", 1) == 1);
  for (;;) pause();
}

// The functions below run in a process whose root is a folder of the test.

constexpr char kGroup[] = "/sys/fs/cgroup/memory/job";

void WriteFile(const std::string& path, const std::string& text) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    CHECK(mkdir(path.substr(0, at).c_str(), 0700) == 0 || errno == EEXIST);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CHECK(fd >= 0);
  CHECK(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  close(fd);
}
int MakeFifo(const std::string& path) {
  CHECK(mkfifo(path.c_str(), 0600) == 0);
  const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  CHECK(fd >= 0);
  return fd;
}
void SetGroup(const char* file, size_t value) {
  const std::string name = strcmp(file, "memory.stat") == 0 ? "total_rss " : "";
  WriteFile(std::string(kGroup) + "/" + file, name + std::to_string(value) + "\n");
}

// All registrations that were written, as the kernel takes them: "EVENT FILE ARGUMENT" each.
// Numbers of events have three digits, thresholds nine, and the level is "medium".
struct Registrations {
  std::vector<int> events;
  std::vector<std::string> arguments;
};
Registrations ReadRegistrations(int control) {
  Registrations found;
  char text[1000] = "";
  const ssize_t n = read(control, text, sizeof(text) - 1);
  CHECK(n >= 0 || errno == EAGAIN);
  for (const char* at = text; *at != '\0';) {
    int event = 0;
    int file = 0;
    int length = 0;
    char argument[16] = "";
    CHECK(sscanf(at, "%3d %d %6[a-z]%n", &event, &file, argument, &length) == 3 ||
          sscanf(at, "%3d %d %9[0-9]%n", &event, &file, argument, &length) == 3);
    found.events.push_back(event);
    found.arguments.push_back(argument);
    at += length;
  }
  return found;
}
void TellEvent(int fd) {
  const uint64_t one = 1;
  CHECK(write(fd, &one, sizeof(one)) == static_cast<ssize_t>(sizeof(one)));
}

size_t Sources() {
  // An allocation makes the child listen again.
  Free(Malloc(1 << 20));
  return Property("tcmalloc.pressure_sources");
}

void BuildSystem() {
  WriteFile("/proc/self/cgroup", "4:memory:/job\n");
  WriteFile("/proc/self/mountinfo",
            "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  WriteFile("/proc/self/statm", "1000 500 100 1 0 300 0\n");
  WriteFile("/run/here", "");
  SetGroup("memory.usage_in_bytes", 1);
  SetGroup("memory.pressure_level", 0);
  SetGroup("memory.limit_in_bytes", 1'000'000'000);
  SetGroup("memory.stat", 100'000'000);
}

void InSystemOfItsOwn() {
  BuildSystem();
  // The parent's count, on the system that it has.
  const size_t failed = Property("tcmalloc.pressure_sources_failed");
  const int watch = MakeFifo("/run/watch");
  const int control = MakeFifo(std::string(kGroup) + "/cgroup.event_control");
  // The library finds all sources: systemd's FIFO, reclaiming, three thresholds.
  Await([] { return Sources() == 5; });
  Registrations told = ReadRegistrations(control);
  CHECK((told.arguments ==
         std::vector<std::string>{"medium", "800000000", "900000000", "950000000"}));
  CHECK(Property("tcmalloc.pressure_sources_failed") == failed);

  // Sends an event of each kind, and causes readings.
  size_t actions = Actions();
  CHECK(write(watch, "x", 1) == 1);
  Await([&] { return Actions() > actions; });
  actions = Actions();
  Await([&] {
    TellEvent(told.events[0]);
    return Actions() > actions;
  });
  CHECK(Property("tcmalloc.pressure_events") >= 2);
  actions = Actions();
  SetGroup("memory.stat", 960'000'000);
  TellEvent(told.events[3]);
  Await([&] { return Actions() > actions; });

  // Another limit changes the thresholds.
  SetGroup("memory.stat", 100'000'000);
  SetGroup("memory.limit_in_bytes", 500'000'000);
  Await([&] {
    const Registrations again = ReadRegistrations(control);
    if (!again.events.empty()) told = again;
    return told.arguments.size() == 3;
  });
  CHECK((told.arguments == std::vector<std::string>{"400000000", "450000000", "475000000"}));
  CHECK(Sources() == 5);

  // Children of this process have the same root.
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      CHECK(Property("tcmalloc.pressure_sources") == 0);
      Await([] { return Sources() == 5; });
      CHECK(ReadRegistrations(control).arguments.size() == 4);
      _exit(0);
    }
    CHECK(WaitFor(child) == 0);
  }

  // Sends a storm of all events while files vanish and the program allocates.
  const double begin = Seconds();
  actions = Actions();
  for (int i = 0; Seconds() - begin < 6; ++i) {
    for (const int event : told.events) TellEvent(event);
    CHECK(write(watch, "x", 1) == 1 || errno == EAGAIN);
    Free(Malloc(static_cast<size_t>(i) * 100));
    if (i == 500) CHECK(unlink((std::string(kGroup) + "/memory.stat").c_str()) == 0);
    if (i == 1000) CHECK(unlink((std::string(kGroup) + "/memory.limit_in_bytes").c_str()) == 0);
    if (i == 1500) CHECK(unlink("/proc/self/statm") == 0);
    if (i == 2000) CHECK(unlink("/proc/self/cgroup") == 0);
    SleepMs(1);
  }
  CHECK(Actions() > actions);
  CHECK(Property("tcmalloc.pressure_sources") >= 2);
  actions = Actions();
  Await([&] {
    CHECK(write(watch, "x", 1) == 1 || errno == EAGAIN);
    return Actions() > actions;
  });
  Exercise(3);
}

constexpr int kSkipped = 77;

// The folder becomes a child's root before the child listens, so absolute names lead into it.
int Tree(const std::string& folder) {
  CHECK(setenv("MEMORY_PRESSURE_WATCH", "/run/watch", 1) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (chroot(folder.c_str()) != 0 &&
        (unshare(CLONE_NEWUSER) != 0 || chroot(folder.c_str()) != 0)) {
      dprintf(STDOUT_FILENO, "SKIP: this user may not change its root\n");
      _exit(kSkipped);
    }
    CHECK(chdir("/") == 0);
    InSystemOfItsOwn();
    _exit(0);
  }
  return WaitFor(child);
}

int Run(const std::string& what, const char* path, int writer) {
  if (what == "off" || what == "wrong") Off();
  if (what == "watch") Watch(writer);
  if (what == "loop") Loop(path);
  if (what == "listeners") Listeners(writer);
  if (what == "fork") Fork();
  if (what == "closed") Closed();
  if (what == "reused") Reused();
  if (what == "storm") Storm(writer);
  if (what == "readings") Readings();
  if (what == "forking") Forking(writer);
  if (what == "fork_in_call") ForkInCall(writer);
  if (what == "exit_in_call") ExitInCall(writer);
  if (what == "tree") return Tree(std::filesystem::path(path).parent_path());
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
    if (what != "off" && what != "wrong" && what != "loop") {
      Await([] { return Threads() == 2 && Property("tcmalloc.pressure_sources") >= 1; });
    }
    return Run(what, path.c_str(), writer);
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
    const char* config = "watch=on,interval=1s";
    if (what == "forking" || what == "fork_in_call") config = "watch=on,interval=100ms";
    // The memory in use is near the threshold from the start, and never reaches it.
    if (what == "readings") config = "watch=on,level1=99%cgroup,level2=99%system,level3=64M";
    if (what == "tree") config = "auto,interval=100ms";
    if (what != "loop") CHECK(setenv("TCMALLOC_PRESSURE", config, 1) == 0);
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
  if (path != "-") std::filesystem::remove_all(folder);
  return status;
}
