// SPDX-License-Identifier: BSD-3-Clause
// OpenRegularFile: the one way in which this program opens a file whose name a target, a core, or a
// file of theirs chose, and a core file that the user names. Another user may have put anything
// there: a pipe on which an open waits, a device on which it acts, a link to a file of another
// user, a file with a lease.
#pragma once

#include <string>

namespace cli {

enum class Resolve {
  kAnywhere,  // symbolic links are resolved as for this program
  kBelow,     // the directory is the root of all names: "/" and ".." do not leave it
  // Like kAnywhere, and links of the kernel to files are followed: /proc/PID/exe, map_files.
  kLinksOfKernel,
};

struct OpenedFile {
  int descriptor = -1;  // open for reading, or -1
  std::string problem;  // the reason in words; empty if there is no such file
};

// Opens the file for reading, with close-on-exec; `directory` is an open directory or AT_FDCWD.
// Only a regular file is opened: the open of anything else is not even tried, so it never waits and
// has no effect. Kernels before 5.6 cannot resolve names below a directory: there, kBelow has the
// effect of kAnywhere, which follows links of the kernel, too.
OpenedFile OpenRegularFile(int directory, const std::string& path, Resolve resolve);
// Opens a regular file that the user names; links of all kinds are followed. Throws Failure.
int OpenNamedFile(const std::string& path);

// Opens a directory below which names are resolved; -1 if there is none.
int OpenDirectory(const std::string& path);

// Opens /proc/self/fd, this process's own table of descriptors, through which it opens files. Call
// this after a fork, or before a change of the root directory.
void LearnOwnDescriptors();

}  // namespace cli
