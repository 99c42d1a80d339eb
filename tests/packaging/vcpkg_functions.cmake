# SPDX-License-Identifier: BSD-3-Clause
#
# Functions that do what the functions of vcpkg do that our port calls, as far as the port needs it, for a machine
# without vcpkg.
#
#   cmake -DPORT_DIR=... -DWORK=... -DVCPKG_LIBRARY_LINKAGE=static|dynamic -DMORE_OPTIONS=... -P vcpkg_functions.cmake
#
# Leaves in WORK/installed the files that vcpkg would install. An argument or a function that is not known here ends
# the script.
set(PORT tcmalloc)
set(CURRENT_PORT_DIR ${PORT_DIR})
set(CURRENT_PACKAGES_DIR ${WORK}/installed)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

macro(parse one several)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "${one}" "${several}")
  if(given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}: not known: ${given_UNPARSED_ARGUMENTS}")
  endif()
endmacro()

function(vcpkg_cmake_configure)
  parse(SOURCE_PATH OPTIONS)
  if(NOT VCPKG_BUILD_TYPE STREQUAL release)
    message(FATAL_ERROR "this builds no Debug configuration")
  endif()
  run(${CMAKE_COMMAND} -S ${given_SOURCE_PATH} -B ${WORK}/build -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} ${given_OPTIONS} ${MORE_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  parse("" "")
  run(${CMAKE_COMMAND} --build ${WORK}/build)
  run(${CMAKE_COMMAND} --install ${WORK}/build)
endfunction()

function(vcpkg_cmake_config_fixup)
  parse("PACKAGE_NAME;CONFIG_PATH" "")
  set(folder ${CURRENT_PACKAGES_DIR}/share/${given_PACKAGE_NAME})
  file(MAKE_DIRECTORY ${CURRENT_PACKAGES_DIR}/share)
  file(RENAME ${CURRENT_PACKAGES_DIR}/${given_CONFIG_PATH} ${folder})
  # CMake's files count the folders up to the prefix.
  file(READ ${folder}/tcmallocTargets.cmake text)
  string(REGEX REPLACE "(get_filename_component\\(_IMPORT_PREFIX [^\n]*\n)+"
    "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)\n" text "${text}")
  file(WRITE ${folder}/tcmallocTargets.cmake "${text}")
endfunction()

function(vcpkg_fixup_pkgconfig)
  parse("" "")
endfunction()

function(vcpkg_install_copyright)
  parse("" FILE_LIST)
  file(INSTALL ${given_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(RENAME ${CURRENT_PACKAGES_DIR}/share/${PORT}/LICENSE ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright)
endfunction()

include(${PORT_DIR}/portfile.cmake)
