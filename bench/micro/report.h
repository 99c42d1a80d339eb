// SPDX-License-Identifier: BSD-3-Clause

// What a comparison says: a table for the reader, the complete raw data as JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "bench/common/machine.h"
#include "bench/micro/comparison.h"

namespace tcmalloc::bench {

void PrintMachine(std::ostream& out, const std::vector<Fact>& facts);

// Who is compared, from which file, in which version.
void PrintAllocators(std::ostream& out, const Comparison& comparison);

// Per pattern: the allocators' times, the ratios of ours to each peer, the verdicts.
void PrintTables(std::ostream& out, const Comparison& comparison);

// What stands against the claim that each of ours is not slower than any of the required peers, one
// line each; empty: nothing.
std::string Objections(const Comparison& comparison);

// Everything measured, the pilot and each slice included, and what was made of it.
void WriteJson(std::ostream& out, const Comparison& comparison, const std::vector<Fact>& facts,
               const std::vector<std::string>& command_line);

}  // namespace tcmalloc::bench
