// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <tuple>

#include "instruments/profiles/profile_fixture.h"
#include "instruments/profiles/profile_formats.h"
#include "testing/fake_virtual_memory.h"

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
  EXPECT_EQ(failures, 2u);  // for the table of addresses and for the numbers of a stack
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

}  // namespace tcmalloc
