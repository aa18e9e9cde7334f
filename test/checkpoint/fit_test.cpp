// SPDX-License-Identifier: Apache-2.0
// If this fails, a checkpoint that does not belong to its configuration is taken without a word, or
// one that does is refused.
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/base/paths.hpp"
#include "core/scenario/checkpoint_fit.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

namespace fs = std::filesystem;
using fk::DType;
using fk::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

fs::path golden(const std::string& name) { return fs::path(FK_SOURCE) / "test/golden" / name; }

struct Parts {
  fk::Config config;
  Tensors tensors;
};

Parts parts_of(const std::string& name) {
  Parts parts{fk::Config::load(golden(name) / "config.json"), {}};
  const auto checkpoint = fk::Checkpoint::open(golden(name));
  for (const auto& tensor : checkpoint.names())
    parts.tensors[tensor] = checkpoint.at(tensor).load();
  return parts;
}

fk::CheckpointFit fit(const Parts& parts) {
  const Folder folder;
  std::map<std::string, fk::TensorView> views;
  for (const auto& [name, tensor] : parts.tensors) views.emplace(name, tensor);
  fk::write_safetensors(folder.path / "model.safetensors", views);
  static const fk::Catalog catalog(fk::paths::registry_dirs());
  return fk::fit_checkpoint(fk::arch_of(parts.config), parts.config,
                            fk::Checkpoint::open(folder.path, parts.config), catalog);
}

std::string refusal(const Parts& parts) {
  return message_of<fk::Error>([&] { fit(parts); });
}

const Tensor kOne = Tensor::of(DType::f32, {1}, {1});

}  // namespace

TEST_CASE("fit_every_reference_case_has_nothing_to_say") {
  size_t cases = 0;
  for (const auto& entry : fs::directory_iterator(golden(""))) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    INFO(entry.path());
    if (entry.path().filename().string().starts_with("sam3")) continue;  // it leaves a tracker
    CHECK(fit(parts_of(entry.path().filename())).notes.empty());
    ++cases;
  }
  CHECK(cases >= 20);
}

TEST_CASE("fit_of_every_model_refuses_a_tensor_that_nobody_reads") {
  for (const auto& entry : fs::directory_iterator(golden(""))) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    INFO(entry.path());
    Parts parts = parts_of(entry.path().filename());
    const std::string name = parts.tensors.begin()->first;
    parts.tensors[name + "x"] = kOne;
    CHECK_THAT(refusal(parts), ContainsSubstring("nothing reads the tensor `" + name + "x`"));
  }
}

TEST_CASE("fit_more_layers_than_the_configuration_are_refused_by_name") {
  Parts parts = parts_of("llama");
  const int64_t layers = parts.config.integer("num_hidden_layers");
  parts.config = parts.config.with({{"num_hidden_layers", layers - 1}});
  const std::string text = refusal(parts);
  const std::string last = "model.layers." + std::to_string(layers - 1);
  CHECK_THAT(text, ContainsSubstring("nothing reads the tensor `" + last + ".input_layernorm"));
  CHECK_THAT(text, ContainsSubstring("and 8 others"));
  CHECK_THAT(text, ContainsSubstring("does config.json belong to this checkpoint?"));
  CHECK_THAT(text, ContainsSubstring("model.layers.0.input_layernorm.weight"));
}

TEST_CASE("fit_harmless_tensors_are_left_and_those_with_weights_are_named") {
  Parts llama = parts_of("llama");
  llama.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = kOne;
  CHECK(fit(llama).notes.empty());
  Parts bge = parts_of("bge_m3");
  bge.tensors["embeddings.position_ids"] = Tensor(DType::i64, {1, 4});
  CHECK(fit(bge).notes.empty());
  bge.tensors["pooler.dense.weight"] = bge.tensors["pooler.dense.bias"] = kOne;
  CHECK(fit(bge).notes ==
        std::vector<std::string>{"a pooler is not read: `pooler.dense.bias` and 1 other"});
  Parts deepseek = parts_of("deepseek_v3");
  const std::string layer =
      "model.layers." + std::to_string(deepseek.config.integer("num_hidden_layers"));
  deepseek.tensors[layer + ".eh_proj.weight"] = kOne;
  deepseek.config = deepseek.config.with({{"num_nextn_predict_layers", 1}});
  REQUIRE(fit(deepseek).notes.size() == 1);
  CHECK_THAT(fit(deepseek).notes[0], ContainsSubstring("next-token prediction is not read: `" +
                                                       layer + ".eh_proj.weight`"));
  deepseek.config = deepseek.config.with({{"num_nextn_predict_layers", 0}});
  CHECK_THAT(refusal(deepseek), ContainsSubstring(layer + ".eh_proj.weight"));
}

TEST_CASE("fit_a_tied_head_is_left_where_it_is_equal_and_taken_where_it_is_not") {
  struct Case {
    const char *name, *head, *table;
  };
  for (const Case& c :
       {Case{"llama", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"mixtral", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"mistral_swa", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"qwen3", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"gpt_oss", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"deepseek_v3", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"llama_eagle3", "lm_head.weight", "model.embed_tokens.weight"},
        Case{"mamba2", "lm_head.weight", "backbone.embeddings.weight"},
        Case{"whisper_wide", "proj_out.weight", "model.decoder.embed_tokens.weight"}}) {
    INFO(c.name);
    Parts parts = parts_of(c.name);
    REQUIRE(parts.tensors.count(c.head) == 1);
    parts.config = parts.config.with({{"tie_word_embeddings", true}});
    const auto own = fit(parts);
    CHECK_FALSE(own.config.boolean("tie_word_embeddings"));
    REQUIRE(own.notes.size() == 1);
    CHECK_THAT(own.notes[0], ContainsSubstring("the checkpoint's is taken"));
    parts.tensors[c.head] = parts.tensors.at(c.table);
    const auto equal = fit(parts);
    CHECK(equal.config.boolean("tie_word_embeddings"));
    CHECK(equal.notes.empty());
  }
}

TEST_CASE("fit_a_weight_takes_floats_alone_unless_its_scale_is_declared") {
  Parts parts = parts_of("llama");
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const Tensor whole = parts.tensors.at(name);
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2, DType::i8, DType::u8, DType::i32}) {
    parts.tensors[name] = whole.to(dtype);
    CHECK_THAT(refusal(parts), ContainsSubstring("it is " + std::string(fk::name(dtype)) +
                                                 ", and no quantization_config says how"));
  }
  parts.config = parts.config.with(
      {{"quantization_config", {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}}}});
  parts.tensors[name] = whole.to(DType::i32);
  CHECK_THAT(refusal(parts), ContainsSubstring("it is i32, which quantization_config (fp8)"));
  parts.tensors[name] = whole.to(DType::f8e4m3);
  CHECK_THAT(refusal(parts), ContainsSubstring("`" + name + "_scale` is missing"));
  parts.tensors[name + "_scale"] = Tensor(DType::f32, {3});
  CHECK_THAT(refusal(parts), ContainsSubstring("it is [3] where one scale or one for each row"));
  parts.tensors[name + "_scale"] = Tensor(DType::u8, {});
  CHECK_THAT(refusal(parts), ContainsSubstring("scales are floats of 16 bits or more, not u8"));
  parts.tensors[name + "_scale"] = kOne;
  CHECK(fit(parts).notes.size() == 1);
  parts.tensors[name] = whole;  // a scale that nobody needs
  CHECK_THAT(refusal(parts), ContainsSubstring("nothing reads the tensor `" + name + "_scale`"));
}

TEST_CASE("fit_refuses_quantisations_that_it_does_not_know_by_their_name") {
  const Parts original = parts_of("llama");
  const auto with = [&](const char* text) {
    Parts parts = original;
    const fk::Json q = fk::parse_json(text, "quantization");
    parts.config = parts.config.with({{"quantization_config", q}});
    return refusal(parts);
  };
  for (const std::string method : {"awq", "gptq", "modelopt", "quanto"})
    CHECK_THAT(with((R"({"quant_method": ")" + method + R"("})").c_str()),
               ContainsSubstring("of the method `" + method + "` are not supported"));
  CHECK_THAT(with(R"({"quant_method": "mxfp4"})"), ContainsSubstring("has no matrices in mxfp4"));
  CHECK_THAT(with(R"({"load_in_4bit": true})"), ContainsSubstring("4 bits are not supported"));
  CHECK_THAT(with(R"({"quant_method": "fp8", "activation_scheme": "static", "wieght": 1})"),
             ContainsSubstring("`wieght`: nothing here reads this key"));
  CHECK_THAT(with(R"({"quant_method": "fp8", "fmt": "e5m2"})"), ContainsSubstring("`fmt`"));
  const auto group = [&](const std::string& weights) {
    return with((R"({"quant_method": "compressed-tensors", "format": "int-quantized",
                     "config_groups": {"g": {"weights": )" +
                 weights + "}}}")
                    .c_str());
  };
  CHECK_THAT(group(R"({"num_bits": 4})"), ContainsSubstring("only 8 bits"));
  CHECK_THAT(group(R"({"symmetric": false})"), ContainsSubstring("zero points"));
  CHECK_THAT(with(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})"),
             ContainsSubstring("`pack-quantized` is not supported"));
  CHECK_THAT(with(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
                      "kv_cache_scheme": {"num_bits": 8}})"),
             ContainsSubstring("kv_cache_scheme"));
}

TEST_CASE("fit_of_matrices_which_stay_fp8_names_what_does_not_fit") {
  Parts bounds = parts_of("llama_fp8_fbgemm");
  bounds.tensors["model.layers.1.mlp.down_proj.input_scale_ub"] = kOne;
  const auto notes = fit(bounds).notes;
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], ContainsSubstring("a bound of the scales of inputs is not read"));
  const auto with = [](const char* name, const char* key, const fk::Json& value) {
    Parts parts = parts_of(name);
    parts.config = parts.config.with({{"quantization_config", {{key, value}}}});
    return refusal(parts);
  };
  CHECK_THAT(with("llama_fp8_channel", "ignore", {"model.layers.0.self_attn.q_proj"}),
             ContainsSubstring("both are one product"));
  CHECK_THAT(with("llama_fp8_channel", "ignore", {"re:(", "lm_head"}),
             ContainsSubstring("`re:(` is no pattern"));
  CHECK_THAT(with("qwen3_fp8_block", "weight_block_size", {24, 16}),
             ContainsSubstring("a block of 24 rows spans two matrices"));
  Parts missing = parts_of("llama_fp8_channel");
  missing.tensors.erase("model.layers.0.self_attn.q_proj.weight_scale");
  CHECK_THAT(refusal(missing), ContainsSubstring("model.layers.0.self_attn.q_proj.weight_scale"));
}

TEST_CASE("fit_a_matrix_of_bitsandbytes_that_is_not_written_in_rows_is_refused") {
  Parts parts = parts_of("llama");
  const std::string module = "model.layers.0.mlp.down_proj";
  parts.config = parts.config.with(
      {{"quantization_config", {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}}});
  Tensor& matrix = parts.tensors.at(module + ".weight");
  matrix = matrix.to(DType::i8);
  parts.tensors[module + ".SCB"] = Tensor(DType::f32, {matrix.shape[0]});
  parts.tensors[module + ".weight_format"] = Tensor::of(DType::u8, {}, {1});
  CHECK_THAT(refusal(parts), ContainsSubstring("is not written row by row"));
}
