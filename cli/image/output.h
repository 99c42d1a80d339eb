// SPDX-License-Identifier: BSD-3-Clause
// Output: the one way in which a command writes a file that its user names.
//
// * "-" is standard output.
// * A regular file, or one that does not exist, is replaced in one step when it is complete: a
//   reader never sees a part of it, and a failure leaves the old one. An old file keeps its rights.
// * Anything else that has the name is opened and written to: a device, a pipe, a symbolic link.
//   The kernel decides whether such a link is followed (fs.protected_symlinks).
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "image/image.h"

namespace cli {

enum class Readers : bool {
  kAll,        // as the umask says
  kOwnerOnly,  // the file has contents of a process's memory
};

class OutputFailure : public Failure {
 public:
  using Failure::Failure;
};

class Output {
 public:
  // Throws OutputFailure when the file cannot be created or opened.
  explicit Output(std::string path, Readers readers = Readers::kAll);
  // Without Finish, a regular file keeps its old contents.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Throws OutputFailure when not everything could be written.
  void Write(std::string_view text);
  // Gives the file its name. Throws OutputFailure.
  void Finish();

 private:
  void Replace(Readers readers, const struct stat* old);
  [[noreturn]] void Fail(int error) const;

  const std::string path_;
  std::string temporary_;  // the file's name until it is complete; empty if it has its name
  int descriptor_ = -1;
};

// Writes a whole file. Throws OutputFailure.
void WriteOutput(const std::string& path, std::string_view contents);
// Appends to a file that need not exist; "-" is standard output. Throws OutputFailure.
void AppendOutput(const std::string& path, std::string_view contents);
// To be called before the program opens a file: a closed standard input, output or error stays
// unusable, but a file that is opened later does not get its number.
void ReserveStandardStreams();
// Flushes the buffers of standard output. Throws OutputFailure when that, or an earlier write,
// failed.
void FlushOutput();

}  // namespace cli
