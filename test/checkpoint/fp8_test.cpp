// SPDX-License-Identifier: Apache-2.0
// If this fails, a checkpoint in f8e4m3 with scales of blocks is read with wrong scales. Fused,
// stacked or absorbed matrices then lack the scales of their own parts.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/json.hpp"
#include "core/base/paths.hpp"
#include "core/exec/session.hpp"
#include "core/tensor/safetensors.hpp"
#include "test/catch.hpp"

namespace fs = std::filesystem;
using fk::DType;
using fk::Tensor;
using Tensors = std::map<std::string, Tensor>;

namespace {

constexpr int64_t kBlock = 16;
const fs::path kCase = fs::path(FK_SOURCE) / "test/golden/deepseek_v3";

struct Folder {
  fs::path path = fs::temp_directory_path() / ("fk_fp8_test_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

Tensors stored(const fs::path& file) {
  const auto checkpoint = fk::Checkpoint::open(file);
  Tensors tensors;
  for (const auto& name : checkpoint.names()) tensors[name] = checkpoint.at(name).load();
  return tensors;
}

// True for tensors which public fp8 checkpoints quantise: matrices of projections, and no router or
// table.
bool quantised(const std::string& name) { return name.find("_proj") != std::string::npos; }

// One matrix in f8e4m3, its scales, and what the two stand for.
struct Quantised {
  Tensor bits, scales, values;
};
Quantised quantise(const Tensor& w) {
  const int64_t rows = w.shape[0], columns = w.shape[1], across = (columns + kBlock - 1) / kBlock;
  Quantised q{Tensor(DType::f8e4m3, w.shape),
              Tensor(DType::f32, {(rows + kBlock - 1) / kBlock, across}),
              Tensor(DType::f32, w.shape)};
  const auto block = [&](int64_t i) {
    return i / columns / kBlock * across + i % columns / kBlock;
  };
  std::vector<double> largest(static_cast<size_t>(q.scales.numel()), 0);
  for (int64_t i = 0; i < w.numel(); ++i) {
    double& most = largest[static_cast<size_t>(block(i))];
    most = std::max(most, std::abs(w.at(i)));
  }
  for (int64_t b = 0; b < q.scales.numel(); ++b)
    q.scales.set(b, largest[static_cast<size_t>(b)] / 448);
  for (int64_t i = 0; i < w.numel(); ++i) {
    q.bits.set(i, w.at(i) / q.scales.at(block(i)));
    q.values.set(i, q.bits.at(i) * q.scales.at(block(i)));
  }
  return q;
}

struct Twins {
  Tensors fp8, plain;
};
Twins twins() {
  Twins t;
  for (auto& [name, tensor] : stored(kCase)) {
    if (!quantised(name)) {
      t.fp8[name] = t.plain[name] = tensor;
      continue;
    }
    Quantised q = quantise(tensor);
    t.fp8[name] = std::move(q.bits);
    t.fp8[name + "_scale_inv"] = std::move(q.scales);
    t.plain[name] = std::move(q.values);
  }
  return t;
}

class Logits final : public fk::Exchange {
 public:
  explicit Logits(fk::Request request) : request_(std::move(request)) {}
  bool next(fk::Request& request, bool) override {
    if (std::exchange(taken_, true)) return false;
    request = request_;
    return true;
  }
  void token(uint64_t, int64_t, int64_t, bool) override {}
  void logits(uint64_t, int64_t position, const float* values, int64_t count) override {
    rows[position].assign(values, values + count);
  }
  void tensor(uint64_t, const std::string&, const std::vector<int64_t>&, const float*) override {}
  void failed(uint64_t, const std::string& why) override { fk::fail("request", why); }
  void progress(const std::string&) override {}
  std::map<int64_t, std::vector<float>> rows;

 private:
  fk::Request request_;
  bool taken_ = false;
};

// The logits of the case's first prompt, all positions one after another.
std::vector<float> answer(const Tensors& tensors, bool fp8, const std::string& provider,
                          DType dtype = DType::f32) {
  const Folder folder;
  std::map<std::string, fk::TensorView> views;
  for (const auto& [name, tensor] : tensors) views.emplace(name, tensor);
  fk::write_safetensors(folder.path / "model.safetensors", views);
  fk::Json json = fk::load_json(kCase / "config.json");
  if (fp8)
    json["quantization_config"] = {{"quant_method", "fp8"},
                                   {"weight_block_size", {kBlock, kBlock}}};
  const fk::Config config(json, "fp8_test");
  const auto checkpoint = fk::Checkpoint::open(folder.path, config);
  const auto model = fk::make_model("deepseek_v3", config);
  const fk::Catalog catalog(fk::paths::registry_dirs());
  fk::Plugins plugins(catalog);
  for (const auto* name : {"reference", "cpu"})
    plugins.load(std::string(PLUGINS "/") + name + ".so", fk::Trust::baseline);
  const auto device = fk::open_device("cpu");
  const auto weights = fk::private_weights(&checkpoint, 0, 1);
  fk::Request request;
  request.id = 1;
  const Tensor ids = stored(kCase / "golden.safetensors").at("in.input_ids");
  for (int64_t i = 0; i < ids.shape[1]; ++i)
    request.tokens.push_back(static_cast<int64_t>(ids.at(i)));
  request.prompt_logits = true;
  fk::Session::Options options;
  options.limits.dtype = options.limits.cache_dtype = dtype;
  options.limits.max_batch = 1;
  options.limits.max_context = ids.shape[1] + 1;
  options.limits.chunk_tokens = ids.shape[1];
  options.policy.baselines = {provider, "reference"};
  fk::Session session(*model, plugins, *device, *weights, options);
  Logits logits(request);
  session.attach(logits);
  session.drive();
  std::vector<float> all;
  for (const auto& [position, row] : logits.rows) all.insert(all.end(), row.begin(), row.end());
  REQUIRE(static_cast<int64_t>(all.size()) == ids.shape[1] * model->engine()->form().vocabulary);
  return all;
}

// The root mean square of the difference, as a share of the spread.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double error = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(double{a[i]} - double{b[i]}, 2);
    sum += double{b[i]};
    squares += double{b[i]} * double{b[i]};
  }
  const auto n = static_cast<double>(a.size());
  return std::sqrt(error / n) / std::sqrt(squares / n - sum / n * sum / n);
}

// The median of the positions' distances: in bfloat16 a token whose experts are nearly as good as
// others may go to those.
double of_most(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr size_t kVocab = 256;
  REQUIRE(a.size() == b.size());
  REQUIRE(a.size() % kVocab == 0);
  std::vector<double> all;
  const auto row = [](const std::vector<float>& of, size_t at) {
    const auto begin = of.begin() + static_cast<std::ptrdiff_t>(at);
    return std::vector<float>(begin, begin + kVocab);
  };
  for (size_t at = 0; at < a.size(); at += kVocab) all.push_back(distance(row(a, at), row(b, at)));
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace

TEST_CASE("fp8_checkpoint_answers_as_its_dequantised_twin") {
  const Twins t = twins();
  for (const std::string provider : {"reference", "cpu"}) {
    INFO(provider);
    const auto plain = answer(t.plain, false, provider);
    CHECK(distance(answer(t.fp8, true, provider), plain) < 1e-5);
    // The twins differ from the original, so that scales were in play.
    CHECK(distance(answer(stored(kCase), false, provider), plain) > 1e-3);
  }
}

TEST_CASE("fp8_checkpoint_in_bfloat16_is_as_near_as_its_twin") {
  const Twins t = twins();
  const auto exact = answer(t.plain, false, "reference");
  const double twin = of_most(answer(t.plain, false, "cpu", DType::bf16), exact);
  const double fp8 = of_most(answer(t.fp8, true, "cpu", DType::bf16), exact);
  CHECK(twin > 1e-4);
  CHECK(fp8 < 1.5 * twin);
}

TEST_CASE("fp8_every_matrix_uses_its_own_scales") {
  Twins t = twins();
  const auto plain = answer(t.plain, false, "reference");
  // One of every kind: fused (q_a, kv_a), absorbed (kv_b), a dense MLP, one of many experts.
  for (const auto* name :
       {"model.layers.0.self_attn.q_a_proj", "model.layers.0.self_attn.kv_a_proj_with_mqa",
        "model.layers.1.self_attn.q_b_proj", "model.layers.1.self_attn.kv_b_proj",
        "model.layers.2.self_attn.o_proj", "model.layers.0.mlp.up_proj",
        "model.layers.0.mlp.down_proj", "model.layers.1.mlp.shared_experts.gate_proj"}) {
    INFO(name);
    Tensor& scales = t.fp8.at(std::string(name) + ".weight_scale_inv");
    const Tensor kept = scales;
    scales.set(scales.numel() - 1, 2 * scales.at(scales.numel() - 1));
    CHECK(distance(answer(t.fp8, true, "reference"), plain) > 1e-4);
    scales = kept;
  }
}

TEST_CASE("fp8_scales_of_another_size_are_refused") {
  Twins t = twins();
  t.fp8.at("model.layers.1.self_attn.kv_b_proj.weight_scale_inv") = Tensor(DType::f32, {3, 2});
  CHECK_THAT(message_of<fk::Error>([&] { answer(t.fp8, true, "reference"); }),
             ContainsSubstring("kv_b_proj.weight_scale_inv"));
}
