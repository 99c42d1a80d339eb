# SPDX-License-Identifier: BSD-3-Clause
#
# Installs the libraries, the headers, and the files by which pkg-config and CMake find them.
#
#   cmake --install build/release --prefix /opt/tcmalloc
#
# No installed file contains the prefix: the folder may be moved.

# The default is the same on every system; packagers may set it, for example to lib64.
set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Folder of the libraries, below the prefix")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Adds the rules that install the libraries into ${libdir}, the headers into ${includedir}, and the files for CMake into
# ${cmakedir}. Components, each with the prefix ${component}:
#   full, minimal  the files that programs need to run, each with its debug library
#   dev            the files that are needed to build programs
# pkg-config adds ${link_options} for programs that are linked with a library. ARGN is passed to every rule.
function(tcmalloc_install libdir includedir cmakedir component link_options)
  set(generated ${PROJECT_BINARY_DIR}/packaging/${libdir})
  set(names tcmalloc tcmalloc_minimal)
  if(TARGET tcmalloc_debug_static)
    list(APPEND names tcmalloc_debug tcmalloc_minimal_debug)
  endif()
  foreach(name IN LISTS names)
    set(part full)
    if(name MATCHES minimal)
      set(part minimal)
    endif()
    if(TCMALLOC_SHARED)
      install(TARGETS ${name} EXPORT tcmalloc-${component}
        LIBRARY DESTINATION ${libdir} COMPONENT ${component}${part}
                NAMELINK_COMPONENT ${component}dev ${ARGN}
        INCLUDES DESTINATION ${includedir})
    endif()
    install(TARGETS ${name}_static EXPORT tcmalloc-${component}
      ARCHIVE DESTINATION ${libdir} COMPONENT ${component}dev ${ARGN}
      INCLUDES DESTINATION ${includedir})
  endforeach()

  set(headers tcmalloc)
  if(NOT TCMALLOC_FREESTANDING)
    list(APPEND headers gperftools google)
  endif()
  list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/include/)
  install(DIRECTORY ${headers}
    DESTINATION ${includedir} COMPONENT ${component}dev ${ARGN}
    FILES_MATCHING PATTERN "*.h")

  # find_package(tcmalloc)
  write_basic_package_version_file(${generated}/tcmallocConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
  install(FILES packaging/tcmallocConfig.cmake ${generated}/tcmallocConfigVersion.cmake
    DESTINATION ${cmakedir} COMPONENT ${component}dev ${ARGN})
  install(EXPORT tcmalloc-${component} FILE tcmallocTargets.cmake NAMESPACE tcmalloc::
    DESTINATION ${cmakedir} COMPONENT ${component}dev ${ARGN})

  # pkg-config
  file(RELATIVE_PATH prefix /${libdir}/pkgconfig /)
  string(REGEX REPLACE "/$" "" prefix ${prefix})
  foreach(name IN LISTS names)
    set(title "thread-caching malloc")
    if(name MATCHES minimal)
      string(APPEND title ", the allocator alone")
    endif()
    if(name MATCHES debug)
      string(APPEND title ", which checks each object for damage and misuse")
    endif()
    configure_file(packaging/pkgconfig.pc.in ${generated}/lib${name}.pc @ONLY)
    install(FILES ${generated}/lib${name}.pc
      DESTINATION ${libdir}/pkgconfig COMPONENT ${component}dev ${ARGN})
  endforeach()
endfunction()

tcmalloc_install(${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_LIBDIR}/cmake/tcmalloc "" "")
if(TARGET tcmalloc_command)
  # The command is missing in builds of the libraries only.
  install(TARGETS tcmalloc_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command
    OPTIONAL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR}
    COMPONENT command OPTIONAL)
endif()
if(TCMALLOC_SHARED AND CMAKE_SIZEOF_VOID_P EQUAL 8)
  include(packaging/debian.cmake)
endif()
