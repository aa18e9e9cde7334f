// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/fp8_products.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

// The runtime's own: a token of zeros has a scale above 0.
constexpr double kLeastInput = 1e-10;

std::vector<std::string> list_of(const Config& config, const char* key) {
  return config.has(key) && config.is_list(key) ? config.texts(key) : std::vector<std::string>{};
}

// compressed-tensors with one group: scales of rows or one scale, and a scale for each token.
void read_group(const Config& c, Fp8Products& form) {
  if (!c.has("config_groups")) return;
  const Config groups = c.child("config_groups");
  if (groups.keys().size() != 1) return;
  const Config group = groups.child(groups.keys().front());
  if (!group.has("weights") || !group.has("input_activations")) return;
  const Config weights = group.child("weights"), inputs = group.child("input_activations");
  if (weights.text("type", "int") != "float" || inputs.text("type", "int") != "float") return;
  const bool of_tokens = inputs.json().value("dynamic", Json(false)) == Json(true) &&
                         inputs.text("strategy", "token") == "token";
  if (!of_tokens) return;
  const std::string strategy = weights.text("strategy", "tensor");
  if (strategy == "channel") form.scales = Fp8Products::Scales::rows;
  if (strategy == "tensor") form.scales = Fp8Products::Scales::matrix;
}

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

}  // namespace

bool Fp8Products::keeps(const std::string& module) const {
  return std::ranges::any_of(kept, [&](const std::string& entry) {
    if (starts_with(entry, "re:"))
      return std::regex_search(module, std::regex(entry.substr(3)),
                               std::regex_constants::match_continuous);
    return module == entry || starts_with(module, entry + ".") || ends_with(module, "." + entry);
  });
}

Fp8Products read_fp8_products(const Config& config) {
  const Quantization q = Quantization::of(config);
  Fp8Products form;
  if (q.method.empty()) return form;
  const Config c = config.child("quantization_config");
  if (q.method == "fp8" && q.block_rows > 0 && q.inputs != "static") {
    form.scales = Fp8Products::Scales::blocks;
    form.rows = q.block_rows;
    form.columns = q.block_columns;
    form.quantize_input = q.inputs == "dynamic";
    form.suffix = "_scale_inv";
    form.kept = list_of(c, "modules_to_not_convert");
    const auto more = list_of(c, "ignored_layers");
    form.kept.insert(form.kept.end(), more.begin(), more.end());
  } else if (q.method == "compressed-tensors") {
    read_group(c, form);
    form.suffix = "_scale";
    form.kept = list_of(c, "ignore");
  } else if (q.method == "fbgemm_fp8") {
    form.scales = Fp8Products::Scales::rows;
    form.suffix = "_scale";
    form.kept = list_of(c, "modules_to_not_convert");
    form.bound = ".input_scale_ub";
  }
  constexpr size_t kPattern = 256;  // letters of a pattern from a foreign file
  for (const auto& entry : form.kept) {
    if (!starts_with(entry, "re:")) continue;
    const auto refuse = [&] {
      c.fail_at("ignore", "`" + excerpt(entry) + "` is no pattern that can be read here");
    };
    if (entry.size() > kPattern) refuse();
    try {
      const std::regex pattern(entry.substr(3));
    } catch (const std::regex_error&) {
      refuse();
    }
  }
  return form;
}

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

}  // namespace fk::parts
