// SPDX-License-Identifier: BSD-3-Clause

// The output of a comparison: a table for the reader, and the complete raw data as JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "bench/common/machine.h"
#include "bench/micro/comparison.h"

namespace tcmalloc::bench {

void PrintMachine(std::ostream& out, const std::vector<Fact>& facts);

// Prints which allocators are compared, their files and versions.
void PrintAllocators(std::ostream& out, const Comparison& comparison);

// Prints for each pattern the allocators' times, the ratios of ours to each peer, the verdicts.
void PrintTables(std::ostream& out, const Comparison& comparison);

// Checks the claim that each of ours is not slower than any of the required peers. Returns the
// objections, one line each; empty if there are none.
std::string Objections(const Comparison& comparison);

// Writes all measurements, the pilot and each slice included, and the results computed from them.
void WriteJson(std::ostream& out, const Comparison& comparison, const std::vector<Fact>& facts,
               const std::vector<std::string>& command_line);

}  // namespace tcmalloc::bench
