# SPDX-License-Identifier: BSD-3-Clause
#
# Installs the libraries, the headers, and the files by which pkg-config and CMake find them.
#
#   cmake --install build/release --prefix /opt/tcmalloc
#
# No installed file contains the prefix: the folder may be moved.

# The same on every system; packagers may set it, for example to lib64.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of the libraries, below the prefix")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Adds the rules that install everything below ${libdir}. Components, each with the prefix ${component}:
#   full, minimal  what programs need to run
#   dev            what is needed to build them
# ARGN goes to every rule.
function(tcmalloc_install libdir component)
  set(generated ${PROJECT_BINARY_DIR}/packaging/${libdir})
  foreach(name IN ITEMS tcmalloc tcmalloc_minimal)
    string(REGEX REPLACE "^tcmalloc_?" "" part ${name})
    if(NOT part)
      set(part full)
    endif()
    if(TCMALLOC_SHARED)
      install(TARGETS ${name} EXPORT tcmalloc-${component}
        LIBRARY DESTINATION ${libdir} COMPONENT ${component}${part}
                NAMELINK_COMPONENT ${component}dev ${ARGN}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    endif()
    install(TARGETS ${name}_static EXPORT tcmalloc-${component}
      ARCHIVE DESTINATION ${libdir} COMPONENT ${component}dev ${ARGN}
      INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endforeach()

  set(headers tcmalloc)
  if(NOT TCMALLOC_FREESTANDING)
    list(APPEND headers gperftools)
  endif()
  list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/include/)
  install(DIRECTORY ${headers}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${component}dev ${ARGN}
    FILES_MATCHING PATTERN "*.h")

  # find_package(tcmalloc)
  set(folder ${libdir}/cmake/tcmalloc)
  write_basic_package_version_file(${generated}/tcmallocConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES packaging/tcmallocConfig.cmake ${generated}/tcmallocConfigVersion.cmake
    DESTINATION ${folder} COMPONENT ${component}dev ${ARGN})
  install(EXPORT tcmalloc-${component} FILE tcmallocTargets.cmake NAMESPACE tcmalloc::
    DESTINATION ${folder} COMPONENT ${component}dev ${ARGN})

  # pkg-config
  file(RELATIVE_PATH prefix /${libdir}/pkgconfig /)
  string(REGEX REPLACE "/$" "" prefix ${prefix})
  foreach(name IN ITEMS tcmalloc tcmalloc_minimal)
    set(title "thread-caching malloc")
    if(name STREQUAL tcmalloc_minimal)
      string(APPEND title ", the allocator alone")
    endif()
    configure_file(packaging/pkgconfig.pc.in ${generated}/lib${name}.pc @ONLY)
    install(FILES ${generated}/lib${name}.pc
      DESTINATION ${libdir}/pkgconfig COMPONENT ${component}dev ${ARGN})
  endforeach()
endfunction()

tcmalloc_install(${CMAKE_INSTALL_LIBDIR} "")
if(TARGET tcmalloc_command)
  # Some build the libraries only.
  install(TARGETS tcmalloc_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command
    OPTIONAL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR}
    COMPONENT command OPTIONAL)
endif()
if(TCMALLOC_SHARED AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  include(packaging/debian.cmake)
endif()
