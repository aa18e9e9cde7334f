// SPDX-License-Identifier: Apache-2.0
// Reads the fp8 quantization of a checkpoint from its config.
#include "baselines/models/parts/fp8.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

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
  const std::vector<std::string> targets = list_of(group, "targets");
  if (group.has("targets") && targets != std::vector<std::string>{"Linear"}) return;
  const Config weights = group.child("weights"), inputs = group.child("input_activations");
  if (weights.text("type", "int") != "float" || inputs.text("type", "int") != "float") return;
  const bool of_tokens = inputs.json().value("dynamic", Json(false)) == Json(true) &&
                         inputs.text("strategy", "token") == "token";
  if (!of_tokens) return;
  const std::string strategy = weights.text("strategy", "tensor");
  if (strategy == "channel") form.scales = Fp8Products::Scales::rows;
  if (strategy == "tensor") form.scales = Fp8Products::Scales::matrix;
}

}  // namespace

Fp8 read_fp8(const Config& config) {
  const Quantization q = Quantization::of(config);
  Fp8 fp8;
  fp8.on = q.method == "fp8" && q.block_rows > 0;
  if (!fp8.on) return fp8;
  fp8.rows = q.block_rows;
  fp8.columns = q.block_columns;
  if (q.inputs == "static")
    config.child("quantization_config")
        .fail_at("activation_scheme", "`static` is not supported beside blocks", "dynamic, none");
  fp8.quantize_input = q.inputs == "dynamic";
  return fp8;
}

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
    // A repeated group may take exponential time.
    for (const char* repeated : {")*", ")+", "){"})
      if (entry.find(repeated) != std::string::npos) refuse();
    if (entry.size() > kPattern) refuse();
    try {
      const std::regex pattern(entry.substr(3));
    } catch (const std::regex_error&) {
      refuse();
    }
  }
  return form;
}

}  // namespace fk::parts
