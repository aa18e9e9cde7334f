// SPDX-License-Identifier: Apache-2.0
// Common parts of the benches of whole models: a session in this process, without a controller.
#pragma once
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/exec/session.hpp"

namespace fk::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline Json spread(std::vector<double> v, double scale) {
  std::sort(v.begin(), v.end());
  const auto at = [&](double q) {
    return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1))] * scale;
  };
  return {{"median", at(0.5)}, {"low", at(0.25)}, {"high", at(0.75)}, {"samples", v.size()}};
}

// Keeps the time of every token; throws when a request fails.
class Clock final : public Exchange {
 public:
  std::deque<Request> requests;
  std::vector<double> times;
  bool next(Request& request, bool) override {
    if (requests.empty()) return false;
    request = requests.front();
    requests.pop_front();
    return true;
  }
  void token(uint64_t, int64_t, int64_t, bool) override { times.push_back(now()); }
  void logits(uint64_t, int64_t, const float*, int64_t) override {}
  void tensor(uint64_t, const std::string&, const std::vector<int64_t>&, const float*) override {}
  void failed(uint64_t, const std::string& why) override { fail("bench", why); }
  void progress(const std::string&) override {}
};

inline Config llama(int64_t hidden, int64_t inner, int64_t layers, int64_t heads, int64_t kv,
                    int64_t head_dim, int64_t vocab) {
  return Config({{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", hidden},
                 {"intermediate_size", inner},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", kv},
                 {"head_dim", head_dim},
                 {"vocab_size", vocab},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", 500000.0},
                 {"max_position_embeddings", 131072},
                 {"tie_word_embeddings", true},
                 {"hidden_act", "silu"}},
                "fk_bench");
}

struct Ready {
  std::unique_ptr<Model> model;
  std::unique_ptr<Device> device;
  std::unique_ptr<WeightSource> weights;
  std::unique_ptr<Session> session;
};

// Weights are random; `options` has the limits and the providers.
inline Ready open(const Plugins& plugins, const Config& config, const std::string& device,
                  const Session::Options& options) {
  Ready r;
  r.model = make_model(arch_of(config), config);
  r.device = open_device(device);
  r.weights = private_weights(nullptr, 1, open_device("cpu")->cpu_threads());
  r.session = std::make_unique<Session>(*r.model, plugins, *r.device, *r.weights, options);
  return r;
}

// All requests at once. Steps are told apart by the number of requests, so "decode_step_ms" means
// something where all of them run together; "output_tokens_per_s" is that of the whole.
inline Json drive(Ready& r, int batch, int64_t prompt, int64_t output) {
  const int64_t vocab = r.model->engine()->form().vocabulary;
  Clock clock;
  for (int i = 0; i < batch; ++i) {
    Request request;
    request.id = static_cast<uint64_t>(i + 1);
    for (int64_t k = 0; k < prompt; ++k) request.tokens.push_back((k * 7919 + i * 104729) % vocab);
    request.new_tokens = output;
    clock.requests.push_back(request);
  }
  r.session->attach(clock);
  std::vector<double> gaps;
  r.device->watch_launches(&gaps);
  const double start = now();
  r.session->drive();
  r.device->watch_launches(nullptr);
  const auto first = static_cast<size_t>(batch);
  std::vector<double> steps;
  for (size_t i = first; i + first <= clock.times.size(); i += first)
    steps.push_back(clock.times[i + first - 1] - clock.times[i - 1]);
  Json row{{"batch", batch},
           {"prompt", prompt},
           {"prefill_tokens_per_s",
            static_cast<double>(batch * prompt) / (clock.times[first - 1] - start)},
           {"output_tokens_per_s",
            static_cast<double>(clock.times.size()) / (clock.times.back() - start)}};
  if (!steps.empty()) {
    const double median = spread(steps, 1)["median"];
    row["decode_step_ms"] = spread(steps, 1e3);
    row["decode_tokens_per_s"] = batch / median;
    row["weight_bytes_per_s"] = static_cast<double>(r.session->bytes().weights) / median;
  }
  if (!gaps.empty()) row["launch_gap_us"] = spread(gaps, 1e6);
  return row;
}

}  // namespace fk::bench
