// SPDX-License-Identifier: BSD-3-Clause
#include "heap/types.h"

#include <algorithm>
#include <cstring>

#include "heap/profile.h"

namespace cli {
namespace {

constexpr size_t kMostListed = 50'000'000;
// The words of an object that are examined: the first word, and words after a length or a header.
constexpr size_t kWords = 3;
constexpr size_t kMostStartBytes = kWords * sizeof(uint64_t);
// Adjacent objects are read together.
constexpr size_t kBlockBytes = size_t{64} << 10;

class ContentsReader {
 public:
  explicit ContentsReader(Image& image) : image_(image) {}

  // Copies the bytes; false when they are not readable.
  bool Read(Address address, void* out, size_t bytes) {
    const Address start = address / kBlockBytes * kBlockBytes;
    if (start != start_) {
      start_ = start;
      readable_ = image_.ReadMuch(start, block_.data(), block_.size());
    }
    if (!readable_ || address + bytes > start + kBlockBytes) {
      return image_.ReadMuch(address, out, bytes);
    }
    memcpy(out, &block_[address - start], bytes);
    return true;
  }

 private:
  Image& image_;
  std::vector<char> block_ = std::vector<char>(kBlockBytes);
  Address start_ = 1;  // no block starts at this address
  bool readable_ = false;
};

// The memory that a core file may lack, since the process never wrote it. The memory is zero; the
// mappings are sorted by start.
std::vector<Mapping> UnwrittenMemory(Image& image) {
  std::vector<Mapping> mappings = image.Mappings();
  std::erase_if(mappings, [](const Mapping& mapping) { return !mapping.unwritten; });
  std::sort(mappings.begin(), mappings.end(),
            [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
  return mappings;
}

bool Holds(const std::vector<Mapping>& mappings, Address address) {
  const auto after =
      std::upper_bound(mappings.begin(), mappings.end(), address,
                       [](Address value, const Mapping& mapping) { return value < mapping.start; });
  return after != mappings.begin() && address < std::prev(after)->end;
}

}  // namespace

ListedObjects ListObjects(const HeapObjects& objects) {
  ListedObjects list;
  objects.ForEachSpan([&](const SpanInfo& span) {
    uint32_t sample = 0;
    if (span.sample != 0) {
      list.stacks.push_back(ReadSample(objects.target(), span.sample).frames);
      sample = static_cast<uint32_t>(list.stacks.size());
    }
    objects.ForEachInUse(span, [&](const Object& object) {
      if (list.objects.size() == kMostListed) {
        throw Failure("there are more than 50 million objects, which types cannot list");
      }
      list.objects.push_back({.start = object.start,
                              .bytes = object.bytes,
                              .sample = sample,
                              .large = span.has_large_object()});
    });
  });
  std::sort(list.objects.begin(), list.objects.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  return list;
}

ObjectTypes FindTypes(const ListedObjects& list, Image& contents, size_t word_bytes,
                      const std::function<const std::string&(Address)>& type_of) {
  ObjectTypes found;
  ContentsReader reader(contents);
  const std::vector<Mapping> unwritten = UnwrittenMemory(contents);
  for (const ListedObjects::Entry& object : list.objects) {
    found.all.Add(object.bytes);
    char start[kMostStartBytes] = {};
    const size_t bytes = std::min<uint64_t>(object.bytes, kWords * word_bytes);
    const bool readable = reader.Read(object.start, start, bytes);
    if (!readable && !Holds(unwritten, object.start)) found.unread.Add(object.bytes);
    bool typed = false;
    for (size_t at = 0; readable && !typed && at + word_bytes <= bytes; at += word_bytes) {
      Address word = 0;
      memcpy(&word, start + at, word_bytes);
      const std::string& type = type_of(word);
      if (type.empty()) continue;
      typed = true;
      found.types[{type, at}].Add(object.bytes);
      found.typed.Add(object.bytes);
    }
    if (typed) continue;
    if (object.sample == 0) {
      found.sizes[object.large ? 0 : object.bytes].Add(object.bytes);
      continue;
    }
    found.sampled.Add(object.bytes);
    found.sites.entries.push_back({.frames = list.stacks[object.sample - 1],
                                   .object_bytes = object.bytes,
                                   .samples = 1,
                                   .in_use_objects = 1,
                                   .in_use_bytes = static_cast<double>(object.bytes)});
  }
  return found;
}

}  // namespace cli
