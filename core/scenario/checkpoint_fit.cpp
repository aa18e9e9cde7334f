// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/checkpoint_fit.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/exec/session.hpp"
#include "core/exec/weights.hpp"

namespace fk {
namespace {

// Tables that older libraries stored; each model computes them itself. Counters of training steps.
constexpr std::array<std::string_view, 5> kHarmless = {"rotary_emb.inv_freq", "position_ids",
                                                       "embeddings.token_type_ids", "attn.inv_freq",
                                                       ".num_batches_tracked"};

bool is_harmless(const std::string& name) {
  return std::ranges::any_of(kHarmless, [&](std::string_view e) { return ends_with(name, e); });
}

bool same_values(const StoredTensor& a, const StoredTensor& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype) return std::ranges::equal(a.bytes, b.bytes);
  const Tensor left = a.load().to(DType::f32), right = b.load().to(DType::f32);
  return std::ranges::equal(left.as<float>(), right.as<float>());
}

class Fit {
 public:
  Fit(const Model& model, const Checkpoint& checkpoint, const Catalog& catalog)
      : model_(model), checkpoint_(checkpoint) {
    const auto table = weight_table(model, catalog, Limits{});
    for (const auto& spec : table->all())
      for (const auto& name : tensors_of(spec)) read(spec, name);
  }

  // True when a head that the configuration ties to the embedding has other values.
  bool has_own_head() const {
    return std::ranges::any_of(
        model_.unread(), [&](const Model::Unread& u) { return !u.same_as.empty() && !is_same(u); });
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> unread, notes;
    std::map<std::string, std::vector<std::string>> left;  // by their meaning
    const auto known = model_.unread();
    for (const auto& name : checkpoint_.names()) {
      if (read_.count(name) > 0 || is_harmless(name)) continue;
      const auto it = std::ranges::find_if(known, [&](const Model::Unread& u) {
        return u.same_as.empty() ? starts_with(name, u.prefix) : name == u.prefix && is_same(u);
      });
      if (it == known.end())
        unread.push_back(name);
      else if (it->same_as.empty())
        left[it->what].push_back(name);
    }
    if (!unread.empty()) refuse(unread);
    for (const auto& [what, names] : left)
      notes.push_back(what + " is not read: `" + excerpt(names[0], 200) + "`" + others(names));
    if (!scaled_.empty()) notes.push_back(scaled_note());
    return notes;
  }

 private:
  void read(const WeightSpec& spec, const std::string& name) {
    read_.insert(name);
    if (takes_unscaled(spec, checkpoint_.at(name))) return;
    const Checkpoint::Scaling scaling = checkpoint_.scaling(name);
    read_.insert(scaling.beside.begin(), scaling.beside.end());
    scaled_.insert(name);
    rounds_inputs_ |= scaling.has_input_scale || checkpoint_.quantization().inputs != "none";
  }

  bool is_same(const Model::Unread& u) const {
    const StoredTensor* head = checkpoint_.find(u.prefix);
    return head == nullptr || same_values(*head, checkpoint_.at(u.same_as));
  }

  static std::string others(const std::vector<std::string>& names) {
    const size_t count = names.size() - 1;
    if (count == 0) return "";
    return " and " + std::to_string(count) + (count == 1 ? " other" : " others");
  }

  [[noreturn]] void refuse(const std::vector<std::string>& unread) const {
    std::string hint = "does config.json belong to this checkpoint?";
    const std::string close =
        nearest(unread[0], std::vector<std::string>(read_.begin(), read_.end()));
    if (!close.empty()) hint += " The nearest that is read is `" + excerpt(close, 200) + "`.";
    fail(checkpoint_.where(),
         "nothing reads the tensor `" + excerpt(unread[0], 200) + "`" + others(unread), hint);
  }

  std::string scaled_note() const {
    std::string note = std::to_string(scaled_.size()) + " matrices of quantization_config (" +
                       checkpoint_.quantization().method +
                       ") are multiplied by their scales when they are read";
    if (rounds_inputs_) note += "; its own runtime rounds inputs too, here they are not rounded";
    return note;
  }

  const Model& model_;
  const Checkpoint& checkpoint_;
  std::set<std::string> read_;
  std::set<std::string> scaled_;
  bool rounds_inputs_ = false;  // for the checkpoint's own runtime
};

}  // namespace

CheckpointFit fit_checkpoint(const std::string& arch, const Config& config,
                             const Checkpoint& checkpoint, const Catalog& catalog) {
  const auto model = make_model(arch, config);
  const Fit fit(*model, checkpoint, catalog);
  if (!fit.has_own_head()) return {config, fit.notes()};
  const Config untied = config.with({{"tie_word_embeddings", false}});
  const auto other = make_model(arch, untied);
  CheckpointFit result{untied, Fit(*other, checkpoint, catalog).notes()};
  result.notes.push_back(
      "config.json ties the head to the embedding, and the checkpoint has another head: the "
      "checkpoint's is taken, as transformers 5 does");
  return result;
}

void fit_weights(Scenario& scenario, const Catalog& catalog) {
  if (scenario.weights.empty()) return;
  const auto checkpoint = Checkpoint::open(scenario.weights, scenario.config);
  CheckpointFit fit = fit_checkpoint(scenario.arch, scenario.config, checkpoint, catalog);
  scenario.config = std::move(fit.config);
  scenario.weights_notes = std::move(fit.notes);
}

}  // namespace fk
