// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/cgroup_directories.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "os/cgroup.h"
#include "os/errno_keeper.h"

namespace tcmalloc {
namespace {

struct Search {
  CgroupDirectories* found;
  bool failed = false;
};

void VisitDirectory(const CgroupDirectory& directory, void* context) {
  Search* const search = static_cast<Search*>(context);
  char* const found =
      directory.version == CgroupVersion::kV1 ? search->found->v1 : search->found->v2;
  if (*found != '\0' || directory.length >= CgroupDirectories::kMaxLength) return;
  if (syscall(SYS_faccessat, AT_FDCWD, directory.path, F_OK) != 0) {
    if (errno == ENOMEM) search->failed = true;
    return;
  }
  memcpy(found, directory.path, directory.length);
  found[directory.length] = '\0';
}

}  // namespace

bool FindCgroupDirectories(CgroupDirectories* directories, std::string_view root) {
  const ErrnoKeeper keeper;
  *directories->v1 = '\0';
  *directories->v2 = '\0';
  Search search = {.found = directories};
  if (ForEachCgroupDirectory(root, VisitDirectory, &search) && !search.failed) return true;
  *directories->v1 = '\0';
  *directories->v2 = '\0';
  return false;
}

}  // namespace tcmalloc
