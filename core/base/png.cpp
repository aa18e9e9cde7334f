// SPDX-License-Identifier: Apache-2.0
#include "core/base/png.hpp"

#include "core/base/error.hpp"

#ifdef FK_PNG
#include <png.h>
#endif

namespace fk {

#ifdef FK_PNG
std::string png_of(int64_t width, int64_t height, int64_t colours,
                   std::span<const uint8_t> pixels) {
  constexpr int64_t kSideMost = 1 << 14;
  FK_CHECK(width >= 1 && width <= kSideMost && height >= 1 && height <= kSideMost &&
               (colours == 1 || colours == 3) &&
               static_cast<int64_t>(pixels.size()) == width * height * colours,
           "the pixels of a PNG have other sizes");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = colours == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  if (!png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr))
    fail("PNG", image.message);
  out.resize(size);
  return out;
}
#else
std::string png_of(int64_t, int64_t, int64_t, std::span<const uint8_t>) { return {}; }
#endif

}  // namespace fk
