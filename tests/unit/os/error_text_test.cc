// SPDX-License-Identifier: BSD-3-Clause
#include "os/error_text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace tcmalloc {
namespace {

std::string Words(int error) {
  char buffer[128];
  TextWriter out(buffer, sizeof(buffer));
  WriteError(error, &out);
  return buffer;
}

TEST(ErrorTextTest, AgreesWithTheCLibrary) {
  for (const int error : {EPERM,  ENOENT, EAGAIN, EACCES,       EEXIST, ENOTDIR, EISDIR,
                          EINVAL, EMFILE, EFBIG,  ENXIO,        EBUSY,  ENODEV,  ECONNREFUSED,
                          ENOSPC, EROFS,  EPIPE,  ENAMETOOLONG, ELOOP,  EDQUOT}) {
    EXPECT_EQ(Words(error), strerror(error));
  }
  EXPECT_EQ(Words(ENOMEM), "Out of memory");
  EXPECT_EQ(Words(4095), "error 4095");
}

}  // namespace
}  // namespace tcmalloc
