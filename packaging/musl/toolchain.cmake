# SPDX-License-Identifier: BSD-3-Clause
#
# A toolchain for programs that musl-gcc links. musl has no C++ library, so g++ compiles the allocator with the
# headers of musl, of the kernel, and those of g++ that need no library (freestanding).
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER g++)
set(TCMALLOC_FREESTANDING ON)  # no <string>, no <vector>
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # a C++ program cannot be linked
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TCMALLOC_MUSL_HEADERS)

# Returns the folders that a compiler searches for headers.
function(tcmalloc_header_folders compiler language result)
  execute_process(COMMAND ${compiler} -E -v -x ${language} /dev/null
    OUTPUT_QUIET ERROR_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE ".*#include <\\.\\.\\.> search starts here:\n(.*)\nEnd of search list.*" "\\1" text "${text}")
  string(REGEX REPLACE "\n? +" ";" folders "${text}")
  list(REMOVE_ITEM folders "")
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

if(NOT TCMALLOC_MUSL_HEADERS)
  tcmalloc_header_folders(${CMAKE_CXX_COMPILER} c++ gnu)
  tcmalloc_header_folders(${CMAKE_C_COMPILER} c musl)
  # Takes only the kernel's headers from the folder that also has those of the other C library.
  set(kernel ${CMAKE_BINARY_DIR}/kernel-headers)
  file(MAKE_DIRECTORY ${kernel})
  foreach(name IN ITEMS linux asm asm-generic)
    foreach(folder IN LISTS gnu)
      if(IS_DIRECTORY ${folder}/${name})
        file(CREATE_LINK ${folder}/${name} ${kernel}/${name} SYMBOLIC)
      endif()
    endforeach()
  endforeach()
  list(FILTER gnu INCLUDE REGEX "/c\\+\\+/")
  set(TCMALLOC_MUSL_HEADERS ${CMAKE_CURRENT_LIST_DIR}/include ${gnu} ${musl} ${kernel})
endif()

string(JOIN " -isystem " folders ${TCMALLOC_MUSL_HEADERS})
set(CMAKE_CXX_FLAGS_INIT "-ffreestanding -fbuiltin -nostdinc -isystem ${folders}")
