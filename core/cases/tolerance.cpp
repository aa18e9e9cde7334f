// SPDX-License-Identifier: Apache-2.0
#include "core/cases/tolerance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/compare.hpp"

namespace fk {

namespace {

constexpr double kEpsF32 = 0x1p-23;

// The coarsest float type of the forward tensors: what intermediates are stored in.
DType working_dtype(const ResolvedCase& resolved) {
  DType working = DType::f32;
  for (const auto& f : resolved.fields) {
    if (f.slot->section == SectionId::forward && f.present && is_float(f.dtype) &&
        epsilon(f.dtype) > epsilon(working))
      working = f.dtype;
  }
  return working;
}

Judgement judge_exact(const Tensor& got, const Tensor& want) {
  Judgement out;
  const Difference d = compare(got, want.to(got.dtype), 0);
  out.ok = d.identical();
  if (out.ok) return out;
  out.worst = HUGE_VAL;
  out.text = fmt::format("{} must be exact: {} is {:.9g} instead of {:.9g}; {}", name(got.dtype),
                         position_text(got.shape, d.worst_index), d.got, d.want, d.pattern);
  return out;
}

// Intermediates that are rounded to f8e4m3: what differs by an earlier rounding lands on the
// neighbour as often as the ratio of the two units says, and such steps add up as a random walk.
double coarse_steps(const ResolvedCase& resolved, DType working) {
  const Contract& c = *resolved.contract;
  if (c.tolerance.coarse_if.empty()) return 0;
  const Slot* slot = c.find(SectionId::init, c.tolerance.coarse_if);
  if (!slot || resolved.init[static_cast<size_t>(slot->index)].i == 0) return 0;
  const double coarse = epsilon(DType::f8e4m3);
  return coarse * std::sqrt(epsilon(working) / coarse);
}

// By rows of the last axis; 0 for rows that are too short to tell, or not finite.
std::vector<double> row_spreads(const Tensor& want) {
  constexpr int64_t kRowMin = 8;
  const int64_t width = want.shape.empty() ? 1 : want.shape.back();
  if (width < kRowMin) return std::vector<double>(static_cast<size_t>(want.numel()), 0);
  std::vector<double> out;
  for (int64_t row = 0; row < want.numel(); row += width) {
    double sum = 0, squares = 0;
    for (int64_t i = row; i < row + width; ++i) sum += want.at(i);
    const double mean = sum / static_cast<double>(width);
    for (int64_t i = row; i < row + width; ++i)
      squares += (want.at(i) - mean) * (want.at(i) - mean);
    const double spread = std::sqrt(squares / static_cast<double>(width));
    out.push_back(std::isfinite(spread) ? spread : 0);
  }
  return out;
}

}  // namespace

ErrorModel error_model(const ResolvedCase& resolved, const CaseField& output) {
  const Contract& c = *resolved.contract;
  const std::string& kind = c.tolerance.numerics;
  ErrorModel m;
  if (!is_float(output.dtype) || kind == "exact") {
    m.exact = true;
    m.text = "exact";
    return m;
  }
  const DType working = working_dtype(resolved);
  const double out_eps = epsilon(output.dtype), inside_eps = epsilon(working);
  const auto length =
      static_cast<double>(std::max<int64_t>(1, c.tolerance.length.eval(resolved.axes)));
  const double functions = kind == "softmax" || kind == "selection" ? 64 : 16;
  const double sums = kind == "elementwise" ? 0 : std::sqrt(length);
  m.by_row = kind == "softmax";
  const double inside = c.level >= 3 ? 8 : c.level == 2 ? 4 : kind == "softmax" ? 2 : 0;
  m.of_value = (output.dtype == DType::f32 ? 0 : 2 * out_eps) + (8 + 2 * sums) * kEpsF32;
  m.of_spread =
      (functions + 4 * sums) * kEpsF32 + (working == DType::f32 ? 0 : inside * inside_eps);
  // Layers in float32 chain sums of several lengths: each stage adds one term.
  if (c.level >= 2) m.of_spread += 8 * inside * sums * kEpsF32;
  m.hard = working == DType::f32 && output.dtype == DType::f32 ? 1e-3
                                                               : 16 * std::max(out_eps, inside_eps);
  const double coarse = 6 * coarse_steps(resolved, working);
  m.of_spread += coarse;
  m.hard = std::max(m.hard, 2 * coarse);
  m.text = fmt::format("{:.3g} |want| + {:.3g} spread, at most {:.3g} of either", m.of_value,
                       m.of_spread, m.hard);
  return m;
}

Judgement judge(const Tensor& got, const Tensor& want, const ErrorModel& m) {
  if (m.exact) return judge_exact(got, want);
  Judgement out;
  if (got.numel() == 0) return out;
  const Difference d = compare(got, want, m.of_value + m.of_spread);
  int64_t count = 0, worst_at = -1;
  const std::vector<double> rows = m.by_row ? row_spreads(want) : std::vector<double>();
  const int64_t width = rows.empty() ? 1 : got.numel() / static_cast<int64_t>(rows.size());
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double g = got.at(i), w = want.at(i);
    const double spread =
        rows.empty() ? d.spread : std::max(d.spread, rows[static_cast<size_t>(i / width)]);
    double share = 0;
    if (!std::isfinite(g) || !std::isfinite(w)) {
      const bool same = (std::isnan(g) && std::isnan(w)) || g == w;
      share = same ? 0 : HUGE_VAL;
    } else {
      const double allowed = std::min(m.of_value * std::abs(w) + m.of_spread * spread,
                                      m.hard * std::max(std::abs(w), spread));
      const double error = std::abs(g - w);
      share = error == 0 ? 0 : error / allowed;
    }
    count += share > 1;
    if (share > out.worst || worst_at < 0) out.worst = share, worst_at = i;
  }
  if (count == 0) return out;
  out.ok = false;
  out.text = fmt::format(
      "{} of {} elements are off, the worst {} is {:.9g} instead of {:.9g}, {:.3g} "
      "times what rounding explains ({}); {}",
      count, got.numel(), position_text(got.shape, worst_at), got.at(worst_at), want.at(worst_at),
      out.worst, m.text, d.pattern);
  return out;
}

}  // namespace fk
