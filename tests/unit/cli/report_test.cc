// SPDX-License-Identifier: BSD-3-Clause
// Reports of made-up profiles.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/call_sites.h"
#include "report/folded.h"
#include "report/page.h"
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

TEST(ReportTest, FoldedStacksHaveALineEach) {
  EXPECT_EQ(FoldedOf(Sites()),
            "main;Load<int>;xmalloc 4000\n"
            "main;a_b_c</script>&\"\x01\xff;Load<int>;xmalloc 2500\n");
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

}  // namespace
}  // namespace cli
