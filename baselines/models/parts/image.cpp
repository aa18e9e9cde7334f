// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/image.hpp"

namespace fk::parts {

using Ints = std::vector<int64_t>;

Value pixels(Net& n, int64_t colours, int64_t height, int64_t width) {
  const Expr batch = n.axis("B");
  const Value input = n.input("pixel_values", DType::f32, {batch, colours, height, width});
  const Value image = n("transpose", "pixel_values",
                        {{"x", n.reshape(input, {batch, colours, height * width})},
                         {"out", std::string(name(n.limits().weights()))}});
  return n.reshape(image, {batch, height, width, colours});
}

Value parameter(Net& n, const std::string& name, std::vector<int64_t> shape, double stddev) {
  WeightSpec spec;
  spec.name = name;
  spec.dtype = n.limits().weights();
  spec.shape = std::move(shape);
  spec.stddev = stddev;
  return n.weight(std::move(spec));
}

Value computed(Net& n, const std::string& name, DType dtype, std::vector<int64_t> shape,
               std::function<std::vector<double>()> compute) {
  WeightSpec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  spec.compute = std::move(compute);
  return n.weight(std::move(spec));
}

Value conv_norm(Net& n, const std::string& path, Value x, const ConvNorm& c) {
  return n("conv_norm_act", path,
           {{"out_channels", c.channels},
            {"kernel_size", Ints{c.kernel, c.kernel}},
            {"stride", Ints{c.stride, c.stride}},
            {"padding", Ints{c.kernel / 2, c.kernel / 2}},
            {"dilation", Ints{1, 1}},
            {"groups", c.groups},
            {"activation", c.activation},
            {"eps", c.eps},
            {"x", x}});
}

Value by_rows(Net& n, const std::string& op, const std::string& path, Value x, Args args) {
  const Dims shape = n.shape(x);
  Expr rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
  args.emplace_back("x", n.reshape(x, {rows, shape.back()}));
  return n.reshape(n(op, path, args), shape);
}

Value sum_images(Net& n, const std::string& path, Value x, Value y) {
  const Dims shape = n.shape(x);
  const Dims rows = {shape[0] * shape[1] * shape[2], shape[3]};
  return n.reshape(n("add", path, {{"a", n.reshape(x, rows)}, {"b", n.reshape(y, rows)}}), shape);
}

}  // namespace fk::parts
