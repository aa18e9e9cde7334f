// SPDX-License-Identifier: Apache-2.0
// `capture`: what a whole model's nodes were called with becomes cases that check and bench use.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/tensor/safetensors.hpp"
#include "test/shell.hpp"

namespace fs = std::filesystem;
using fk::Json;

namespace {

const std::string host = "FK_CANDIDATES=/nowhere " FK_HOST " ";

struct Folder {
  fs::path path = fs::temp_directory_path() / ("fk-capture-" + std::to_string(::getpid()));
  ~Folder() { fs::remove_all(path); }
  Json capture(const std::string& arguments) const {
    const Shell out = shell(host + "capture " + arguments + " --device cpu --json --out " +
                            path.string() + " 2>&1");
    CAPTURE(out.text);
    REQUIRE(out.code == 0);
    return fk::parse_json(out.text, "index");
  }
  Shell use(const std::string& verb, const std::string& candidates = "/nowhere") const {
    return shell("FK_CANDIDATES=" + candidates + " " FK_HOST " " + verb + " --captured " +
                 path.string() + " 2>&1");
  }
};

const Json& case_of(const Json& index, const std::string& op, const std::string& name) {
  for (const auto& c : index.at("cases"))
    if (c.at("op") == op && c.at("name") == name) return c;
  FAIL("no case " << name << " of " << op);
  return index;
}

int64_t kept(const Json& index, const std::string& op, const std::string& phase) {
  int64_t count = 0;
  for (const auto& c : index.at("cases")) count += c.at("op") == op && c.at("phase") == phase;
  return count;
}

}  // namespace

TEST_CASE("capture_of_a_llama_counts_layers_once_and_is_replayed") {
  const Folder folder;
  const Json index = folder.capture("smoke");
  CHECK(index.at("schema") == "fk-host.capture/1");
  CHECK(index.at("weights").at("random") == true);
  // All layers of a step see the same tables, so they are one case; the other steps are not.
  const Json decode = case_of(index, "paged_attention", "decode.0");
  CHECK(decode.at("count") >= 2);
  CHECK(decode.at("scalars").at("max_query_len") == 1);
  for (const char* field : {"block_tables", "cu_seqlens", "seq_lens"})
    CHECK(decode.at("tensors").at(field).size() == 1);
  CHECK_FALSE(decode.at("tensors").contains("q"));
  // No whole numbers: shapes alone make a case.
  CHECK(case_of(index, "rms_norm", "decode.0").at("tensors").empty());
  // Tensors are stored once: fewer than there are references to them.
  std::multiset<std::string> references;
  for (const auto& c : index.at("cases"))
    for (const char* list : {"tensors", "outputs"})
      if (c.contains(list))
        for (const auto& names : c.at(list))
          for (const auto& name : names) references.insert(name.get<std::string>());
  size_t stored = 0;
  for (const auto& file : index.at("files"))
    stored += fk::SafeTensors::open(folder.path / file.get<std::string>()).names().size();
  const std::set<std::string> distinct(references.begin(), references.end());
  CHECK(stored == distinct.size());
  CHECK(distinct.size() < references.size());

  const Shell check = folder.use("check cpu --verbose");
  CHECK(check.code == 0);
  for (const char* text : {"PASS", "captured from smoke (tiny), random weights", "decode.0"})
    CHECK_THAT(check.text, ContainsSubstring(text));
  const Shell none = folder.use("check cpu --op moe_align");
  CHECK(none.code == 2);
  CHECK_THAT(none.text, ContainsSubstring("no cases of moe_align"));
}

TEST_CASE("capture_of_a_mixture_shows_what_routing_costs") {
  const Folder folder;
  const Json index = folder.capture(
      "mixtral --workload mixed --requests 2 --op moe_align --op topk_softmax --limit 4");
  for (const auto& c : index.at("cases"))
    CHECK((c.at("op") == "moe_align" || c.at("op") == "topk_softmax"));
  CHECK(kept(index, "moe_align", "decode") > 1);
  CHECK(kept(index, "moe_align", "decode") <= 4);
  REQUIRE_FALSE(index.at("left_out").empty());
  CHECK(index.at("left_out").at(0).at("calls") > 0);
  // The router's choice is there even if its scores are not.
  CHECK(case_of(index, "topk_softmax", "prefill.0").at("outputs").contains("topk_ids"));
  CHECK_FALSE(case_of(index, "topk_softmax", "prefill.0").at("tensors").contains("logits"));

  // The prompt fills a chunk, so the first chunk has equally many tokens in whatever order requests
  // arrive. With few tokens the busiest expert's share is chance.
  const Folder full;
  full.capture("mixtral --workload long_context --requests 1 --op moe_align --limit 4");
  const Shell bench = full.use(
      "bench moe_align --case prefill.0 --provider cpu --seconds 0.1 "
      "--json -");
  REQUIRE(bench.code == 0);
  const Json report = fk::parse_json(bench.text, "bench");
  CHECK_THAT(report.at("captured").get<std::string>(),
             ContainsSubstring("random weights, so the routing is random too"));
  std::vector<std::string> routings;
  for (const auto& row : report.at("rows")) {
    routings.push_back(row.at("routing"));
    CHECK(row.at("skew") >= 1);
    CHECK(row.at("cold_s") > 0);
    CHECK(row.contains("of_uniform") == (routings.back() != "uniform"));
    if (!row.contains("of_uniform")) continue;
    // The interval holds the ratio, and both are of calls that did happen.
    const double low = row.at("of_uniform_low"), ratio = row.at("of_uniform"),
                 high = row.at("of_uniform_high");
    CHECK(low > 0);
    CHECK(low <= ratio);
    CHECK(ratio <= high);
  }
  // A candidate may take longer the more tokens the busiest expert has. The report says so of
  // routing that is not uniform.
  const Shell busy = full.use(
      "bench moe_align --case prefill.0 --provider busy_expert --seconds 0.1 --json -", FK_BUSY);
  REQUIRE(busy.code == 0);
  double uniform = 0;
  const Json of_busy = fk::parse_json(busy.text, "bench");
  for (const auto& row : of_busy.at("rows")) {
    const double skew = row.at("skew");
    if (row.at("routing") == "uniform") uniform = skew;
    if (row.at("routing") != "skewed") continue;
    REQUIRE(skew > 1.2 * uniform);
    const double wanted = skew * skew / uniform / uniform, ratio = row.at("of_uniform");
    CHECK(ratio > wanted / 1.2);
    CHECK(ratio < wanted * 1.2);
  }
  CHECK(uniform >= 1);
  // Random weights say nothing about experts, so a published skew stands beside what was captured.
  CHECK(routings == std::vector<std::string>{"uniform", "skewed", "captured"});
}

TEST_CASE("capture_of_values_replays_the_floats_that_were_seen") {
  const Folder folder;
  const Json index = folder.capture("smoke --op linear --limit 1 --values");
  const Json c = case_of(index, "linear", "decode.0");
  CHECK(c.at("tensors").contains("x"));
  CHECK(c.at("tensors").contains("weight"));
  CHECK(folder.use("check cpu").code == 0);
  // Contents that do not match their name are not used.
  const fs::path file = folder.path / "tensors-0.safetensors";
  std::string image = fk::read_file(file);
  image.back() = static_cast<char>(image.back() ^ 1);
  fk::write_file_atomic(file, image);
  const Shell changed = folder.use("check cpu");
  CHECK(changed.code == 2);  // nobody's fault but the folder's
  CHECK_THAT(changed.text, ContainsSubstring("has other contents than its name says"));
  CHECK(folder.use("bench linear --seconds 0").code == 2);
}

namespace {

// Bytes of the one captured tensor of a field.
fk::Tensor captured(const Folder& folder, const Json& one, const std::string& field) {
  const auto name = one.at("tensors").at(field).at(0).get<std::string>();
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = fk::SafeTensors::open(entry.path());
    if (const auto* stored = file.find(name)) return stored->load();
  }
  FAIL("no tensor " << name << " of " << field);
  return {};
}

bool same(const fk::Tensor& a, const fk::Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

// One behind the other, as their rows are.
fk::Tensor stacked(const std::vector<fk::Tensor>& parts) {
  int64_t rows = 0;
  for (const auto& part : parts) rows += part.shape[0];
  fk::Tensor out(parts[0].dtype, {rows, parts[0].shape[1]});
  int64_t at = 0;
  for (const auto& part : parts)
    for (int64_t i = 0; i < part.numel(); ++i) out.set(at++, part.at(i));
  return out;
}

}  // namespace

// A copy of the llama of the golden cases, which is smaller than a tiny one, with its checkpoint.
TEST_CASE("capture_of_a_checkpoint_has_its_weights_and_what_they_make") {
  const Folder folder;
  const fs::path golden = fs::path(FK_SOURCE) / "test/golden/llama";
  const fs::path home = folder.path.string() + "-scenario";
  fs::create_directories(home);
  fs::copy(golden / "config.json", home / "config.json", fs::copy_options::overwrite_existing);
  fs::copy(fs::path(FK_SOURCE) / "scenarios/workloads", home / "workloads",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fk::write_file_atomic(
      home / "small.yaml",
      "scenario: small\nmodel: llama\nconfig: config.json\nworkloads: llm\nrun: [single_request]\n"
      "profiles:\n  tiny:\n    dtype: f32\n"
      "    limits: {max_batch: 2, max_context: 128, chunk_tokens: 64, page_size: 16}\n"
      "    change: {hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, "
      "num_key_value_heads: 2, head_dim: 16, vocab_size: 256, num_hidden_layers: 2}\n");
  const std::string words =
      (home / "small.yaml").string() + " --op rms_norm --op linear --limit 1 --requests 1 --values";
  const auto stored = fk::SafeTensors::open(golden / "model.safetensors");
  const auto weight = [&](const std::string& name) { return stored.at(name).load(); };
  const auto layer = [&](const char* name) {
    return weight(std::string("model.layers.0.") + name + ".weight");
  };
  const fk::Tensor qkv =
      stacked({layer("self_attn.q_proj"), layer("self_attn.k_proj"), layer("self_attn.v_proj")});
  const fk::Tensor embedded = weight("model.embed_tokens.weight");
  // How many rows of the first layer's input are rows of the checkpoint's embedding.
  const auto known_rows = [&](const fk::Tensor& x) {
    const int64_t width = embedded.shape[1], row_bytes = width * 4;
    REQUIRE(x.shape.back() == width);
    int64_t out = 0;
    for (int64_t r = 0; r < x.numel() / width; ++r)
      for (int64_t v = 0; v < embedded.shape[0]; ++v) {
        const auto* const a = reinterpret_cast<const char*>(x.data()) + r * row_bytes;
        const auto* const b = reinterpret_cast<const char*>(embedded.data()) + v * row_bytes;
        if (std::memcmp(a, b, static_cast<size_t>(row_bytes)) != 0) continue;
        ++out;
        break;
      }
    return out;
  };
  Json index = folder.capture(words + " --weights " + golden.string());
  CHECK(index.at("weights").at("random") == false);
  CHECK(index.at("weights").at("from") == "llama");
  const Json norm = case_of(index, "rms_norm", "prefill.0");
  REQUIRE(norm.at("path") == "model.layers.0.input_layernorm");
  CHECK(same(captured(folder, norm, "weight"), layer("input_layernorm")));
  const fk::Tensor x = captured(folder, norm, "x");
  CHECK(x.numel() > 64);
  CHECK(known_rows(x) == x.numel() / 64);
  const Json linear = case_of(index, "linear", "prefill.0");
  REQUIRE(linear.at("path") == "model.layers.0.self_attn.qkv_proj");
  CHECK(same(captured(folder, linear, "weight"), qkv));
  // The report names the origin of the weights.
  const Shell judged = folder.use("bench cpu --op linear --seconds 0 --no-store --json");
  CAPTURE(judged.text);
  CHECK(judged.code == 0);
  CHECK_THAT(judged.text, ContainsSubstring("captured from small (tiny), weights of a checkpoint"));
  // Without it they are random.
  fs::remove_all(folder.path);
  index = folder.capture(words);
  CHECK(index.at("weights").at("random") == true);
  CHECK_FALSE(same(captured(folder, case_of(index, "linear", "prefill.0"), "weight"), qkv));
  CHECK(known_rows(captured(folder, case_of(index, "rms_norm", "prefill.0"), "x")) == 0);
  fs::remove_all(home);
}

// B stands nowhere but in [B+1].
TEST_CASE("capture_finds_axes_that_no_field_has_alone") {
  const Folder folder;
  const Json index = folder.capture("bge_m3 --workload single_request --op attention_varlen");
  const Json c = case_of(index, "attention_varlen", "encode.0");
  const int64_t starts = c.at("shapes").at("cu_seqlens_q").at(0).at(0).get<int64_t>();
  CHECK(c.at("axes").at("B") == starts - 1);
  CHECK(folder.use("check cpu").code == 0);
}

TEST_CASE("capture_says_what_had_no_room_and_what_is_wrong") {
  const Folder folder;
  const Json index = folder.capture("smoke --gib 0.0000001 --values");
  CHECK(index.at("bytes") <= 107);
  bool room = false;
  for (const auto& left : index.at("left_out"))
    room |= left.at("why").get<std::string>().starts_with("no room in 107 B");
  CHECK(room);
  // Floats without room are made by their generators.
  CHECK(case_of(index, "rms_norm", "prefill.0").at("generated").size() >= 2);
  CHECK(folder.use("check cpu --op rms_norm").code == 0);

  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Shell out = shell(host + arguments + " 2>&1");
    CHECK(out.code == 2);
    CHECK_THAT(out.text, ContainsSubstring(why));
  };
  refused("capture mixtral --device cpu --requests 1 --op fused_moe --out " + folder.path.string(),
          "--provider fused_moe=reference");
  CHECK_FALSE(fs::exists(folder.path / "capture.json"));
  refused("capture smoke --device cpu --op rms_nrom --out " + folder.path.string(), "rms_norm");
  refused("capture smoke --device cpu --workload smokee --out " + folder.path.string(), "smoke");
  refused("capture smoke --device cpu --limit 0 --out " + folder.path.string(), "--limit");
  refused("check cpu --captured " + folder.path.string(), "there is no capture.json");
  refused("bench linear --routing skewed", "have no expert ids");
  refused("bench fused_moe --routing skewed:0.5", "is no routing");
}

TEST_CASE("capture_of_a_divided_model_has_the_ranks_as_one") {
  const Folder folder;
  const Json index =
      folder.capture("smoke --tp 2 --overlap --requests 2 --provider linear_all_reduce=reference");
  CHECK(index.at("tp") == 2);
  CHECK(index.at("overlap") == true);
  // All ranks see the same tables: one case, counted on both.
  const Json decode = case_of(index, "paged_attention", "decode.0");
  CHECK(decode.at("count") >= 4);
  CHECK_FALSE(decode.contains("rank"));
  CHECK(case_of(index, "all_reduce", "decode.0").at("axes").at("NR") == 2);
  CHECK(case_of(index, "linear_all_reduce", "prefill.0").at("axes").at("NR") == 2);
  // Its ids are the same on all ranks.
  CHECK(case_of(index, "vocab_parallel_embedding", "decode.0").at("count") >= 2);
  const Shell check = folder.use("check reference");
  CAPTURE(check.text);
  CHECK(check.code == 0);
  CHECK_THAT(check.text, ContainsSubstring("all_reduce"));
}

// With one rank's floats on all of them, who talks to nobody would be right.
TEST_CASE("capture_of_exchanges_is_judged_with_contents_of_each_rank") {
  const Folder folder;
  folder.capture("smoke --tp 2 --requests 2 --values --limit 1");
  const fs::path file = folder.path / "verdict.json";
  const Shell judged = folder.use(
      "bench reference --no-store --seconds 0 --op all_reduce --op vocab_parallel_embedding "
      "--json " +
      file.string());
  CAPTURE(judged.text);
  const Json verdict = Json::parse(fk::read_file(file));
  CHECK(verdict.at("status") == "correct");
  std::map<std::string, std::set<std::string>> generated;
  for (const auto& row : verdict.at("cases")) {
    if (row.at("beside") == true) continue;  // the contract's own
    CHECK(row.at("status") == "correct");
    CHECK(row.at("ranks") == 2);
    CHECK_THAT(row.at("captured").get<std::string>(), ContainsSubstring("smoke"));
    row.at("generated").get_to(generated[row.at("op").get<std::string>()]);
  }
  CHECK(generated["all_reduce"] == std::set<std::string>{"x"});
  // The ids are those of the run.
  CHECK(generated["vocab_parallel_embedding"] == std::set<std::string>{"table"});
}

TEST_CASE("capture_leaves_out_what_one_rank_cannot_tell") {
  const Folder folder;
  const Json index = folder.capture("mixtral --ep 2 --workload mixed --requests 2");
  std::set<std::string> ops;
  for (const auto& c : index.at("cases")) ops.insert(c.at("op").get<std::string>());
  CHECK(ops.count("topk_softmax") == 1);
  CHECK(ops.count("moe_dispatch") == 0);
  std::map<std::string, std::string> why;
  for (const auto& left : index.at("left_out"))
    why[left.at("op").get<std::string>()] += left.at("why").get<std::string>();
  CHECK_THAT(why["moe_dispatch"], ContainsSubstring("depend on all ranks"));
  CHECK_THAT(why["moe_grouped_gemm"], ContainsSubstring("no expert has"));
}
