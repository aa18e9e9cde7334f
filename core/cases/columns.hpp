// SPDX-License-Identifier: Apache-2.0
// Columns of weights with different sizes, as in trained models. Column j is multiplied by a power
// of two. The values that feed it (an input, a norm's weight, rows of the weight before) are
// divided by it. Powers of two are exact, so errors of float weights do not change. Quantised
// weights (whole numbers with a scale for every row, or for a few columns) lose their small
// columns, where the multiplied values are large.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// For weights with the generator fed_by(): multiplies their columns, and divides the fields that
// feed them. An argument of fed_by() is
//   NAME [from EXPR] [+ NAME [from EXPR]]... [every EXPR] [few]
// The field NAME feeds by its last axis, or by its rows from EXPR on if it is a weight of two or
// more axes. Several names with + are summed and share their powers. Powers repeat after `every`
// columns, or after the number of rows. Each argument feeds as many columns as it has. Absent
// arguments, and those with more columns than remain, feed none. With `few` one column in eight is
// larger and others are unchanged. This is for values that pass a function such as GELU, whose
// shape must be kept, or that another sum also reads. Eight-bit columns, and fields that also feed
// such columns, are unchanged.
//
// Powers depend on the case, not on a seed, because inputs of a call must match the weights of an
// instance. Error at the contract when names or sizes do not fit.
void scale_columns(const ResolvedCase& resolved, CaseValues& values);

}  // namespace fk
