// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/unet.hpp"

#include "baselines/models/parts/image.hpp"

namespace fk::parts {

using Ints = std::vector<int64_t>;

Value conv3(Net& n, const std::string& path, Value x, int64_t channels, int64_t stride) {
  return n("conv2d", path,
           {{"out_channels", channels},
            {"kernel_size", Ints{3, 3}},
            {"stride", Ints{stride, stride}},
            {"padding", Ints{1, 1}},
            {"dilation", Ints{1, 1}},
            {"x", x}},
           {"bias"});
}

Value upsampled(Net& n, const std::string& path, Value x) {
  const Dims shape = n.shape(x);
  const Value large = n.empty(n.dtype(x), {shape[0], shape[1] * 2, shape[2] * 2, shape[3]});
  n("resize2d", path + ".resize", {{"mode", "nearest"}, {"x", x}, {"out", large}});
  return conv3(n, path + ".conv", large, shape[3].value());
}

Value resnet(Net& n, const std::string& path, Value x, int64_t channels, int64_t groups, double eps,
             Value time) {
  std::vector<std::string> with;
  if (n.shape(x).back().value() != channels) with.emplace_back("residual");
  if (time) with.emplace_back("time");
  Args args = {{"out_channels", channels}, {"groups", groups}, {"eps", eps}, {"x", x}};
  if (time) args.emplace_back("temb", time);
  if (time) args.emplace_back("temb_channels", n.shape(time)[1].value());
  return n("unet_resnet", path, args, with);
}

Value last_conv(Net& n, const std::string& norm, const std::string& conv, Value x, int64_t groups,
                double eps, int64_t channels) {
  x = n("group_norm", norm,
        {{"num_groups", groups}, {"eps", eps}, {"activation", "silu"}, {"x", x}});
  return conv3(n, conv, x, channels);
}

Value pixel_rows(Net& n, Value image) {
  const Dims shape = n.shape(image);
  return n.reshape(image, {shape[0], shape[1] * shape[2], shape[3]});
}

Value as_image(Net& n, Value rows, Value like) { return n.reshape(rows, n.shape(like)); }

Value lowered(Net& n, const std::string& path, Value x, double scale) {
  const Dims shape = n.shape(x);
  Expr rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
  const Value out = n.zeros(n.limits().dtype, {rows, shape.back()});
  const Value coefficients = computed(n, path + ".coefficients", DType::f32, {2}, [scale] {
    return std::vector<double>{0, scale};
  });
  n("linear_combination", path,
    {{"num_terms", 1},
     {"coefficients", coefficients},
     {"x", std::vector<Value>{n.reshape(x, {rows, shape.back()})}},
     {"out", out}});
  return n.reshape(out, shape);
}

}  // namespace fk::parts
