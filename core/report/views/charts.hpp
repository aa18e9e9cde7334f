// SPDX-License-Identifier: Apache-2.0
// Charts as inline SVG. Their width is the page's: positions across are shares, heights and letters
// are pixels, so that a chart is as readable on a phone. Colours are classes of page.css. Each
// value is also a title, which a pointer and a screen reader find.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/report/views/view.hpp"

namespace fk {

// Text inside HTML and SVG, also inside quoted attributes.
std::string escaped(std::string_view text);

struct IntervalRow {
  std::string label;
  double value = 0;
  std::optional<double> low = {}, high = {};
  Tone tone = Tone::plain;
};
// Ratios beside 1, on a logarithmic axis. Rows above `rows_max` are left out, those nearest to 1
// first; the note says so.
ViewChart interval_chart(const std::string& title, std::vector<IntervalRow> rows,
                         size_t rows_max = 40);

struct BarRow {
  std::string label;
  std::optional<double> before, after;  // `after` missing: one bar
  std::optional<double> before_low = {}, before_high = {}, after_low = {}, after_high = {};
};
// Bars from 0 on, with whiskers. `before` and `after` name the two series.
ViewChart bar_chart(const std::string& title, const std::vector<BarRow>& rows, Unit unit,
                    const std::string& before, const std::string& after);

struct StackPart {
  std::string name;
  double value = 0;
};
struct StackRow {
  std::string label;
  std::vector<StackPart> parts;  // the parts of all rows have one order of names
};
// Parts of a whole, one bar for each row on one scale. The largest names have a colour; "others" is
// the sum of the rest.
ViewChart stacked_chart(const std::string& title, const std::vector<StackRow>& rows, Unit unit);

struct RooflinePoint {
  std::string label;
  double flops = 0, bytes = 0;   // of one call
  double seconds = 0, roof = 0;  // measured time; the device's least time over it, 0 to 1
  bool baseline = false;
};
// Operations a second over operations a byte, both logarithmic, under the roof which the points'
// shares imply. Points without operations or roof are left out.
ViewChart roofline_chart(const std::string& title, const std::vector<RooflinePoint>& points);

}  // namespace fk
