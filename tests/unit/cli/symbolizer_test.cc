// SPDX-License-Identifier: BSD-3-Clause
// Reads modules and names of this process, and of files that have changed.
#include "image/symbolizer.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/fake_image.h"
#include "image/module_files.h"
#include "image/process_image.h"

namespace cli {
namespace {

TEST(DemangleTest, NamesOfSeveralLanguages) {
  const std::pair<const char*, const char*> kNames[] = {
      {"malloc", "malloc"},
      {"_ZN4shop5StoreIdE4FillEm", "shop::Store<double>::Fill"},
      {"_ZN12_GLOBAL__N_13runEv", "(anonymous namespace)::run"},
      {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"},
      {"_Znwm", "operator new"},
      {"_ZN5alloc5alloc15exchange_malloc17h0123456789abcdefE", "alloc::alloc::exchange_malloc"},
      {"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
      {"_Z", "_Z"},
      {"_ZN9999999999E", "_ZN9999999999E"},
      {"", ""},
  };
  for (const auto& [mangled, name] : kNames) EXPECT_EQ(Demangle(mangled), name);
}

// The library of lines.s, as if it were in memory at kBias.
class LinesTest : public testing::Test {
 protected:
  // "function (file:line)" at the offset from a symbol of the library.
  std::string At(const char* symbol, Address offset) {
    const SourceFrame frame = info_.FramesAt(kBias + AddressOf(symbol) + offset).back();
    // Some assemblers write the folder of the file.
    const std::string file = std::filesystem::path(frame.file).filename();
    return frame.function + " (" + file + ":" + std::to_string(frame.line) + ")";
  }

 private:
  static constexpr Address kBias = 0x7f0000000000;

  static Address AddressOf(const char* symbol) {
    void* const library = dlopen(LINES_LIBRARY, RTLD_NOW);
    Dl_info info = {};
    void* const place = dlsym(library, symbol);
    EXPECT_NE(dladdr(place, &info), 0) << dlerror();
    return reinterpret_cast<Address>(place) - reinterpret_cast<Address>(info.dli_fbase);
  }
  static Module LinesModule() {
    Module module{.start = kBias, .end = kBias + 0x10000, .bias = kBias, .path = LINES_LIBRARY};
    std::ifstream file(LINES_LIBRARY, std::ios::binary);
    module.head.resize(sizeof(Elf64_Ehdr));
    file.read(module.head.data(), static_cast<std::streamsize>(module.head.size()));
    return module;
  }

  FileSearch files_{0};
  DebugInfo info_{LinesModule(), files_};
};

TEST_F(LinesTest, OfAddressesThatHaveOne) {
  EXPECT_EQ(At("first", 0), "first (lines.c:10)");
  EXPECT_EQ(At("first", 1), "first (lines.c:11)");
  EXPECT_EQ(At("last", 16), "last (lines.c:20)");
  EXPECT_EQ(At("last", 17), "last (lines.c:20)");
}

TEST_F(LinesTest, NoneOfAnotherFunction) {
  EXPECT_EQ(At("between", 0), "between (:0)");
  EXPECT_EQ(At("between", 60), "between (:0)");
  EXPECT_EQ(At("after", 0), "after (:0)");
  EXPECT_EQ(At("after", 60), "after (:0)");
  EXPECT_EQ(At("last", 8), "last (:0)");
}

// A copy of this program in a file, as a module of this process.
class ModuleOfFile : public testing::Test {
 protected:
  ModuleOfFile() {
    std::filesystem::copy_file("/proc/self/exe", path_);
    LiveImage image(getpid());
    for (const Module& module : ReadModules(image)) {
      if (module.path == std::filesystem::read_symlink("/proc/self/exe")) module_ = module;
    }
    module_.path = path_;
    module_.start = 0;  // not mapped here
  }
  ~ModuleOfFile() override { std::filesystem::remove(path_); }

  ModuleFile Open() {
    ModuleFile file = OpenModuleFile(FileSearch(getpid()), module_);
    if (file.descriptor >= 0) close(file.descriptor);
    return file;
  }

  const std::string path_ = testing::TempDir() + "module_" + std::to_string(getpid());
  Module module_;
};

TEST_F(ModuleOfFile, ThatIsTheOneInMemory) {
  EXPECT_GE(Open().descriptor, 0);
  module_.build_id.clear();
  EXPECT_GE(Open().descriptor, 0);  // its headers identify it
}

TEST_F(ModuleOfFile, ThatWasReplaced) {
  module_.build_id = "0123456789";
  const ModuleFile file = Open();
  EXPECT_LT(file.descriptor, 0);
  EXPECT_NE(file.problem.find(path_ + " was replaced: the process has build id 0123456789"),
            std::string::npos)
      << file.problem;
  module_.build_id.clear();
  module_.head.back() ^= 1;
  EXPECT_LT(Open().descriptor, 0);
  EXPECT_NE(Open().problem.find("it was replaced"), std::string::npos);
}

TEST_F(ModuleOfFile, ThatIsAPipe) {
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  module_.build_id = "0123456789";
  EXPECT_LT(Open().descriptor, 0);  // must not wait for a writer
}

}  // namespace
}  // namespace cli
