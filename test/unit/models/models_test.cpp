// SPDX-License-Identifier: Apache-2.0
// If this fails, a model asks for another tensor than its checkpoint has, records something that
// the contracts forbid, or misreads a configuration.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/exec/model.hpp"
#include "core/tensor/safetensors.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

fk::Graph record(const fk::Model& model, const std::string& phase, const fk::Limits& limits,
                 const std::shared_ptr<fk::WeightTable>& weights) {
  return fk::record(model, catalog(), phase, limits, weights);
}

std::vector<std::filesystem::path> golden_folders() {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry :
       std::filesystem::directory_iterator(fk::paths::home() / "test" / "golden")) {
    if (std::filesystem::exists(entry.path() / "config.json")) folders.push_back(entry.path());
  }
  return folders;
}

// Rows and elements of a weight's parts must add up to its shape.
void check_parts(const fk::WeightSpec& spec, const fk::Checkpoint& checkpoint,
                 std::set<std::string>& used) {
  int64_t want = 1, have = 0;
  for (const int64_t d : spec.shape) want *= d;
  bool zeros = false;
  for (const auto& group : spec.parts) {
    for (size_t i = 0; i < group.size(); ++i) {
      const std::string& name = group[i];
      const fk::PartView* view = !spec.views.empty() ? &spec.views.at(i)
                                 : spec.view         ? &*spec.view
                                                     : nullptr;
      zeros |= name.empty();
      if (name.empty()) continue;
      const fk::StoredTensor& t = checkpoint.at(name);
      int64_t n = 1;
      for (const int64_t d : t.shape) n *= d;
      have += view ? n / view->shape[view->axis] * view->length : n;
      if (t.shape.size() > 1 && !view) CHECK(t.shape.back() == spec.shape.back());
      used.insert(name);
    }
  }
  INFO(spec.name);
  CHECK((zeros ? have < want : have == want));
}

fk::Config config_of(const std::string& text) {
  return {fk::parse_json(text, "config"), "config.json"};
}

std::string llama(const std::string& more) {
  return R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
             "num_hidden_layers": 2, "num_attention_heads": 4,
             "vocab_size": 50, "max_position_embeddings": 128, "rms_norm_eps": 1e-5)" +
         more + "}";
}

}  // namespace

TEST_CASE("models_use_exactly_the_tensors_of_their_checkpoints") {
  const auto folders = golden_folders();
  CHECK(folders.size() >= 6);
  for (const auto& folder : folders) {
    INFO(folder);
    const fk::Config config = fk::Config::load(folder / "config.json");
    const auto model = fk::make_model(fk::arch_of(config), config);
    const auto weights = std::make_shared<fk::WeightTable>();
    for (const auto& phase : model->engine()->phases()) record(*model, phase, {}, weights);
    const fk::Checkpoint checkpoint = fk::Checkpoint::open(folder);
    std::set<std::string> used;
    for (const auto& spec : weights->all())
      if (!spec.compute || spec.in_checkpoint) check_parts(spec, checkpoint, used);
    const auto unread = model->unread();
    const auto is_unread = [&](const std::string& name) {
      return std::ranges::any_of(unread, [&](const auto& u) { return name.starts_with(u.prefix); });
    };
    std::set<std::string> wanted;
    for (const auto& name : checkpoint.names())
      if (used.count(name) || !is_unread(name)) wanted.insert(name);
    CHECK(used == wanted);
  }
}

TEST_CASE("models_record_real_configurations_in_bfloat16") {
  fk::Limits limits;
  limits.dtype = limits.cache_dtype = fk::DType::bf16;
  int64_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(fk::paths::home() / "registry" / "configs")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path());
    const fk::Config config = fk::Config::load(entry.path());
    const auto model = fk::make_model(fk::arch_of(config), config);
    const auto weights = std::make_shared<fk::WeightTable>();
    for (const auto& phase : model->engine()->phases()) {
      const fk::Graph g = record(*model, phase, limits, weights);
      for (const auto& axis : g.axes) CHECK(model->engine()->axis_limit(phase, axis, limits) > 0);
    }
    CHECK(weights->bytes() > 0);
    ++count;
  }
  CHECK(count >= 6);
}

TEST_CASE("models_taps_cover_every_layer") {
  const auto model = fk::make_model("llama", config_of(llama("")));
  const fk::Graph g = record(*model, "prefill", {}, std::make_shared<fk::WeightTable>());
  REQUIRE(g.taps.size() == 3);
  CHECK(g.taps[0].name == "hidden.0");
  CHECK(g.taps[0].values.size() == 2);
  CHECK(g.taps[2].name == "hidden.2");
  CHECK(g.taps[2].values.size() == 1);
}

TEST_CASE("models_tie_the_head_to_the_embedding") {
  const auto bytes = [](const std::string& more) {
    const auto weights = std::make_shared<fk::WeightTable>();
    record(*fk::make_model("llama", config_of(llama(more))), "decode", {}, weights);
    return weights->bytes();
  };
  CHECK(bytes("") - bytes(R"(, "tie_word_embeddings": true)") == 50 * 64 * 4);
}

TEST_CASE("models_refuse_what_they_do_not_implement") {
  const auto why = [](const std::string& more) {
    const fk::Config config = config_of(llama(more));
    return message_of<fk::Error>([&] { fk::make_model("llama", config); });
  };
  CHECK_THAT(why(R"(, "hidden_act": "gellu")"), ContainsSubstring("did you mean `gelu`"));
  CHECK_THAT(why(R"(, "head_dim": 0)"), ContainsSubstring("between 1 and"));
  CHECK_THAT(why(R"(, "head_dim": 99999999999)"), ContainsSubstring("between 1 and"));
  CHECK_THAT(why(R"(, "num_key_value_heads": 3)"),
             ContainsSubstring("3 key/value heads do not divide 4 heads"));
  CHECK_THAT(why(R"(, "rope_scaling": {"rope_type": "lama3"})"),
             ContainsSubstring("did you mean `llama3`"));
}

TEST_CASE("models_are_found_by_class_and_type") {
  CHECK(fk::arch_of(config_of(R"({"architectures": ["MixtralForCausalLM"]})")) == "mixtral");
  CHECK(fk::arch_of(config_of(R"({"model_type": "bert"})")) == "colbertv2");
  CHECK_THAT(message_of<fk::Error>(
                 [] { fk::arch_of(config_of(R"({"architectures": ["MixtralForCausalML"]})")); }),
             ContainsSubstring("did you mean `MixtralForCausalLM`"));
  CHECK_THAT(message_of<fk::Error>([] { fk::make_model("lama", config_of(llama(""))); }),
             ContainsSubstring("did you mean `llama`"));
}

TEST_CASE("models_give_colbert_its_projection_by_class") {
  const std::string bert = R"("hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
      "num_attention_heads": 4, "vocab_size": 50, "max_position_embeddings": 64,
      "type_vocab_size": 2})";
  const auto outputs = [&](const std::string& name) {
    const auto model =
        fk::make_model("colbertv2", config_of(R"({"architectures": [")" + name + "\"], " + bert));
    return record(*model, "encode", {}, std::make_shared<fk::WeightTable>()).outputs;
  };
  CHECK(outputs("BertModel").size() == 1);
  CHECK(outputs("HF_ColBERT").count("embeddings") == 1);
}

TEST_CASE("models_project_queries_directly_where_their_rank_is_null") {
  const auto names = [](bool null) {
    fk::Json json = fk::load_json(fk::paths::home() / "test/golden/deepseek_v3/config.json");
    if (null) json["q_lora_rank"] = nullptr;
    const auto model = fk::make_model("deepseek_v3", fk::Config(json, "config.json"));
    const auto weights = std::make_shared<fk::WeightTable>();
    record(*model, "prefill", {}, weights);
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const auto& spec : weights->all())
      if (spec.name.find("layers.0.self_attn.q") != std::string::npos)
        shapes[spec.name.substr(spec.name.find("q"))] = spec.shape;
    return shapes;
  };
  using Shapes = std::map<std::string, std::vector<int64_t>>;
  CHECK(names(false) == Shapes{{"q_a_layernorm.weight", {48}}, {"q_b_proj.weight", {192, 48}}});
  CHECK(names(true) == Shapes{{"q_proj.weight", {192, 64}}});
}

TEST_CASE("models_name_the_width_that_mxfp4_cannot_have") {
  const auto refusal = [](const char* key) {
    fk::Json json = fk::load_json(fk::paths::home() / "test/golden/gpt_oss_mxfp4/config.json");
    json[key] = 100;
    return message_of<fk::Error>(
        [&] { fk::make_model("gpt_oss", fk::Config(json, "config.json")); });
  };
  CHECK_THAT(refusal("intermediate_size"), ContainsSubstring("`intermediate_size`: mxfp4"));
  CHECK_THAT(refusal("hidden_size"), ContainsSubstring("`hidden_size`: mxfp4"));
}
