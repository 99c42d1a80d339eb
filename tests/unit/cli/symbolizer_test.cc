// SPDX-License-Identifier: BSD-3-Clause
// Demangles names, and reads a library's line table and files that were replaced. tests/command
// reads the files of processes.
#include "image/symbolizer.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "image/module_files.h"
#include "image/process_image.h"
#include "testing/fake_tree.h"

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

// A module that claims to be a file must be that file: by its build ID or, without one, its
// headers.
TEST(ModuleFileTest, ThatWasReplaced) {
  const tcmalloc::FakeTree tree;
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  Module module;
  LiveImage image(getpid());
  for (const Module& each : ReadModules(image)) {
    if (each.path == program) module = each;
  }
  module.path = tree.Path("/copy");
  module.start = 0;  // not mapped here
  std::filesystem::copy_file(program, module.path);
  const auto problem = [&module] {
    const ModuleFile file = OpenModuleFile(FileSearch(getpid()), module);
    if (file.descriptor >= 0) close(file.descriptor);
    return file.descriptor >= 0 ? "none" : file.problem;
  };
  EXPECT_EQ(problem(), "none");
  module.build_id = "0123456789";
  EXPECT_TRUE(problem().starts_with(module.path + " was replaced: the process has build id 0123"))
      << problem();
  module.build_id.clear();
  EXPECT_EQ(problem(), "none");
  module.head.back() ^= 1;
  EXPECT_TRUE(problem().ends_with("it was replaced")) << problem();
}

}  // namespace
}  // namespace cli
