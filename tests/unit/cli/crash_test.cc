// SPDX-License-Identifier: BSD-3-Clause
// Pretends that this process crashed: combines its heap with invented registers and a signal of a
// thread.
#include "heap/crash.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cli/fake_image.h"
#include "heap/objects.h"
#include "heap/pointee.h"
#include "image/find_root.h"
#include "image/live_image.h"
#include "report/crash_report.h"
#include "report/pointee_text.h"

extern "C" {
void* tc_malloc(size_t size);
void tc_free(void* object);
}

namespace cli {
namespace {

constexpr Address kCode = 0x700000;   // no test program is mapped there
constexpr Address kStack = 0x800000;  // the stack of a thread
constexpr uint64_t kStackBytes = 0x10000;
constexpr Address kGuard = kStack - 0x1000;
constexpr Address kNowhere = 0x900000;
constexpr pid_t kThread = 17;
constexpr uint16_t kMachine = EM_X86_64;

uint64_t AddressOf(const void* object) { return reinterpret_cast<uint64_t>(object); }

// An image with this process's heap but no other memory of it, a stack, and code.
class CrashedImage : public Image {
 public:
  CrashedImage() : live_(getpid()) {
    thread_ = {.thread = kThread, .machine = FindMachine(kMachine)};
    thread_.set.resize(thread_.machine->bytes());
    Set("rip", kCode);
    Set("rsp", kStack + 0x8000);
    rest_.Put(kStack, std::string(kStackBytes, '\1'), "");
  }

  void SetCode(const std::string& code) { rest_.Put(kCode, code, "/program"); }
  void Set(std::string_view name, uint64_t value) {
    for (const GeneralRegister& one : thread_.machine->general) {
      if (one.name == name) {
        memcpy(&thread_.set[one.place * sizeof(value)], &value, sizeof(value));
      }
    }
  }
  void SetSignal(int number, int code, std::optional<Address> address = std::nullopt) {
    thread_.signal = {.number = number, .code = code, .address = address};
  }

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override {
    return rest_.Read(address, out, bytes) || live_.Read(address, out, bytes);
  }
  std::vector<Mapping> Mappings() override {
    std::vector<Mapping> mappings = rest_.Mappings();
    mappings.push_back({.start = kGuard, .end = kStack});
    std::sort(mappings.begin(), mappings.end(),
              [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    return mappings;
  }
  int64_t NowMs(int clock) override { return live_.NowMs(clock); }
  const std::vector<ThreadRegisters>& Threads() const override {
    threads_ = {thread_};
    return threads_;
  }
  LiveImage& live() { return live_; }

 private:
  LiveImage live_;
  FakeImage rest_;
  ThreadRegisters thread_;
  mutable std::vector<ThreadRegisters> threads_;
};

class CrashTest : public testing::Test {
 protected:
  CrashTest() : object_(static_cast<char*>(tc_malloc(kBytes))), freed_(tc_malloc(kBytes)) {
    memset(object_, 0, kBytes);
    tc_free(freed_);
  }
  ~CrashTest() override { tc_free(object_); }

  // Reads the heap as it is now.
  void Look() {
    target_ = std::make_unique<Target>(image_, *FindRoot(image_.live()));
    objects_ = std::make_unique<HeapObjects>(*target_);
    pointees_ = std::make_unique<Pointees>(image_, objects_.get());
  }
  Pointee At(Address address) {
    Look();
    return pointees_->WithNeighbour(address);
  }
  CrashReport Report(const std::string& abort_line = "") {
    Look();
    const ThreadRegisters& thread = image_.Threads()[0];
    CrashReport report;
    report.threads.push_back({.thread = thread, .registers = HeapRegisters(thread, *pointees_)});
    report.crash = ReadCrash(image_, *pointees_, report.threads[0].registers, abort_line);
    report.mistake = FindMistake(objects_->guarded(), report.crash);
    report.threads[0].stack.frames = {{.address = kCode, .exact = true}};
    return report;
  }
  std::string Answer(const std::string& abort_line = "") {
    return CrashAnswer(Report(abort_line), "");
  }

  static constexpr size_t kBytes = 48;
  char* const object_;
  void* const freed_;
  CrashedImage image_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<HeapObjects> objects_;
  std::unique_ptr<Pointees> pointees_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(CrashTest, NamesWhatIsNoAddress) {
  EXPECT_EQ(PointeeText(At(24)), "null and an offset of 24 bytes");
  EXPECT_EQ(At(UINT64_MAX).kind, Pointee::Kind::kMinus);
  EXPECT_EQ(At(kNowhere).kind, Pointee::Kind::kNothing);
  EXPECT_EQ(At(kNowhere).text, "");
  const Pointee text = At(0x4847464544434241);
  EXPECT_EQ(text.kind, Pointee::Kind::kNoAddress);
  EXPECT_EQ(text.text, "ABCDEFGH");
  EXPECT_TRUE(At(AddressOf(object_) | uint64_t{1} << 62).tagged);
}

TEST_F(CrashTest, AccessesAndTheirAddresses) {
  image_.SetCode("\x8b\x07");  // mov (%rdi),%eax
  image_.Set("rdi", kNowhere);
  image_.SetSignal(SIGSEGV, SEGV_MAPERR, kNowhere);
  EXPECT_EQ(Answer(), "SIGSEGV in thread 17: read of 0x900000, which is no memory.");
  image_.SetSignal(SIGSEGV, SEGV_ACCERR, kStack);
  EXPECT_HAS(Answer(), "which is on the stack of thread 17, where reading is not permitted.");
  // The kernel does not report the address, but the instruction shows it.
  image_.Set("rdi", 0x4141414141414141);
  image_.SetSignal(SIGSEGV, SI_KERNEL);
  EXPECT_HAS(Answer(), "read of 0x4141414141414141, which is no address");
}

TEST_F(CrashTest, JumpsToWhereNoCodeIs) {
  image_.SetSignal(SIGSEGV, SEGV_MAPERR, kNowhere);
  image_.Set("rip", kNowhere);
  EXPECT_EQ(Report().crash.cause, Crash::Cause::kJump);
  EXPECT_HAS(Answer(), "a jump to 0x900000, which is no memory.");
  image_.Set("rip", kCode);
  image_.SetCode("\xc3");  // ret
  image_.SetSignal(SIGSEGV, SI_KERNEL);
  EXPECT_HAS(Answer(), "a jump to 0x101010101010101, which is no address");
}

TEST_F(CrashTest, FindsWhereAWildPointerIs) {
  const uint64_t wild = kNowhere;
  memcpy(object_ + 16, &wild, sizeof(wild));
  memcpy(object_ + 32, &wild, sizeof(wild));
  image_.Set("rbx", AddressOf(object_));
  image_.SetSignal(SIGSEGV, SEGV_MAPERR, wild);
  const CrashReport report = Report();
  ASSERT_TRUE(report.crash.holder.has_value());
  EXPECT_EQ(report.crash.holder->offset, 16u);
  EXPECT_EQ(report.crash.holder->others, 1u);
  const std::string answer = CrashAnswer(report, "");
  EXPECT_HAS(answer, "This value is at offset 16 (and 1 times after it) of an object of 48 bytes");
  EXPECT_HAS(answer, "to which rbx points. If the program did not put it there");
}

TEST_F(CrashTest, StackOverflow) {
  image_.Set("rsp", kStack + 64);
  image_.SetSignal(SIGSEGV, SEGV_ACCERR, kStack - 128);
  CrashReport report = Report();
  EXPECT_EQ(report.crash.cause, Crash::Cause::kStackOverflow);
  EXPECT_HAS(CrashAnswer(report, ""), "the stack overflowed: access to 0x7fff80, 128 bytes below");
  // The access is far from the stack.
  image_.SetSignal(SIGSEGV, SEGV_MAPERR, kNowhere + (Address{1} << 30));
  EXPECT_EQ(Report().crash.cause, Crash::Cause::kAccess);
}

TEST(AbortLineTest, IsOneLineOfText) {
  FakeImage image;
  std::string memory = "tcmalloc: free of 0x10: double free\n";
  memory.resize(256);
  image.Put(0x5000, memory);
  EXPECT_EQ(ReadAbortLine(image, 0x5000), "tcmalloc: free of 0x10: double free");
  EXPECT_EQ(ReadAbortLine(image, 0x6000), "");
  image.Put(0x7000, std::string(256, 'x'));
  EXPECT_EQ(ReadAbortLine(image, 0x7000).size(), 256u);
}

}  // namespace
}  // namespace cli
