// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>

#include <sstream>
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

// Returns a line for each sample: its locations, values and labels.
std::string Samples(std::string_view profile) {
  std::ostringstream lines;
  for (const std::string_view sample : Texts(profile, 2)) {
    lines << "sample";
    for (const uint64_t location : TakeVarints(Texts(sample, 1).at(0))) lines << ' ' << location;
    lines << ':';
    for (const uint64_t value : TakeVarints(Texts(sample, 2).at(0))) lines << ' ' << value;
    for (const std::string_view label : Texts(sample, 3)) {
      lines << ", " << String(profile, label, 1) << ' ' << Only(label, 3);
      lines << ' ' << String(profile, label, 4);
    }
    lines << '\n';
  }
  return lines.str();
}

// Returns a line for each type of values, mapping, location and sample.
std::string Described(std::string_view profile) {
  std::ostringstream lines;
  for (const std::string_view type : Texts(profile, 1)) lines << TypeAndUnit(profile, type) << '\n';
  lines << std::hex;
  for (const std::string_view m : Texts(profile, 3)) {
    lines << "mapping " << Only(m, 1) << ": " << Only(m, 2) << '-' << Only(m, 3) << " +"
          << Only(m, 4) << ' ' << String(profile, m, 5) << ' ' << String(profile, m, 6) << '\n';
    // If one of these fields were set, a reader would not look for names.
    for (uint32_t field = 7; field <= 10; ++field) EXPECT_TRUE(Numbers(m, field).empty());
  }
  for (const std::string_view location : Texts(profile, 4)) {
    lines << "location " << Only(location, 1) << ": mapping " << Only(location, 2) << ", "
          << Only(location, 3) << '\n';
    EXPECT_TRUE(Texts(location, 4).empty());  // there are no lines
  }
  return lines.str() + Samples(profile);
}

TEST(ProtoFormatTest, HeapProfiles) {
  for (const ProfileKind kind : {ProfileKind::kHeap, ProfileKind::kPeakHeap}) {
    KnownProfile known(kind);
    const std::string text = WrittenProto(known.profile());
    // Locations are calls, one byte before the return addresses.
    EXPECT_EQ(Described(text),
              "alloc_objects/count\n"
              "alloc_space/bytes\n"
              "inuse_objects/count\n"
              "inuse_space/bytes\n"
              "mapping 1: 12000-18000 +2000 /bin/the program \n"
              "mapping 2: 701000-702000 +2000 /lib/a;b.so a01f\n"
              "location 1: mapping 2, 701010\n"
              "location 2: mapping 1, 12344\n"
              "location 3: mapping 0, abb\n"
              "location 4: mapping 1, 12345\n"
              "sample 1 2 3: 100 4800 43 2040, bytes 48 bytes\n"
              "sample 1 2 3: 1 100000 1 100000, bytes 100000 bytes\n"
              "sample 4 2: 300 3000 0 0\n");
    EXPECT_EQ(String(text, text, 14), "inuse_space");
    EXPECT_EQ(Only(text, 9), 1'700'000'000'123'456'789u);
    EXPECT_EQ(Only(text, 10), 2'000'000'000u);
    EXPECT_EQ(TypeAndUnit(text, Texts(text, 11).at(0)), "space/bytes");
    EXPECT_EQ(Only(text, 12), 1000u);
    EXPECT_EQ(Texts(text, 6).at(0), "");
  }
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
  EXPECT_EQ(Samples(WrittenProto(profile)),
            "sample 1: 0 0 0 100, bytes 48 bytes, guessed_stack 1 , age 60000 milliseconds\n"
            "sample 1: 0 0 0 100, age 0 milliseconds\n"
            "sample 1: 0 0 0 100\n");
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

TEST(LegacyFormatTest, EachKind) {
  const std::string sampled =
      "heap profile: 3: 100096 [9: 100270] @ heap_v2/524288\n"
      "2: 96 [5: 240] @ 0x701011 0x12345 0xabc\n"
      "1: 100000 [1: 100000] @ 0x701011 0x12345 0xabc\n"
      "0: 0 [3: 30] @ 0x12346 0x12345\n"
      "\nMAPPED_LIBRARIES:\n";
  // In the order of the entries.
  const std::string growth =
      "heap profile: 9: 100270 [9: 100270] @ growth\n"
      "5: 240 [5: 240] @ 0x701011 0x12345 0xabc\n"
      "1: 100000 [1: 100000] @ 0x701011 0x12345 0xabc\n"
      "3: 30 [3: 30] @ 0x12346 0x12345\n"
      "\nMAPPED_LIBRARIES:\n";
  const struct {
    ProfileKind kind;
    size_t sample_period;
    std::string begin;
  } kCases[] = {
      {ProfileKind::kHeap, 524288, sampled},
      {ProfileKind::kPeakHeap, 524288, sampled},
      {ProfileKind::kHeap, 0,
       "heap profile: 3: 100096 [9: 100270] @ heapprofile\n2: 96 [5: 240] @"},
      {ProfileKind::kAllocations, 1000,
       "heap profile: 9: 100270 [9: 100270] @ heap_v2/1000\n5: 240 [5: 240] @"},
      {ProfileKind::kGrowth, 0, growth},
  };
  for (const auto& [kind, sample_period, begin] : kCases) {
    KnownProfile known(kind, sample_period);
    EXPECT_EQ(WrittenText(known.profile()).substr(0, begin.size()), begin);
  }
}

}  // namespace
}  // namespace tcmalloc
