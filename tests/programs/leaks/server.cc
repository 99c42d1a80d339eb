// SPDX-License-Identifier: BSD-3-Clause
// A server with a thread for each connection, which keeps values by key. Lines: "set KEY BYTES",
// "get KEY", "leak BYTES", which leaks an object.
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

std::mutex mutex;
std::map<std::string, std::unique_ptr<std::vector<char>>> values;

void* LoseObject(void* bytes) {
  volatile char* const lost = new char[reinterpret_cast<uintptr_t>(bytes)];
  lost[0] = 1;
  return nullptr;
}

// Leaks an object in a thread with a stack of its own, which disappears with the thread. On a stack
// that another thread gets, a stale pointer may look like one in use.
void Leak(size_t bytes) {
  constexpr size_t kStackBytes = size_t{256} << 10;
  void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  if (stack == MAP_FAILED || pthread_attr_init(&attributes) != 0 ||
      pthread_attr_setstack(&attributes, stack, kStackBytes) != 0 ||
      pthread_create(&thread, &attributes, &LoseObject, reinterpret_cast<void*>(bytes)) != 0 ||
      pthread_join(thread, nullptr) != 0 || pthread_attr_destroy(&attributes) != 0 ||
      munmap(stack, kStackBytes) != 0) {
    abort();
  }
}

std::string Answer(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  std::string key;
  size_t bytes = 0;
  words >> command;
  if (command == "leak") {
    words >> bytes;
    Leak(bytes);
    return "ok";
  }
  words >> key >> bytes;
  const std::lock_guard<std::mutex> lock(mutex);
  if (command == "set") {
    values[key] = std::make_unique<std::vector<char>>(bytes);
    return "ok";
  }
  const auto found = values.find(key);
  return found == values.end() ? "none" : std::to_string(found->second->size());
}

void Serve(int connection) {
  std::string buffer;
  char piece[4096];
  for (ssize_t n; (n = read(connection, piece, sizeof(piece))) > 0;) {
    buffer.append(piece, static_cast<size_t>(n));
    for (size_t end; (end = buffer.find('\n')) != std::string::npos;) {
      const std::string answer = Answer(buffer.substr(0, end)) + "\n";
      buffer.erase(0, end + 1);
      if (write(connection, answer.data(), answer.size()) < 0) break;
    }
  }
  close(connection);
}

}  // namespace

int main() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listener, 100) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    perror("listen");
    return 1;
  }
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    const int connection = accept(listener, nullptr, nullptr);
    if (connection >= 0) std::thread(&Serve, connection).detach();
  }
}
