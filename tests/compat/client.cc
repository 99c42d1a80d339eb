// SPDX-License-Identifier: BSD-3-Clause
// A program that calls every function of MallocExtension, of its C interface and of the hooks, and
// checks each result against its own records. (The tc_ functions are other names: tests/entry.) One
// program is built with Debian's gperftools headers and library and run with ours, another one is
// built with ours. With CLIENT_ON_REFERENCE the program runs on Debian's library, to show that its
// expectations are those of gperftools; features that only our library has are not checked then.
#include <errno.h>
#include <gperftools/malloc_extension.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/malloc_hook.h>
#include <gperftools/malloc_hook_c.h>
#include <gperftools/nallocx.h>
#include <gperftools/stacktrace.h>
#include <gperftools/tcmalloc.h>
#include <malloc.h>
#include <stddef.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "../process/check.h"

// only in libtcmalloc
int GetStackTrace(void** result, int max_depth, int skip_count) __attribute__((weak));
int GetStackFrames(void** result, int* sizes, int max_depth, int skip_count) __attribute__((weak));
int GetStackTraceWithContext(void** result, int max_depth, int skip_count, const void* uc)
    __attribute__((weak));
int GetStackFramesWithContext(void** result, int* sizes, int max_depth, int skip_count,
                              const void* uc) __attribute__((weak));

// These functions are in the library since 2.11 or later, but not in older headers.
extern "C" {
void MallocExtension_SetMemoryReleaseRate(double rate) __attribute__((weak));
double MallocExtension_GetMemoryReleaseRate(void) __attribute__((weak));
int tc_query_new_mode(void) noexcept __attribute__((weak));
int MallocHook_SetMmapReplacement(MallocHook_MmapReplacement hook);
}

namespace {

bool on_reference = false;

bool IsMinimal() { return strstr(getenv("LIBRARY_UNDER_TEST"), "minimal") != nullptr; }
// True if objects have headers and red zones around them.
bool IsDebug() { return strstr(getenv("LIBRARY_UNDER_TEST"), "_debug") != nullptr; }
MallocExtension* ext = nullptr;

size_t Get(const char* name) {
  size_t value = SIZE_MAX / 3;
  CHECK(ext->GetNumericProperty(name, &value));
  CHECK(value != SIZE_MAX / 3);
  size_t again = 0;
  CHECK(MallocExtension_GetNumericProperty(name, &again) == 1);
  CHECK(again == value);
  return value;
}

// The file that contains `address`.
std::string FileOf(const void* address) {
  Dl_info place;
  CHECK(dladdr(address, &place) != 0);
  return place.dli_fname;
}

void TestVersion() {
  int major = 0;
  int minor = 0;
  const char* patch = nullptr;
  const char* const text = tc_version(&major, &minor, &patch);
  CHECK(major == 2 && minor >= 10 && patch != nullptr);
  char parts[32];
  snprintf(parts, sizeof(parts), "%d.%d%s", major, minor, patch);
  CHECK(strstr(text, parts) != nullptr);
  CHECK(tc_version(nullptr, nullptr, nullptr) == text);
}

void TestVerify() {
  char* const from_new = new char;
  char* const from_array = new char[100];
  void* const from_malloc = Malloc(100);
  CHECK(ext->VerifyAllMemory() && MallocExtension_VerifyAllMemory() == 1);
  CHECK(ext->VerifyNewMemory(from_new) && MallocExtension_VerifyNewMemory(from_new) == 1);
  CHECK(ext->VerifyArrayNewMemory(from_array) &&
        MallocExtension_VerifyArrayNewMemory(from_array) == 1);
  CHECK(ext->VerifyMallocMemory(from_malloc) &&
        MallocExtension_VerifyMallocMemory(from_malloc) == 1);
  delete from_new;
  delete[] from_array;
  Free(from_malloc);
}

struct MemoryStats {
  int blocks = -1;
  size_t total = 0;
  int histogram[kMallocHistogramSize];

  explicit MemoryStats(bool through_c) {
    std::fill_n(histogram, kMallocHistogramSize, -1);
    const bool done = through_c ? MallocExtension_MallocMemoryStats(&blocks, &total, histogram) == 1
                                : ext->MallocMemoryStats(&blocks, &total, histogram);
    CHECK(done);
    CHECK(std::count(histogram, histogram + kMallocHistogramSize, -1) == 0);
  }
};

void TestMallocMemoryStats() {
  for (const bool through_c : {false, true}) {
    void* objects[103];
    size_t bytes = 0;
    const MemoryStats before(through_c);
    for (int i = 0; i < 103; ++i) {
      objects[i] = Malloc(i < 100 ? 5000 : 3 << 20);
      bytes += malloc_usable_size(objects[i]);
    }
    const MemoryStats held(through_c);
    for (void* object : objects) Free(object);
    const MemoryStats after(through_c);
    if (on_reference) continue;  // it has no figures
    CHECK(held.blocks == before.blocks + 103 && after.blocks == before.blocks);
    CHECK(held.total == before.total + bytes && after.total == before.total);
    for (int i = 0; i < kMallocHistogramSize; ++i) {
      const int more = i == 12 ? 100 : i == 21 ? 3 : 0;
      CHECK(held.histogram[i] == before.histogram[i] + more);
      CHECK(after.histogram[i] == before.histogram[i]);
    }
  }
}

void TestGetStats() {
  static char text[3][100000];
  char small[40];
  memset(small, 'x', sizeof(small));
  ext->GetStats(small, 30);
  CHECK(memchr(small, '\0', 30) != nullptr && small[30] == 'x');
  ext->GetStats(text[0], 9999);
  ext->GetStats(text[1], sizeof(text[1]));
  MallocExtension_GetStats(text[2], sizeof(text[2]));
  for (const auto& t : text) {
    CHECK(strstr(t, "MALLOC:") != nullptr);
    CHECK(strstr(t, "Bytes in use by application") != nullptr);
    CHECK(strstr(t, "Actual memory used") != nullptr);
  }
  CHECK(strlen(text[1]) > strlen(text[0]) + 500);
  CHECK(strlen(text[2]) > strlen(text[0]) + 500);
  // The first figure of the text equals the property.
  const char* const in_use = strstr(text[1], "Bytes in use by application");
  const char* line = in_use;
  while (line > text[1] && line[-1] != '\n') --line;
  CHECK(strtoul(line + strcspn(line, "0123456789"), nullptr, 10) ==
        Get("generic.current_allocated_bytes"));
}

// The bytes of the entries of an array. It has the form [objects, bytes, depth, frames...]..., 0.
size_t BytesOf(void** array) {
  size_t bytes = 0;
  for (size_t i = 0; array[i] != nullptr; i += 3 + reinterpret_cast<size_t>(array[i + 2])) {
    bytes += reinterpret_cast<size_t>(array[i + 1]);
    CHECK(reinterpret_cast<size_t>(array[i + 2]) <= 200);
  }
  return bytes;
}

void TestSamples() {
  std::string sample = "as it was\n";
  std::string growth = "as it was\n";
  // An empty profile explains why it is empty.
  ext->GetHeapSample(&sample);
  CHECK(on_reference || sample.find("as it was\n%warn\n%warn ") == 0);
  CHECK(on_reference || IsMinimal() ||
        (sample.find("TCMALLOC_SAMPLE_PARAMETER") != std::string::npos &&
         sample.find("\n%warn\nheap profile: 0: 0 [0: 0] @") != std::string::npos));
  sample = "as it was\n";
  const bool samples = !on_reference && ext->SetNumericProperty("tcmalloc.sample_parameter", 4096);
  CHECK(on_reference || samples == !IsMinimal());
  constexpr size_t kBytes = 64 << 20;
  char* volatile kept = new char[kBytes];
  kept[0] = 1;
  ext->GetHeapSample(&sample);
  ext->GetHeapGrowthStacks(&growth);
  int period = -1;
  void** const stacks = ext->ReadStackTraces(&period);
  void** const growth_stacks = ext->ReadHeapGrowthStackTraces();
  if (samples) {
    CHECK(period == 4096);
    CHECK(sample.find("as it was\nheap profile: ") == 0);
    CHECK(sample.find("@ heap_v2/4096\n") != std::string::npos);
    CHECK(sample.find("MAPPED_LIBRARIES:\n") != std::string::npos);
    CHECK(growth.find("as it was\nheap profile: ") == 0);
    CHECK(growth.find("@ growth\n") != std::string::npos);
    CHECK(BytesOf(stacks) >= kBytes && BytesOf(growth_stacks) >= kBytes);
    CHECK(ext->SetNumericProperty("tcmalloc.sample_parameter", 0));
  } else if (!on_reference) {
    CHECK(period == 0 && stacks == nullptr && growth_stacks == nullptr);
    for (const std::string* const text : {&sample, &growth}) {
      CHECK(text->find("as it was\n%warn\n%warn There is no profile: libtcmalloc_minimal ") == 0);
    }
  }
  delete[] stacks;
  delete[] growth_stacks;
  delete[] kept;
}

struct SeenRanges {
  base::MallocRange ranges[20000];
  size_t count = 0;

  static void Add(void* argument, const base::MallocRange* range) {
    SeenRanges* const seen = static_cast<SeenRanges*>(argument);
    CHECK(seen->count < sizeof(seen->ranges) / sizeof(seen->ranges[0]));
    seen->ranges[seen->count++] = *range;
  }
  const base::MallocRange* Containing(const void* p) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    for (size_t i = 0; i < count; ++i) {
      if (address - ranges[i].address < ranges[i].length) return &ranges[i];
    }
    return nullptr;
  }
};

void TestRanges() {
  static SeenRanges held;
  static SeenRanges after;
  char* const large = static_cast<char*>(Malloc(5 << 20));
  void* small[200];
  for (void*& p : small) p = Malloc(1000);
  held.count = 0;
  ext->Ranges(&held, &SeenRanges::Add);
  const size_t heap_size = Get("generic.heap_size");
  const base::MallocRange* range = held.Containing(large);
  CHECK(range != nullptr && range->type == base::MallocRange::INUSE);
  CHECK((IsDebug() || range->address == reinterpret_cast<uintptr_t>(large)) &&
        range->length >= 5 << 20);
  CHECK(range->fraction > 0.99 && range->fraction <= 1);
  range = held.Containing(small[100]);
  CHECK(range != nullptr && range->type == base::MallocRange::INUSE);
  CHECK(range->fraction > 0 && range->fraction <= 1);
  if (!on_reference) {
    size_t sum = 0;
    for (size_t i = 0; i < held.count; ++i) sum += held.ranges[i].length;
    CHECK(sum == heap_size);
  }
  Free(large);
  for (void* p : small) Free(p);
  ext->ReleaseFreeMemory();
  after.count = 0;
  ext->Ranges(&after, &SeenRanges::Add);
  range = after.Containing(large);
  CHECK(range != nullptr && range->type == base::MallocRange::UNMAPPED && range->fraction == 0);
}

void TestFigures() {
  struct Snapshot {
    size_t in_use = Get("generic.current_allocated_bytes");
    size_t heap = Get("generic.heap_size");
    size_t physical = Get("generic.total_physical_bytes");
    size_t central = Get("tcmalloc.central_cache_free_bytes");
    size_t transfer = Get("tcmalloc.transfer_cache_free_bytes");
    size_t thread = Get("tcmalloc.thread_cache_free_bytes");
    size_t free = Get("tcmalloc.pageheap_free_bytes");
    size_t unmapped = Get("tcmalloc.pageheap_unmapped_bytes");
    size_t committed = Get("tcmalloc.pageheap_committed_bytes");
    size_t commits = Get("tcmalloc.pageheap_total_commit_bytes");
    size_t decommits = Get("tcmalloc.pageheap_total_decommit_bytes");

    Snapshot() {
      // No other thread is running, so all figures agree.
      CHECK(heap == in_use + central + transfer + thread + free + unmapped);
      CHECK(Get("tcmalloc.slack_bytes") == free + unmapped);
      CHECK(committed == heap - unmapped);
      CHECK(commits - decommits == committed);
      CHECK(physical > committed && physical < committed + (16 << 20));
      CHECK(Get("tcmalloc.current_total_thread_cache_bytes") == thread);
      CHECK(Get("tcmalloc.pageheap_total_reserve_bytes") >= heap);
    }
  };
  const Snapshot before;
  void* objects[1000];
  size_t bytes = 0;
  for (void*& p : objects) {
    p = Malloc(3000);
    bytes += malloc_usable_size(p);
  }
  void* const large = Malloc(30 << 20);
  memset(large, 1, 30 << 20);
  bytes += malloc_usable_size(large);
  const Snapshot held;
  CHECK(IsDebug() ? held.in_use > before.in_use + bytes : held.in_use == before.in_use + bytes);
  CHECK(held.heap >= held.in_use);
  Free(large);
  for (void* p : objects) Free(p);
  const Snapshot freed;
  CHECK(freed.in_use == before.in_use);
  ext->ReleaseFreeMemory();
  const Snapshot released;
  CHECK(released.unmapped >= freed.unmapped + freed.free && released.free == 0);
  CHECK(released.decommits >= freed.decommits + freed.free);
  for (const char* name : {"tcmalloc.pageheap_decommit_count", "tcmalloc.pageheap_commit_count",
                           "tcmalloc.pageheap_reserve_count"}) {
    CHECK(Get(name) > 0);
  }
  CHECK(on_reference || Get("tcmalloc.pageheap_scavenge_count") > 0);
  // 2.10 does not have this property.
  CHECK(on_reference || Get("tcmalloc.impl.thread_cache_count") >= 1);
}

void TestSettings() {
  const char* const read_only[] = {"generic.current_allocated_bytes", "generic.heap_size",
                                   "tcmalloc.pageheap_free_bytes", "tcmalloc.slack_bytes"};
  for (const char* name : read_only) {
    CHECK(!ext->SetNumericProperty(name, 1));
    CHECK(MallocExtension_SetNumericProperty(name, 1) == 0);
  }
  size_t value = 17;
  CHECK(!ext->GetNumericProperty("no.such_property", &value) && value == 17);
  CHECK(MallocExtension_GetNumericProperty("no.such_property", &value) == 0);
  CHECK(!ext->SetNumericProperty("no.such_property", 1));

  struct {
    const char* name;
    size_t value;
  } const settable[] = {{"tcmalloc.max_total_thread_cache_bytes", 8 << 20},
                        {"tcmalloc.aggressive_memory_decommit", 1},
                        {"tcmalloc.heap_limit_mb", 4000},
                        {"tcmalloc.min_per_thread_cache_bytes", 128 << 10}};
  for (const auto& s : settable) {
    if (on_reference && strstr(s.name, "min_per_thread") != nullptr) continue;  // not in 2.10
    const size_t former = Get(s.name);
    CHECK(ext->SetNumericProperty(s.name, s.value));
    CHECK(Get(s.name) == s.value);
    CHECK(MallocExtension_SetNumericProperty(s.name, former) == 1);
    CHECK(Get(s.name) == former);
  }
  // These functions do what their names say.
  CHECK(ext->SetNumericProperty("tcmalloc.heap_limit_mb", 200));
  CHECK(Malloc(300 << 20) == nullptr);
  CHECK(ext->SetNumericProperty("tcmalloc.heap_limit_mb", 0));
  void* const fits = Malloc(300 << 20);
  CHECK(fits != nullptr);
  Free(fits);
  ext->ReleaseFreeMemory();
  if (!on_reference) {
    CHECK(Get("tcmalloc.sample_parameter") == 0);
    CHECK(ext->SetNumericProperty("tcmalloc.sample_parameter", 0));
    CHECK(ext->SetNumericProperty("tcmalloc.sample_parameter", 1 << 19) == !IsMinimal());
    CHECK(ext->SetNumericProperty("tcmalloc.sample_parameter", 0));
  }
}

void FillCache() {
  void* objects[100];
  for (void*& p : objects) p = Malloc(200);
  for (void* p : objects) Free(p);
}

void TestThreadCaches() {
  FillCache();
  const size_t full = ext->GetThreadCacheSize();
  CHECK(full > 0 && MallocExtension_GetThreadCacheSize() == full);
  CHECK(full <= Get("tcmalloc.thread_cache_free_bytes"));
  void (*const ways[])() = {[] { ext->MarkThreadTemporarilyIdle(); }, [] { ext->MarkThreadIdle(); },
                            &MallocExtension_MarkThreadTemporarilyIdle,
                            &MallocExtension_MarkThreadIdle};
  const auto flush_in_all_ways = [&ways] {
    for (auto* way : ways) {
      way();
      CHECK(ext->GetThreadCacheSize() == 0);
      ext->MarkThreadBusy();
      MallocExtension_MarkThreadBusy();
      FillCache();
      CHECK(ext->GetThreadCacheSize() > 0);
    }
  };
  flush_in_all_ways();
  // In a new thread the flush is the first call.
  std::thread(flush_in_all_ways).join();
}

class CountingAllocator : public SysAllocator {
 public:
  explicit CountingAllocator(SysAllocator* next) : next_(next) {}
  void* Alloc(size_t size, size_t* actual_size, size_t alignment) override {
    bytes += size;
    void* const memory = next_->Alloc(size, actual_size, alignment);
    if (actual_size != nullptr) CHECK(memory == nullptr || *actual_size >= size);
    CHECK(alignment == 0 || reinterpret_cast<uintptr_t>(memory) % alignment == 0);
    return memory;
  }
  std::atomic<size_t> bytes{0};

 private:
  SysAllocator* const next_;
};

void TestSystemAllocator() {
  SysAllocator* const former = ext->GetSystemAllocator();
  CHECK(former != nullptr);
  static CountingAllocator* const counting = new CountingAllocator(former);
  ext->SetSystemAllocator(counting);
  CHECK(ext->GetSystemAllocator() == counting);
  char* const large = static_cast<char*>(Malloc(700 << 20));
  CHECK(large != nullptr);
  large[0] = large[(700 << 20) - 1] = 1;
  const size_t bytes = counting->bytes;
  CHECK(bytes >= 700 << 20);
  ext->SetSystemAllocator(on_reference ? former : nullptr);
  CHECK(ext->GetSystemAllocator() == former);
  void* const larger = Malloc(size_t{900} << 20);
  CHECK(larger != nullptr && counting->bytes == bytes);
  Free(large);
  Free(larger);
  ext->ReleaseFreeMemory();
}

void TestRelease() {
  for (const bool through_c : {false, true}) {
    through_c ? MallocExtension_ReleaseFreeMemory() : ext->ReleaseFreeMemory();
    CHECK(Get("tcmalloc.pageheap_free_bytes") == 0);
    ext->SetMemoryReleaseRate(0);
    void* const large = Malloc(64 << 20);
    memset(large, 1, 64 << 20);
    const size_t unmapped = Get("tcmalloc.pageheap_unmapped_bytes");
    Free(large);
    CHECK(Get("tcmalloc.pageheap_free_bytes") >= 64 << 20);
    through_c ? MallocExtension_ReleaseToSystem(10 << 20) : ext->ReleaseToSystem(10 << 20);
    CHECK(Get("tcmalloc.pageheap_unmapped_bytes") >= unmapped + (10 << 20));
    if (!on_reference) CHECK(Get("tcmalloc.pageheap_free_bytes") > 0);
    through_c ? MallocExtension_ReleaseFreeMemory() : ext->ReleaseFreeMemory();
    CHECK(Get("tcmalloc.pageheap_unmapped_bytes") >= unmapped + (64 << 20));
    CHECK(Get("tcmalloc.pageheap_free_bytes") == 0);
  }
  ext->SetMemoryReleaseRate(2.5);
  CHECK(ext->GetMemoryReleaseRate() == 2.5);
  if (MallocExtension_GetMemoryReleaseRate != nullptr) {
    CHECK(MallocExtension_GetMemoryReleaseRate() == 2.5);
    MallocExtension_SetMemoryReleaseRate(1);
    CHECK(ext->GetMemoryReleaseRate() == 1);
  } else {
    CHECK(on_reference);
  }
}

void TestSizes() {
  const size_t sizes[] = {0, 1, 8, 9, 100, 1000, 1024, 1025, 30000, 262144, 262145, 5000000};
  for (const size_t size : sizes) {
    void* const p = Malloc(size);
    const size_t estimated = ext->GetEstimatedAllocatedSize(size);
    CHECK(estimated >= size && ext->GetAllocatedSize(p) == estimated);
    CHECK(MallocExtension_GetEstimatedAllocatedSize(size) == estimated);
    CHECK(MallocExtension_GetAllocatedSize(p) == estimated);
    CHECK(malloc_usable_size(p) == estimated && tc_malloc_size(p) == estimated);
    CHECK(nallocx(size, 0) == estimated && tc_nallocx(size, 0) == estimated);
    CHECK(ext->GetOwnership(p) == MallocExtension::kOwned);
    CHECK(MallocExtension_GetOwnership(p) == MallocExtension_kOwned);
    Free(p);
    void* const aligned = memalign(512, size);
    CHECK(nallocx(size, MALLOCX_LG_ALIGN(9)) == malloc_usable_size(aligned));
    Free(aligned);
  }
  int local = 0;
  CHECK(ext->GetAllocatedSize(nullptr) == 0);
  CHECK(ext->GetOwnership(&local) == MallocExtension::kNotOwned);
  CHECK(MallocExtension_GetOwnership(&local) == MallocExtension_kNotOwned);
  CHECK(ext->GetOwnership(nullptr) == MallocExtension::kNotOwned);
}

void TestFreeLists() {
  FillCache();
  std::vector<MallocExtension::FreeListInfo> lists;
  lists.push_back({1, 2, 3, "to be replaced"});
  ext->GetFreeListSizes(&lists);
  CHECK(lists.size() > 100);
  std::map<std::string, size_t> bytes;
  for (const MallocExtension::FreeListInfo& list : lists) {
    CHECK(list.min_object_size <= list.max_object_size);
    bytes[list.type] += list.total_bytes_free;
  }
  CHECK(bytes.count("to be replaced") == 0);
  for (const char* type : {"tcmalloc.central", "tcmalloc.transfer", "tcmalloc.thread",
                           "tcmalloc.large", "tcmalloc.large_unmapped"}) {
    CHECK(bytes.count(type) == 1);
  }
  CHECK(bytes["tcmalloc.thread"] > 0);
}

// The program's own layer on top of the library's extension.
class Layer : public MallocExtension {
 public:
  bool GetNumericProperty(const char* property, size_t* value) override {
    if (strcmp(property, "layer") != 0) return below_->GetNumericProperty(property, value);
    *value = 42;
    return true;
  }
  Ownership GetOwnership(const void*) override { return kUnknownOwnership; }
  void MarkThreadTemporarilyIdle() override { ++idle_calls; }
  int idle_calls = 0;

 private:
  MallocExtension* const below_ = MallocExtension::instance();
};

void TestRegister() {
  static Layer* const layer = new Layer;
  MallocExtension::Initialize();
  MallocExtension::Register(layer);
  CHECK(MallocExtension::instance() == layer);
  size_t value = 0;
  CHECK(MallocExtension_GetNumericProperty("layer", &value) == 1 && value == 42);
  CHECK(MallocExtension_GetNumericProperty("generic.heap_size", &value) == 1 && value > 0);
  CHECK(MallocExtension_GetOwnership(layer) == MallocExtension_kUnknownOwnership);
  MallocExtension_MarkThreadTemporarilyIdle();
  CHECK(layer->idle_calls == 1);
  CHECK(MallocExtension_VerifyAllMemory() == 1);
  MallocExtension::Register(ext);
  CHECK(MallocExtension::instance() == ext);
  MallocExtension* const as_base = layer;
  CHECK(dynamic_cast<Layer*>(as_base) == layer && dynamic_cast<Layer*>(ext) == nullptr);
  CHECK(strstr(typeid(*as_base).name(), "Layer") != nullptr);
}

// The hooks store their arguments in arrays, so they do not allocate.
struct Event {
  const void* object;
  size_t size;
  bool is_new;
};
Event events[1000];
std::atomic<size_t> num_events{0};
std::atomic<size_t> other_calls{0};
thread_local bool watched = false;

void OnNew(const void* object, size_t size) {
  if (watched) events[num_events++] = {object, size, true};
}
void OnDelete(const void* object) {
  if (watched && object != nullptr) events[num_events++] = {object, 0, false};
}
void OnNewToo(const void*, size_t) { ++other_calls; }
void OnDeleteToo(const void*) { ++other_calls; }

void ExpectEvent(size_t i, const void* object, size_t size, bool is_new) {
  CHECK(i < num_events);
  CHECK(events[i].object == object && events[i].is_new == is_new);
  // gperftools rounds the sizes of aligned objects up first.
  if (is_new) CHECK(on_reference ? events[i].size >= size : events[i].size == size);
}

// Checks that the new hook and the delete hook were called once each.
void ExpectPair(const void* object, size_t size) {
  CHECK(num_events == 2);
  ExpectEvent(0, object, size, true);
  ExpectEvent(1, object, 0, false);
  num_events = 0;
}

void TestHooks() {
  FillCache();
  CHECK(MallocHook::AddNewHook(&OnNew) && MallocHook_AddDeleteHook(&OnDelete) == 1);
  watched = true;
  for (const size_t size : {8u, 5000u, 5000000u}) {
    void* p = Malloc(size);
    Free(p);
    ExpectPair(p, size);
    p = memalign(64, size);
    Free(p);
    ExpectPair(p, size);
    p = ::operator new[](size, std::nothrow);
    ::operator delete[](p);
    ExpectPair(p, size);
    p = tc_malloc(size);
    tc_free_sized(p, size);
    ExpectPair(p, size);
  }
  errno = 77;
  Free(nullptr);
  CHECK(num_events == 0 && errno == 77);
  watched = false;

  // Adds several hooks, one of them twice, and sets one.
  CHECK(MallocHook_AddNewHook(&OnNewToo) == 1 && MallocHook_AddNewHook(&OnNewToo) == 1);
  CHECK(MallocHook::AddDeleteHook(&OnDeleteToo));
  CHECK(MallocHook::SetNewHook(&OnNewToo) == nullptr);
  CHECK(MallocHook_SetNewHook(&OnNewToo) == &OnNewToo);
  CHECK(MallocHook_SetDeleteHook(&OnDeleteToo) == nullptr);
  Free(Malloc(10));
  CHECK(other_calls == 5);
  CHECK(MallocHook::SetDeleteHook(nullptr) == &OnDeleteToo);
  CHECK(MallocHook_SetNewHook(nullptr) == &OnNewToo);
  CHECK(MallocHook::RemoveNewHook(&OnNewToo) && MallocHook_RemoveNewHook(&OnNewToo) == 1);
  CHECK(MallocHook_RemoveNewHook(&OnNewToo) == 0);
  CHECK(MallocHook_RemoveDeleteHook(&OnDeleteToo) == 1);
  other_calls = 0;
  Free(Malloc(10));
  CHECK(other_calls == 0);
  CHECK(MallocHook::RemoveNewHook(&OnNew) && MallocHook_RemoveDeleteHook(&OnDelete) == 1);
  void* frames[10];
  const int depth = MallocHook::GetCallerStackTrace(frames, 10, 0);
  CHECK(depth >= 0 && depth <= 10);
  CHECK(MallocHook_GetCallerStackTrace(frames, 10, 0) >= 0);
  CHECK(MallocHook_GetCallerStackTrace(frames, 0, 0) == 0);
  if (on_reference) return;
  CHECK((depth > 0) == (&GetStackTrace != nullptr));
}

// Calls `take` with the address that the trace must contain: its return address.
__attribute__((noinline)) int CallWithReturn(int (*take)(void* back)) {
  const int result = take(__builtin_return_address(0));
  __asm__ volatile("" ::: "memory");
  return result;
}

__attribute__((noinline)) int TakeTraces(void* back) {
  void* whole[50];
  const int depth = GetStackTrace(whole, 50, 0);
  CHECK(depth >= 3 && depth <= 50 && whole[2] == back);
  void* skipped[50];
  int sizes[50];
  CHECK(GetStackTrace(skipped, 50, 2) == depth - 2 && skipped[0] == back);
  CHECK(GetStackFrames(skipped, sizes, 50, 0) == depth && skipped[2] == back && sizes[0] > 0);
  CHECK(GetStackTraceWithContext(skipped, 50, 1, nullptr) == depth - 1 && skipped[1] == back);
  CHECK(GetStackFramesWithContext(skipped, sizes, 50, 0, nullptr) == depth && skipped[2] == back);
  return 0;
}

void TestStackTraces() {
  if (!on_reference) CHECK(IsMinimal() == (&GetStackTrace == nullptr));
  // The result of gperftools' walk in code without frame pointers depends on how gperftools was
  // built.
  if (&GetStackTrace == nullptr || on_reference) return;
  CallWithReturn(&TakeTraces);
}

// The program's system call hooks are not called, and cannot be added.
void NeverMmap(const void*, const void*, size_t, int, int, int, off_t) { _exit(3); }
void NeverMunmap(const void*, size_t) { _exit(3); }
void NeverSbrk(const void*, ptrdiff_t) { _exit(3); }
int NeverMmapInstead(const void*, size_t, int, int, int, off_t, void**) { _exit(3); }

void TestSystemCallHooks() {
  void* const mapped = MallocHook::UnhookedMMap(nullptr, 8192, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED);
  memset(mapped, 1, 8192);
  CHECK(MallocHook::UnhookedMUnmap(mapped, 8192) == 0);
  if (on_reference) return;  // there these hooks work
  CHECK(!MallocHook::AddMmapHook(&NeverMmap) && !MallocHook::RemoveMmapHook(&NeverMmap));
  CHECK(!MallocHook::AddMunmapHook(&NeverMunmap) && !MallocHook::RemoveMunmapHook(&NeverMunmap));
  CHECK(!MallocHook::AddSbrkHook(&NeverSbrk) && !MallocHook::RemoveSbrkHook(&NeverSbrk));
  CHECK(!MallocHook::SetMmapReplacement(&NeverMmapInstead));
  CHECK(!MallocHook::RemoveMmapReplacement(&NeverMmapInstead));
  CHECK(MallocHook::SetMmapHook(&NeverMmap) == nullptr);
  CHECK(MallocHook::SetMunmapHook(&NeverMunmap) == nullptr);
  CHECK(MallocHook::SetSbrkHook(&NeverSbrk) == nullptr);
  Free(Malloc(200 << 20));
}

int handler_calls = 0;

void TestNewMode() {
  // The new_handler is called, for C functions only if that is turned on.
  const std::new_handler handler = [] {
    if (++handler_calls % 3 == 0) std::set_new_handler(nullptr);
  };
  std::set_new_handler(handler);
  const size_t too_much = static_cast<size_t>(PTRDIFF_MAX) + 1;
  CHECK(tc_malloc(too_much) == nullptr && errno == ENOMEM && handler_calls == 0);
  CHECK(tc_set_new_mode(1) == 0);
  if (tc_query_new_mode != nullptr) CHECK(tc_query_new_mode() == 1);
  void* (*const functions[])(size_t) = {
      [](size_t n) { return Malloc(n); }, [](size_t n) { return tc_calloc(1, n); },
      [](size_t n) { return tc_realloc(nullptr, n); }, [](size_t n) { return tc_memalign(64, n); }};
  for (int i = 0; i < 4; ++i) {
    std::set_new_handler(handler);
    errno = 0;
    CHECK(functions[i](too_much) == nullptr && errno == ENOMEM && handler_calls == 3 + 3 * i);
  }
  std::set_new_handler(handler);
  CHECK(tc_malloc_skip_new_handler(too_much) == nullptr && handler_calls == 12);
  tc_free(tc_malloc_skip_new_handler(100));
  CHECK(tc_set_new_mode(0) == 1);
  CHECK(tc_malloc(too_much) == nullptr && handler_calls == 12);
  std::set_new_handler(nullptr);
}

}  // namespace

int main() {
  on_reference = getenv("CLIENT_ON_REFERENCE") != nullptr;
  RequireLibraryUnderTest();
  const std::string library = FileOf(dlsym(RTLD_DEFAULT, "malloc"));
  CHECK(FileOf(dlsym(RTLD_DEFAULT, "MallocExtension_GetStats")) == library);
  ext = MallocExtension::instance();
  CHECK(ext != nullptr && MallocExtension::instance() == ext);
  // The vtable itself may be a copy in the program; its first function after the destructors is
  // not.
  void** vtable;
  memcpy(&vtable, static_cast<const void*>(ext), sizeof(vtable));
  CHECK(FileOf(vtable[2]) == library);
  CHECK(strstr(typeid(*ext).name(), "M") != nullptr);

  TestVersion();
  TestVerify();
  TestMallocMemoryStats();
  TestGetStats();
  TestSamples();
  TestRanges();
  TestFigures();
  TestSettings();
  TestThreadCaches();
  TestRelease();
  TestSizes();
  TestFreeLists();
  TestRegister();
  TestHooks();
  TestStackTraces();
  TestSystemCallHooks();
  TestNewMode();
  TestSystemAllocator();
  puts("all answers are plausible");
  return 0;
}
