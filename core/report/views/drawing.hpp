// SPDX-License-Identifier: Apache-2.0
// Drawings of documents (core/exec/picture.hpp) as inline SVG in the page's colours.
#pragma once
#include "core/report/views/view.hpp"

namespace fk {

// Fills svg, keys and sizes. Nothing happens for a drawing without a frame. The document may be a
// stranger's: unknown marks are left out, and each number stays near the frame.
void draw_into(ViewChart& chart, const Json& drawing);

}  // namespace fk
