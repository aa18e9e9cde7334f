// SPDX-License-Identifier: Apache-2.0
// A case as an oracle is called on it: dense, with float32 in place of the candidate's dtypes.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Which floats are float32, with those that have to have the same dtype: those that are written,
// all but weights, those of 16 bits and more (8 bits have scales, and are another way through an
// expansion), or all.
enum class Exact { outputs, forward, wide, all };

// `resolved` is `source` with `variant`; its scalars stay. Error as resolve().
ResolvedCase exact_call(const ResolvedCase& resolved, const Case& source, const Variant& variant,
                        Exact which);

}  // namespace fk
