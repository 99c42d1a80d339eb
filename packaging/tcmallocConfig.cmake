# SPDX-License-Identifier: BSD-3-Clause
#
# find_package(tcmalloc) defines
#   tcmalloc::tcmalloc          tcmalloc::tcmalloc_minimal          the shared libraries
#   tcmalloc::tcmalloc_static   tcmalloc::tcmalloc_minimal_static   the static ones
include(${CMAKE_CURRENT_LIST_DIR}/tcmallocTargets.cmake)

# CMake would link C programs with the C++ library on account of the archives' sources. They need none.
foreach(tcmalloc_target IN ITEMS tcmalloc::tcmalloc_static tcmalloc::tcmalloc_minimal_static)
  get_target_property(tcmalloc_configurations ${tcmalloc_target} IMPORTED_CONFIGURATIONS)
  foreach(tcmalloc_configuration IN LISTS tcmalloc_configurations)
    set_target_properties(${tcmalloc_target} PROPERTIES
      IMPORTED_LINK_INTERFACE_LANGUAGES_${tcmalloc_configuration} C)
  endforeach()
endforeach()
unset(tcmalloc_target)
unset(tcmalloc_configurations)
unset(tcmalloc_configuration)
