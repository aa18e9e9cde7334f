// SPDX-License-Identifier: Apache-2.0
// Codes are numbers of few bits (f8e4m3, int8, e2m1): values divided by a scale, then rounded to
// nearest even. The reference writes them unrounded, in float32. So a comparison knows how far a
// value lies from the boundary between two codes. Beside the boundary, float32 code may round
// either way, and both codes are right. Codes belong to the scale that the provider wrote itself;
// this scale is compared alone.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Makes a code field float32, one element for each code, for an oracle. Other fields stay.
void widen_codes(const Contract& contract, CaseField& field);

// Stored codes of unrounded values, as a provider writes them: to nearest even, saturated. Packed
// codes (u8) hold two e2m1 numbers, the first in the low four bits.
Tensor codes_of(const Tensor& unrounded, DType dtype);

// The right codes nearest to `mine`, in mine's dtype: `mine` where its code is right, else the
// reference's. `want` and `got` have all outputs. An output without unrounded values in `want` is
// returned as it is.
Tensor nearest_codes(const ResolvedCase& resolved, const CaseField& field, const Tensor& mine,
                     const CaseValues& want, const CaseValues& got);

}  // namespace fk
