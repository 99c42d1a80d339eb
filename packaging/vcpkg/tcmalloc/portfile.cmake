# SPDX-License-Identifier: BSD-3-Clause
#
# The port of vcpkg. It lies in the sources that it builds: a clone, or an unpacked source archive.
#
#   vcpkg install tcmalloc --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# A Debug build has asserts for developers of the allocator. So debug builds of programs get the release library, too,
# and can link tcmalloc_debug, which checks the program.
set(VCPKG_BUILD_TYPE release)

string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" dynamic shared)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DTCMALLOC_SHARED=${shared}
    -DTCMALLOC_COMMAND=OFF
    -DTCMALLOC_TESTS=OFF
    -DTCMALLOC_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME tcmalloc CONFIG_PATH lib/cmake/tcmalloc)
vcpkg_fixup_pkgconfig()

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
