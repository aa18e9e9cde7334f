// SPDX-License-Identifier: Apache-2.0
// If this fails, a checkpoint with matrices in f8 or int8 is read without its scales, or with
// scales of other matrices, rows or blocks. Or a supported format is refused.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/base/paths.hpp"
#include "core/exec/session.hpp"
#include "core/exec/weights.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace fs = std::filesystem;
using fk::DType;
using fk::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

// One way to write a matrix: scales of blocks of `rows` and `columns`, 0 for all of them.
struct Format {
  const char* name;
  const char* config;  // quantization_config
  DType dtype;
  int64_t rows, columns;
  const char* scales;      // after the matrix's name, or the module's where it begins with a dot
  double stored = 1;       // the scales as they are written are so many times what they mean
  const char* input = "";  // the scale of inputs, after the module's name
  DType scale_dtype = DType::f32;
};

constexpr double kInt8 = 127;
const Format kFormats[] = {
    {"fp8 in blocks",
     R"({"quant_method": "fp8", "weight_block_size": [16, 16], "activation_scheme": "dynamic"})",
     DType::f8e4m3, 16, 16, "_scale_inv"},
    {"fp8 with one scale and scales of inputs",
     R"({"quant_method": "fp8", "activation_scheme": "static"})", DType::f8e4m3, 0, 0, "_scale", 1,
     ".input_scale"},
    {"compressed-tensors, floats, a scale for each row",
     R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8,
           "type": "float", "strategy": "channel", "symmetric": true, "dynamic": false},
           "input_activations": {"num_bits": 8, "type": "float", "dynamic": true}}}})",
     DType::f8e4m3, 1, 0, "_scale", 1, "", DType::bf16},
    {"compressed-tensors, floats, without groups",
     R"({"quant_method": "compressed-tensors", "format": "float-quantized"})", DType::f8e4m3, 0, 0,
     "_scale"},
    {"compressed-tensors, floats in blocks",
     R"({"quant_method": "compressed-tensors", "format": "naive-quantized", "config_groups": {"g":
         {"weights": {"num_bits": 8, "type": "float", "strategy": "block",
                      "block_structure": [16, 8]}}}})",
     DType::f8e4m3, 16, 8, "_scale"},
    {"compressed-tensors, int8, a scale for each row",
     R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g":
         {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}})",
     DType::i8, 1, 0, "_scale"},
    {"compressed-tensors, int8, groups of columns",
     R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g":
         {"weights": {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 8}}}})",
     DType::i8, 1, 8, "_scale"},
    {"bitsandbytes", R"({"quant_method": "bitsandbytes", "load_in_8bit": true,
                         "bnb_4bit_quant_type": "fp4"})",
     DType::i8, 1, 0, ".SCB", kInt8},
};

Tensors stored(const fs::path& file) {
  const auto checkpoint = fk::Checkpoint::open(file);
  Tensors tensors;
  for (const auto& name : checkpoint.names()) tensors[name] = checkpoint.at(name).load();
  return tensors;
}

std::string module_of(const std::string& name) { return name.substr(0, name.size() - 7); }

// Puts a matrix in the format into `written`; what it then stands for.
Tensor quantise(const Tensor& w, const std::string& name, const Format& f, Tensors& written) {
  const int64_t rows = w.shape[0], columns = w.shape[1];
  const int64_t high = f.rows > 0 ? f.rows : rows, wide = f.columns > 0 ? f.columns : columns;
  const int64_t down = (rows + high - 1) / high, across = (columns + wide - 1) / wide;
  const auto block = [&](int64_t i) {
    return static_cast<size_t>(i / columns / high * across + i % columns / wide);
  };
  std::vector<double> scales(static_cast<size_t>(down * across), 1e-9);
  for (int64_t i = 0; i < w.numel(); ++i)
    scales[block(i)] = std::max(scales[block(i)], std::abs(w.at(i)));
  Tensor scale(f.scale_dtype, {down, across}), bits(f.dtype, w.shape), values(DType::f32, w.shape);
  for (size_t b = 0; b < scales.size(); ++b) {
    const double most = f.dtype == DType::i8 ? kInt8 : 448;
    scale.set(static_cast<int64_t>(b), scales[b] / most * f.stored);
    scales[b] = scale.at(static_cast<int64_t>(b)) / f.stored;
  }
  for (int64_t i = 0; i < w.numel(); ++i) {
    const double share = w.at(i) / scales[block(i)];
    bits.set(i, f.dtype == DType::i8 ? std::nearbyint(share) : share);
    values.set(i, bits.at(i) * scales[block(i)]);
  }
  if (f.stored == kInt8) {
    scale.shape = {rows};
    written[module_of(name) + ".weight_format"] = Tensor(DType::u8, {});
  }
  written[f.scales[0] == '.' ? module_of(name) + f.scales : name + f.scales] = std::move(scale);
  if (*f.input) written[module_of(name) + f.input] = Tensor::of(DType::f32, {1}, {0.25});
  written[name] = std::move(bits);
  return values;
}

bool quantised(const std::string& name, const Tensor& tensor) {
  return tensor.shape.size() == 2 && name.ends_with(".weight") &&
         name.find("embed") == std::string::npos && name.find("wte") == std::string::npos;
}

void save(const fs::path& folder, const Tensors& tensors) {
  std::map<std::string, fk::TensorView> views;
  for (const auto& [name, tensor] : tensors) views.emplace(name, tensor);
  fk::write_safetensors(folder / "model.safetensors", views);
}

const fk::Catalog& catalog() {
  static const fk::Catalog all(fk::paths::registry_dirs());
  return all;
}

// All weights of a model in float32, one after another; the notes about its checkpoint.
std::vector<float> weights_of(const fk::Config& config, const Tensors& tensors,
                              std::vector<std::string>* notes = nullptr) {
  const Folder folder;
  save(folder.path, tensors);
  const auto checkpoint = fk::Checkpoint::open(folder.path, config);
  const auto fit = fk::fit_checkpoint(fk::arch_of(config), config, checkpoint, catalog());
  if (notes) *notes = fit.notes;
  const auto model = fk::make_model(fk::arch_of(config), config);
  const auto table = fk::weight_table(*model, catalog(), fk::Limits{});
  std::vector<std::byte> block(static_cast<size_t>(fk::WeightLayout(*table).bytes));
  fk::fill_weights(*table, &checkpoint, 1, block.data(), 1, {});
  std::vector<float> values(block.size() / sizeof(float));
  std::memcpy(values.data(), block.data(), values.size() * sizeof(float));
  return values;
}

// deepseek_v3 multiplies by blocks of fp8 as they are: fp8_test.cpp has that. Llama and Qwen3 do so
// with all scales of rows and blocks whose inputs are rounded: reference cases have these.
bool as_they_are(const std::string& arch, const Format& format) {
  const bool blocks = std::string(format.scales) == "_scale_inv";
  const bool dense = arch == "llama" || arch == "qwen3";
  return (arch == "deepseek_v3" && blocks) ||
         (dense &&
          (blocks || std::string(format.config).find("\"dynamic\": true") != std::string::npos));
}

}  // namespace

TEST_CASE("formats_of_every_model_give_the_weights_that_they_stand_for") {
  size_t models = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(FK_SOURCE) / "test/golden")) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    const fk::Config config = fk::Config::load(entry.path() / "config.json");
    if (config.has("quantization_config")) continue;
    if (fk::arch_of(config) == "sam3") continue;  // it leaves the matrices of a tracker
    const Tensors original = stored(entry.path());
    ++models;
    for (const Format& format : kFormats) {
      if (as_they_are(fk::arch_of(config), format)) continue;
      INFO(entry.path().filename() << ": " << format.name);
      Tensors written, twin;
      size_t matrices = 0;
      for (const auto& [name, tensor] : original) {
        const bool changes = quantised(name, tensor);
        twin[name] = changes ? quantise(tensor, name, format, written) : tensor;
        if (!changes) written[name] = tensor;
        matrices += changes;
      }
      if (matrices == 0) break;  // a scene, or a grid
      const fk::Json q = fk::parse_json(format.config, "format");
      std::vector<std::string> notes;
      const auto got = weights_of(config.with({{"quantization_config", q}}), written, &notes);
      const auto want = weights_of(config, twin);
      REQUIRE(got.size() == want.size());
      size_t wrong = 0;
      for (size_t i = 0; i < got.size(); ++i)
        wrong += std::abs(got[i] - want[i]) > 1e-6F * std::abs(want[i]);
      CHECK(wrong == 0);
      REQUIRE(notes.size() == 1);
      CHECK_THAT(notes[0], ContainsSubstring(std::to_string(matrices) + " matrices"));
    }
  }
  CHECK(models >= 15);
}
