// SPDX-License-Identifier: BSD-3-Clause
// Reports of made-up profiles.
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "report/call_sites.h"
#include "report/flame_graph.h"
#include "report/folded.h"
#include "report/legacy.h"
#include "report/page.h"
#include "report/pprof.h"
#include "report/profile_report.h"
#include "report/proto_writer.h"

namespace cli {
namespace {

// The names of the functions at the addresses before the return addresses 10, 20 and 30.
const std::vector<SourceFrame>& NamesAt(Address address) {
  static const std::vector<SourceFrame> kInner = {
      {.function = "xmalloc", .file = "/src/x.c", .line = 7, .inlined = true},
      {.function = "Load<int>", .linkage_name = "_Z4LoadIiE", .file = "/src/load.cc", .line = 40}};
  static const std::vector<SourceFrame> kMiddle = {{.function = "a;b\nc</script>&\"\x01\xff"}};
  static const std::vector<SourceFrame> kOuter = {{.function = "main"}};
  return address == 9 ? kInner : address == 19 ? kMiddle : kOuter;
}

Profile MadeUp() {
  return {.interval = 1000,
          .entries = {{.frames = {10, 20, 30},
                       .object_bytes = 100,
                       .samples = 2,
                       .in_use_objects = 20,
                       .in_use_bytes = 2000,
                       .allocated_objects = 20,
                       .allocated_bytes = 2000},
                      {.frames = {10, 20, 30},
                       .object_bytes = 50,
                       .samples = 1,
                       .in_use_objects = 10,
                       .in_use_bytes = 500,
                       .allocated_objects = 10,
                       .allocated_bytes = 500},
                      {.frames = {10, 30},
                       .object_bytes = 4000,
                       .samples = 1,
                       .in_use_objects = 1,
                       .in_use_bytes = 4000,
                       .allocated_objects = 1,
                       .allocated_bytes = 4000}}};
}

std::vector<CallSite> Sites() { return CallSitesOf(MadeUp(), &NamesAt); }

TEST(CallSitesTest, AddSizesUpAndShowInlinedFunctions) {
  const std::vector<CallSite> sites = Sites();
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_EQ(sites[0].bytes, 4000);
  EXPECT_EQ(sites[1].bytes, 2500);
  EXPECT_EQ(sites[1].objects, 30);
  EXPECT_EQ(sites[1].samples, 3u);
  ASSERT_EQ(sites[0].frames.size(), 3u);
  EXPECT_EQ(sites[0].frames[1]->function, "Load<int>");
  EXPECT_EQ(OwnFrame(sites[0]), 1u);  // xmalloc only allocates
  EXPECT_EQ(TotalBytes(sites), 6500);
  EXPECT_EQ(TotalSamples(sites), 4u);
}

TEST(CallSitesTest, FramesOfTheAllocatorAreLeftOut) {
  const NameFrames names = [](Address address) -> const std::vector<SourceFrame>& {
    static const std::vector<SourceFrame> kOwn = {
        {.function = "tcmalloc::(anonymous namespace)::AllocateLarge"},
        {.function = "Allocate<tcmalloc::(anonymous namespace)::MallocSlow>"},
        {.function = "tc_malloc"}};
    static const std::vector<SourceFrame> kProgram = {{.function = "main"}};
    return address < 10 ? kOwn : kProgram;
  };
  Profile profile = MadeUp();
  profile.entries.resize(1);
  const std::vector<CallSite> sites = CallSitesOf(profile, names);
  ASSERT_EQ(sites[0].frames.size(), 2u);
  EXPECT_EQ(sites[0].frames[0]->function, "main");
}

TEST(CallSitesTest, OwnFrameIsOutsideOfTheLanguagesLibraries) {
  const SourceFrame vector{.function = "std::vector<int, std::allocator<int> >::push_back"};
  const SourceFrame rust{.function = "<alloc::vec::Vec<T> as core::iter::Extend>::extend"};
  const SourceFrame own{.function = "Pool<std::allocator<int> >::Get"};
  CallSite site{.frames = {&vector, &rust, &own}};
  EXPECT_EQ(OwnFrame(site), 2u);
  site.frames.pop_back();
  EXPECT_EQ(OwnFrame(site), 0u);
}

TEST(ReportTest, TextNamesTheCallSiteAndItsCallers) {
  const std::string text = CallSitesText(Sites(), 1, 1);
  EXPECT_NE(text.find("3.9 KiB   61.5%           1 objects  Load<int> (load.cc:40)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  main\n"), std::string::npos) << text;
  EXPECT_NE(text.find("and 1 more call sites"), std::string::npos) << text;
}

TEST(ReportTest, JsonHasAllFramesAndIsUtf8) {
  const auto json = nlohmann::json::parse(DumpJson(CallSitesJson(Sites())));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["bytes"], 2500);
  EXPECT_EQ(json[1]["frames"].size(), 4u);
  EXPECT_EQ(json[1]["frames"][0]["inlined"], true);
  EXPECT_EQ(json[1]["frames"][1]["line"], 40);
}

TEST(ReportTest, FoldedStacksHaveALineEach) {
  EXPECT_EQ(FoldedOf(Sites()),
            "main;Load<int>;xmalloc 4000\n"
            "main;a_b_c</script>&\"\x01\xff;Load<int>;xmalloc 2500\n");
}

TEST(ReportTest, TheFlameGraphIsXml) {
  const std::string svg = FlameGraphOf(Sites(), "a < b");
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("a;b?c&lt;/script&gt;&amp;&quot;?? (2.4 KiB, 38.5%, 30 objects)"),
            std::string::npos)
      << svg;
  EXPECT_NE(FlameGraphOf({}, "nothing").find("</svg>"), std::string::npos);
}

TEST(ReportTest, NothingEndsThePagesScript) {
  const std::vector<CallSite> sites = Sites();
  const std::string html =
      HtmlOf({.title = "</script>", .sites = &sites, .timeline = {{1, 2, 3, 4}}});
  size_t ends = 0;
  for (size_t at = html.find("</script>"); at != std::string::npos;
       at = html.find("</script>", at + 1)) {
    ++ends;
  }
  EXPECT_EQ(ends, 2u);
  EXPECT_NE(html.find("\"timeline\":[[1,2,3,4]]"), std::string::npos);
  EXPECT_EQ(html.find("/*DATA*/"), std::string::npos);
}

TEST(ReportTest, LegacyTextHasSamplesOrEstimates) {
  Profile profile = MadeUp();
  EXPECT_EQ(LegacyOf(profile, "maps\n"),
            "heap profile: 4: 4250 [4: 4250] @ heap_v2/1000\n"
            "2: 200 [2: 200] @ 0xa 0x14 0x1e\n"
            "1: 50 [1: 50] @ 0xa 0x14 0x1e\n"
            "1: 4000 [1: 4000] @ 0xa 0x1e\n"
            "\nMAPPED_LIBRARIES:\nmaps\n");
  profile.interval = 0;
  EXPECT_EQ(LegacyOf(profile, "").substr(0, 53),
            "heap profile: 31: 6500 [31: 6500] @ heapprofile\n20: 2");
}

TEST(ProtoWriterTest, WireFormat) {
  ProtoWriter inner;
  inner.Number(1, 300);
  inner.Number(2, 0);
  ProtoWriter message;
  message.Message(3, inner);
  message.Text(4, "ab");
  message.Numbers(5, {1, 128});
  EXPECT_EQ(message.bytes(), std::string("\x1a\x03\x08\xac\x02\x22\x02"
                                         "ab"
                                         "\x2a\x03\x01\x80\x01"));
}

TEST(PprofTest, IsCompressedAndHasNames) {
  const std::vector<Module> modules = {{.start = 0, .end = 25, .path = "/lib/x.so"},
                                       {.start = 26, .end = 40, .path = "/bin/program"}};
  const std::string packed = PprofOf(MadeUp(), modules, "/bin/program", &NamesAt);
  std::string plain(100000, '\0');
  z_stream stream = {};
  ASSERT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(plain.size());
  ASSERT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  plain.resize(stream.total_out);
  inflateEnd(&stream);
  for (const char* text :
       {"Load<int>", "_Z4LoadIiE", "/src/load.cc", "inuse_space", "/bin/program"}) {
    EXPECT_NE(plain.find(text), std::string::npos) << text;
  }
  EXPECT_LT(plain.find("/bin/program"), plain.find("/lib/x.so"));
}

}  // namespace
}  // namespace cli
