// SPDX-License-Identifier: Apache-2.0
// Columns of weights in different sizes, as trained models have them: column j is multiplied by a
// power of two, and what feeds it (an input, a norm's weight, the rows of the weight before) is
// divided by it. Powers of two are exact, so who keeps the weights in floats errs as before. Who
// keeps them as whole numbers with a scale for every row, or for every few columns, rounds the
// small columns to nothing, where what they are multiplied with is large.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Multiplies, of all fields of `values`, columns of weights whose generator is fed_by(), and
// divides what feeds them. An argument of it is
//   NAME [from EXPR] [+ NAME [from EXPR]]... [every EXPR] [few]
// where NAME feeds by its last axis, or by its rows where it is a weight of two axes and more, from
// row EXPR on. Several names are added to each other and share their
// powers, which begin again after `every` columns, else after as many as there are rows. Of several
// arguments each feeds as many columns as it has; those that are absent, or have more than are
// left, feed none. With `few` one column in eight is larger and the others are as they were: for
// what goes through a function as GELU, whose shape is not to be lost, and for what a sum of others
// takes too. Columns of eight bits, and what is fed to such ones too, stay as they are.
//
// The powers are of the case, not of a seed: the inputs of a call go with the weights of an
// instance. Error at the contract when names or sizes do not fit.
void scale_columns(const ResolvedCase& resolved, CaseValues& values);

}  // namespace fk
