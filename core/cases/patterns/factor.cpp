// SPDX-License-Identifier: Apache-2.0
// One factor explains every element. compare() finds the same kind where the factor is large.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr size_t kFewestRatios = 8;
// Share of the factor's distance from 1 that single ratios may differ by. More would be a
// precision.
constexpr double kFactorSpread = 0.1;

// Share that a named origin may differ by, of the factor and of its distance from 1.
constexpr double kOriginSpread = 0.005;

struct Origin {
  double value;
  const char* text;  // in terms of {0}
};

// " 1.2 is T / (T - 1) with T = 6 (tokens)."; empty: no origin or its inverse has the value.
std::string origin_text(double factor, std::span<const Origin> origins, const std::string& name,
                        const std::string& value) {
  for (const auto& [its, text] : origins)
    for (const bool inverse : {false, true}) {
      const double is = inverse ? 1 / its : its;
      if (!(std::abs(factor - is) <= kOriginSpread * std::min(std::abs(is), std::abs(is - 1))))
        continue;
      const std::string told = fmt::format(fmt::runtime(text), name);
      return fmt::format(" {:.5g} is {}{} with {} = {}.", factor, inverse ? "1 / " : "",
                         inverse && told != name ? "(" + told + ")" : told, name, value);
    }
  return "";
}

// A usual origin of a factor: an axis n in place of n - 1, or a scale by n or its root. It may also
// be a number of init that is left out or applied twice.
std::string origin_of_factor(const ResolvedCase& resolved, double factor) {
  for (const Slot& slot : resolved.contract->section(SectionId::init)) {
    if (slot.kind != SlotKind::number) continue;
    const double v = resolved.init.at(static_cast<size_t>(slot.index)).f;
    if (!(v > 0)) continue;
    const Origin origins[] = {{v, "{0}"}, {std::sqrt(v), "sqrt({0})"}};
    if (auto text = origin_text(factor, origins, slot.name, figure_text(v)); !text.empty())
      return text;
  }
  for (const auto& [letter, size] : resolved.axes) {
    const std::string meaning = meaning_of_axis(*resolved.contract, letter);
    const auto n = static_cast<double>(size);
    if (meaning.empty() || n < 2) continue;
    const Origin origins[] = {{n / (n - 1), "{0} / ({0} - 1)"},
                              {std::sqrt(n / (n - 1)), "sqrt({0} / ({0} - 1))"},
                              {n, "{0}"},
                              {std::sqrt(n), "sqrt({0})"}};
    if (auto text =
            origin_text(factor, origins, letter, std::to_string(size) + " (" + meaning + ")");
        !text.empty())
      return text;
  }
  return "";
}

std::optional<Explanation> look_for_factor(const WrongAnswer& answer) {
  if (answer.count == 0 || !answer.all_finite() || !is_float(answer.field.dtype))
    return std::nullopt;
  double squares = 0;
  for (const double w : answer.want_values) squares += w * w;
  const double small = 0.05 * std::sqrt(squares / static_cast<double>(answer.size()));
  std::vector<double> ratios;
  for (size_t i = 0; i < answer.want_values.size(); ++i)
    if (std::abs(answer.want_values[i]) > small && !answer.kept(i))
      ratios.push_back(answer.got_values[i] / answer.want_values[i]);
  if (ratios.size() < kFewestRatios) return std::nullopt;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  const double factor = *middle, off = std::abs(factor - 1);
  const double rounding = 2 * epsilon(answer.field.dtype);
  if (off < 8 * epsilon(DType::f32) || std::abs(factor) < 1e-3) return std::nullopt;
  if (off < rounding) return std::nullopt;  // single elements cannot tell
  const auto others = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
    return std::abs(ratio - factor) > kFactorSpread * off + rounding * std::abs(factor);
  });
  if (static_cast<size_t>(others) * 100 > ratios.size()) return std::nullopt;
  // Equal wanted values have equal ratios for an offset as well.
  const auto [least, most] =
      std::minmax_element(answer.want_values.begin(), answer.want_values.end());
  if (*most - *least <= rounding * std::max(std::abs(*most), std::abs(*least))) return std::nullopt;
  const bool sign = std::abs(factor + 1) < 1e-3;
  return Explanation{"factor",
                     surety::kShape,
                     sign ? "every element has the wrong sign" : factor_sentence(factor),
                     sign ? "A sign is wrong."
                          : "A factor is missing or applied twice, or a constant has too few "
                            "digits: a scale, a weight, or a mean's 1/n." +
                                origin_of_factor(answer.resolved, factor),
                     {{"factor", factor}}};
}

}  // namespace

FK_PATTERN(factor, {}, look_for_factor);

}  // namespace fk
