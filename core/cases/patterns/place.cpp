// SPDX-License-Identifier: Apache-2.0
// Patterns that other code finds: compare() and judge() by place and kind of the wrong elements,
// without a contract, and the judge by equal calls.
#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kPlaceKinds[] = {
    {"rounding", surety::kKind, "looks like rounding noise"},
    {"differs_from_run_to_run", surety::kAsked,
     "differs from run to run: 1 to 4 wrong elements in equal calls"},
    {"lower_precision", surety::kKind,
     "the errors are 0.9 (root mean square) of what rounding explains: as of a lower precision"},
    {"unwritten", surety::kKind, "nothing was written to 16 elements: row 2"},
    {"nan", surety::kKind, "NaN in 12 elements: first 12 columns of row 2"},
    {"huge", surety::kKind, "every element, of sizes up to 3e+37"},
    {"zeros", surety::kKind, "row 5: zeros"},
    {"signed_zeros", surety::kKind, "all zeros, of both signs"},
    {"constant", surety::kKind, "constant 3.0 in every element"},
    {"factor", surety::kFigure, "every element is 1.0005 times too large"},
    {"offset", surety::kFigure, "every element + 0.5"},
    {"sign", surety::kFigure, "row 5: the sign"},
    {"line_offset", surety::kFigure, "each column has a different constant error"},
    {"line_factor", surety::kFigure, "each row is wrong by a different factor"},
    {"shifted", surety::kShape, "every element holds what belongs 1 further on"},
    {"transposed", surety::kShape, "transposed: rows and columns are exchanged"},
    {"halves", surety::kShape, "the halves of every row are exchanged"},
    {"interleaved", surety::kShape, "values that belong half a row apart are neighbours"},
    {"order", surety::kShape, "the right values, in another order"},
    {"tail", surety::kKind, "the last column (16) of every row"},
    {"step", surety::kKind, "every 4th row from 1"},
    {"rows_or_columns", surety::kPlace, "rows 3 and 7"},
    {"one_element", surety::kPlace, "one element, row 4, column 5"},
    {"every_element", surety::kPlace, "every element"},
    {"scattered", surety::kPlace, "scattered over 46 of 512 elements"}};

}  // namespace

FK_PATTERN(place, kPlaceKinds, nullptr);

}  // namespace fk
