// SPDX-License-Identifier: Apache-2.0
// The difference of two programs as text.
#pragma once
#include <string>
#include <vector>

#include "core/archive/program.hpp"

namespace fk {

// A unified difference with three lines of context, in the form of `diff -u`. Empty: equal.
std::string unified_diff(const std::string& from, const std::string& to,
                         const std::string& from_name, const std::string& to_name);
// The same for all files, by name.
std::string program_diff(const std::vector<ProgramFile>& from, const std::vector<ProgramFile>& to);

}  // namespace fk
