/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcmalloc::MallocExtension: the functions of tcmalloc/tcmalloc.h for C++17 and later. The names
 * are those of Google's TCMalloc if the meaning is the same.
 *
 * tcmalloc/tcmalloc.h describes each function and its cost, and the rules for all: errors, threads,
 * units. There is one exception: functions that return strings or maps allocate, and throw
 * std::bad_alloc.
 */
#ifndef TCMALLOC_MALLOC_EXTENSION_H_
#define TCMALLOC_MALLOC_EXTENSION_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {

enum class ProfileType {
  kHeap = TCMALLOC_PROFILE_HEAP,
  kPeakHeap = TCMALLOC_PROFILE_PEAK_HEAP,
  kAllocations = TCMALLOC_PROFILE_ALLOCATIONS,
  kGrowth = TCMALLOC_PROFILE_GROWTH,
};

/*
 * An immutable profile (docs/profiles.md); empty if there was no memory for it. Any thread may read
 * it. Only libtcmalloc has it, and the functions that take profiles.
 */
class Profile {
 public:
  /* See tcmalloc_profile_entry. */
  using Sample = tcmalloc_profile_entry;
  enum class Format {
    kProto = TCMALLOC_FORMAT_PROTO,
    kLegacyText = TCMALLOC_FORMAT_LEGACY_TEXT,
    kFolded = TCMALLOC_FORMAT_FOLDED,
  };

  Profile() = default;
  explicit Profile(tcmalloc_profile* profile) : profile_(profile) {}
  Profile(Profile&& other) noexcept : profile_(std::exchange(other.profile_, nullptr)) {}
  Profile& operator=(Profile&& other) noexcept {
    std::swap(profile_, other.profile_);
    return *this;
  }
  ~Profile() { tcmalloc_profile_free(profile_); }

  explicit operator bool() const { return profile_ != nullptr; }
  ProfileType Type() const { return static_cast<ProfileType>(Info().kind); }
  /* Mean bytes between samples; 0 means the same as in tcmalloc_profile_info. */
  size_t SamplingInterval() const { return Info().sample_interval; }
  std::chrono::nanoseconds Duration() const { return std::chrono::nanoseconds(Info().duration_ns); }

  /* Calls f(const Sample&) for every entry. */
  template <typename F>
  void Iterate(F f) const {
    if (profile_ == nullptr) return;
    tcmalloc_profile_for_each(
        profile_, [](const Sample* sample, void* context) { (*static_cast<F*>(context))(*sample); },
        &f);
  }

  /* False if a part was not written. */
  bool WriteTo(int fd, Format format = Format::kProto) const {
    return profile_ != nullptr &&
           tcmalloc_profile_write(profile_, static_cast<int>(format), fd) != 0;
  }
  std::optional<std::string> AsString(Format format = Format::kProto) const {
    std::string bytes;
    const auto append = [](const void* data, size_t size, void* context) {
      static_cast<std::string*>(context)->append(static_cast<const char*>(data), size);
      return 1;
    };
    if (profile_ == nullptr ||
        tcmalloc_profile_write_to(profile_, static_cast<int>(format), append, &bytes) == 0) {
      return std::nullopt;
    }
    return bytes;
  }

 private:
  tcmalloc_profile_info Info() const {
    tcmalloc_profile_info info = {};
    if (profile_ != nullptr) tcmalloc_profile_get_info(profile_, &info);
    return info;
  }

  tcmalloc_profile* profile_ = nullptr;
};

class MallocExtension {
 public:
  MallocExtension() = delete;

  /* Heap profiles. SnapshotCurrent returns an empty profile for kAllocations. */
  static size_t GetProfileSamplingInterval() { return tcmalloc_get_profile_sampling_interval(); }
  static void SetProfileSamplingInterval(size_t bytes) {
    tcmalloc_set_profile_sampling_interval(bytes);
  }
  static Profile SnapshotCurrent(ProfileType type) {
    return Profile(tcmalloc_profile_snapshot(static_cast<int>(type)));
  }
  /*
   * A running recording of allocations. Stop ends it, and so does the destructor. Empty if a
   * recording was already running.
   */
  class AllocationProfilingToken {
   public:
    AllocationProfilingToken(AllocationProfilingToken&& other) noexcept
        : running_(std::exchange(other.running_, false)) {}
    AllocationProfilingToken& operator=(AllocationProfilingToken&& other) noexcept {
      std::swap(running_, other.running_);
      return *this;
    }
    ~AllocationProfilingToken() { static_cast<void>(std::move(*this).Stop()); }
    explicit operator bool() const { return running_; }
    Profile Stop() && {
      return Profile(std::exchange(running_, false) ? tcmalloc_stop_allocation_profiling()
                                                    : nullptr);
    }

   private:
    friend class MallocExtension;
    explicit AllocationProfilingToken(bool running) : running_(running) {}
    bool running_;
  };
  static AllocationProfilingToken StartAllocationProfiling() {
    return AllocationProfilingToken(tcmalloc_start_allocation_profiling() != 0);
  }

  /* Statistics as text with tables by size (docs/statistics.md), as JSON, and as OpenMetrics. */
  static std::string GetStats() {
    return Written([](char* buffer, size_t n) { return tcmalloc_stats_text(2, buffer, n); });
  }
  static std::string GetStatsAsJson() { return Written(&tcmalloc_stats_json); }
  static std::string GetStatsAsOpenMetrics() { return Written(&tcmalloc_stats_openmetrics); }

  /*
   * Figures and settings by name (docs/properties.md). The values of one map are from the same
   * moment.
   */
  static std::optional<size_t> GetNumericProperty(std::string_view name) {
    size_t value;
    if (tcmalloc_get_numeric_property(std::string(name).c_str(), &value) == 0) return std::nullopt;
    return value;
  }
  /* False if there is no setting of that name, or it cannot have that value. */
  static bool SetNumericProperty(std::string_view name, size_t value) {
    return tcmalloc_set_numeric_property(std::string(name).c_str(), value) != 0;
  }
  struct Property {
    size_t value;
  };
  static std::map<std::string, Property> GetProperties() {
    std::map<std::string, Property> properties;
    tcmalloc_list_numeric_properties(
        [](const char* name, size_t value, void* context) {
          auto& map = *static_cast<std::map<std::string, Property>*>(context);
          map.emplace(name, Property{value});
        },
        &properties);
    return properties;
  }

  /*
   * GetAllocatedSize returns nullopt for memory of other heaps. GetEstimatedAllocatedSize returns 0
   * if an object of `size` bytes is impossible.
   */
  static std::optional<size_t> GetAllocatedSize(const void* object) {
    if (GetOwnership(object) != Ownership::kOwned) return std::nullopt;
    return tcmalloc_get_allocated_size(object);
  }
  static size_t GetEstimatedAllocatedSize(size_t size) {
    return tcmalloc_get_estimated_allocated_size(size);
  }
  enum class Ownership { kUnknown = 0, kOwned, kNotOwned };
  static Ownership GetOwnership(const void* address) {
    return tcmalloc_owns(address) != 0 ? Ownership::kOwned : Ownership::kNotOwned;
  }
  /*
   * Calls f(void* object, size_t bytes) for every object in use: see tcmalloc_for_each_object.
   * False if it could not list them. Only libtcmalloc has it.
   */
  template <typename F>
  static bool ForEachObject(F&& f) {
    using Function = std::remove_reference_t<F>;
    return tcmalloc_for_each_object(
               [](void* object, size_t bytes, void* context) {
                 (*static_cast<Function*>(context))(object, bytes);
               },
               const_cast<void*>(static_cast<const volatile void*>(std::addressof(f)))) != 0;
  }

  /* Caches: see the functions of the same names. */
  static size_t FlushThreadCaches() { return tcmalloc_flush_thread_caches(); }
  static size_t FlushCentralCaches() { return tcmalloc_flush_central_caches(); }
  static size_t FlushThisThreadCache() { return tcmalloc_flush_this_thread_cache(); }
  static void MarkThreadIdle() { tcmalloc_mark_thread_idle(); }
  static void MarkThreadTemporarilyIdle() { tcmalloc_mark_thread_temporarily_idle(); }
  static void MarkThreadBusy() { tcmalloc_mark_thread_busy(); }
  /* The total size of all thread caches, in bytes. */
  static size_t GetMaxTotalThreadCacheBytes() {
    return GetNumericProperty("tcmalloc.max_total_thread_cache_bytes").value_or(0);
  }
  static void SetMaxTotalThreadCacheBytes(size_t bytes) {
    SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", bytes);
  }

  /* Releases free memory to the OS, `bytes` or a little more; returns the bytes released. */
  static size_t ReleaseMemoryToSystem(size_t bytes) { return tcmalloc_release_to_system(bytes); }
  static size_t ReleaseFreeMemory() { return tcmalloc_release_free_memory(); }
  /*
   * How fast the library releases free memory: as a factor (tcmalloc_set_memory_release_rate), and
   * as a maximum in bytes per second, where 512 MiB correspond to the factor 1.
   */
  static void SetMemoryReleaseRate(double rate) { tcmalloc_set_memory_release_rate(rate); }
  static double GetMemoryReleaseRate() { return tcmalloc_get_memory_release_rate(); }
  enum class BytesPerSecond : size_t {};
  static void SetBackgroundReleaseRate(BytesPerSecond rate) {
    SetMemoryReleaseRate(static_cast<double>(static_cast<size_t>(rate)) / kBytesPerSecondAtRate1);
  }
  static BytesPerSecond GetBackgroundReleaseRate() {
    return static_cast<BytesPerSecond>(
        static_cast<size_t>(GetMemoryReleaseRate() * kBytesPerSecondAtRate1));
  }
  /* Never returns: call it on a thread of the program. */
  static void ProcessBackgroundActions() { tcmalloc_process_background_actions(); }

  /* Memory limits in bytes, 0 for none. */
  enum class LimitKind { kSoft = TCMALLOC_LIMIT_SOFT, kHard = TCMALLOC_LIMIT_HARD };
  static void SetMemoryLimit(size_t bytes, LimitKind kind = LimitKind::kSoft) {
    tcmalloc_set_memory_limit(static_cast<int>(kind), bytes);
  }
  static size_t GetMemoryLimit(LimitKind kind = LimitKind::kSoft) {
    return tcmalloc_get_memory_limit(static_cast<int>(kind));
  }
  static void SetLimitCallback(tcmalloc_limit_callback callback, void* context) {
    tcmalloc_set_limit_callback(callback, context);
  }

  /* Memory pressure: see the functions of the same names. */
  using PressureListener = tcmalloc_pressure_listener;
  static void AddPressureListener(PressureListener* listener) {
    tcmalloc_add_pressure_listener(listener);
  }
  static void RemovePressureListener(PressureListener* listener) {
    tcmalloc_remove_pressure_listener(listener);
  }
  static int PressureFd() { return tcmalloc_pressure_fd(); }
  static int HandlePressure() { return tcmalloc_handle_pressure(); }

  /* Reports of large allocations: see the functions of the same names. */
  static void SetLargeAllocationCallback(tcmalloc_large_allocation_callback callback,
                                         void* context) {
    tcmalloc_set_large_allocation_callback(callback, context);
  }
  static void SetLargeAllocationThreshold(size_t bytes) {
    tcmalloc_set_large_allocation_threshold(bytes);
  }
  static size_t GetLargeAllocationThreshold() { return tcmalloc_get_large_allocation_threshold(); }

  /*
   * The source of the heap's memory. By default it is the library's own, which the environment
   * configures (docs/settings.md). A program's own allocator may forward requests to it.
   */
  static SystemAllocator* GetSystemAllocator() { return tcmalloc_system_allocator(); }
  /*
   * Makes the heap grow by memory from `allocator` only; memory that it has stays in use. Null
   * selects the library's own allocator again. `allocator` must live as long as the process.
   */
  static void SetSystemAllocator(SystemAllocator* allocator) {
    tcmalloc_set_system_allocator(allocator);
  }

 private:
  static constexpr double kBytesPerSecondAtRate1 = 512.0 * (1 << 20);

  /*
   * Like snprintf, `write` returns the length of the whole text, which may grow from call to call.
   */
  template <typename Write>
  static std::string Written(Write write) {
    std::string text;
    for (size_t length = write(nullptr, 0);;) {
      text.resize(length + length / 8 + 1);
      length = write(&text[0], text.size());
      if (length < text.size()) {
        text.resize(length);
        return text;
      }
    }
  }
};

} /* namespace tcmalloc */

#endif /* TCMALLOC_MALLOC_EXTENSION_H_ */
