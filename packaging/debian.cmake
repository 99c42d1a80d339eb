# SPDX-License-Identifier: BSD-3-Clause
#
# Makes Debian packages of the files that are built already:
#
#   cpack --config build/release/CPackConfig.cmake -B packages
#
#   tcmalloc           libtcmalloc.so.4, libtcmalloc_debug.so.4
#   tcmalloc-minimal   libtcmalloc_minimal.so.4, libtcmalloc_minimal_debug.so.4
#   tcmalloc-dev       headers, static libraries, files for pkg-config and CMake
#   tcmalloc-tools     the tcmalloc command, its man pages and completions
#   NAME-dbgsym        debug information, in files *.ddeb
#
# gperftools' packages have libraries and headers of the same names. Ours lie in a folder of their own, so that both can be
# installed, and programs that are linked with gperftools' keep using them. docs/debian.md describes how to choose.
set(TCMALLOC_PACKAGE_MAINTAINER "" CACHE STRING
    "Maintainer of the packages, in Debian's form: name <address>. Empty: who makes them (packaging/maintainer.cmake)")

# These rules install only if a component is named.
set(debian_libdir lib)
if(CMAKE_LIBRARY_ARCHITECTURE)
  string(APPEND debian_libdir /${CMAKE_LIBRARY_ARCHITECTURE})
endif()
# The dynamic linker does not search the folder, so programs contain its name.
tcmalloc_install(${debian_libdir}/tcmalloc ${debian_libdir}/tcmalloc/include ${debian_libdir}/cmake/tcmalloc deb_
  " -Wl,-rpath,\${libdir}" EXCLUDE_FROM_ALL)
# Debian's archives have no debug information.
install(CODE "file(GLOB archives \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${debian_libdir}/tcmalloc/*.a\")
  execute_process(COMMAND ${CMAKE_STRIP} --strip-debug --enable-deterministic-archives \${archives} COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT deb_dev EXCLUDE_FROM_ALL)
set(components deb_full deb_minimal deb_dev)
if(TARGET tcmalloc_command)
  list(APPEND components deb_tools)
  install(TARGETS tcmalloc_command RUNTIME DESTINATION bin COMPONENT deb_tools EXCLUDE_FROM_ALL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION share COMPONENT deb_tools EXCLUDE_FROM_ALL)
endif()
foreach(component IN LISTS components)
  string(REPLACE deb_ tcmalloc- package ${component})
  string(REPLACE tcmalloc-full tcmalloc package ${package})
  install(FILES LICENSE DESTINATION share/doc/${package} RENAME copyright
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES packaging/README.Debian DESTINATION share/doc/${package}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  string(TOUPPER ${component} component)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_PACKAGE_CONTACT "${TCMALLOC_PACKAGE_MAINTAINER}")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/packaging/maintainer.cmake)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# With these files dpkg-shlibdeps finds the package for a program that is linked with a library of the folder.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)  # the other packages are stripped then

set(CPACK_DEBIAN_DEB_FULL_PACKAGE_SUGGESTS tcmalloc-tools)
set(CPACK_DEBIAN_DEB_FULL_DESCRIPTION "thread-caching malloc
Takes the place of the C library's memory allocator in programs that are linked with it, or that
it is loaded into with LD_PRELOAD. With heap profiler and leak checker.")

set(CPACK_DEBIAN_DEB_MINIMAL_PACKAGE_SUGGESTS tcmalloc-tools)
set(CPACK_DEBIAN_DEB_MINIMAL_DESCRIPTION "thread-caching malloc, the allocator alone
Takes the place of the C library's memory allocator in programs that are linked with it, or that
it is loaded into with LD_PRELOAD.")

# The packages depend on each other in the same version.
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_DEB_DEV_DEPENDS deb_full deb_minimal)
set(CPACK_DEBIAN_DEB_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEB_DEV_DEBUGINFO_PACKAGE OFF)
set(CPACK_DEBIAN_DEB_DEV_DESCRIPTION "thread-caching malloc, to build programs with
Headers, static libraries, and the files by which pkg-config and CMake find them.")

set(CPACK_DEBIAN_DEB_TOOLS_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_DEB_TOOLS_PACKAGE_RECOMMENDS tcmalloc)
set(CPACK_DEBIAN_DEB_TOOLS_DESCRIPTION "thread-caching malloc, the command that looks into processes
Shows where the memory of a running process, of its core or of a snapshot is, finds leaks,
and draws flame graphs. Runs a program on the library.")
include(CPack)
