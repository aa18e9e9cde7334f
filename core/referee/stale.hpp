// SPDX-License-Identifier: Apache-2.0
// Does an instance look at all of its input in every call? One that was called with some contents
// is called with others, and with others that are almost the same.
#pragma once
#include <string>

#include "core/referee/conduct.hpp"

namespace fk {

// Empty, or what is wrong after which contents. `values` are those of the case's frames; nothing is
// asked where no oracle takes the case. Small cases only: the reference answers for each.
std::string stale(const ConductCase& c, const Oracles& oracles, const Variant& variant,
                  const CaseValues& values, const ConductCall& call);

}  // namespace fk
