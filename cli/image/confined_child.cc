// SPDX-License-Identifier: BSD-3-Clause
#include "image/confined_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "image/image.h"
#include "image/memory_room.h"
#include "image/open_file.h"
#include "image/process.h"

namespace cli {
namespace {

// The most bytes of an answer. The longest answer is the list of all vtables of a large program,
// which has some megabytes.
constexpr uint64_t kMostAnswerBytes = uint64_t{256} << 20;
constexpr int kOutOfMemory = 3;
constexpr int kFailedInside = 4;
constexpr int kNotConfined = 5;
constexpr User kNobody = {.user = 65534, .group = 65534};

void Require(bool ok) {
  if (!ok) _exit(kNotConfined);
}

bool WriteAll(int descriptor, const void* from, size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t n = send(descriptor, next, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    next += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool ReadAll(int descriptor, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t n = read(descriptor, next, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    next += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

// Lowers the soft limit.
template <typename Resource>
void Limit(Resource resource, uint64_t most) {
  rlimit limit = {};
  getrlimit(resource, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, most);
  setrlimit(resource, &limit);
}

uint64_t AddressSpaceBytes() {
  uint64_t pages = 0;
  if (FILE* const file = fopen("/proc/self/statm", "re")) {
    if (fscanf(file, "%lu", &pages) != 1) pages = 0;
    fclose(file);
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void KeepDescriptors(const std::vector<int>& kept) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    Require(null >= 0 && dup2(null, standard) == standard);
  }
  const auto is_kept = [&](int descriptor) {
    return descriptor <= STDERR_FILENO ||
           std::find(kept.begin(), kept.end(), descriptor) != kept.end();
  };
  for (const int descriptor : NumbersIn("/proc/self/fd")) {
    if (!is_kept(descriptor)) close(descriptor);
  }
}

// Gives up the rights of root.
void BecomeUser(const Confinement& confinement) {
  // Without CAP_SYS_CHROOT the root directory is kept.
  if (confinement.root >= 0 && fchdir(confinement.root) == 0 && chroot(".") == 0) {
    Require(chdir("/") == 0);
  }
  User user = confinement.user.value_or(kNobody);
  const bool is_root = user.user == 0 || !confinement.user.has_value();
  if (user.user == 0) user.user = kNobody.user;
  if (user.group == 0) user.group = kNobody.group;
  const bool is_other = setgroups(0, nullptr) == 0 &&
                        setresgid(user.group, user.group, user.group) == 0 &&
                        setresuid(user.user, user.user, user.user) == 0;
  // A container may have no other user than root, or not permit to become one.
  Require(is_other || is_root);
}

void GiveUpCapabilities() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  Require(syscall(SYS_capset, &header, none) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

void EndWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(kFailedInside);
}

void Confine(const Confinement& confinement, int socket, pid_t parent) {
  EndWith(parent);
  sigset_t none;
  sigemptyset(&none);
  // The keyboard's signals are for the program that uses the answers.
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) {
    std::signal(signal, SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, &none, nullptr);
  BecomeFirstVictim();
  const Limits& limits = confinement.limits;
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_CPU, limits.cpu_seconds);
  Limit(RLIMIT_AS, AddressSpaceBytes() + limits.memory_bytes);
  LearnOwnDescriptors();
  std::vector<int> kept = confinement.descriptors;
  if (confinement.open) {
    const std::vector<int> opened = confinement.open();
    kept.insert(kept.end(), opened.begin(), opened.end());
  }
  kept.insert(kept.end(), {socket, confinement.root});
  KeepDescriptors(kept);
  LearnOwnDescriptors();
  // Only after `open`, which may store a file in a cache.
  Limit(RLIMIT_FSIZE, 0);
  if (geteuid() == 0) BecomeUser(confinement);
  if (confinement.root >= 0) close(confinement.root);
  GiveUpCapabilities();
  // The change of the user has cancelled it.
  EndWith(parent);
}

// Runs in the child.
[[noreturn]] void Serve(const Confinement& confinement,
                        const std::function<ConfinedChild::Answer()>& begin, int socket,
                        pid_t parent) {
  try {
    Confine(confinement, socket, parent);
    const ConfinedChild::Answer answer = begin();
    for (uint64_t bytes = 0; ReadAll(socket, &bytes, sizeof(bytes));) {
      std::string request(bytes, '\0');
      if (!ReadAll(socket, request.data(), bytes)) break;
      const std::string text = answer(request);
      bytes = text.size();
      if (!WriteAll(socket, &bytes, sizeof(bytes)) || !WriteAll(socket, text.data(), bytes)) break;
    }
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemory);
  } catch (const std::exception&) {
    _exit(kFailedInside);
  }
  _exit(0);
}

}  // namespace

ConfinedChild::ConfinedChild(const Confinement& confinement, const std::function<Answer()>& begin)
    : limits_(confinement.limits), patience_(confinement.limits.patience) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Failure(fmt::format("socketpair: {}", strerror(errno)));
  }
  // Text in the buffers must not be written twice.
  fflush(stdout);
  fflush(stderr);
  const pid_t parent = getpid();
  child_ = fork();
  if (child_ == 0) Serve(confinement, begin, ends[1], parent);
  const int error = errno;
  close(ends[1]);
  socket_ = ends[0];
  // A child that reads no request must not make this program wait, either.
  const timeval most = {.tv_sec = patience_.count() / 1000,
                        .tv_usec = patience_.count() % 1000 * 1000};
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
  if (child_ < 0) {
    close(socket_);
    throw Failure(fmt::format("fork: {}", strerror(error)));
  }
}

void ConfinedChild::AllowMemory(uint64_t bytes) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur + bytes, limit.rlim_max);
  setrlimit(RLIMIT_AS, &limit);
}

ConfinedChild::~ConfinedChild() { End({}); }

void ConfinedChild::End(std::string problem) {
  problem_ = std::move(problem);
  if (socket_ < 0) return;
  close(socket_);
  socket_ = -1;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string ConfinedChild::HowItEnded() {
  // The child has closed its end of the socket. If it still runs, end it.
  kill(child_, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  while ((waited = waitpid(child_, &status, 0)) < 0 && errno == EINTR) {
  }
  close(socket_);
  socket_ = -1;
  if (waited != child_) return "its reader has ended";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kOutOfMemory) {
    return fmt::format("reading it needs more than {} MiB of memory", limits_.memory_bytes >> 20);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotConfined) {
    return "its reader cannot drop the rights of root";
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return fmt::format("reading it takes more than {} seconds of CPU time", limits_.cpu_seconds);
  }
  if (WIFSIGNALED(status)) {
    return fmt::format("its reader was killed by signal {}", WTERMSIG(status));
  }
  return "its reader failed";
}

bool ConfinedChild::Receive(void* out, size_t bytes) {
  using std::chrono::milliseconds;
  constexpr milliseconds kSlice(1000);
  char* next = static_cast<char*>(out);
  while (bytes > 0) {
    pollfd wait = {.fd = socket_, .events = POLLIN};
    const milliseconds slice = std::min(patience_, kSlice);
    const auto before = std::chrono::steady_clock::now();
    const int ready = poll(&wait, 1, static_cast<int>(slice.count()));
    const auto waited =
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - before);
    // The time during which this program is stopped does not count.
    patience_ -= std::min(slice, waited);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) {
      if (patience_.count() > 0) continue;
      End(fmt::format("reading it takes more than {} seconds",
                      std::chrono::duration_cast<std::chrono::seconds>(limits_.patience).count()));
      return false;
    }
    const ssize_t n = recv(socket_, next, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    next += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::optional<std::string> ConfinedChild::Ask(const std::string& request) {
  if (socket_ < 0) return std::nullopt;
  uint64_t bytes = request.size();
  std::string answer;
  if (WriteAll(socket_, &bytes, sizeof(bytes)) && WriteAll(socket_, request.data(), bytes) &&
      Receive(&bytes, sizeof(bytes))) {
    if (bytes <= kMostAnswerBytes) {
      answer.resize(bytes);
      if (Receive(answer.data(), bytes)) return answer;
    } else {
      End("its reader answers nonsense");
    }
  }
  if (socket_ >= 0) problem_ = HowItEnded();
  return std::nullopt;
}

}  // namespace cli
