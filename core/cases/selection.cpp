// SPDX-License-Identifier: Apache-2.0
#include "core/cases/selection.hpp"

#include <algorithm>
#include <cmath>

#include "core/cases/tolerance.hpp"
#include "core/tensor/compare.hpp"

namespace fk {

namespace {

// The scores that the op chooses from: floats with the output's leading axis; an input if there is
// one, else an output.
const CaseField* scores_of(const ResolvedCase& r, const CaseField& chosen) {
  for (const Role role : {Role::in, Role::out}) {
    for (const auto& f : r.fields) {
      if (!f.present || f.slot->section != SectionId::forward || f.slot->role != role) continue;
      if (is_float(f.dtype) && f.shape.size() == 2 && !chosen.shape.empty() &&
          f.slot->list.empty() && f.shape[0] == chosen.shape[0])
        return &f;
    }
  }
  return nullptr;
}

// True if float32 gives two logits of a row equal scores, because both scores are next to 0 or
// to 1.
bool saturated(const std::string& scoring, const Tensor& logits, int64_t row, int64_t width,
               int64_t a, int64_t b) {
  double scores[2] = {};
  double most = -HUGE_VAL;
  for (int64_t i = 0; i < width; ++i) most = std::max(most, logits.at(row * width + i));
  for (const int side : {0, 1}) {
    const double logit = logits.at(row * width + (side ? b : a));
    scores[side] = scoring == "sigmoid" ? 1 / (1 + std::exp(-logit)) : std::exp(logit - most);
  }
  if (scoring == "softmax") {
    // After the subtraction of the largest, two logits may become equal.
    const double x = logits.at(row * width + a), y = logits.at(row * width + b);
    const double rounding = 4 * epsilon(DType::f32) * std::max(most - x, most - y);
    if (std::isfinite(rounding) && std::abs(x - y) <= rounding) return true;
  }
  const double apart = std::abs(scores[0] - scores[1]);
  if (scoring == "sigmoid" && std::min(scores[0], scores[1]) > 0.5)
    return apart <= 2 * epsilon(DType::f32);
  return std::max(scores[0], scores[1]) <= negligible(DType::f32);
}

// The largest error that scores may have if they are an output.
double output_error(const ResolvedCase& r, const CaseField& scores, const Tensor& table) {
  const ErrorModel model = error_model(r, scores);
  const double spread = compare(table, table).spread;
  double largest = 0;
  for (int64_t i = 0; i < table.numel(); ++i) largest = std::max(largest, std::abs(table.at(i)));
  return std::min(model.of_value * largest + model.of_spread * spread,
                  model.hard * std::max(largest, spread));
}

// Moves numbers within 0 and 1. Those below 1 stay below 1, as uniform numbers are.
Tensor moved(const Tensor& t, double by) {
  Tensor out = t;
  for (int64_t i = 0; i < t.numel(); ++i)
    out.set(i, std::clamp(t.at(i) + by, 0.0, by > 0 && t.at(i) < 1 ? 0x1.fffffep-1 : 1.0));
  return out;
}

// Accepts a token that lies between the reference's tokens for `uniform` and `top_p` moved by `by`.
void allow_draws(const CaseField& chosen, const Tensor& got, const Tensor& table, int64_t width,
                 double by, const CaseValues& values, const AskReference& ask,
                 std::vector<uint8_t>& out) {
  std::vector<Tensor> bounds;
  for (const double u : {-by, by}) {
    for (const double p : {-by, by}) {
      CaseValues other = values;
      other["uniform"][0] = moved(values.at("uniform")[0], u);
      if (other.count("top_p")) other["top_p"][0] = moved(values.at("top_p")[0], p);
      CaseValues answer = ask(other);
      const auto it = answer.find(chosen.slot->name);
      if (it == answer.end()) return;
      bounds.push_back(std::move(it->second[0]));
    }
  }
  for (int64_t i = 0; i < got.numel(); ++i) {
    const auto id = static_cast<int64_t>(got.at(i));
    if (id < 0 || id >= width) continue;
    // The op samples tokens in the order of probability; equal ones by index.
    const auto before = [&](int64_t a, int64_t b) {
      const double x = table.at(i * width + a), y = table.at(i * width + b);
      return x > y || (x == y && a < b);
    };
    bool after_one = false, before_one = false;
    for (const Tensor& bound : bounds) {
      const auto other = static_cast<int64_t>(bound.at(i));
      if (other < 0 || other >= width) continue;
      after_one |= !before(id, other);
      before_one |= !before(other, id);
    }
    if (after_one && before_one) out[static_cast<size_t>(i)] = 1;
  }
}

}  // namespace

std::string scoring_of(const ResolvedCase& r) {
  const Slot* slot = r.contract->find(SectionId::init, "scoring_func");
  if (slot && slot->kind == SlotKind::choice) {
    const auto chosen = static_cast<size_t>(r.init[static_cast<size_t>(slot->index)].i);
    return slot->choices.at(chosen);
  }
  // A router without `scoring_func` has softmax scores if it also writes a weight for each index.
  const auto written = r.written();
  for (const CaseField* ids : written)
    for (const CaseField* weights : written)
      if (!is_float(ids->dtype) && is_float(weights->dtype) && ids->shape.size() == 2 &&
          ids->slot->shape == weights->slot->shape)
        return "softmax";
  return "";
}

std::vector<uint8_t> equally_right(const ResolvedCase& r, const CaseField& chosen,
                                   const Tensor& got, const CaseValues& wanted,
                                   const CaseValues& values, const AskReference& ask) {
  std::vector<uint8_t> out(static_cast<size_t>(got.numel()), 0);
  const CaseField* scores = scores_of(r, chosen);
  if (!scores || is_float(chosen.dtype) || r.contract->tolerance.numerics != "selection")
    return out;
  const bool computed = scores->slot->role == Role::out;
  const Tensor& table = (computed ? wanted : values).at(scores->slot->name)[0];
  const Tensor& want = wanted.at(chosen.slot->name)[0];
  const double error = computed ? output_error(r, *scores, table) : 0;
  const int64_t columns = got.shape.size() > 1 ? got.shape[1] : 1, width = scores->shape[1];
  const std::string scoring = scoring_of(r);
  // With weights, such as a bias on the scores, equal scores of the table prove nothing. Then no
  // other choice is accepted.
  const bool biased = std::any_of(r.fields.begin(), r.fields.end(), [](const CaseField& f) {
    return f.present && f.slot->section == SectionId::weights;
  });
  // Number of times that the row of element i has `id` before `end`.
  const auto times = [&](int64_t i, int64_t end, int64_t id) {
    int64_t count = 0;
    for (int64_t k = i / columns * columns; k < end; ++k)
      count += got.at(k) == static_cast<double>(id);
    return count;
  };
  // Among equal scores the lower index must come first. Indices that the reference does not choose
  // do not count: they may belong to an excluded group.
  const auto in_order = [&](int64_t i, int64_t id, double score) {
    for (int64_t k = i / columns * columns; k < (i / columns + 1) * columns; ++k) {
      const auto e = static_cast<int64_t>(want.at(k));
      if (e < 0 || e >= id || table.at(i / columns * width + e) != score) continue;
      if (times(i, i, e) == 0) return false;
    }
    return true;
  };
  bool open = false;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const auto a = static_cast<int64_t>(got.at(i)), b = static_cast<int64_t>(want.at(i));
    if (a == b) continue;
    open = true;
    if (a < 0 || a >= width || b < 0 || b >= width) continue;
    const double x = table.at(i / columns * width + a), y = table.at(i / columns * width + b);
    // Accepts scores that differ by rounding. Equal scores of an input have an order: the lower
    // index comes first.
    const bool masked = std::isinf(x) || std::isinf(y);  // infinities have no rounding
    const double rounding = 4 * epsilon(DType::f32) * std::max({1.0, std::abs(x), std::abs(y)});
    const double near = std::max(2 * error, rounding);
    const auto equal = static_cast<size_t>(i);
    if (biased || times(i, (i / columns + 1) * columns, a) > 1) continue;
    out[equal] = x != y || computed ? !masked && std::abs(x - y) <= near : in_order(i, a, x);
    if (!out[equal] && !scoring.empty() && x != y)
      out[equal] = saturated(scoring, table, i / columns, width, a, b);
  }
  // Logits' errors of both signs change a sum of probabilities by at most error / temperature / 2.
  // Temperatures of cases are at least 0.5, so this is at most `error`.
  const double by = 2 * epsilon(DType::f32) * std::sqrt(static_cast<double>(width)) + error;
  if (open && columns == 1 && r.find("uniform"))
    allow_draws(chosen, got, table, width, by, values, ask, out);
  return out;
}

void saturate(const ResolvedCase& r, CaseValues& values) {
  const double least = -126 * std::log(2);  // exp() is almost 0 below
  const std::string scoring = scoring_of(r);
  if (scoring.empty()) return;
  // A sigmoid next to 1 has few values in float32; from 24 log(2) on it is 1.
  const auto rounded = [](double logit) {
    if (logit < 8) return logit;
    const double beside = static_cast<float>(1 + std::exp(-logit)) - 1.0;
    return beside > 0 ? -std::log(beside) : 24 * std::log(2);
  };
  for (const auto& f : r.fields) {
    if (!f.present || f.slot->section != SectionId::forward || f.slot->role != Role::in ||
        !is_float(f.dtype) || f.shape.size() != 2)
      continue;
    Tensor& logits = values.at(f.slot->name)[0];
    const int64_t width = f.shape[1];
    for (int64_t row = 0; row < f.shape[0]; ++row) {
      double top = scoring == "softmax" ? -HUGE_VAL : 0;
      for (int64_t i = 0; scoring == "softmax" && i < width; ++i)
        top = std::max(top, logits.at(row * width + i));
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        const double logit = std::max(logits.at(i), top + least);
        logits.set(i, scoring == "sigmoid" ? rounded(logit) : logit);
      }
    }
  }
}

}  // namespace fk
