// SPDX-License-Identifier: Apache-2.0
// A case for an oracle's call: dense, with float32 in place of the candidate's dtypes.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// The floats that become float32, with all fields tied to their dtype: written fields; all but
// weights; floats of 16 bits and more; or all. Eight-bit floats have scales, and so take another
// path through a decomposition. Codes become float32 for `outputs` and `all` (codes.hpp).
enum class Exact { outputs, forward, wide, all };

// The floats of a call of an oracle on a device. Its inputs keep their dtype, which saves memory.
// But `values` may be wider than their fields: inputs which a few units of float32 have moved. 16
// bits would round these moves away, and the answer would show no noise.
Exact exact_on_device(const ResolvedCase& resolved, const CaseValues& values);

// `resolved` is `source` with `variant`; its scalars stay. Errors as in resolve().
ResolvedCase exact_call(const ResolvedCase& resolved, const Case& source, const Variant& variant,
                        Exact which);

}  // namespace fk
