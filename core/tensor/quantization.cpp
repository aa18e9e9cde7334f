// SPDX-License-Identifier: Apache-2.0
// Reads the `quantization_config` of each known method, and refuses everything that the host does
// not compute.
#include "core/tensor/quantization.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

constexpr int64_t kBlockMax = 1 << 20;

// An unknown key may change the meaning of the numbers.
void only(const Config& config, const std::vector<std::string>& known) {
  for (const auto& key : config.keys())
    if (!contains(known, key))
      config.fail_at(excerpt(key), "nothing here reads this key", did_you_mean(key, known));
}

void must_be(const Config& config, std::string_view key, const std::string& value,
             const std::vector<std::string>& known) {
  if (!contains(known, value))
    config.fail_at(key, "`" + excerpt(value) + "` is not supported", did_you_mean(value, known));
}

// The key must be absent or an empty object.
void refuse(const Config& config, std::string_view key, const std::string& why) {
  if (config.has(key) && !(config.is_object(key) && config.child(key).keys().empty()))
    config.fail_at(key, why);
}

void set_block(const Config& config, std::string_view key, const std::vector<int64_t>& block,
               Quantization& q) {
  if (block.size() != 2 || std::min(block[0], block[1]) < 1 ||
      std::max(block[0], block[1]) > kBlockMax)
    config.fail_at(key, "it must be the rows and the columns of a block");
  if (q.block_rows > 0 && (q.block_rows != block[0] || q.block_columns != block[1]))
    config.fail_at(key, "another group has blocks of another size");
  q.block_rows = block[0];
  q.block_columns = block[1];
}

// The method of transformers and the one of vLLM, under the same name.
void read_fp8(const Config& c, Quantization& q) {
  only(c, {"quant_method", "fmt", "scale_fmt", "activation_scheme", "weight_block_size",
           "modules_to_not_convert", "ignored_layers", "dequantize"});
  must_be(c, "fmt", c.text("fmt", "e4m3"), {"e4m3"});
  q.inputs = c.text("activation_scheme", "none");
  must_be(c, "activation_scheme", q.inputs, {"none", "dynamic", "static"});
  if (c.has("weight_block_size"))
    set_block(c, "weight_block_size", c.integers("weight_block_size"), q);
}

void read_weights_of_group(const Config& c, Quantization& q) {
  only(c, {"num_bits", "type", "strategy", "symmetric", "dynamic", "group_size", "block_structure",
           "observer", "observer_kwargs", "actorder", "scale_dtype", "zp_dtype"});
  if (c.integer("num_bits", 8) != 8) c.fail_at("num_bits", "only 8 bits are supported");
  must_be(c, "type", c.text("type", "int"), {"float", "int"});
  if (!c.boolean("symmetric", true))
    c.fail_at("symmetric", "zero points are not supported: it must be true");
  if (c.has("dynamic") && c.boolean("dynamic"))
    c.fail_at("dynamic", "a checkpoint's weights have scales of their own: it must be false");
  refuse(c, "actorder", "columns in another order are not supported");
  const std::string strategy = c.text("strategy", "tensor");
  must_be(c, "strategy", strategy, {"tensor", "channel", "group", "block"});
  if (strategy == "group") set_block(c, "group_size", {1, c.integer("group_size")}, q);
  if (strategy == "block") set_block(c, "block_structure", c.integers("block_structure"), q);
}

void read_compressed(const Config& c, Quantization& q) {
  only(c, {"quant_method", "format", "config_groups", "ignore", "kv_cache_scheme",
           "quantization_status", "global_compression_ratio", "sparsity_config", "transform_config",
           "version"});
  must_be(c, "format", c.text("format"), {"float-quantized", "int-quantized", "naive-quantized"});
  // The status is the library's before it wrote the file, which has compressed weights either way.
  must_be(c, "quantization_status", c.text("quantization_status", "compressed"),
          {"compressed", "frozen"});
  refuse(c, "kv_cache_scheme", "caches with scales are not supported");
  refuse(c, "transform_config", "rotated weights are not supported");
  if (c.has("sparsity_config"))
    must_be(c.child("sparsity_config"), "format",
            c.child("sparsity_config").text("format", "dense"), {"dense"});
  if (!c.has("config_groups")) return;
  const Config groups = c.child("config_groups");
  for (const auto& name : groups.keys()) {
    const Config group = groups.child(name);
    only(group, {"weights", "input_activations", "output_activations", "targets", "format"});
    refuse(group, "output_activations", "rounded outputs are not supported");
    if (group.has("format")) must_be(group, "format", group.text("format"), {c.text("format")});
    if (group.has("weights")) read_weights_of_group(group.child("weights"), q);
    if (!group.has("input_activations")) continue;
    q.inputs = group.child("input_activations").json().value("dynamic", Json(false)) == Json(false)
                   ? "static"
                   : "dynamic";
  }
}

// Scales of rows; each token of the inputs has a scale.
void read_fbgemm(const Config& c, Quantization& q) {
  only(c, {"quant_method", "activation_scale_ub", "modules_to_not_convert"});
  if (!(c.number("activation_scale_ub", 1200) > 0))
    c.fail_at("activation_scale_ub", "a bound is above 0");
  q.inputs = "dynamic";
}

void read_bitsandbytes(const Config& c, Quantization& q) {
  for (const char* key : {"load_in_4bit", "_load_in_4bit"})
    if (c.boolean(key, false)) c.fail_at(key, "4 bits are not supported, only load_in_8bit");
  if (!c.boolean("load_in_8bit", c.boolean("_load_in_8bit", false)))
    c.fail_at("load_in_8bit", "it must be true");
  if (c.boolean("llm_int8_has_fp16_weight", false))
    c.fail_at("llm_int8_has_fp16_weight", "only false is supported");
  std::vector<std::string> known = {"quant_method",
                                    "load_in_8bit",
                                    "load_in_4bit",
                                    "_load_in_8bit",
                                    "_load_in_4bit",
                                    "llm_int8_threshold",
                                    "llm_int8_skip_modules",
                                    "llm_int8_enable_fp32_cpu_offload",
                                    "llm_int8_has_fp16_weight"};
  // Keys of 4-bit quantisation are always written.
  for (const auto& key : c.keys())
    if (starts_with(key, "bnb_4bit_")) known.push_back(key);
  only(c, known);
  q.inputs = "dynamic";
}

}  // namespace

Quantization Quantization::of(const Config& config) {
  Quantization q;
  if (!config.has("quantization_config")) return q;
  const Config c = config.child("quantization_config");
  // Early bitsandbytes files lack the method's name.
  const bool nameless = c.has("load_in_8bit") || c.has("load_in_4bit");
  q.method = nameless ? c.text("quant_method", "bitsandbytes") : c.text("quant_method");
  if (q.method == "fp8") {
    read_fp8(c, q);
  } else if (q.method == "compressed-tensors") {
    read_compressed(c, q);
  } else if (q.method == "fbgemm_fp8") {
    read_fbgemm(c, q);
  } else if (q.method == "bitsandbytes") {
    read_bitsandbytes(c, q);
  } else if (q.method == "mxfp4") {
    only(c, {"quant_method", "modules_to_not_convert"});
  } else {
    c.fail_at(
        "quant_method", "checkpoints of the method `" + excerpt(q.method) + "` are not supported",
        "supported: fp8, fbgemm_fp8, compressed-tensors (8 bits), bitsandbytes (8 bits), mxfp4 "
        "(gpt_oss)");
  }
  return q;
}

}  // namespace fk
