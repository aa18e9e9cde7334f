// SPDX-License-Identifier: Apache-2.0
// If these fail, a key of a configuration has no effect, and no message says so. Or an absent key
// has another value than in the checkpoint's library.
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/exec/model.hpp"
#include "core/graph/builder.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

using fk::Config;
using fk::Json;

// All public configurations and those of the reference cases.
std::vector<std::filesystem::path> config_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(fk::paths::home() / "registry" / "configs"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  for (const auto& entry :
       std::filesystem::directory_iterator(fk::paths::home() / "test" / "golden"))
    if (std::filesystem::exists(entry.path() / "config.json"))
      files.push_back(entry.path() / "config.json");
  return files;
}

Json golden(const std::string& name) {
  return fk::load_json(fk::paths::home() / "test" / "golden" / name / "config.json");
}

// Why a configuration is refused; empty when it is not.
std::string why(const Json& json) {
  try {
    const Config config(json, "config.json");
    fk::make_model(fk::arch_of(config), config);
    return {};
  } catch (const fk::Error& error) {
    return error.what();
  }
}

// The first call of an op in a phase.
fk::Call call_of(const Json& json, const std::string& phase, const std::string& op) {
  const Config config(json, "config.json");
  const auto model = fk::make_model(fk::arch_of(config), config);
  fk::Net b(catalog(), phase, std::make_shared<fk::WeightTable>(), {});
  model->forward(b, phase);
  for (const fk::Call& call : b.take_back())
    if (call.contract->op == op) return call;
  FAIL("the phase has no " << op);
  return {};
}

fk_slot init_of(const fk::Call& call, const std::string& name) {
  return call.init[static_cast<size_t>(call.contract->find(name)->index)];
}

// A configuration's model as text: calls with their init values, and weights. Or the reason why
// there is no model.
std::string described(const Json& json) {
  if (const std::string refused = why(json); !refused.empty()) return refused;
  const Config config(json, "config.json");
  const auto model = fk::make_model(fk::arch_of(config), config);
  const auto weights = std::make_shared<fk::WeightTable>();
  std::string text;
  for (const auto& phase : model->engine()->phases()) {
    fk::Net b(catalog(), phase, weights, {});
    model->forward(b, phase);
    for (const fk::Call& call : b.take_back()) {
      text += call.contract->op;
      for (const fk::Slot& slot : call.contract->section(fk::SectionId::init))
        if (slot.kind != fk::SlotKind::ints && slot.kind != fk::SlotKind::comm)
          text += " " + std::to_string(call.init[static_cast<size_t>(slot.index)].i);
    }
  }
  for (const auto& spec : weights->all()) text += spec.name + fk::shape_text(spec.shape);
  return text;
}

// Calls f with a changed document and the changed key for every key of an object, nested ones too.
template <class Change, class F>
void each_key(const Json& whole, const Json::json_pointer& at, const Change& change, const F& f) {
  for (const auto& [key, value] : whole[at].items()) {
    Json changed = whole;
    if (change(changed[at], key)) f(changed, key);
    const bool names = key == "id2label" || key == "quantization_config" || key == "__float__";
    if (value.is_object() && !names && !value.contains("__float__"))
      each_key(whole, at / key, change, f);
  }
}

}  // namespace

TEST_CASE("configs_refuse_a_misspelt_key_and_name_the_right_one") {
  int64_t count = 0;
  for (const auto& file : config_files()) {
    const Json json = Config::load(file).json();
    const auto misspell = [](Json& object, const std::string& key) {
      const Json value = object[key];  // a new key moves the others
      object[key + "x"] = value;
      return true;
    };
    each_key(json, Json::json_pointer(), misspell, [&](const Json& changed, const auto& key) {
      INFO(file << ": " << key);
      const std::string said = why(changed);
      CHECK_THAT(said, ContainsSubstring("`" + key + "x`"));
      CHECK_THAT(said, ContainsSubstring("did you mean `"));
      ++count;
    });
  }
  CHECK(count > 700);
}

TEST_CASE("configs_know_every_key_of_the_library") {
  for (const auto& file : config_files()) {
    const Config config = Config::load(file);
    INFO(file);
    const std::string arch = fk::arch_of(config);
    CHECK_NOTHROW(fk::make_model(arch, fk::with_defaults(arch, config)));
  }
}

TEST_CASE("configs_accept_harmless_keys_with_any_value") {
  Json json = golden("llama");
  json["attention_dropout"] = 0.7;
  json["id2label"] = {{"0", "cat"}};
  json["task_specific_params"] = {{"summary", {{"max_length", 3}}}};
  CHECK(why(json).empty());
}

// Configurations on the Hub have keys which no class of the library reads.
TEST_CASE("configs_of_the_hub_have_switches_that_are_off_and_options_that_are_not_set") {
  Json json = golden("llama");
  json["is_llama_config"] = true;
  json["transformers.js_config"] = {{"dtype", "q4f16"}};
  json["rope_interleaved"] = false;
  json["cross_attention_hidden_size"] = nullptr;
  json["pruned_heads"] = Json::object();
  CHECK(why(json).empty());
  json["rope_interleaved"] = true;
  CHECK_THAT(why(json), ContainsSubstring("`rope_interleaved`"));
}

TEST_CASE("configs_say_where_an_unknown_key_is") {
  Json json = golden("llama");
  json["rope_parameters"]["beta_fats"] = 32;
  CHECK_THAT(why(json), ContainsSubstring("config.json: rope_parameters: `beta_fats`"));
  json = golden("llama_eagle3");
  json["draft"]["draft_vocab_sise"] = 60;
  CHECK_THAT(why(json), ContainsSubstring("draft: `draft_vocab_sise`"));
  CHECK_THAT(why(json), ContainsSubstring("did you mean `draft_vocab_size`"));
}

TEST_CASE("configs_have_the_defaults_of_their_model_type") {
  Json mistral = golden("mistral_swa");
  mistral.erase("sliding_window");
  CHECK(init_of(call_of(mistral, "prefill", "decoder_layer"), "window").i == 4096);
  mistral["sliding_window"] = nullptr;
  CHECK(init_of(call_of(mistral, "prefill", "decoder_layer"), "window").i == 0);
  Json deepseek = golden("deepseek_v3");
  deepseek.erase("routed_scaling_factor");
  CHECK(init_of(call_of(deepseek, "prefill", "mla_moe_decoder_layer"), "routed_scaling_factor").f ==
        2.5);
  Json mixtral = golden("mixtral");
  mixtral.erase("rms_norm_eps");
  CHECK(init_of(call_of(mixtral, "prefill", "moe_decoder_layer"), "eps").f == 1e-5);
  Json draft = golden("llama_eagle3");
  draft["draft"].erase("rms_norm_eps");
  CHECK(init_of(call_of(draft, "draft", "eagle3_decoder_layer"), "eps").f == 1e-6);
}

TEST_CASE("configs_leave_no_default_to_code") {
  // A deleted key makes the same model as the library's value in its place.
  int64_t count = 0;
  for (const auto& file : config_files()) {
    if (file.filename() != "config.json") continue;  // sizes that are quick to record
    const Json json = Config::load(file).json();
    const std::string arch = fk::arch_of(Config(json, "config.json"));
    const Json all = fk::with_defaults(arch, Config(Json::object(), "none")).json();
    for (const auto& [key, value] : json.items()) {
      if (!all.contains(key)) continue;
      Json deleted = json, given = json;
      deleted.erase(key);
      given[key] = all[key];
      INFO(file << ": " << key);
      CHECK(described(deleted) == described(given));
      ++count;
    }
  }
  CHECK(count > 200);
}

TEST_CASE("configs_refuse_values_that_models_do_not_have") {
  const auto said = [](const std::string& name, const std::string& key, const Json& value) {
    Json json = golden(name);
    json[key] = value;
    return why(json);
  };
  CHECK_THAT(said("colbertv2", "is_decoder", true), ContainsSubstring("`is_decoder`: only false"));
  CHECK_THAT(said("bge_m3", "is_decoder", true), ContainsSubstring("`is_decoder`: only false"));
  CHECK_THAT(said("mistral_swa", "sliding_window", 0), ContainsSubstring("between 1 and"));
  CHECK_THAT(said("llama", "partial_rotary_factor", 0.5), ContainsSubstring("only 1 is supported"));
  CHECK_THAT(said("gpt_oss", "swiglu_limit", 6), ContainsSubstring("only 7 is supported"));
  CHECK_THAT(said("gpt_oss", "layer_types", Json{"sliding_attention", "slow"}),
             ContainsSubstring("`slow` is not a kind of layer"));
  CHECK_THAT(said("deepseek_v3", "scoring_func", "softmax"),
             ContainsSubstring("only \"sigmoid\" is supported"));
  CHECK_THAT(said("deepseek_v3", "qk_head_dim", 32), ContainsSubstring("only 48 is supported"));
  CHECK_THAT(said("mamba2", "norm_before_gate", true), ContainsSubstring("only false"));
  CHECK_THAT(said("whisper", "num_hidden_layers", 7), ContainsSubstring("only 2 is supported"));
  CHECK_THAT(said("llama", "hidden_size", nullptr), ContainsSubstring("it is null"));
}

TEST_CASE("configs_of_other_models_are_refused_with_their_name") {
  Json json = golden("llama");
  json["architectures"] = {"Qwen33ForCausalLM"};
  CHECK_THAT(why(json), ContainsSubstring("no model implements `Qwen33ForCausalLM`"));
  CHECK_THAT(why(json), ContainsSubstring("did you mean `Qwen3ForCausalLM`"));
  const auto as = [&](const std::string& arch) {
    return message_of<fk::Error>([&] { fk::make_model(arch, Config(json, "config.json")); });
  };
  CHECK_THAT(as("llama"), ContainsSubstring("no model implements `Qwen33ForCausalLM`"));
  json["architectures"] = {"MistralForCausalLM"};
  CHECK_THAT(as("llama"), ContainsSubstring("of `mistral_swa`, not of `llama`"));
  json["architectures"] = {"LlamaForCausalLM", "MistralForCausalLM"};
  CHECK_THAT(as("llama"), ContainsSubstring("it names two models"));
  json.erase("architectures");
  json["model_type"] = "qwen33";
  CHECK_THAT(as("llama"), ContainsSubstring("did you mean `qwen3`"));
}
