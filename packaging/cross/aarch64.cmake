# SPDX-License-Identifier: BSD-3-Clause
# Builds for 64-bit ARM with Debian's cross compiler (g++-12-aarch64-linux-gnu).
set(CMAKE_SYSTEM_PROCESSOR aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
