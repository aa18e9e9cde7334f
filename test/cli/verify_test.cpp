// SPDX-License-Identifier: Apache-2.0
// `verify` on cases that it must refuse or fail; test/golden has those that it must pass.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json.hpp"
#include "core/tensor/safetensors.hpp"
#include "test/shell.hpp"

namespace fs = std::filesystem;
using namespace fk;

namespace {

// A copy of a reference case that a test may spoil.
class Case {
 public:
  explicit Case(const std::string& name)
      : dir_(fs::temp_directory_path() / ("fk_verify_" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
    fs::copy(fs::path(FK_SOURCE) / "test/golden" / name, dir_);
  }
  ~Case() { fs::remove_all(dir_); }
  const fs::path& dir() const { return dir_; }

  // Rewrites one file with its tensors changed.
  template <class Change>
  void edit(const std::string& file, Change change) {
    std::map<std::string, Tensor> tensors;
    {
      const auto stored = SafeTensors::open(dir_ / file);
      for (const auto& name : stored.names()) tensors[name] = stored.at(name).load();
    }
    change(tensors);
    std::map<std::string, TensorView> views;
    for (const auto& [name, tensor] : tensors) views.emplace(name, tensor);
    write_safetensors(dir_ / file, views);
  }

  void configure(const Json& changes) {
    const Config config = Config::load(dir_ / "config.json").with(changes);
    std::ofstream(dir_ / "config.json") << config.json().dump();
  }

  Shell verify(const std::string& options = "") const {
    return shell(FK_HOST " verify " + dir_.string() + " " + options + " 2>&1");
  }
  void refused(const std::string& text) const {
    const Shell out = verify();
    CAPTURE(out.text);
    CHECK(out.code == 2);
    CHECK_THAT(out.text, ContainsSubstring(text));
  }

 private:
  fs::path dir_;
};

}  // namespace

TEST_CASE("verify_case_passes_and_says_so_in_json") {
  const Case c("llama");
  const Shell out = c.verify("--json");
  REQUIRE(out.code == 0);
  const Json j = parse_json(out.text, "report");
  CHECK(j.at("schema") == "fk-host.verify/1");
  CHECK(j.at("passed") == true);
  CHECK(j.at("cases").at(0).at("rows").size() == 5);
}

TEST_CASE("verify_small_error_in_one_weight_fails") {
  Case c("llama");
  c.edit("model.safetensors", [](auto& t) {
    Tensor& w = t.at("model.layers.1.post_attention_layernorm.weight");
    w.set(3, w.at(3) * 1.05);
  });
  const Shell out = c.verify();
  CHECK(out.code == 1);
  CHECK_THAT(out.text, ContainsSubstring("WRONG"));
  CHECK_THAT(out.text, ContainsSubstring("FAIL"));
}

TEST_CASE("verify_wrong_greedy_token_fails") {
  Case c("mixtral");
  c.edit("golden.safetensors", [](auto& t) {
    Tensor& greedy = t.at("out.greedy");
    greedy.set(4, greedy.at(4) == 3 ? 4 : 3);
  });
  const Shell out = c.verify();
  CHECK(out.code == 1);
  CHECK_THAT(out.text, ContainsSubstring("the first difference is token 4"));
}

TEST_CASE("verify_bf16_models_have_bf16_activations_in_every_phase") {
  // An op that gets activations of another type than the model's falls to the oracle.
  const Case c("llama");
  const Shell out = c.verify("--dtype bf16 --json");
  REQUIRE(out.code == 0);
  const Json j = parse_json(out.text, "report");
  const Json& ops = j.at("cases").at(0).at("ops");
  CHECK(ops.size() > 10);
  for (const auto& op : ops) {
    CAPTURE(op.dump());
    CHECK(op.at("provider") == "cpu");
  }
}

TEST_CASE("verify_bf16_allows_more_than_the_library_is_off_by_itself") {
  const Case mamba("mamba");
  const std::string in_bf16 = "--provider cpu --dtype bf16";
  CHECK(mamba.verify(in_bf16).code == 0);
  std::ofstream(mamba.dir() / "case.json") << "{}";
  CHECK(mamba.verify(in_bf16).code == 1);
  std::ofstream(mamba.dir() / "case.json") << "{\"bf16_of_spread\": 0.9}";
  mamba.refused("bf16_of_spread");
}

TEST_CASE("verify_decodes_the_end_of_rows_and_saves_what_was_computed") {
  const Case c("llama");
  const Shell out = c.verify("--decode 5 --save " + c.dir().string());
  CAPTURE(out.text);
  REQUIRE(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("decoded: logits"));
  const auto saved = SafeTensors::open(c.dir() / (c.dir().filename().string() + ".safetensors"));
  const auto golden = SafeTensors::open(c.dir() / "golden.safetensors");
  const Tensor want = golden.at("out.logits").load();
  for (const char* name : {"logits", "decoded.logits"}) {
    const Tensor got = saved.at(name).load();
    REQUIRE(got.numel() == want.numel());
    double worst = 0;
    for (int64_t i = 0; i < got.numel(); ++i)
      worst = std::max(worst, std::abs(got.at(i) - want.at(i)));
    CHECK(worst < 1e-3);
  }
  const Shell all = c.verify("--decode 24");
  CHECK(all.code == 2);
  CHECK_THAT(all.text, ContainsSubstring("leaves no prompt before the 24"));
}

TEST_CASE("verify_padding_is_left_out") {
  Case c("colbertv2");
  c.edit("golden.safetensors", [](auto& t) {
    // Values at padded places are not compared.
    const Tensor mask = t.at("in.attention_mask");
    Tensor& out = t.at("out.last_hidden_state");
    const int64_t width = out.shape[2];
    for (int64_t i = 0; i < mask.numel(); ++i)
      if (mask.at(i) == 0)
        for (int64_t k = 0; k < width; ++k) out.set(i * width + k, 1e9);
  });
  CHECK(c.verify("--stress").code == 0);
}

TEST_CASE("verify_bad_folders_are_refused") {
  SECTION("missing tensor") {
    Case c("llama");
    c.edit("model.safetensors", [](auto& t) { t.erase("model.norm.weight"); });
    c.refused("model.norm.weight");
  }
  SECTION("wrong shape of a weight") {
    Case c("llama");
    c.edit("model.safetensors", [](auto& t) { t["model.norm.weight"] = Tensor(DType::f32, {7}); });
    c.refused("model.norm.weight");
  }
  SECTION("truncated weights") {
    const Case c("llama");
    fs::resize_file(c.dir() / "model.safetensors", 5000);
    c.refused("model.safetensors");
  }
  SECTION("truncated answers") {
    const Case c("llama");
    fs::resize_file(c.dir() / "golden.safetensors", 5);
    c.refused("golden.safetensors");
  }
  SECTION("no configuration") {
    const Case c("llama");
    fs::remove(c.dir() / "config.json");
    c.refused("config.json");
  }
  SECTION("unknown model") {
    const Case c("llama");
    std::ofstream(c.dir() / "config.json") << R"({"architectures": ["LlamaForCausalLN"]})";
    c.refused("LlamaForCausalLN");
  }
  SECTION("answers of another size") {
    Case c("llama");
    c.edit("golden.safetensors", [](auto& t) { t["out.logits"] = Tensor(DType::f32, {2, 5, 9}); });
    c.refused("out.logits");
  }
  SECTION("token outside the vocabulary") {
    Case c("llama");
    c.edit("golden.safetensors", [](auto& t) { t.at("in.input_ids").set(0, 100000); });
    c.refused("vocabulary");
  }
  SECTION("left padding") {
    Case c("bge_m3");
    c.edit("golden.safetensors", [](auto& t) { t.at("in.attention_mask").set(0, 0); });
    c.refused("right padding");
  }
  SECTION("no answers") {
    Case c("llama");
    c.edit("golden.safetensors", [](auto& t) { t.erase("out.logits"), t.erase("out.greedy"); });
    c.refused("none of out.logits");
  }
  SECTION("no folder") {
    const Shell out = shell(FK_HOST " verify /nowhere/case 2>&1");
    CHECK(out.code == 2);
    CHECK_THAT(out.text, ContainsSubstring("is not a folder"));
  }
}

TEST_CASE("verify_refuses_a_checkpoint_of_more_layers_and_names_a_tensor") {
  Case c("llama");
  c.configure({{"num_hidden_layers", 1}});
  c.refused("nothing reads the tensor `model.layers.1.input_layernorm.weight` and 8 others");
}

TEST_CASE("verify_takes_the_head_of_a_checkpoint_whose_configuration_ties_it") {
  Case c("llama");
  c.configure({{"tie_word_embeddings", true}});
  const Shell out = c.verify();
  CAPTURE(out.text);
  CHECK(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("the checkpoint has another head"));
}

TEST_CASE("verify_multiplies_by_declared_scales_says_so_and_refuses_others") {
  Case c("llama");
  // Half of what it was, and a scale of two: the same weights, but for the rounding to f8e4m3.
  c.edit("model.safetensors", [&](auto& t) {
    for (const char* name : {"q_proj", "o_proj"}) {
      const std::string path = std::string("model.layers.0.self_attn.") + name + ".weight";
      Tensor half = t.at(path);
      for (int64_t i = 0; i < half.numel(); ++i) half.set(i, half.at(i) / 2);
      t[path] = half.to(DType::f8e4m3);
      t[path + "_scale"] = Tensor::of(DType::bf16, {1}, {2});
    }
  });
  c.refused("it is f8e4m3, and no quantization_config says how it is scaled");
  c.configure({{"quantization_config", {{"quant_method", "awq"}, {"bits", 4}}}});
  c.refused("checkpoints of the method `awq` are not supported");
  c.configure({{"quantization_config", nullptr}});
  c.configure({{"quantization_config",
                {{"quant_method", "compressed-tensors"}, {"format", "float-quantized"}}}});
  const Json j = parse_json(c.verify("--json").text, "report").at("cases").at(0);
  CHECK(j.at("error") == "");
  REQUIRE(j.at("notes").size() == 1);
  CHECK_THAT(j.at("notes").at(0).get<std::string>(), ContainsSubstring("2 matrices"));
  for (const auto& row : j.at("rows")) {
    if (row.at("what") == "greedy") continue;
    CAPTURE(row.dump());
    CHECK(row.at("rms_of_spread") < 0.1);
  }
}

TEST_CASE("verify_stress_has_pages_for_deep_draft_trees") {
  Case c("llama_eagle3");
  c.configure({{"speculation", {{"depth", 24}, {"top_k", 3}, {"tokens", 90}}}});
  const Shell out = c.verify("--stress");
  CAPTURE(out.text);
  CHECK(out.code == 0);
}

// A prompt that fills the context gives the same alone and among other requests.
TEST_CASE("verify_stress_works_at_the_longest_prompt") {
  constexpr int64_t kTokens = 4096;
  Case c("llama");
  c.configure({{"max_position_embeddings", kTokens}});
  const auto answers = [&](Tensor logits) {
    c.edit("golden.safetensors", [&](auto& t) {
      t.clear();
      Tensor& ids = t["in.input_ids"] = Tensor(DType::i64, {1, kTokens});
      for (int64_t i = 0; i < kTokens; ++i) ids.set(i, static_cast<double>(3 + i * i % 251));
      t["out.logits"] = std::move(logits);
    });
  };
  answers(Tensor(DType::f32, {1, kTokens, 256}));
  CHECK(c.verify("--save " + c.dir().string()).code == 1);
  const auto saved = SafeTensors::open(c.dir() / (c.dir().filename().string() + ".safetensors"));
  Tensor logits = saved.at("logits").load();
  logits.shape = {1, kTokens, 256};
  answers(std::move(logits));
  const Shell out = c.verify("--stress");
  CAPTURE(out.text);
  CHECK(out.code == 0);
  CHECK_THAT(out.text, ContainsSubstring("4 of 4 requests equal"));
}

TEST_CASE("verify_needs_no_answers_but_greedy_tokens") {
  Case c("llama");
  c.edit("golden.safetensors", [](auto& t) {
    std::erase_if(t, [](const auto& item) {
      return item.first.find("greedy") == item.first.npos && !item.first.starts_with("in.");
    });
  });
  const Shell out = c.verify("--stress");
  CAPTURE(out.text);
  CHECK(out.code == 0);
}

TEST_CASE("verify_goes_on_after_a_bad_folder") {
  const Case c("qwen3");
  const Shell out = shell(FK_HOST " verify /nowhere/case " + c.dir().string());
  CHECK(out.code == 2);
  CHECK_THAT(out.text, ContainsSubstring("1 of 2 passed"));
}

TEST_CASE("verify_unknown_provider_is_refused") {
  const Case c("llama");
  const Shell out = c.verify("--provider refrence");
  CHECK(out.code == 2);
  CHECK_THAT(out.text, ContainsSubstring("did you mean `reference`?"));
}

TEST_CASE("verify_chooses_providers_as_they_are_ranked") {
  const Case c("llama");
  const auto by = [&](const std::string& environment) {
    const Shell out = shell("FK_PLUGIN_PATH=" FK_GOOD " " + environment + " " FK_HOST " verify " +
                            c.dir().string() + " --json -");
    REQUIRE(out.code == 0);
    std::set<std::string> providers;
    const Json report = parse_json(out.text, "verify");
    for (const auto& o : report.at("cases").at(0).at("ops"))
      if (o.at("op") == "silu_and_mul") providers.insert(o.at("provider").get<std::string>());
    return providers;
  };
  // Nobody measured anything on this machine, so the names' order decides.
  CHECK(by("") == std::set<std::string>{"cpu"});
  const fs::path devices = c.dir() / "registry/devices";
  fs::create_directories(devices);
  std::ofstream(devices / "ranked.yaml")
      << "device: ranked\nname: cpu\nranking:\n  silu_and_mul: [good]\n";
  CHECK(by("FK_REGISTRY_PATH=" + (c.dir() / "registry").string()) == std::set<std::string>{"good"});
}

// One that answers zeros shows which calls it gets.
TEST_CASE("verify_chooses_providers_by_the_sizes_of_each_step") {
  const Case c("llama");
  const fs::path devices = c.dir() / "registry/devices";
  fs::create_directories(devices);
  const auto passes = [&](const std::string& where) {
    std::ofstream(devices / "ranked.yaml")
        << "device: ranked\nname: cpu\nranking:\n  silu_and_mul:\n"
        << "    - {where: " << where << ", providers: [c1_zeros]}\n    - [cpu]\n";
    const Shell out =
        shell("FK_PLUGIN_PATH=" FK_ZEROS " FK_REGISTRY_PATH=" + (c.dir() / "registry").string() +
              " " FK_HOST " verify " + c.dir().string());
    INFO(out.text);
    REQUIRE((out.code == 0 || out.code == 1));
    return out.code == 0;
  };
  CHECK(passes("{T: {at_most: 0}}"));
  CHECK_FALSE(passes("{T: {at_least: 1}}"));
  CHECK_FALSE(passes("{T: {at_least: 2}}"));  // of prefill
  CHECK_FALSE(passes("{T: {at_most: 2}}"));   // of decode
  CHECK(passes("{T: {at_most: 2}, F: {at_most: 1}}"));
}
