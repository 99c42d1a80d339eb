// SPDX-License-Identifier: BSD-3-Clause
// This file is empty: CMake precompiles a header only for a target that has a source file.
