// SPDX-License-Identifier: Apache-2.0
// Images as PNG files, by libpng.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace fk {

// The bytes of a file. `pixels` has rows from the top, each of `width` pixels with one colour
// (grey) or three, 8 bits each. Empty in a build without libpng. Error if the library refuses the
// sizes.
std::string png_of(int64_t width, int64_t height, int64_t colours, std::span<const uint8_t> pixels);

}  // namespace fk
