// SPDX-License-Identifier: BSD-3-Clause
#include "central/misuse.h"

#include <bit>

#include "base/text.h"
#include "os/log.h"
#include "os/process.h"

namespace tcmalloc {

void ReportMisuse(Misuse misuse, const void* p, size_t size, size_t expected,
                  size_t alignment) noexcept {
  char buffer[256];
  TextWriter line(buffer, sizeof(buffer));
  line.Text(misuse == Misuse::kUpperBits ? "tcmalloc: use of " : "tcmalloc: free of ");
  // The caller of a setuid program learns no address: a child that the program forks next has the
  // same layout.
  line.Pointer(RunsWithRaisedPrivileges() ? nullptr : p).Text(": ");
  switch (misuse) {
    case Misuse::kDoubleFree:
      line.Text("double free, the object of ").Number(size).Text(" bytes is already free");
      break;
    case Misuse::kNotAnObjectStart:
      line.Text("not the start of an object, but a pointer into one of ")
          .Number(size)
          .Text(" bytes");
      break;
    case Misuse::kNotInUse:
      line.Text("no object is in use there (freed before, or never the start of one)");
      break;
    case Misuse::kWrongSize:
    case Misuse::kMissingAlignment:
      line.Text("the object has ").Number(size).Text(" bytes, but the sized free says ");
      line.Number(expected);
      if (alignment != 1) line.Text(" with alignment ").Number(alignment);
      if (misuse == Misuse::kMissingAlignment)
        line.Text(" without the alignment of the allocation");
      break;
    case Misuse::kWrongAlignment:
      line.Text("the sized free says alignment ").Number(alignment);
      line.Text(std::has_single_bit(alignment) ? ", which the address does not have"
                                               : ", which is not a power of two");
      break;
    case Misuse::kUpperBits:
      line.Text("not an address; without its upper bits it is one of this allocator's");
      break;
    case Misuse::kStack:
      line.Text("not an object, but a pointer into a thread's stack");
      break;
    case Misuse::kModuleImage:
      line.Text("not an object, but a pointer into the image of the program or a library");
      break;
    case Misuse::kNone:
    case Misuse::kUnknown:
      line.Text("not an object of this allocator, and no other allocator is in use");
      break;
  }
  line.Text("\n");
  AbortWith(line.text());
}

}  // namespace tcmalloc
