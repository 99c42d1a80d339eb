# SPDX-License-Identifier: BSD-3-Clause
#
# find_package(tcmalloc) defines
#   tcmalloc::tcmalloc          tcmalloc::tcmalloc_minimal          the shared libraries
#   tcmalloc::tcmalloc_static   tcmalloc::tcmalloc_minimal_static   the static ones
# and the debug libraries: the same with _debug after tcmalloc or tcmalloc_minimal.
include(${CMAKE_CURRENT_LIST_DIR}/tcmallocTargets.cmake)
