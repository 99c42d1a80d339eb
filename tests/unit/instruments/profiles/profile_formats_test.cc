// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <tuple>
#include <utility>

#include "instruments/profiles/profile.h"
#include "instruments/profiles/profile_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/in_child.h"
#include "testing/refuse_call.h"

namespace tcmalloc {
namespace {

std::string WrittenProto(const Profile& profile, std::string_view maps = kMaps) {
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  EXPECT_TRUE(libraries.Parse(maps, &ReadFakeImage));
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  EXPECT_TRUE(WriteProtoProfile(profile, libraries, vm, &sink));
  EXPECT_TRUE(sink.ok());
  return collector.text;
}

// Returns the only number of that field, or 0 if it is missing.
uint64_t Only(std::string_view message, uint32_t number) {
  const std::vector<uint64_t> values = Numbers(message, number);
  EXPECT_LE(values.size(), 1u);
  return values.empty() ? 0 : values[0];
}

// Returns the string whose number is in that field.
std::string_view String(std::string_view profile, std::string_view message, uint32_t number) {
  const std::vector<std::string_view> table = Texts(profile, 6);
  const uint64_t index = Only(message, number);
  EXPECT_LT(index, table.size());
  return index < table.size() ? table[static_cast<size_t>(index)] : std::string_view();
}

std::string TypeAndUnit(std::string_view profile, std::string_view message) {
  return std::string(String(profile, message, 1)) + "/" + std::string(String(profile, message, 2));
}

std::vector<std::string> SampleTypes(std::string_view profile) {
  std::vector<std::string> types;
  for (const std::string_view message : Texts(profile, 1)) {
    types.push_back(TypeAndUnit(profile, message));
  }
  return types;
}

TEST(ProtoFormatTest, Mappings) {
  KnownProfile known(ProfileKind::kHeap);
  const std::string text = WrittenProto(known.profile());
  std::vector<
      std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, std::string_view, std::string_view>>
      mappings;
  for (const std::string_view m : Texts(text, 3)) {
    mappings.emplace_back(Only(m, 1), Only(m, 2), Only(m, 3), Only(m, 4), String(text, m, 5),
                          String(text, m, 6));
    // If one of these fields were set, a reader would not look for names.
    for (uint32_t field = 7; field <= 10; ++field) EXPECT_TRUE(Numbers(m, field).empty());
  }
  const decltype(mappings) expected = {{1, 0x12000, 0x18000, 0x2000, "/bin/the program", ""},
                                       {2, 0x701000, 0x702000, 0x2000, "/lib/a;b.so", "a01f"}};
  EXPECT_EQ(mappings, expected);
  EXPECT_EQ(Texts(text, 6).at(0), "");
}

TEST(ProtoFormatTest, ProgramIsTheFirstMapping) {
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  // The program is mapped after a library.
  char maps[200];
  const unsigned long long entry = ProgramEntry();
  snprintf(maps, sizeof(maps),
           "1000-2000 r-xp 00000000 08:01 7 /lib/below\n"
           "%llx-%llx r-xp 00000000 08:01 8 /bin/program\n",
           entry - 1, entry + 1);
  KnownProfile known(ProfileKind::kHeap);
  const std::string text = WrittenProto(known.profile(), maps);
  ASSERT_EQ(Texts(text, 3).size(), 2u);
  EXPECT_EQ(String(text, Texts(text, 3)[0], 5), "/bin/program");
  EXPECT_EQ(Only(Texts(text, 3)[0], 1), 2u);
  EXPECT_EQ(String(text, Texts(text, 3)[1], 5), "/lib/below");
}

TEST(ProtoFormatTest, LocationsAreCallsInTheirMapping) {
  KnownProfile known(ProfileKind::kHeap);
  const std::string text = WrittenProto(known.profile());
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> locations;
  for (const std::string_view location : Texts(text, 4)) {
    EXPECT_TRUE(Texts(location, 4).empty());  // there are no lines
    const bool is_new =
        locations.emplace(Only(location, 1), std::pair(Only(location, 2), Only(location, 3)))
            .second;
    EXPECT_TRUE(is_new);
  }
  const decltype(locations) expected = {
      {1, {2, 0x701010}}, {2, {1, 0x12344}}, {3, {0, 0xabb}}, {4, {1, 0x12345}}};
  EXPECT_EQ(locations, expected);
}

struct WrittenSample {
  std::vector<uint64_t> locations;
  std::vector<uint64_t> values;
  uint64_t object_size;
  bool operator==(const WrittenSample&) const = default;
};

std::vector<WrittenSample> Samples(std::string_view text) {
  std::vector<WrittenSample> samples;
  for (const std::string_view message : Texts(text, 2)) {
    WrittenSample sample = {TakeVarints(Texts(message, 1).at(0)),
                            TakeVarints(Texts(message, 2).at(0)), 0};
    for (const std::string_view label : Texts(message, 3)) {
      EXPECT_EQ(String(text, label, 1), "bytes");
      EXPECT_EQ(String(text, label, 4), "bytes");
      EXPECT_EQ(sample.object_size, 0u);
      sample.object_size = Only(label, 3);
    }
    samples.push_back(sample);
  }
  return samples;
}

TEST(ProtoFormatTest, HeapProfiles) {
  const std::vector<WrittenSample> samples = {{{1, 2, 3}, {100, 4800, 43, 2040}, 48},
                                              {{1, 2, 3}, {1, 100'000, 1, 100'000}, 100'000},
                                              {{4, 2}, {300, 3000, 0, 0}, 0}};
  for (const ProfileKind kind : {ProfileKind::kHeap, ProfileKind::kPeakHeap}) {
    KnownProfile known(kind);
    const std::string text = WrittenProto(known.profile());
    EXPECT_EQ(SampleTypes(text),
              (std::vector<std::string>{"alloc_objects/count", "alloc_space/bytes",
                                        "inuse_objects/count", "inuse_space/bytes"}));
    EXPECT_EQ(String(text, text, 14), "inuse_space");
    EXPECT_EQ(Samples(text), samples);
    EXPECT_EQ(Only(text, 9), 1'700'000'000'123'456'789u);
    EXPECT_EQ(Only(text, 10), 2'000'000'000u);
    EXPECT_EQ(TypeAndUnit(text, Texts(text, 11).at(0)), "space/bytes");
    EXPECT_EQ(Only(text, 12), 1000u);
  }
}

TEST(ProtoFormatTest, LabelsOfGuessedStacks) {
  static constexpr uintptr_t kFrames[] = {0x701011};
  ProfileEntry entries[3];
  for (ProfileEntry& entry : entries) {
    entry.frames = kFrames;
    entry.depth = 1;
    entry.estimated_live_bytes = 100;
  }
  entries[0].guessed_stack = true;
  entries[0].object_size = 48;
  entries[0].age_at_least_ms = 60'000;
  entries[1].age_at_least_ms = 0;
  Profile profile;
  profile.entries = entries;
  profile.num_entries = 3;
  const std::string text = WrittenProto(profile);
  using Label = std::tuple<std::string, uint64_t, std::string>;
  std::vector<std::vector<Label>> labels;
  for (const std::string_view message : Texts(text, 2)) {
    labels.emplace_back();
    for (const std::string_view label : Texts(message, 3)) {
      labels.back().emplace_back(String(text, label, 1), Only(label, 3), String(text, label, 4));
    }
  }
  const std::vector<std::vector<Label>> expected = {
      {{"bytes", 48, "bytes"}, {"guessed_stack", 1, ""}, {"age", 60'000, "milliseconds"}},
      {{"age", 0, "milliseconds"}},
      {}};
  EXPECT_EQ(labels, expected);
}

TEST(ProtoFormatTest, WithoutMemory) {
  KnownProfile known(ProfileKind::kHeap);
  size_t failures = 0;
  for (size_t nth = 1;; ++nth) {
    FakeVirtualMemory vm;
    const MappedLibraries libraries(vm);
    Collector collector;
    ByteSink sink(&Collector::Take, &collector);
    vm.FailMap(nth);
    const bool ok = WriteProtoProfile(known.profile(), libraries, vm, &sink);
    EXPECT_EQ(vm.mapped_bytes(), 0u);
    EXPECT_EQ(ok, vm.map_failures() == 0);
    if (ok) break;
    ++failures;
  }
  EXPECT_EQ(failures, 2u);  // one for the table of addresses, and one for the numbers of a stack
}

using namespace std::string_view_literals;

TEST(ProtoWriterTest, EncodesNumbers) {
  char buffer[100];
  TextWriter text(buffer, sizeof(buffer));
  ProtoWriter writer(&text);
  writer.Number(1, 0);  // not written
  writer.Number(1, 1);
  writer.Number(2, 127);
  writer.Number(15, 128);
  writer.Number(16, 300);
  writer.Number(3, UINT64_MAX);
  EXPECT_EQ(text.text(),
            "\x08\x01\x10\x7f\x78\x80\x01\x80\x01\xac\x02"
            "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv);
}

}  // namespace

namespace {

constexpr ProfileFormat kFormats[] = {ProfileFormat::kProto, ProfileFormat::kLegacyText,
                                      ProfileFormat::kFolded};

std::string Written(const Profile& profile, ProfileFormat format) {
  Collector collector;
  EXPECT_TRUE(WriteProfile(profile, format, &Collector::Take, &collector));
  return collector.text;
}

// A process that may open no file writes the same profile without libraries.
TEST(WriteProfileTest, WithoutProc) {
  const int result = InChild([] {
    KnownProfile known(ProfileKind::kHeap);
    if (!RefuseCall(SYS_openat, O_RDONLY | O_CLOEXEC, EACCES)) return 77;
    if (open("/proc/self/maps", O_RDONLY | O_CLOEXEC) >= 0) return 2;
    Collector text, folded, proto;
    for (const auto& [format, collector] : {std::pair(ProfileFormat::kLegacyText, &text),
                                            {ProfileFormat::kFolded, &folded},
                                            {ProfileFormat::kProto, &proto}}) {
      if (!WriteProfile(known.profile(), format, &Collector::Take, collector)) return 3;
    }
    if (!text.text.ends_with("\n\nMAPPED_LIBRARIES:\n")) return 4;
    if (!folded.text.ends_with("\n0xabb;0x12344;0x701010 100000\n")) return 5;
    return proto.text.size() > 100 ? 0 : 6;
  });
  if (result == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(result, 0);
}

TEST(WriteProfileTest, FailingSinkFails) {
  KnownProfile known(ProfileKind::kHeap);
  for (const ProfileFormat format : kFormats) {
    const std::string whole = Written(known.profile(), format);
    for (const size_t limit : {size_t{0}, whole.size() / 2}) {
      Collector collector;
      collector.limit = limit;
      EXPECT_FALSE(WriteProfile(known.profile(), format, &Collector::Take, &collector));
      EXPECT_EQ(collector.refusals, 1u);
    }
  }
}

TEST(WriteProfileTest, ToAFile) {
  KnownProfile known(ProfileKind::kHeap);
  FILE* const file = tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(WriteProfileToFile(known.profile(), ProfileFormat::kFolded, fileno(file)));
  char text[4096] = "";
  rewind(file);
  EXPECT_GT(fread(text, 1, sizeof(text) - 1, file), 0u);
  fclose(file);
  EXPECT_EQ(text, Written(known.profile(), ProfileFormat::kFolded));
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  for (const ProfileFormat format : kFormats) {
    EXPECT_FALSE(WriteProfileToFile(known.profile(), format, full));
    EXPECT_FALSE(WriteProfileToFile(known.profile(), format, -1));
  }
  close(full);
}

std::string WrittenFolded(const Profile& profile, std::string_view maps) {
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  EXPECT_TRUE(libraries.Parse(maps, &ReadFakeImage));
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  WriteFoldedProfile(profile, libraries, &sink);
  EXPECT_TRUE(sink.ok());
  return collector.text;
}

TEST(FoldedFormatTest, OutermostFrameFirstWithFileOffsets) {
  KnownProfile known(ProfileKind::kHeap);
  // The second stack has no live objects.
  EXPECT_EQ(WrittenFolded(known.profile(), kMaps),
            "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 2040\n"
            "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 100000\n");
}

TEST(FoldedFormatTest, AllocationsShowAllocatedBytes) {
  for (const ProfileKind kind : {ProfileKind::kAllocations, ProfileKind::kGrowth}) {
    KnownProfile known(kind);
    EXPECT_EQ(WrittenFolded(known.profile(), kMaps),
              "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 4800\n"
              "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 100000\n"
              "/bin/the program+0x2344;/bin/the program+0x2345 3000\n");
  }
}

std::string WrittenText(const Profile& profile) {
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  WriteLegacyProfile(profile, &sink);
  EXPECT_TRUE(sink.ok());
  return collector.text;
}

TEST(LegacyFormatTest, SampledHeap) {
  KnownProfile known(ProfileKind::kHeap, 524288);
  constexpr char kExpected[] =
      "heap profile: 3: 100096 [9: 100270] @ heap_v2/524288\n"
      "2: 96 [5: 240] @ 0x701011 0x12345 0xabc\n"
      "1: 100000 [1: 100000] @ 0x701011 0x12345 0xabc\n"
      "0: 0 [3: 30] @ 0x12346 0x12345\n"
      "\nMAPPED_LIBRARIES:\n";
  EXPECT_EQ(WrittenText(known.profile()), kExpected);
  known.profile().kind = ProfileKind::kPeakHeap;
  EXPECT_EQ(WrittenText(known.profile()), kExpected);
}

TEST(LegacyFormatTest, FirstLinesOfOtherKinds) {
  KnownProfile complete(ProfileKind::kHeap, 0);
  EXPECT_TRUE(WrittenText(complete.profile())
                  .starts_with("heap profile: 3: 100096 [9: 100270] @ heapprofile\n2: 96 [5: "));
  KnownProfile allocations(ProfileKind::kAllocations);
  EXPECT_TRUE(WrittenText(allocations.profile())
                  .starts_with("heap profile: 9: 100270 [9: 100270] @ heap_v2/1000\n5: 240 [5: "));
}

TEST(LegacyFormatTest, GrowthKeepsTheOrder) {
  KnownProfile known(ProfileKind::kGrowth, 0);
  EXPECT_EQ(WrittenText(known.profile()),
            "heap profile: 9: 100270 [9: 100270] @ growth\n"
            "5: 240 [5: 240] @ 0x701011 0x12345 0xabc\n"
            "1: 100000 [1: 100000] @ 0x701011 0x12345 0xabc\n"
            "3: 30 [3: 30] @ 0x12346 0x12345\n"
            "\nMAPPED_LIBRARIES:\n");
}

}  // namespace
}  // namespace tcmalloc
