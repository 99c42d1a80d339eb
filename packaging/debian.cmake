# SPDX-License-Identifier: BSD-3-Clause
#
# Makes Debian packages of what is built already:
#
#   cpack --config build/release/CPackConfig.cmake -B packages
#
#   tcmalloc           libtcmalloc.so.4
#   tcmalloc-minimal   libtcmalloc_minimal.so.4
#   tcmalloc-dev       headers, static libraries, files for pkg-config and CMake
#
# The libraries have the file names of gperftools' libraries: only one of the two can be installed.
set(TCMALLOC_PACKAGE_MAINTAINER "TCMalloc <root@localhost>" CACHE STRING
    "Maintainer of the packages, in Debian's form: name <address>")

# Debian's folder for libraries. Installed only if its component is named.
set(debian_libdir lib)
if(CMAKE_LIBRARY_ARCHITECTURE)
  string(APPEND debian_libdir /${CMAKE_LIBRARY_ARCHITECTURE})
endif()
tcmalloc_install(${debian_libdir} deb_ EXCLUDE_FROM_ALL)
foreach(part IN ITEMS full minimal dev)
  string(REPLACE tcmalloc-full tcmalloc package tcmalloc-${part})
  install(FILES LICENSE DESTINATION share/doc/${package} RENAME copyright
    COMPONENT deb_${part} EXCLUDE_FROM_ALL)
  string(TOUPPER deb_${part} component)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL deb_full deb_minimal deb_dev)
set(CPACK_PACKAGE_CONTACT ${TCMALLOC_PACKAGE_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(taken libgoogle-perftools4 libgoogle-perftools4t64)
list(JOIN taken ", " CPACK_DEBIAN_DEB_FULL_PACKAGE_CONFLICTS)
set(CPACK_DEBIAN_DEB_FULL_PACKAGE_REPLACES ${CPACK_DEBIAN_DEB_FULL_PACKAGE_CONFLICTS})
set(CPACK_DEBIAN_DEB_FULL_DESCRIPTION "thread-caching malloc
Takes the place of the C library's memory allocator in programs that are linked with it, or that
it is loaded into with LD_PRELOAD.")

set(taken libtcmalloc-minimal4 libtcmalloc-minimal4t64)
list(JOIN taken ", " CPACK_DEBIAN_DEB_MINIMAL_PACKAGE_CONFLICTS)
set(CPACK_DEBIAN_DEB_MINIMAL_PACKAGE_REPLACES ${CPACK_DEBIAN_DEB_MINIMAL_PACKAGE_CONFLICTS})
# It has all functions of gperftools' library of this name. (The full library of gperftools has more.)
list(TRANSFORM taken APPEND " (= 2.18)")
list(JOIN taken ", " CPACK_DEBIAN_DEB_MINIMAL_PACKAGE_PROVIDES)
set(CPACK_DEBIAN_DEB_MINIMAL_DESCRIPTION "thread-caching malloc, the allocator alone
Takes the place of the C library's memory allocator in programs that are linked with it, or that
it is loaded into with LD_PRELOAD.")

set(CPACK_DEBIAN_DEB_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEB_DEV_PACKAGE_DEPENDS
  "tcmalloc (= ${PROJECT_VERSION}), tcmalloc-minimal (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEB_DEV_PACKAGE_CONFLICTS libgoogle-perftools-dev)
set(CPACK_DEBIAN_DEB_DEV_PACKAGE_REPLACES libgoogle-perftools-dev)
set(CPACK_DEBIAN_DEB_DEV_DESCRIPTION "thread-caching malloc, to build programs with
Headers, static libraries, and the files by which pkg-config and CMake find them.")
include(CPack)
