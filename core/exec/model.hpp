// SPDX-License-Identifier: Apache-2.0
// Interface of model files: the model and its registration. A model says what it computes
// (forward) and names the engine that drives it (engine). Everything else - providers, memory,
// processes, clocks - belongs to the host.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/engine.hpp"
#include "core/graph/net.hpp"
#include "core/tensor/quantization.hpp"

namespace fk {

// One architecture with one configuration, made from a HuggingFace config.json. Holds no memory.
class Model {
 public:
  virtual ~Model() = default;
  // The engine that drives the model, made with the model's options: a header of core/engines.
  virtual std::unique_ptr<Engine> engine() const = 0;
  // Records one phase of the engine: all of it, or one rank's part.
  virtual void forward(Net& n, const std::string& phase) const = 0;
  // Why this division is impossible; empty: it is possible.
  virtual std::string refusal(const Parallel& parallel) const;
  // Tensors which checkpoints may have, but which no weight reads.
  struct Unread {
    std::string prefix;  // of their names
    std::string what;    // for the note to the user: "a pooler"
    // Tensor that must equal the one named `prefix` (a tied head); empty: none.
    std::string same_as = {};
  };
  virtual std::vector<Unread> unread() const { return {}; }
  // The quantization method whose matrices the model multiplies unchanged. Weights of other methods
  // become floats when they are read.
  virtual std::string quantization() const { return {}; }
};

// One phase of a model as a graph.
Graph record(const Model& model, const Catalog& catalog, const std::string& phase,
             const Limits& limits, std::shared_ptr<WeightTable> weights);

using MakeModel = std::unique_ptr<Model> (*)(const Config& config);
// At file scope in baselines/models/<domain>/<arch>.cpp:
//   FK_MODEL(llama, make_llama, {"LlamaForCausalLM"}, {"llama"});
// Arguments: class names of config.json's `architectures`, values of its `model_type`, and the keys
// without effect on answers that only this model's configurations have.
struct ModelRegistration {
  ModelRegistration(const char* arch, MakeModel make, std::vector<std::string> architectures,
                    std::vector<std::string> model_types, std::vector<std::string> harmless = {});
};
#define FK_MODEL(arch, make, ...) \
  static const ::fk::ModelRegistration fk_model_##arch(#arch, make, __VA_ARGS__)

// A form of models: a key of registry/models/<domain>/<arch>.yaml, and the function which makes a
// model from the data below this key. At file scope: FK_MODEL_FORM(decoder, make_decoder);
using MakeForm = std::unique_ptr<Model> (*)(const Config& description, const Config& config);
struct ModelFormRegistration {
  ModelFormRegistration(const char* key, MakeForm make);
};
#define FK_MODEL_FORM(key, make) static const ::fk::ModelFormRegistration fk_form_##key(#key, make)
std::vector<std::string> model_forms();

std::vector<std::string> model_names();
// The model of `architectures`, or, without that key, of `model_type`. Error with the nearest known
// name.
std::string arch_of(const Config& config);
// The configuration with the framework's values of absent keys, which the model's file has.
Config with_defaults(const std::string& arch, const Config& config);
// Error for another model's configuration, and for a key that the model neither reads nor lists as
// harmless.
std::unique_ptr<Model> make_model(const std::string& arch, const Config& config);

}  // namespace fk
