// SPDX-License-Identifier: Apache-2.0
// Parts which U-Nets and decoders of images share, in diffusers' names. Images are channels last.
#pragma once
#include <string>

#include "core/exec/model.hpp"

namespace fk::parts {

// A convolution of 3 by 3 with a bias; with `stride` 2 the result has half of the size.
Value conv3(Net& n, const std::string& path, Value x, int64_t channels, int64_t stride = 1);
// Twice as many rows and columns, then a convolution.
Value upsampled(Net& n, const std::string& path, Value x);
// A residual block; `time` [B, F] may be absent.
Value resnet(Net& n, const std::string& path, Value x, int64_t channels, int64_t groups, double eps,
             Value time = {});
// The norm and the convolution behind the last block.
Value last_conv(Net& n, const std::string& norm, const std::string& conv, Value x, int64_t groups,
                double eps, int64_t channels);
// [B, pixels, C] of an image, and back.
Value pixel_rows(Net& n, Value image);
Value as_image(Net& n, Value rows, Value like);
// x in the dtype of activations, `scale` times. x is in float32 and has any shape.
Value lowered(Net& n, const std::string& path, Value x, double scale = 1);

}  // namespace fk::parts
