// SPDX-License-Identifier: BSD-3-Clause
// Nothing: CMake precompiles a header only for a target that has a source file.
