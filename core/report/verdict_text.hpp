// SPDX-License-Identifier: Apache-2.0
// A verdict for people. docs/verdict.md describes the JSON, which has the same content.
#pragma once
#include <string>

#include "core/referee/verdict/verdict.hpp"

namespace fk {

std::string verdict_text(const Verdict& verdict, bool colour);

}  // namespace fk
