// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h for memory pressure: adapters to
// instruments/pressure/pressure.h. The public node and PressureListener have one layout.
#include <cerrno>
#include <cstddef>

#include "base/compiler.h"
#include "instruments/pressure/listeners.h"
#include "instruments/pressure/pressure.h"
#include "os/errno_keeper.h"
#include "process/heap.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

static_assert(sizeof(tcmalloc_pressure_listener) == sizeof(PressureListener) &&
              offsetof(tcmalloc_pressure_listener, context) == offsetof(PressureListener, context));

PressureListener* NodeOf(tcmalloc_pressure_listener* listener) {
  return reinterpret_cast<PressureListener*>(listener);
}

}  // namespace
}  // namespace tcmalloc

using tcmalloc::ErrnoKeeper;
using tcmalloc::ExistingHeap;

extern "C" {

TC_EXPORT void tcmalloc_add_pressure_listener(tcmalloc_pressure_listener* listener) noexcept {
  const ErrnoKeeper keeper;
  tcmalloc::AddPressureListener(tcmalloc::NodeOf(listener));
}

TC_EXPORT void tcmalloc_remove_pressure_listener(tcmalloc_pressure_listener* listener) noexcept {
  const ErrnoKeeper keeper;
  tcmalloc::RemovePressureListener(tcmalloc::NodeOf(listener));
}

TC_EXPORT int tcmalloc_pressure_fd(void) noexcept {
  const int fd_or_error = tcmalloc::PressureFd(ExistingHeap());
  if (fd_or_error >= 0) return fd_or_error;
  errno = -fd_or_error;
  return -1;
}

TC_EXPORT int tcmalloc_handle_pressure(void) noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::HandlePressure(ExistingHeap());
}

}  // extern "C"
