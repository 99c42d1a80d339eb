// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/device_memory.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/check.h"
#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// Offsets in a file are signed.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

}  // namespace

bool DeviceMemory::Open(const Options& options, size_t hardware_page) {
  const int descriptor = OpenForWriting(options.path);
  if (descriptor < 0) return false;
  uint64_t limit = options.limit == 0 ? kNoLimit : options.limit;
  struct stat status;
  // A file has no memory beyond its end. The end of a device is unknown.
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    limit = std::min(limit, static_cast<uint64_t>(status.st_size));
  }
  return file_.Use(descriptor, options.first, limit & ~uint64_t{hardware_page - 1});
}

Mapping DeviceMemory::Map(size_t bytes, size_t alignment) {
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  if (!IsUsable()) return {};
  const ErrnoKeeper keeper;
  const BackingFile::Piece piece = file_.Claim(bytes);
  if (piece.bytes == 0) return {};
  void* const start = file_.Map(piece, alignment, false);
  if (start == nullptr) {
    file_.Return(piece);
    return {};
  }
  return {start, piece.bytes, false};
}

}  // namespace tcmalloc
