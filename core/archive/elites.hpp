// SPDX-License-Identifier: Apache-2.0
// Diverse programs: MAP-Elites over features, in islands.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/archive/program.hpp"

namespace fk {

// The cell of a program: launches exactly, numbers of bytes and registers by powers of two, the
// others as they are. Unknown features make no difference.
std::string cell_of(const Features& features);

// A measure of a right program: the lower end of its speed's interval, 0 without times.
double fitness_of(const JudgedProgram& program);

// The best right program of each cell, the best cell first. Equal ones: the earlier in the list.
std::vector<const JudgedProgram*> elites_of(const std::vector<JudgedProgram>& programs);

// `count` programs at most, each once: the best, then elites and other right programs by turns, at
// random. Equal seeds give equal answers.
std::vector<const JudgedProgram*> sampled(const std::vector<JudgedProgram>& programs, size_t count,
                                          std::mt19937_64& random);

}  // namespace fk
