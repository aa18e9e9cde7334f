// SPDX-License-Identifier: Apache-2.0
#include "core/cases/tolerance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fk {

namespace {

constexpr double kEpsF32 = 0x1p-23;
constexpr double kEps14Bits = 0x1p-13;
// Steps by intermediates rounded to f8e4m3. A value with an earlier rounding error lands on a
// neighbour with a probability of the ratio of the two units. Such steps add up as a random walk.
double coarse_steps(const ResolvedCase& resolved, DType working) {
  const Contract& c = *resolved.contract;
  if (c.tolerance.coarse_if.empty()) return 0;
  const Slot* slot = c.find(SectionId::init, c.tolerance.coarse_if);
  if (!slot || resolved.init[static_cast<size_t>(slot->index)].i == 0) return 0;
  const double coarse = epsilon(DType::f8e4m3);
  return coarse * std::sqrt(epsilon(working) / coarse);
}

// True if products of f8e4m3 may run on tensor cores, which take 32 at a time under one scale.
bool takes_eight_bits(const ResolvedCase& resolved) {
  if (resolved.contract->level > 1) return false;
  // Production has no products of codes with a float32 output.
  const CaseField* x = resolved.find("x");
  if (resolved.contract->tolerance.numerics == "reduction" && x && x->dtype == DType::f8e4m3)
    return working_dtype(resolved) != DType::f32;
  if (!rounds_inputs(resolved)) return false;
  const Slot* block = resolved.contract->find(SectionId::init, "block_k");
  return !block || resolved.init[static_cast<size_t>(block->index)].i % 32 == 0;
}

// Limits the mean error. Values stored between parts have random errors, of which little is left in
// the mean; eight-bit weights have larger ones. Rounding between ranks costs less than a second
// product. It costs more with many ranks, because a ring rounds every partial sum: with eight ranks
// 1.7 times as much as rounding each rank's part. Experts are two products and a sum. Layers add up
// as a random walk. With few elements one block may have an unusual error.
void limit_mean(const ResolvedCase& resolved, const CaseField& output, ErrorModel& m) {
  const Contract& c = *resolved.contract;
  int64_t layers = 1;
  for (const auto& f : resolved.fields) layers = std::max(layers, c.level > 3 ? f.entries : 1);
  const double walk = std::sqrt(static_cast<double>(layers));
  m.rms = c.level == 2 ? 0.13 : c.level == 3 ? 0.11 : 0.1 * walk;
  if (const Slot* comm = c.comm()) {
    const double many = static_cast<double>(resolved.axes.at(comm->axis)) / 3;
    m.rms = c.find("topk_ids") ? 0.18 : 0.12 * std::sqrt(std::max(1.0, many));
  }
  m.few = 5;
  m.excess_rms = 4;
  constexpr int64_t kMany = 4096;
  if (c.level == 3 && m.coarse == 0 && numel(output.shape) >= kMany) m.usual_rms = 3;
}

}  // namespace

DType working_dtype(const ResolvedCase& resolved) {
  DType working = DType::f32;
  for (const auto& f : resolved.fields) {
    if (f.slot->section == SectionId::forward && f.present && is_float(f.dtype) &&
        bytes(f.dtype) > 1 && epsilon(f.dtype) > epsilon(working))
      working = f.dtype;
  }
  return working;
}

double probe_size(const ResolvedCase& resolved) {
  const double least = 4 * kEpsF32;
  return resolved.contract->level > 1 ? std::max(least, epsilon(working_dtype(resolved))) : least;
}

bool rounds_inputs(const ResolvedCase& resolved) {
  const Slot* slot = resolved.contract->find(SectionId::init, "quantize_input");
  return slot && resolved.init[static_cast<size_t>(slot->index)].i != 0;
}

double negligible(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-24;
    case DType::f8e4m3:
      return 0x1p-9;
    case DType::f8e5m2:
      return 0x1p-16;
    default:
      return 0x1p-118;
  }
}

ErrorModel error_model(const ResolvedCase& resolved, const CaseField& output) {
  // long: one formula, term by term; most terms use the names above them.
  const Contract& c = *resolved.contract;
  const std::string& kind = c.tolerance.numerics;
  ErrorModel m;
  if (!is_float(output.dtype) || kind == "exact" || c.tolerance.codes.count(output.slot->name)) {
    m.exact = true;
    m.text = "exact";
    return m;
  }
  const DType working = working_dtype(resolved);
  const double out_eps = epsilon(output.dtype), inside_eps = epsilon(working);
  const auto length =
      static_cast<double>(std::max<int64_t>(1, c.tolerance.length.eval(resolved.axes)));
  const bool softmax = kind == "softmax", weighs = softmax || kind == "logarithm";
  const double functions = weighs || kind == "selection" ? 64 : 16;
  // In a logarithm a sum's relative error is absolute: it belongs to the floor, not to |want|.
  const double sums =
      kind == "elementwise" || kind == "activation" || kind == "logarithm" ? 0 : std::sqrt(length);
  // Sums between ranks travel in the working dtype.
  const bool travels = kind == "reduction" && c.comm();
  constexpr double kFewTerms = 16;
  m.alone = kind == "reduction" && c.level == 1 && length <= kFewTerms;
  const double inside = c.level >= 3              ? 8
                        : c.level == 2 || travels ? 4
                        : softmax                 ? 3
                        : weighs                  ? 2
                                                  : 0;
  m.of_value = (output.dtype == DType::f32 ? 0 : 2 * out_eps) + (8 + 2 * sums) * kEpsF32;
  m.of_spread =
      (functions + 4 * sums) * kEpsF32 + (working == DType::f32 ? 0 : inside * inside_eps);
  // Layers in float32 chain sums of several lengths: each stage adds one term.
  if (c.level >= 2) m.of_spread += 8 * inside * sums * kEpsF32;
  m.hard = working == DType::f32 && output.dtype == DType::f32 ? 1e-3
                                                               : 16 * std::max(out_eps, inside_eps);
  // Rare steps are far above their root mean square: in float16 one in 128 values takes one.
  m.coarse = coarse_steps(resolved, working);
  const double coarse = (inside_eps < epsilon(DType::bf16) ? 16 : 6) * m.coarse;
  // Above L2, a latent with another step is a part of all later values of its token.
  m.of_spread += (c.level >= 3 && inside_eps >= epsilon(DType::bf16) ? 1.5 : 1) * coarse;
  m.hard = std::max(m.hard, (c.level >= 3 ? 3 : 2) * coarse);
  // A router's weight or a norm's root stored between parts is a factor of a whole row. A latent
  // with another step is a part of all elements of its row.
  if (c.level >= 2 && working != DType::f32) m.shared = std::max(inside_eps / 2, 3 * m.coarse);
  m.floor = negligible(output.dtype);
  m.most = largest(output.dtype);
  if (output.dtype != DType::f32) m.cancelled = 2 * kEpsF32;
  m.factor = 0.4 * std::max(out_eps, c.level >= 2 ? inside_eps : 0) + 64 * kEpsF32;
  if (takes_eight_bits(resolved)) {
    m.of_value += 16 * kEps14Bits;
    m.of_spread += 16 * kEps14Bits;
    m.hard = std::max(m.hard, 32 * kEps14Bits);
    m.factor += 8 * kEps14Bits;  // truncation is towards zero
  }
  m.probe = probe_size(resolved);
  // Caches store intermediate values unchanged; a summed state is no copy.
  m.fine = output.dtype == DType::f32 && working != DType::f32 && !c.comm() &&
           (output.slot->writes.empty() || output.slot->name == c.tolerance.outer);
  if (output.slot->name == c.tolerance.outer) {
    m.plane = output.shape[output.shape.size() - 2] * output.shape.back();
    // If both factors are large, so is the effect of their rounding, which the spread does not
    // show.
    if (working != DType::f32) m.of_value = std::max(m.of_value, 2 * inside_eps);
  }
  // A mean under a softmax moves like its values. Its scores also move its weights: compared
  // with values of a large mean this is little, but more than rounding of the mean.
  if (weighs) m.usual = 1;
  // A class below float32 is far off; equal terms are rounded equally. The room for a softmax's
  // worst element must not be used by all elements.
  if (working == DType::f32)
    m.rms = 0.7;
  else if (softmax && c.level == 1)
    m.rms = 0.25;
  else if (c.level >= 2)
    limit_mean(resolved, output, m);
  m.ordinary = 2 * m.floor / std::max(out_eps, kEpsF32);
  // A scale follows from the largest value of a row, which a fused op may store in 16 bits first.
  const auto scales = [&](const auto& code) { return code.second.scale == output.slot->name; };
  if (c.level >= 2 && working != DType::f32 && std::ranges::any_of(c.tolerance.codes, scales))
    m.of_value = std::max(m.of_value, inside_eps);
  if (kind == "logarithm") {
    m.floor += (2 + std::sqrt(length)) * kEpsF32;
    m.ordinary = m.floor / m.factor;  // below it a factor is as uncertain
  }
  m.text = fmt::format("{:.3g} |want| + {:.3g} spread, at most {:.3g} of either", m.of_value,
                       m.of_spread, m.hard);
  return m;
}

}  // namespace fk
