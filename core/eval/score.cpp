// SPDX-License-Identifier: Apache-2.0
// From rows to the score, and the signed document.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/eval/evaluation.hpp"
#include "core/store/key.hpp"
#include "core/store/signed.hpp"

namespace fk {

namespace {

constexpr size_t kIdDigits = 16;
constexpr double kFastPs[] = {0, 0.5, 0.8, 1, 1.2, 1.5, 2};

// Scenarios of one architecture count together: their workloads, and the worst of their answers.
std::vector<ArchitectureResult> architectures(const std::vector<EvalModel>& models) {
  std::vector<ArchitectureResult> out;
  for (const auto& m : models) {
    if (!m.scored) continue;
    auto it = std::ranges::find(out, m.arch, &ArchitectureResult::arch);
    if (it == out.end()) it = out.insert(out.end(), {m.arch, m.family, false, true, 1, {}, ""});
    it->takes_effect |= m.takes_effect;
    it->passes &= m.passes || !m.takes_effect;
    it->correctness = std::min(it->correctness, m.signal);
    if (it->why.empty()) it->why = m.why;
    for (const auto& w : m.workloads)
      if (w.ratio)
        it->workloads.push_back(
            {w.workload, w.kind, *w.ratio, w.low.value_or(0), w.high.value_or(0)});
  }
  return out;
}

std::optional<double> mean_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(geometric_mean(values));
}

EvalLevel level_of(const std::vector<EvalCase>& cases, int level) {
  EvalLevel out;
  out.level = level;
  std::vector<double> ratios, roofline, baseline;
  for (const auto& c : cases) {
    if (!c.judged || (level > 0 && c.level != level)) continue;
    ++out.cases;
    out.right += c.right;
    if (!c.right || !c.ratio) continue;
    ++out.timed;
    ratios.push_back(*c.ratio);
    if (c.roofline.value_or(0) > 0) roofline.push_back(*c.roofline);
    if (c.baseline_roofline.value_or(0) > 0) baseline.push_back(*c.baseline_roofline);
  }
  out.ratio = mean_of(ratios);
  out.roofline = mean_of(roofline);
  out.baseline_roofline = mean_of(baseline);
  return out;
}

double fast_share(const std::vector<EvalCase>& cases, double p) {
  int judged = 0, fast = 0;
  for (const auto& c : cases) {
    judged += c.judged;
    fast += c.judged && c.right && (p == 0 || c.ratio.value_or(0) > p);
  }
  return judged ? static_cast<double>(fast) / judged : 0;
}

std::string id_of(const Json& document) {
  Json rest = document;
  rest.erase("signature");
  rest.erase("id");
  return sha256(canonical_text(rest)).substr(0, kIdDigits);
}

}  // namespace

void score(Evaluation& e) {
  e.fast_p.clear(), e.levels.clear();
  for (const double p : kFastPs) e.fast_p.push_back({p, fast_share(e.cases, p)});
  for (int level = 0; level <= 4; ++level)
    if (const EvalLevel row = level_of(e.cases, level); level == 0 || row.cases > 0)
      e.levels.push_back(row);
  e.score = e.speed = {};
  e.components = {};
  e.families.clear();
  if (!e.complete) return;
  const MacroEval m = macroeval(architectures(e.models), e.seed);
  e.components = m.of;
  e.families = m.families;
  const auto with = [](double value, const std::optional<Interval>& interval) {
    EvalInterval out{value, {}, {}};
    if (interval) out.low = interval->low, out.high = interval->high;
    return out;
  };
  e.score = with(m.score, m.score_interval);
  e.speed = with(m.of.speed, m.speed_interval);
}

Json signed_evaluation(Evaluation& e, const Signer* signer, const std::string& unsigned_because) {
  Json out = with_signer(to_document(Evaluation::kSchema, e), signer, unsigned_because);
  out["id"] = e.id = id_of(out);
  sign(out, signer);
  e.signed_by = out["signed_by"], e.unsigned_because = out["unsigned"],
  e.signature = out["signature"];
  return out;
}

Evaluation read_evaluation(const Json& json, const std::string& name, std::string& unverified) {
  if (!json.is_object()) fail(name, "is no JSON object");
  if (text_at(json, "schema", name) != Evaluation::kSchema)
    fail(name, "is no evaluation", std::string("its schema should be ") + Evaluation::kSchema);
  Evaluation e = from_fields<Evaluation>(json, name, kForeignText);
  check_signature(json, name, unverified);
  if (e.id != id_of(json)) fail(name, "the id does not match the content");
  Evaluation again = e;
  score(again);
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
  if (!near(again.score.value, e.score.value))
    fail(name, "contradicts itself: its rows give the score " + std::to_string(again.score.value) +
                   ", it says " + std::to_string(e.score.value));
  return e;
}

}  // namespace fk
