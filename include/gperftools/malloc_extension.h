// SPDX-License-Identifier: BSD-3-Clause
//
// MallocExtension as programs know it from gperftools 2.10 to 2.18: the same names, the same order
// of virtual functions, the same layouts, so that programs compiled with either header run with
// either library. New programs better use <tcmalloc/tcmalloc.h>.
//
// Unless it says otherwise a function may be called by any thread at any moment, but not from a
// signal handler, and does not fail. Sizes are in bytes.
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

// Where the heap gets its memory from; a program may bring its own.
class PERFTOOLS_DLL_DECL SysAllocator {
 public:
  SysAllocator() {}
  virtual ~SysAllocator();

  // Memory of at least `size` bytes that begins at a multiple of `alignment`; null when there is
  // none. `*actual_size`, unless null, is set to how much it is. Nothing is ever given back. Called
  // in the midst of an allocation, by several threads at once: it must not allocate, fork, or wait
  // for a thread that does.
  virtual void* Alloc(size_t size, size_t* actual_size, size_t alignment) = 0;
};

class PERFTOOLS_DLL_DECL MallocExtension {
 public:
  virtual ~MallocExtension();

  // Does nothing: there is nothing to be set up.
  static void Initialize();

  // Always true: there is no debugging heap whose contents could be verified.
  virtual bool VerifyAllMemory();
  virtual bool VerifyNewMemory(const void* p);
  virtual bool VerifyArrayNewMemory(const void* p);
  virtual bool VerifyMallocMemory(const void* p);

  // Objects in use: how many, how many bytes they have, and how many of them have at least 2^i
  // bytes but not 2^(i+1). What does not fit an int is the largest int. Returns true. Cost: a step
  // per span of the heap.
  virtual bool MallocMemoryStats(int* blocks, size_t* total, int histogram[kMallocHistogramSize]);

  // Statistics as text, cut to the buffer and terminated by a zero; with a line per size class when
  // the buffer has at least 10000 bytes.
  virtual void GetStats(char* buffer, int buffer_length);

  // Appends profiles as text, which pprof reads: of the sampled objects that are in use, and of
  // where the heap was made to grow. libtcmalloc_minimal has none: the string stays as it is.
  virtual void GetHeapSample(MallocExtensionWriter* writer);
  virtual void GetHeapGrowthStacks(MallocExtensionWriter* writer);

  // Calls the function for every range of the heap, in order of their addresses: runs of pages that
  // hold small objects of one size, large objects, and free memory. The heap may change meanwhile.
  typedef void(RangeFunction)(void*, const base::MallocRange*);
  virtual void Ranges(void* arg, RangeFunction func);

  // Figures and settings by name (docs/properties.md). False when there is none of that name, or,
  // for Set, when it cannot be set to that.
  virtual bool GetNumericProperty(const char* property, size_t* value);
  virtual bool SetNumericProperty(const char* property, size_t value);

  // The calling thread does not need its cache for a while: empties it. It need not say so when it
  // goes on.
  virtual void MarkThreadIdle();
  virtual void MarkThreadBusy();

  // What the heap grows by: null for the library's own again. An allocator lives as long as the
  // process, and may ask the library's for memory.
  virtual SysAllocator* GetSystemAllocator();
  virtual void SetSystemAllocator(SysAllocator* a);

  // Releases free memory to the system: ReleaseToSystem at least `num_bytes` bytes, in whole pages
  // and whole unused hugepages; what it releases beyond that counts for the calls that follow.
  // ReleaseFreeMemory releases all there is, and ends the count.
  virtual void ReleaseToSystem(size_t num_bytes);
  virtual void ReleaseFreeMemory();

  // How eagerly free memory goes back by itself; 0 for never. Reasonable are 0 to 10.
  virtual void SetMemoryReleaseRate(double rate);
  virtual double GetMemoryReleaseRate();

  // The bytes that an object has which is asked for with `size`.
  virtual size_t GetEstimatedAllocatedSize(size_t size);
  // The bytes that the object at `p` has; 0 for null.
  virtual size_t GetAllocatedSize(const void* p);

  // Whether the heap has the memory at `p`.
  enum Ownership { kUnknownOwnership = 0, kOwned, kNotOwned };
  virtual Ownership GetOwnership(const void* p);

  // The object whose functions are in effect. Never null.
  static MallocExtension* instance();
  // Puts another one in its place, also for the C functions. For layers between the program and the
  // heap; malloc itself is not affected.
  static void Register(MallocExtension* implementation);

  struct FreeListInfo {
    size_t min_object_size;
    size_t max_object_size;
    size_t total_bytes_free;
    const char* type;
  };
  // Makes `*v` the list of all lists of free memory. A type, and the sizes that a list serves:
  //   tcmalloc.thread, tcmalloc.central                      objects, a list per size class
  //   tcmalloc.transfer                                      the same, always empty
  //   tcmalloc.page, tcmalloc.page_unmapped                  pages, a list per length below 128
  //   tcmalloc.large, tcmalloc.large_unmapped                the longer ones
  // Those with _unmapped have no memory behind them. Lists of pages that are empty are left out.
  virtual void GetFreeListSizes(std::vector<FreeListInfo>* v);

  // The same profiles as arrays, which the caller deletes (delete[]): for each entry the number of
  // objects, their bytes together, the number of frames and these; a zero in the end. Null in
  // libtcmalloc_minimal, and where there is no memory.
  virtual void** ReadStackTraces(int* sample_period);
  virtual void** ReadHeapGrowthStackTraces();

  // Bytes of objects in the calling thread's cache.
  virtual size_t GetThreadCacheSize();

  // As MarkThreadIdle, for short pauses.
  virtual void MarkThreadTemporarilyIdle();
};

namespace base {

struct MallocRange {
  enum Type {
    INUSE,
    FREE,
    UNMAPPED,  // free, and without memory
    UNKNOWN
  };

  uintptr_t address;
  size_t length;
  Type type;
  double fraction;  // of the range that is in use; what lies in caches counts as in use
};

}  // namespace base

#endif  // GPERFTOOLS_MALLOC_EXTENSION_H_
