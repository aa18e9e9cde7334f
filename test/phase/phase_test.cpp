// SPDX-License-Identifier: Apache-2.0
// A whole phase is an op like any other: listed, shown, checked, timed, and put in the place of its
// decomposition in a run.
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/base/paths.hpp"
#include "core/exec/session.hpp"
#include "test/shell.hpp"

using fk::Json;

namespace {

const std::string host = "FK_CANDIDATES=" CANDIDATES " " FK_HOST " ";

Json report_of(const std::string& arguments, int code) {
  const Shell out = shell(host + "run smoke --device cpu --json - " + arguments);
  CAPTURE(out.text);
  REQUIRE(out.code == code);
  return fk::parse_json(out.text, "report");
}

}  // namespace

TEST_CASE("phase_is_in_the_catalogue") {
  CHECK_THAT(shell(host + "list ops").text, ContainsSubstring("decode_step"));
  const std::string page = shell(host + "show decode_step").text;
  CHECK_THAT(page, ContainsSubstring("level 4, family llm"));
  CHECK_THAT(page, ContainsSubstring("const fk_inout_list *k_cache;"));
  CHECK_THAT(page, ContainsSubstring("embedding, 32 x decoder_layer, rms_norm"));
  const std::string graph = shell(host + "graph smoke --device cpu --level 4").text;
  CHECK_THAT(graph, ContainsSubstring("decode_step"));
  CHECK(graph.find("decoder_layer") == std::string::npos);
}

TEST_CASE("phase_is_checked_and_timed") {
  CHECK_THAT(shell(host + "check whole_step").text, ContainsSubstring("PASS"));
  const Shell wrong = shell(host + "check wrong_step");
  CHECK(wrong.code == 1);
  CHECK_THAT(wrong.text, ContainsSubstring("logits: "));
  const Shell bench = shell(host + "bench decode_step --size smoke --seconds 0.05 --json -");
  CHECK(bench.code == 1);  // for the wrong one
  int timed = 0;
  const Json report = fk::parse_json(bench.text, "bench");
  for (const auto& row : report.at("rows")) {
    const bool wrong_one = row.at("provider") == "wrong_step";
    CAPTURE(row.dump());
    CHECK(wrong_one == !row.at("why").get<std::string>().empty());
    timed += row.at("provider") == "whole_step" && row.at("cold_s") > 0;
  }
  CHECK(timed == 4);
}

TEST_CASE("phase_taken_whole_replaces_its_expansion_in_a_run") {
  const Json j = report_of("--candidate whole_step", 0);
  const Json& candidate = j.at("candidates").at(0);
  CHECK(candidate.at("verdict") == "correct");
  int whole = 0, layers = 0;
  for (const auto& op : candidate.at("ops")) {
    whole += op.at("op") == "decode_step" && op.at("provider") == "whole_step";
    layers += op.at("op") == "kv_cache_append" ? op.at("nodes").get<int>() : 0;
  }
  CHECK(whole == 1);
  CHECK(layers == 2);  // of the prefill alone
  CHECK(candidate.at("workloads").at(0).at("token_s").at("median") > 0);
}

TEST_CASE("phase_that_is_wrong_is_caught_in_a_run") {
  const Json j = report_of("--candidate wrong_step", 1);
  CHECK(j.at("candidates").at(0).at("verdict") != "correct");
}

TEST_CASE("phase_yields_to_a_candidate_of_an_op_inside") {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  fk::Plugins plugins(catalog);
  plugins.load(CANDIDATES "/whole_step/whole_step.so", fk::Trust::baseline);
  plugins.load(PLUGINS "/reference.so", fk::Trust::baseline);
  plugins.load(PLUGINS "/cpu.so", fk::Trust::candidate);
  const fk::Config config({{"architectures", {"LlamaForCausalLM"}},
                           {"model_type", "llama"},
                           {"hidden_size", 64},
                           {"intermediate_size", 96},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"vocab_size", 128},
                           {"rms_norm_eps", 1e-5},
                           {"rope_theta", 10000.0},
                           {"max_position_embeddings", 128},
                           {"hidden_act", "silu"}},
                          "phase_test");
  const auto model = fk::make_model("llama", config);
  const auto device = fk::open_device("cpu");
  const auto providers = [&](const std::string& candidate, const std::string& pinned) {
    const auto weights = fk::private_weights(nullptr, 1, 1);
    fk::Session::Options options;
    options.limits.dtype = options.limits.cache_dtype = fk::DType::f32;
    options.limits.max_batch = 2;
    options.limits.max_context = 64;
    options.limits.chunk_tokens = 32;
    options.policy.baselines = {"whole_step", "reference"};
    if (!candidate.empty()) options.policy.candidates = {candidate};
    if (!pinned.empty()) options.policy.pins["decode_step"] = pinned;
    fk::Session session(*model, plugins, *device, *weights, options);
    std::map<std::string, std::string> chosen;
    for (const auto& node : session.phase("decode").nodes()) chosen[node.op] = node.provider;
    return chosen;
  };
  using Chosen = std::map<std::string, std::string>;
  CHECK(providers("", "") == Chosen{{"decode_step", "whole_step"}});
  const Chosen inside = providers("cpu", "");
  CHECK(inside.count("decode_step") == 0);
  CHECK(inside.at("linear") == "cpu");
  // A provider which the scenario names stays.
  CHECK(providers("cpu", "whole_step") == Chosen{{"decode_step", "whole_step"}});
}
