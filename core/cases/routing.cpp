// SPDX-License-Identifier: Apache-2.0
#include "core/cases/routing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/generator_text.hpp"

namespace fk {

namespace {

double power_sum(int64_t count, double exponent) {
  double sum = 0;
  for (int64_t rank = 1; rank <= count; ++rank)
    sum += std::pow(static_cast<double>(rank), -exponent);
  return sum;
}

// The generator of a field with experts; its first argument is the number of experts.
std::optional<GeneratorText> routing_generator(const Contract& contract, const Slot& slot) {
  if (!slot.is_tensor() || slot.values.empty()) return std::nullopt;
  GeneratorText text = GeneratorText::parse(slot.values, contract.where);
  for (const char* known :
       {"unique", "routed", "moe_rows", "moe_offsets", "routed_rows", "routed_offsets"})
    if (text.name == known && !text.args.empty()) return text;
  return std::nullopt;
}

}  // namespace

std::vector<double> expert_loads(int64_t experts, int64_t top_k, double skew) {
  FK_CHECK(top_k >= 1 && top_k <= experts, "no more experts are chosen than there are");
  const auto count = static_cast<double>(experts);
  const double want = std::clamp(skew, 1.0, count / static_cast<double>(top_k));
  double low = 0, high = 64;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (count / power_sum(experts, middle) < want ? low : high) = middle;
  }
  std::vector<double> out;
  const double sum = power_sum(experts, low);
  for (int64_t rank = 1; rank <= experts; ++rank)
    out.push_back(count * std::pow(static_cast<double>(rank), -low) / sum);
  return out;
}

std::vector<int64_t> route(int64_t tokens, int64_t top_k, int64_t experts, double skew, Random busy,
                           Random& r) {
  const auto loads = expert_loads(experts, top_k, skew);
  std::vector<int64_t> order(static_cast<size_t>(experts)), out;
  std::iota(order.begin(), order.end(), 0);
  const auto shuffle = [](std::vector<int64_t>& list, Random& by) {
    for (auto i = static_cast<int64_t>(list.size()) - 1; i > 0; --i)
      std::swap(list[static_cast<size_t>(i)], list[static_cast<size_t>(by.integer(0, i + 1))]);
  };
  shuffle(order, busy);
  // Systematic sampling: the experts' probabilities, whose sum is top_k, are laid end to end in
  // random order. A comb of top_k teeth at distance one hits that many different experts.
  const double unit = static_cast<double>(top_k) / static_cast<double>(experts);
  std::vector<int64_t> ranks(order.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    shuffle(ranks, r);
    double tooth = r.uniform(), end = 0;
    int64_t chosen = 0;
    for (size_t i = 0; i < ranks.size() && chosen < top_k; ++i) {
      end += unit * loads[static_cast<size_t>(ranks[i])];
      // If rounding leaves too few, the last experts are taken.
      const bool rest = static_cast<int64_t>(ranks.size() - i) == top_k - chosen;
      if (end <= tooth && !rest) continue;
      out.push_back(order[static_cast<size_t>(ranks[i])]);
      ++chosen;
      tooth += 1;
    }
  }
  return out;
}

std::vector<int64_t> rows_by_expert(const std::vector<int64_t>& of, int64_t experts) {
  std::vector<int64_t> next = expert_offsets(of, experts), out(of.size());
  for (size_t i = 0; i < of.size(); ++i)
    out[static_cast<size_t>(next[static_cast<size_t>(of[i])]++)] = static_cast<int64_t>(i);
  return out;
}

std::vector<int64_t> expert_offsets(const std::vector<int64_t>& of, int64_t experts) {
  std::vector<int64_t> out(static_cast<size_t>(experts) + 1, 0);
  for (const int64_t e : of) ++out[static_cast<size_t>(e) + 1];
  std::partial_sum(out.begin(), out.end(), out.begin());
  return out;
}

std::vector<int64_t> uneven_experts(int64_t count, int64_t experts, Random random) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    const double u = random.uniform();
    out.push_back(
        std::min(experts - 1, static_cast<int64_t>(u * u * static_cast<double>(experts))));
  }
  return out;
}

double skew_of_routing(const std::string& text) {
  if (text.empty()) return 0;
  if (text == "uniform") return 1;
  if (text == "skewed") return kPublishedSkew;
  char* end = nullptr;
  const double skew = starts_with(text, "skewed:") ? std::strtod(text.c_str() + 7, &end) : 0;
  if (!(skew >= 1) || *end || !std::isfinite(skew))
    fail("--routing", "`" + excerpt(text) + "` is no routing",
         "uniform, skewed, or skewed:RATIO with the busiest expert's load over the mean");
  return skew;
}

bool has_routing(const Contract& contract) {
  const auto& slots = contract.section(SectionId::forward);
  return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
    return routing_generator(contract, slot).has_value();
  });
}

Case with_skew(const Contract& contract, const Case& source, double skew) {
  Case out = source;
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", skew);
  auto contents = source.contents ? *source.contents : std::map<std::string, std::vector<Tensor>>{};
  for (const auto& slot : contract.section(SectionId::forward)) {
    const auto generator = routing_generator(contract, slot);
    if (!generator) continue;
    const bool rows = generator->name.ends_with("_rows");
    const bool offsets = generator->name.ends_with("_offsets");
    out.values[slot.name] = std::string(rows      ? "routed_rows("
                                        : offsets ? "routed_offsets("
                                                  : "routed(") +
                            generator->args[0] + "," + text + ")";
    contents.erase(slot.name);
  }
  if (source.contents) out.contents = std::make_shared<decltype(contents)>(std::move(contents));
  return out;
}

std::optional<double> skew_of(const ResolvedCase& resolved, const CaseValues& values) {
  for (const auto& field : resolved.fields) {
    if (!field.present || field.slot->section != SectionId::forward) continue;
    const auto generator = routing_generator(*resolved.contract, *field.slot);
    const auto it = values.find(field.slot->name);
    if (!generator || generator->name.ends_with("_rows") || it == values.end()) continue;
    const Tensor& t = it->second.at(0);
    std::vector<double> loads;
    if (generator->name.ends_with("_offsets")) {
      for (int64_t i = 1; i < t.numel(); ++i) loads.push_back(t.at(i) - t.at(i - 1));
    } else {
      const auto experts = Expr::parse(generator->args[0], resolved.contract->where);
      loads.resize(static_cast<size_t>(experts.eval(resolved.axes)), 0.0);
      for (int64_t i = 0; i < t.numel(); ++i)
        if (const double e = t.at(i); e >= 0 && e < static_cast<double>(loads.size()))
          ++loads[static_cast<size_t>(e)];
    }
    const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
    if (sum <= 0) return std::nullopt;
    return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
  }
  return std::nullopt;
}

}  // namespace fk
