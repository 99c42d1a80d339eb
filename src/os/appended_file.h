// SPDX-License-Identifier: BSD-3-Clause
// Opens a file to which the library appends.
//
// The name may be predictable, and lie in a directory like /tmp, where another user may have put a
// link with this name to a file of the victim, or a hard link, or a FIFO that never has a reader.
// The kernel refuses such names only where fs.protected_symlinks and its like are set. So the
// library refuses them: in a directory into which another user can write, it appends only to a
// regular file with one name that the process's user owns, or to a FIFO of that user, and follows
// no link. In other directories the user alone (or root) makes the names, and every file is
// accepted: /dev/stdout is a link.
//
// The directory is opened once and the file relative to it, so it is the tested directory. The file
// is tested again after it was opened: what another user changes in between is found.
#pragma once

namespace tcmalloc {

// Opens the file such that each write appends in one piece. Creates a missing file with the
// permissions that the umask allows. Negative, with errno set, if it cannot be opened; EPERM: the
// file may be another user's. Never allocates, is no cancellation point.
int OpenForAppending(const char* path);

}  // namespace tcmalloc
