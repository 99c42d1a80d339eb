// SPDX-License-Identifier: BSD-3-Clause
// MallocExtension of gperftools 2.10 to 2.18: the same names, order of virtual functions and
// layouts, so that a program compiled with either header runs with either library. New programs
// should use <tcmalloc/tcmalloc.h>, whose functions do the work here; that header has their costs.
//
// Unless it says otherwise, any thread may call a function at any time, but not from a signal
// handler; functions do not fail; sizes are in bytes.
#ifndef GPERFTOOLS_MALLOC_EXTENSION_H_
#define GPERFTOOLS_MALLOC_EXTENSION_H_

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL __attribute__((visibility("default")))
#endif

static const int kMallocHistogramSize = 64;

typedef std::string MallocExtensionWriter;

namespace base {
struct MallocRange;
}

// The source of the heap's memory. A program may install its own.
class PERFTOOLS_DLL_DECL SysAllocator {
 public:
  SysAllocator() {}
  virtual ~SysAllocator();

  // Returns at least `size` bytes that start at a multiple of `alignment`; null if there is no
  // memory. Stores the number of bytes in `*actual_size`, unless that is null. The memory is never
  // returned. Several threads may call it at once. It runs in the middle of an allocation: it must
  // not allocate, fork, or wait for a thread that does.
  virtual void* Alloc(size_t size, size_t* actual_size, size_t alignment) = 0;
};

class PERFTOOLS_DLL_DECL MallocExtension {
 public:
  virtual ~MallocExtension();

  // Does nothing: no set-up is necessary.
  static void Initialize();

  // Always true: there is no debugging heap to verify.
  virtual bool VerifyAllMemory();
  virtual bool VerifyNewMemory(const void* p);
  virtual bool VerifyArrayNewMemory(const void* p);
  virtual bool VerifyMallocMemory(const void* p);

  // Counts the objects in use: their number, their usable bytes, and for each i the number of
  // objects of at least 2^i and less than 2^(i+1) bytes. Numbers that do not fit an int are the
  // largest int. Returns true. Cost: a step per span of the heap.
  virtual bool MallocMemoryStats(int* blocks, size_t* total, int histogram[kMallocHistogramSize]);

  // Writes statistics as text, cut to the buffer and ended by a zero. Buffers of at least 10000
  // bytes get a line per size class.
  virtual void GetStats(char* buffer, int buffer_length);

  // Append profiles as text for pprof: of the sampled objects in use, and of the call stacks that
  // made the heap grow. GetHeapSample without samples, and both in libtcmalloc_minimal, append
  // lines that begin with %warn and give the reason. They append nothing if there is no memory.
  virtual void GetHeapSample(MallocExtensionWriter* writer);
  virtual void GetHeapGrowthStacks(MallocExtensionWriter* writer);

  // Calls the function for every range of the heap in address order: spans of small objects of one
  // size, large objects, and free memory. The heap may change meanwhile.
  typedef void(RangeFunction)(void*, const base::MallocRange*);
  virtual void Ranges(void* arg, RangeFunction func);

  // Figures and settings by name (docs/properties.md). False if there is no property of that name;
  // Set also if it cannot be set to that value.
  virtual bool GetNumericProperty(const char* property, size_t* value);
  virtual bool SetNumericProperty(const char* property, size_t value);

  // MarkThreadIdle declares that the calling thread will not allocate for a while, and flushes its
  // cache. MarkThreadBusy declares that it is about to allocate, and creates its cache if it has
  // none; the call is optional.
  virtual void MarkThreadIdle();
  virtual void MarkThreadBusy();

  // The allocator from which the heap gets memory. Null selects the library's own again. An
  // allocator must live as long as the process, and may forward requests to the library's.
  virtual SysAllocator* GetSystemAllocator();
  virtual void SetSystemAllocator(SysAllocator* a);

  // Release free memory to the OS. ReleaseToSystem releases at least `num_bytes`, in whole pages
  // and whole unused hugepages; the excess counts towards the following calls. ReleaseFreeMemory
  // releases all of it, and resets that excess.
  virtual void ReleaseToSystem(size_t num_bytes);
  virtual void ReleaseFreeMemory();

  // How fast the library releases free memory by itself (tcmalloc_set_memory_release_rate); 0 for
  // never. Values from 0 to 10 are reasonable.
  virtual void SetMemoryReleaseRate(double rate);
  virtual double GetMemoryReleaseRate();

  // Returns the bytes that an object would have for a request of `size`.
  virtual size_t GetEstimatedAllocatedSize(size_t size);
  // The bytes of the object at `p`; 0 for null.
  virtual size_t GetAllocatedSize(const void* p);

  // Whether `p` is in the heap's memory.
  enum Ownership { kUnknownOwnership = 0, kOwned, kNotOwned };
  virtual Ownership GetOwnership(const void* p);

  // The object whose functions are in effect. Never null.
  static MallocExtension* instance();
  // Replaces that object, also for the C functions; null selects the library's own again. It is for
  // layers between the program and the heap; malloc does not change.
  static void Register(MallocExtension* implementation);

  struct FreeListInfo {
    size_t min_object_size;
    size_t max_object_size;
    size_t total_bytes_free;
    const char* type;
  };
  // Replaces the contents of `*v` by all lists of free memory. A type, and what its lists contain:
  //   tcmalloc.thread, tcmalloc.central                      objects, a list per size class
  //   tcmalloc.transfer                                      objects, always empty
  //   tcmalloc.page, tcmalloc.page_unmapped                  pages, a list per length below 128
  //   tcmalloc.large, tcmalloc.large_unmapped                longer runs of pages
  // The memory of types with _unmapped is not backed. Empty lists of pages are left out.
  virtual void GetFreeListSizes(std::vector<FreeListInfo>* v);

  // Return these profiles as arrays, which the caller deletes (delete[]). An entry is the number of
  // objects, their bytes, the number of frames, and the frames; a zero ends the array. Null in
  // libtcmalloc_minimal, and if there is no memory.
  virtual void** ReadStackTraces(int* sample_period);
  virtual void** ReadHeapGrowthStackTraces();

  // Bytes of the objects in the calling thread's cache.
  virtual size_t GetThreadCacheSize();

  // Like MarkThreadIdle, for short pauses: the thread keeps its share of the total cache size.
  virtual void MarkThreadTemporarilyIdle();
};

namespace base {

struct MallocRange {
  enum Type {
    INUSE,
    FREE,
    UNMAPPED,  // free and unbacked
    UNKNOWN
  };

  uintptr_t address;
  size_t length;
  Type type;
  double fraction;  // of the range that is in use; objects in caches count as in use
};

}  // namespace base

#endif  // GPERFTOOLS_MALLOC_EXTENSION_H_
