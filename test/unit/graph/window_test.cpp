// SPDX-License-Identifier: Apache-2.0
// If these fail, lists of integers in constructors do not reach the shapes that depend on them.
#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"

namespace {

using fk::Expr;
using Ints = std::vector<int64_t>;

struct Recorder {
  fk::Catalog catalog{fk::paths::registry_dirs()};
  fk::Builder b{catalog, "classify", std::make_shared<fk::WeightTable>()};

  fk::Dims convolve(fk::Dims image, Ints kernel, Ints stride, Ints padding) {
    const fk::Value weight = b.input("w", fk::DType::f32, {8, 4, kernel[0], kernel[1]});
    return b.shape(b.call("conv2d", "conv",
                          {{"in_channels", 4},
                           {"out_channels", 8},
                           {"kernel_size", kernel},
                           {"stride", stride},
                           {"padding", padding},
                           {"dilation", Ints{1, 1}},
                           {"weight", weight},
                           {"x", b.input("x", fk::DType::f32, std::move(image))}}));
  }
};

}  // namespace

TEST_CASE("window_gives_the_size_of_the_output") {
  Recorder r;
  const Expr batch = r.b.axis("B");
  const fk::Dims out = r.convolve({batch, 30, 17, 4}, {3, 5}, {2, 1}, {1, 0});
  CHECK(out == fk::Dims{batch, 15, 13, 8});
}

TEST_CASE("window_that_keeps_the_size_keeps_the_axis") {
  Recorder r;
  const Expr batch = r.b.axis("B"), rows = r.b.axis("Y");
  const fk::Dims out = r.convolve({batch, rows, rows, 4}, {7, 3}, {1, 1}, {3, 1});
  CHECK(out == fk::Dims{batch, rows, rows, 8});
}

TEST_CASE("window_with_too_many_values_or_outside_the_range_is_refused") {
  const fk::Dims image{2, 9, 9, 4};
  CHECK_THROWS_AS(Recorder().convolve(image, {3, 3}, {1, 1, 1}, {1, 1}), fk::Error);
  CHECK_THROWS_AS(Recorder().convolve(image, {3, 3}, {0, 1}, {1, 1}), fk::Error);
  CHECK_THROWS_AS(Recorder().convolve(image, {3, 3}, {1, 1}, {1, -1}), fk::Error);
}
