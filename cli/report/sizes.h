// SPDX-License-Identifier: BSD-3-Clause
// Formats numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace cli {

// "12.3 MiB"; small numbers in bytes.
std::string Size(uint64_t bytes);
// "12.3%" of a whole; empty when the whole is 0.
std::string Share(uint64_t part, uint64_t whole);
// "1 object", "3 objects".
std::string CountOf(uint64_t n, const char* what);

}  // namespace cli
