# SPDX-License-Identifier: BSD-3-Clause
# Debian's cross compiler for CMAKE_SYSTEM_PROCESSOR. QEMU's user emulation runs programs of the build
# (qemu-user-static). The name contains the version of g++, since only the packages without a version conflict with
# g++-multilib.
set(CMAKE_SYSTEM_NAME Linux)
set(TCMALLOC_TARGET ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER ${TCMALLOC_TARGET}-gcc-12)
set(CMAKE_CXX_COMPILER ${TCMALLOC_TARGET}-g++-12)
set(CMAKE_LIBRARY_ARCHITECTURE ${TCMALLOC_TARGET})
set(CMAKE_FIND_ROOT_PATH /usr/${TCMALLOC_TARGET})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR
  "/usr/bin/qemu-${CMAKE_SYSTEM_PROCESSOR}-static;-L;/usr/${TCMALLOC_TARGET}")
