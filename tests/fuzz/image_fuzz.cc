// SPDX-License-Identifier: BSD-3-Clause
// The readers of the tcmalloc command on a heap with wrong numbers: they end, or throw Failure. The
// heap is this process's own, copied once. An input is a sequence of changes at places that the
// readers read, or, if it begins with '#', the text of a field table.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "cli/patched_image.h"
#include "heap/record.h"
#include "image/find_root.h"
#include "image/process_image.h"

extern "C" {
void* tc_malloc(size_t size);
void tc_free(void* object);
extern char tcmalloc_introspection[];
}

namespace {

using namespace cli;

// A heap with objects of all kinds, and the places in it that the readers read.
class SoundHeap {
 public:
  SoundHeap() : live_(getpid()), copy_(live_), recording_(copy_) {
    std::vector<void*> objects;
    for (size_t i = 0; i < 2000; ++i) objects.push_back(tc_malloc(i * 37 % 9000));
    objects.push_back(tc_malloc(1'000'000));
    for (size_t i = 0; i < 2000; i += 3) tc_free(objects[i]);
    inside_ = reinterpret_cast<Address>(objects[1]);
    const auto root = FindRoot(live_);
    if (!root.has_value() || root->address != reinterpret_cast<Address>(&tcmalloc_introspection)) {
      abort();
    }
    root_ = *root;
    ReadEverything(recording_, root_, inside_);
  }

  Image& copy() { return copy_; }
  const Root& root() const { return root_; }
  Address inside() const { return inside_; }
  const std::vector<std::pair<Address, size_t>>& reads() const { return recording_.reads(); }

 private:
  LiveImage live_;
  CopiedImage copy_;
  RecordingImage recording_;
  Root root_;
  Address inside_ = 0;
};

void ReadTable(std::string_view text) {
  try {
    Layout().Parse(text);
  } catch (const BadImage&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static SoundHeap heap;
  if (size > 0 && data[0] == '#') {
    ReadTable({reinterpret_cast<const char*>(data) + 1, size - 1});
    return 0;
  }
  PatchedImage image(heap.copy(), heap.reads());
  constexpr size_t kPatch = 12;
  for (; size >= kPatch; data += kPatch, size -= kPatch) {
    uint16_t where;
    uint64_t value;
    memcpy(&where, data, sizeof(where));
    memcpy(&value, data + 4, sizeof(value));
    // Many of the reads are of the field table, where a change ends most readings.
    image.Patch(where, data[2], data[3], value);
  }
  try {
    ReadEverything(image, heap.root(), heap.inside());
  } catch (const Failure&) {
  }
  return 0;
}
