// SPDX-License-Identifier: Apache-2.0
#include "core/referee/selection.hpp"

#include <algorithm>
#include <cmath>

namespace fk {

namespace {

// The input whose rows are chosen from: float, with the leading axis of the output.
const CaseField* scores_of(const ResolvedCase& r, const CaseField& chosen) {
  for (const auto& f : r.fields) {
    if (!f.present || f.slot->section != SectionId::forward || f.slot->role != Role::in) continue;
    if (is_float(f.dtype) && f.shape.size() == 2 && !chosen.shape.empty() &&
        f.shape[0] == chosen.shape[0])
      return &f;
  }
  return nullptr;
}

Tensor moved(const Tensor& t, double by) {
  Tensor out = t;
  for (int64_t i = 0; i < t.numel(); ++i)
    out.set(i, std::clamp(t.at(i) + by, 0.0, by > 0 && t.at(i) < 1 ? 0x1.fffffep-1 : 1.0));
  return out;
}

// Rows of drawn tokens where `got` is no further from the reference than the moved inputs bring it.
void allow_draws(const CaseField& chosen, const Tensor& got, const Tensor& table, int64_t width,
                 const CaseValues& values, const AskReference& ask, std::vector<uint8_t>& out) {
  const double by = 2 * epsilon(DType::f32) * std::sqrt(static_cast<double>(width));
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
    // Tokens are drawn from the most probable down; equal ones by index.
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

std::vector<uint8_t> equally_right(const ResolvedCase& r, const CaseField& chosen,
                                   const Tensor& got, const Tensor& want, const CaseValues& values,
                                   const AskReference& ask) {
  std::vector<uint8_t> out(static_cast<size_t>(got.numel()), 0);
  const CaseField* scores = scores_of(r, chosen);
  if (!scores || is_float(chosen.dtype) || r.contract->tolerance.numerics != "selection")
    return out;
  const Tensor& table = values.at(scores->slot->name)[0];
  const int64_t columns = got.shape.size() > 1 ? got.shape[1] : 1, width = scores->shape[1];
  bool open = false;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const auto a = static_cast<int64_t>(got.at(i)), b = static_cast<int64_t>(want.at(i));
    if (a == b) continue;
    open = true;
    if (a < 0 || a >= width || b < 0 || b >= width) continue;
    const double x = table.at(i / columns * width + a), y = table.at(i / columns * width + b);
    // Different scores that a softmax in float32 cannot tell apart; equal scores have an order.
    const double near = 4 * epsilon(DType::f32) * std::max({1.0, std::abs(x), std::abs(y)});
    out[static_cast<size_t>(i)] = x != y && std::abs(x - y) <= near;
  }
  if (open && columns == 1 && r.find("uniform"))
    allow_draws(chosen, got, table, width, values, ask, out);
  return out;
}

}  // namespace fk
