// SPDX-License-Identifier: Apache-2.0
// Structures: results `atom_positions` [atoms, 3], and `plddt_logits` [atoms, bins], the model's
// own confidence. Beside all values, this metric looks at each structure.
//   lddt_loss   1 - lDDT of the worst structure (Mariani et al. 2013): of the distances below 15 in
//               the oracle's structure, the share which is off by 0.5, 1, 2 or 4, averaged over
//               these four. It does not depend on how the structure is turned
//   plddt_loss  1 - r of the expected confidences of all atoms
//   size        spread of positions, not judged
#include <algorithm>
#include <cmath>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

constexpr double kReach = 15;
constexpr double kOff[] = {0.5, 1, 2, 4};

const NamedTensor* of_result(const RequestResult& result, const std::string& name) {
  const auto found = std::ranges::find(result.tensors, name, &NamedTensor::name);
  return found == result.tensors.end() || found->shape.size() != 2 ? nullptr : &*found;
}

double distance(const NamedTensor& positions, int64_t i, int64_t j) {
  double squares = 0;
  for (int64_t c = 0; c < 3; ++c)
    squares += std::pow(static_cast<double>(positions.values[static_cast<size_t>(3 * i + c)]) -
                            static_cast<double>(positions.values[static_cast<size_t>(3 * j + c)]),
                        2);
  return std::sqrt(squares);
}

// A structure without near atoms is judged by all its distances.
double lddt_loss(const NamedTensor& got, const NamedTensor& want, double reach = kReach) {
  double lost = 0, all = 0;
  for (int64_t i = 0; i < want.shape[0]; ++i) {
    for (int64_t j = i + 1; j < want.shape[0]; ++j) {
      const double d = distance(want, i, j);
      if (d >= reach) continue;
      const double error = std::abs(distance(got, i, j) - d);
      for (const double off : kOff) lost += error < off ? 0 : 1;  // a NaN is lost
      all += static_cast<double>(std::size(kOff));
    }
  }
  if (all == 0 && reach == kReach) return lddt_loss(got, want, HUGE_VAL);
  return all > 0 ? lost / all : 0;
}

// The expected bin of each row of logits.
void append_expected(const NamedTensor& logits, std::vector<double>& out) {
  const int64_t bins = logits.shape[1];
  for (int64_t row = 0; row < logits.shape[0]; ++row) {
    const float* x = logits.values.data() + row * bins;
    const auto top = static_cast<double>(*std::max_element(x, x + bins));
    double sum = 0, weighted = 0;
    for (int64_t b = 0; b < bins; ++b) {
      const double p = std::exp(static_cast<double>(x[b]) - top);
      sum += p;
      weighted += p * static_cast<double>(b);
    }
    out.push_back(weighted / sum);
  }
}

double correlation_loss(const std::vector<double>& a, const std::vector<double>& b) {
  double mean_a = 0, mean_b = 0, aa = 0, bb = 0, ab = 0;
  const auto count = static_cast<double>(a.size());
  for (size_t i = 0; i < a.size(); ++i) mean_a += a[i] / count, mean_b += b[i] / count;
  for (size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  if (bb == 0) return 0;  // the oracle tells no atoms apart
  const double loss = 1 - ab / std::sqrt(aa * bb);
  return std::isnan(loss) ? HUGE_VAL : loss;
}

class StructureMetric final : public ValueMetric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override {
    ErrorNumbers errors = ValueMetric::compare(got, want, routed);
    if (!errors.wrong.empty()) return errors;
    double lost = 0, squares = 0, count = 0;
    std::vector<double> own, theirs;
    bool found = false;
    for (const auto& [id, wanted] : want) {
      const NamedTensor* positions = of_result(wanted, "atom_positions");
      if (!positions || positions->shape[1] != 3) continue;
      found = true;
      lost = std::max(lost, lddt_loss(*of_result(got.at(id), "atom_positions"), *positions));
      for (const float v : positions->values) squares += std::pow(static_cast<double>(v), 2);
      count += static_cast<double>(positions->values.size());
      if (const NamedTensor* logits = of_result(wanted, "plddt_logits")) {
        append_expected(*logits, theirs);
        append_expected(*of_result(got.at(id), "plddt_logits"), own);
      }
    }
    if (!found) {
      errors.wrong = "there is no result `atom_positions` of the shape [atoms, 3]";
      return errors;
    }
    errors.more = {{"lddt_loss", "1 - lDDT of a structure", lost},
                   {"plddt_loss", "1 - r of the confidences of atoms",
                    own.empty() ? 0 : correlation_loss(own, theirs)},
                   {"size", "spread of positions", std::sqrt(squares / std::max(count, 1.0))}};
    return errors;
  }

 private:
  // Positions which are off by e change a distance by 2 e at most, which loses at most the shares
  // of the limits below. Confidences have the relative error worst1, whose square takes from r.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.size() < 3) return {};
    // One distance of a small structure lies next to a limit by chance. A structure which has lost
    // a quarter of its distances is another one, also where the spread is large.
    constexpr double kByChance = 1e-3, kAnother = 0.25;
    double lost = std::clamp(2 * worst1 * own.more[2].value / kOff[0], kByChance, kAnother);
    double loss = worst1 * worst1;
    loss = std::max(loss, 1e-9);
    if (rival) {
      lost = std::max(lost, kOfBaseline * kOfBaseline * rival->more[0].value);
      loss = std::max(loss, kOfBaseline * kOfBaseline * rival->more[1].value);
    }
    return {lost, loss, HUGE_VAL};
  }
};

FK_METRIC(str, StructureMetric);

}  // namespace

}  // namespace fk
