// SPDX-License-Identifier: Apache-2.0
// The HTTP side of a model that takes requests: paths of the OpenAI API, /health, /metrics, and a
// page for people.
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "core/endpoint/completion.hpp"
#include "core/endpoint/completion_request.hpp"
#include "core/endpoint/endpoint_metrics.hpp"
#include "core/endpoint/live_model.hpp"
#include "core/endpoint/mirror.hpp"
#include "core/scenario/run_report.hpp"
#include "core/service/http_app.hpp"
#include "core/text/chat_template.hpp"
#include "core/text/tokenizer.hpp"

namespace fk {

class ModelEndpoint final : public HttpApp {
 public:
  struct Options {
    EndpointLimits limits;
    std::vector<int64_t> eos;  // tokens that end an answer
    std::optional<text::Tokenizer> tokenizer = {};
    std::optional<text::ChatTemplate> chat = {};
    std::string device;                   // for the page
    std::vector<std::string> candidates;  // in the model
    std::vector<OpRow> ops;
    TrafficMirror* mirror = nullptr;      // it gets the requests; outlives this object
    TrafficRecorder* recorder = nullptr;  // the same
    int64_t open_most = 1024;             // answers that clients wait for
    size_t body_most = size_t{8} << 20;   // bytes
    double drain_s = 30;
  };
  // The model outlives this object.
  ModelEndpoint(Options options, LiveModel& model);

  // Call it only with a mirror.
  MirrorReport mirror_report() const;
  ApiAnswer answer(const ApiRequest& request) override;
  ApiAnswer fault(unsigned status, const std::string& what, const std::string& hint) const override;
  void count(unsigned status) override { metrics_.answered(status); }
  size_t body_most() const override { return options_.body_most; }
  double drain() override {
    draining_ = true;
    return options_.drain_s;
  }

 private:
  ApiAnswer routed(const ApiRequest& request);
  ApiAnswer posted(const ApiRequest& request, const std::string& path);
  Json model_json() const;
  ApiAnswer models() const;
  ApiAnswer model_of(const std::string& path) const;
  ApiAnswer info() const;
  ApiAnswer mirrored() const;
  void need_room(size_t more) const;
  // Gives texts their tokens. BadRequest when there is no tokenizer.
  void tokenize(std::vector<Prompt>& prompts, const char* key, bool add_special) const;
  ApiAnswer write(const EndpointParts& parts, CompletionRequest wanted, const char* key) const;
  ApiAnswer chat(const EndpointParts& parts, const Json& body) const;

  const Options options_;
  LiveModel& model_;
  EndpointMetrics metrics_;
  const int64_t begun_s_;
  std::atomic<bool> draining_ = false;
};

}  // namespace fk
