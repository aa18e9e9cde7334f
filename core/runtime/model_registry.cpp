// SPDX-License-Identifier: Apache-2.0
// The table of architectures that registered themselves, and how a configuration finds its own.
#include <algorithm>
#include <map>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/runtime/drive.hpp"
#include "core/tensor/quantization.hpp"

namespace fk {

namespace {

struct Entry {
  MakeModel make = nullptr;
  std::vector<std::string> architectures, model_types;
};

std::map<std::string, Entry>& table() {
  static auto* entries = new std::map<std::string, Entry>;
  return *entries;
}

}  // namespace

std::string Model::refusal(const Parallel& parallel) const {
  return parallel.ranks() == 1 ? "" : "this model is not divided between ranks";
}

ModelRegistration::ModelRegistration(const char* arch, MakeModel make,
                                     std::vector<std::string> architectures,
                                     std::vector<std::string> model_types) {
  table()[arch] = {make, std::move(architectures), std::move(model_types)};
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [arch, entry] : table()) names.push_back(arch);
  return names;
}

std::string arch_of(const Config& config) {
  const auto classes = config.texts("architectures", {});
  const std::string type = config.text("model_type", "");
  for (const auto& [arch, entry] : table()) {
    for (const auto& name : classes)
      if (contains(entry.architectures, name)) return arch;
  }
  for (const auto& [arch, entry] : table())
    if (contains(entry.model_types, type)) return arch;

  std::vector<std::string> known;
  for (const auto& [arch, entry] : table())
    known.insert(known.end(), entry.architectures.begin(), entry.architectures.end());
  if (!classes.empty()) {
    config.fail_at("architectures", "no model implements `" + classes[0] + "`",
                   did_you_mean(classes[0], known));
  }
  known.clear();
  for (const auto& [arch, entry] : table())
    known.insert(known.end(), entry.model_types.begin(), entry.model_types.end());
  if (!type.empty()) {
    config.fail_at("model_type", "no model implements `" + type + "`", did_you_mean(type, known));
  }
  config.fail("neither `architectures` nor `model_type` says which model this is",
              "name the model in the scenario: " + join(model_names(), ", "));
}

std::unique_ptr<Model> make_model(const std::string& arch, const Config& config) {
  const auto it = table().find(arch);
  if (it == table().end()) {
    fail("model", "there is no model `" + arch + "`", did_you_mean(arch, model_names()));
  }
  auto model = it->second.make(config);
  const Quantization q = Quantization::of(config);
  if (q.method == "mxfp4" && model->quantization() != q.method)
    config.fail_at("quantization_config", "`" + arch + "` has no matrices in mxfp4",
                   "supported: fp8, compressed-tensors (8 bits), bitsandbytes (8 bits)");
  return model;
}

}  // namespace fk
