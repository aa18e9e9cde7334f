// SPDX-License-Identifier: Apache-2.0
// The table of registered architectures, and the search for a configuration's architecture.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/exec/model.hpp"
#include "core/exec/model_info.hpp"
#include "core/tensor/quantization.hpp"

namespace fk {

namespace {

struct Entry {
  MakeModel make = nullptr;
  std::vector<std::string> architectures, model_types, harmless;
};

std::map<std::string, Entry>& table() {
  static auto* entries = new std::map<std::string, Entry>;
  return *entries;
}

// Keys of any configuration without effect on answers. They are names and versions, dtypes (a run
// has its own), training, the library's outputs, and the token choice of `generate`. The reader of
// weights uses `quantization_config`.
const std::vector<std::string>& harmless_keys() {
  static const std::vector<std::string> keys{
      // names, versions, dtypes
      "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path",
      "architectures", "attn_implementation", "auto_map", "dtype", "is_llama_config", "model_type",
      "quantization_config", "tokenizer_class", "torch_dtype", "transformers.js_config",
      "transformers_version", "unsloth_fixed", "unsloth_version",
      // training
      "attention_dropout", "attention_probs_dropout_prob", "classifier_dropout",
      "embedding_dropout", "gradient_checkpointing", "hidden_dropout_prob", "initializer_range",
      "pretraining_tp", "problem_type", "residual_dropout", "router_aux_loss_coef",
      "router_jitter_noise",
      // outputs
      "chunk_size_feed_forward", "finetuning_task", "id2label", "label2id", "num_labels",
      "output_attentions", "output_hidden_states", "output_past", "output_router_logits",
      "return_dict", "task_specific_params", "torchscript", "use_cache", "use_return_dict",
      // generate()
      "bad_words_ids", "begin_suppress_tokens", "cache_implementation", "diversity_penalty",
      "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "num_beam_groups",
      "output_scores", "remove_invalid_values", "return_dict_in_generate", "tf_legacy_loss",
      "typical_p", "use_bfloat16", "bos_token_id", "decoder_start_token_id", "do_sample",
      "early_stopping", "eos_token_id", "forced_bos_token_id", "forced_decoder_ids",
      "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens", "min_length",
      "no_repeat_ngram_size", "num_beams", "num_return_sequences", "pad_token_id", "prefix",
      "repetition_penalty", "sep_token_id", "suppress_tokens", "temperature", "top_k", "top_p"};
  return keys;
}

// Options of configurations on the Hub. Switched off, empty or null, they have no effect on any
// model.
constexpr std::array kSwitches{"add_cross_attention",
                               "cross_attention_hidden_size",
                               "is_decoder",
                               "is_encoder_decoder",
                               "pruned_heads",
                               "rope_interleaved",
                               "tie_encoder_decoder",
                               "use_flash_attn",
                               "use_mrope"};

std::map<std::string, MakeForm>& forms() {
  static auto* makers = new std::map<std::string, MakeForm>;
  return *makers;
}

// The file of the registry; null where there is none. A file is read once.
const ModelInfo* registered(const std::string& arch) {
  static std::mutex mutex;
  static auto* read = new std::map<std::string, std::optional<ModelInfo>>;
  const std::lock_guard lock(mutex);
  auto it = read->find(arch);
  if (it == read->end()) it = read->emplace(arch, maybe_model_info(arch)).first;
  return it->second ? &*it->second : nullptr;
}

// The same; null also where the file does not describe the model as data.
const ModelInfo* described(const std::string& arch) {
  const ModelInfo* info = registered(arch);
  return info && !info->form.empty() ? info : nullptr;
}

// Read once, as each file is.
const std::vector<std::string>& described_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const auto& info : load_model_infos())
      if (!info.form.empty() && table().count(info.arch) == 0) found.push_back(info.arch);
    return found;
  }();
  return names;
}

bool is_named(const ModelInfo& info, const char* key, const std::string& name) {
  if (std::string_view(key) == "architectures") return contains(info.architectures, name);
  return info.arch == name || contains(info.model_types, name);
}

// Classes of the model for the configuration's type. Empty if there is none, or if no class begins
// as `name` does, so that the type or the name is another model's.
std::vector<std::string> classes_of_type(const Config& config, const std::string& name) {
  constexpr size_t kTold = 4;  // letters which say something
  const Json typed{{"model_type", config.text("model_type", "")}};
  try {
    const ModelInfo* info = registered(arch_of(Config(typed, config.where())));
    if (!info) return {};
    for (const auto& known : info->architectures)
      if (starts_with(name, known.substr(0, kTold))) return info->architectures;
  } catch (const Error&) {
  }
  return {};
}

// The arch whose registration or description has the name in its list `names`.
std::string find_arch(const Config& config, const char* key, const std::string& name,
                      std::vector<std::string> Entry::*names) {
  std::vector<std::string> known;
  for (const auto& [arch, entry] : table()) {
    if (contains(entry.*names, name)) return arch;
    known.insert(known.end(), (entry.*names).begin(), (entry.*names).end());
  }
  // A file is named as its model_type, so mostly there is one to read.
  if (const auto type = config.text("model_type", ""); !type.empty() && table().count(type) == 0)
    if (const ModelInfo* info = described(type); info && is_named(*info, key, name)) return type;
  for (const auto& arch : models_that_mention(name))
    if (table().count(arch) == 0)
      if (const ModelInfo* info = described(arch); info && is_named(*info, key, name)) return arch;
  // A class of a known type, with another head.
  if (std::string_view(key) == "architectures")
    if (const auto classes = classes_of_type(config, name); !classes.empty())
      config.fail_at(key, "no model implements `" + excerpt(name) + "`",
                     "models of this `model_type` are `" + join(classes, "`, `") + "` here");
  for (const auto& arch : described_names()) {
    const ModelInfo& info = *described(arch);
    known.insert(known.end(), info.architectures.begin(), info.architectures.end());
    if (std::string_view(key) == "model_type") known.push_back(arch);
  }
  config.fail_at(key, "no model implements `" + excerpt(name) + "`", did_you_mean(name, known));
}

}  // namespace

std::string Model::refusal(const Parallel& parallel) const {
  return parallel.ranks() == 1 ? "" : "this model is not divided between ranks";
}

ModelRegistration::ModelRegistration(const char* arch, MakeModel make,
                                     std::vector<std::string> architectures,
                                     std::vector<std::string> model_types,
                                     std::vector<std::string> harmless) {
  table()[arch] = {make, std::move(architectures), std::move(model_types), std::move(harmless)};
}

Graph record(const Model& model, const Catalog& catalog, const std::string& phase,
             const Limits& limits, std::shared_ptr<WeightTable> weights) {
  Net n(catalog, phase, std::move(weights), limits);
  model.forward(n, phase);
  return n.finish();
}

ModelFormRegistration::ModelFormRegistration(const char* key, MakeForm make) {
  forms()[key] = make;
}

std::vector<std::string> model_forms() {
  std::vector<std::string> keys;
  for (const auto& [key, make] : forms()) keys.push_back(key);
  return keys;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names = described_names();
  for (const auto& [arch, entry] : table()) names.push_back(arch);
  std::ranges::sort(names);
  return names;
}

std::string arch_of(const Config& config) {
  std::string found;
  for (const auto& name : config.texts("architectures", {})) {
    const std::string arch = find_arch(config, "architectures", name, &Entry::architectures);
    if (!found.empty() && arch != found)
      config.fail_at("architectures", "it names two models, `" + found + "` and `" + arch + "`");
    found = arch;
  }
  if (!found.empty()) return found;
  if (config.has("model_type"))
    return find_arch(config, "model_type", config.text("model_type"), &Entry::model_types);
  config.fail("neither `architectures` nor `model_type` says which model this is",
              "name the model in the scenario: " + join(model_names(), ", "));
}

Config with_defaults(const std::string& arch, const Config& config) {
  const ModelInfo* info = registered(arch);
  return info ? config.or_else(*info->defaults) : config;
}

std::vector<std::string> keys_without_effect(const std::string& arch) {
  const auto it = table().find(arch);
  const ModelInfo* info = it == table().end() ? described(arch) : nullptr;
  std::vector<std::string> keys = harmless_keys();
  const std::vector<std::string> own = info                  ? info->ignore
                                       : it != table().end() ? it->second.harmless
                                                             : std::vector<std::string>{};
  keys.insert(keys.end(), own.begin(), own.end());
  return keys;
}

std::unique_ptr<Model> make_model(const std::string& arch, const Config& config) {
  const auto it = table().find(arch);
  const ModelInfo* info = it == table().end() ? described(arch) : nullptr;
  if (it == table().end() && !info) {
    fail("model", "there is no model `" + arch + "`", did_you_mean(arch, model_names()));
  }
  for (const char* key : {"architectures", "model_type"}) {
    if (!config.has(key)) continue;
    if (const std::string named = arch_of(config); named != arch)
      config.fail_at(key, "the configuration is one of `" + named + "`, not of `" + arch + "`");
    break;
  }
  const Config watched = with_defaults(arch, config.watched());
  auto model =
      info ? forms().at(info->form)(*info->description, watched) : it->second.make(watched);
  std::vector<std::string> harmless = keys_without_effect(arch);
  for (const char* key : kSwitches)
    if (const auto at = config.json().find(key); at != config.json().end())
      if (*at == Json(false) || at->empty()) harmless.emplace_back(key);
  config.refuse_unread(watched, harmless);
  const Quantization q = Quantization::of(config);
  if (q.method == "mxfp4" && model->quantization() != q.method)
    config.fail_at("quantization_config", "`" + arch + "` has no matrices in mxfp4",
                   "supported: fp8, compressed-tensors (8 bits), bitsandbytes (8 bits)");
  return model;
}

}  // namespace fk
