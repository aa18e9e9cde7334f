// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/fp8_layers.hpp"

#include <numeric>

#include "baselines/models/parts/decoder_weights.hpp"
#include "core/base/error.hpp"

namespace fk::parts {

namespace {

// The runtime's own: a token of zeros has a scale above 0.
constexpr double kLeastInput = 1e-10;

// One of the checkpoint's matrices [rows, columns], which stands below the one before it.
struct ProductPart {
  std::string module;
  int64_t rows = 0;
};

// All scales of a product's parts, one below the other.
Value scales_of(Net& n, const Fp8Products& form, const std::string& name,
                const std::vector<ProductPart>& parts, int64_t columns, int64_t step) {
  WeightSpec spec;
  spec.name = name + form.suffix;
  spec.mean = 1;
  spec.stddev = 0.1;
  spec.parts.emplace_back();
  int64_t rows = 0;
  for (const ProductPart& part : parts) {
    const int64_t own = (part.rows + step - 1) / step;
    // One scale stands for all of a part's steps.
    const int64_t times = form.scales == Fp8Products::Scales::matrix ? own : 1;
    for (int64_t i = 0; i < times; ++i)
      spec.parts[0].push_back(part.module + ".weight" + form.suffix);
    rows += own;
  }
  spec.shape = {rows};
  if (form.scales == Fp8Products::Scales::rows) spec.shape = {rows, 1};
  if (form.scales == Fp8Products::Scales::blocks)
    spec.shape = {rows, (columns + form.columns - 1) / form.columns};
  const Value all = n.weight(std::move(spec));
  return form.scales == Fp8Products::Scales::rows ? n.reshape(all, {rows}) : all;
}

// x [T, columns] by all parts, in the dtype of x. `bias` may be absent. Error when only some of the
// parts are f8e4m3, or a block of scales spans two parts.
Value fp8_product(Net& n, const Fp8Products& form, const std::string& path,
                  const std::vector<ProductPart>& parts, int64_t columns, Value bias, Value x) {
  WeightSpec matrix;
  matrix.name = parts.size() == 1 ? parts[0].module + ".weight" : path + ".weight";
  matrix.parts.emplace_back();
  int64_t rows = 0, step = form.scales == Fp8Products::Scales::blocks ? form.rows : 1;
  const bool floats = form.keeps(parts[0].module);
  for (const ProductPart& part : parts) {
    if (form.keeps(part.module) != floats)
      fail(part.module, "it is in floats, and " + parts[0].module +
                            " is not (quantization_config): both are one product");
    if (rows % step != 0)
      fail(parts[0].module, "a block of " + std::to_string(step) +
                                " rows spans two matrices: quantization_config of another model?");
    matrix.parts[0].push_back(part.module + ".weight");
    rows += part.rows;
  }
  matrix.shape = {rows, columns};
  matrix.dtype = floats ? n.limits().weights() : DType::f8e4m3;
  const std::string name = matrix.name;
  const Value weight = n.weight(std::move(matrix));
  Args args{{"weight", weight}, {"bias", bias}, {"x", x}};
  if (floats) return n("linear", path, args);
  if (form.scales == Fp8Products::Scales::matrix) {
    step = 0;
    for (const ProductPart& part : parts) step = std::gcd(step, part.rows);
  }
  const Value scales = scales_of(n, form, name, parts, columns, step);
  if (form.scales == Fp8Products::Scales::blocks) {
    args.insert(args.end(), {{"weight_scale_inv", scales},
                             {"block_n", form.rows},
                             {"block_k", form.columns},
                             {"quantize_input", form.quantize_input}});
    return n("linear_fp8_block", path, args);
  }
  const Outputs rounded =
      n("quantize_fp8", path + ".input",
        {{"group_columns", columns}, {"eps", kLeastInput}, {"scale", Value{}}, {"x", x}});
  return n("linear_fp8", path,
           {{"weight", weight},
            {"weight_scale", scales},
            {"weight_group_rows", step},
            {"bias", bias},
            {"x", rounded["out"]},
            {"x_scale", rounded["scale_out"]},
            {"out", std::string(fk::name(n.dtype(x)))}});
}

// `names` are those of the modules below the layer.
Value product_of(Net& n, const DecoderForm& f, const std::string& path, const std::string& layer,
                 const std::vector<std::string>& names, const std::vector<int64_t>& rows,
                 Value bias, Value x) {
  std::vector<ProductPart> parts;
  for (size_t i = 0; i < names.size(); ++i) parts.push_back({below(layer, names[i]), rows[i]});
  return fp8_product(n, f.products, path, parts, n.shape(x)[1].value(), bias, x);
}

}  // namespace

Value fp8_qkv(Net& n, const DecoderForm& f, const std::string& at, const std::string& layer,
              Value bias, Value x) {
  const int64_t q = f.base.heads * f.base.head_dim, kv = f.base.kv_heads * f.base.head_dim;
  return product_of(n, f, below(at, "qkv_proj"), layer, f.qkv, {q, kv, kv}, bias, x);
}

Value fp8_output(Net& n, const DecoderForm& f, const std::string& at, const std::string& layer,
                 Value bias, Value x) {
  return product_of(n, f, below(at, "o_proj"), layer, {f.o}, {f.base.hidden_size}, bias, x);
}

Value fp8_mlp(Net& n, const DecoderForm& f, const std::string& at, const std::string& layer,
              Value x, int64_t size, Fp8MlpBiases biases) {
  std::vector<std::string> names;
  for (const auto& name : f.up) names.push_back(below(layer, name));
  const Value up_bias = biases.up ? n.weight(gate_up_bias(at, names, size, n.limits())) : Value{};
  const Value wide =
      product_of(n, f, below(at, "gate_up_proj"), layer, f.up, {size, size}, up_bias, x);
  const bool silu = f.activation == "silu";
  Args args{{"size", size}, {"x", wide}};
  if (!silu) args.emplace_back("kind", f.activation);
  const Value activated =
      n(silu ? "silu_and_mul" : "activation_and_mul", below(at, "act_fn"), args);
  const Value down_bias = biases.down ? n.find("gelu_mlp", at, "fc2_bias") : Value{};
  return product_of(n, f, below(at, "down_proj"), layer, {f.down}, {f.base.hidden_size}, down_bias,
                    activated);
}

}  // namespace fk::parts
