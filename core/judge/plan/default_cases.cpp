// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/default_cases.hpp"

#include <algorithm>
#include <set>

#include "core/base/text.hpp"
#include "core/cases/inputs.hpp"
#include "core/cases/strides.hpp"
#include "core/check/rank_oracle.hpp"
#include "core/judge/judge_pool.hpp"

namespace fk {

namespace {

// Measured with the default cases of rms_norm and linear on two CPU cores, and of silu_and_mul
// on 16 cores with an H200 (docs/verdict.md). Bytes are those of all tensors of a
// call.
struct Rates {
  double bytes_s, flops_s;
  double op_s;     // budget of an op's cases
  double range_s;  // budget of its range cases
};
constexpr Rates kCpu{0.2e9, 1e9, 1.5, 2}, kGpu{1e9, 5e11, 2.5, 0.5};

constexpr double kContentSeconds = 0.4;  // per content of a case
constexpr double kFormSeconds = 1.5;     // for the only case of its form
constexpr double kCheapSeconds = 2e-3;
// A case run makes 3 to 64 contents (case_inputs.cpp). Calls and comparisons take equally long.
constexpr double kLeastContents = 3, kMostContents = 64, kCalled = 2;
// One content of a range case, with its process and mutants: measured over all of them.
constexpr double kRangeCalled = 4;

double case_run_seconds(double content_s) {
  return kCalled * std::min(kMostContents * content_s,
                            std::max(kDefaultAnswerSeconds, kLeastContents * content_s));
}

// The form of a case: ranks, dtypes and optional fields, but no sizes.
std::string form_of(const Contract& contract, const Case& source) {
  std::string out = join(source.with, " ");
  for (const auto& [field, dtype] : source.dtypes)
    out += " " + field + ":" + std::string(name(dtype));
  if (const Slot* comm = contract.comm())
    out += ", of " + std::to_string(source.axes.at(comm->axis)) + " ranks";
  return out;
}

using Priced = std::vector<std::pair<double, const Case*>>;  // seconds per content, ascending
Priced by_seconds(const Contract& contract, const std::vector<const Case*>& cases, bool gpu) {
  Priced all;
  for (const Case* source : cases)
    all.emplace_back(content_seconds(contract, *source, gpu), source);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return all;
}

}  // namespace

double content_seconds(const Contract& contract, const Case& source, bool gpu) {
  const ResolvedCase resolved = resolve(contract, source, {});
  double bytes = 0;
  for (const auto& f : resolved.fields)
    for (int64_t i = 0; f.present && i < f.entries; ++i)
      bytes += static_cast<double>(numel(contents_shape(f, i)) * fk::bytes(f.dtype));
  const auto flops = static_cast<double>(contract.flops.eval(resolved.axes));
  const Rates& rates = gpu ? kGpu : kCpu;
  return ranks_of_case(resolved) * (bytes / rates.bytes_s + flops / rates.flops_s);
}

bool is_cheap(double content_s) { return content_s <= kCheapSeconds; }

DefaultCases default_cases(const Contract& contract, const std::vector<const Case*>& cases,
                           bool gpu) {
  DefaultCases out;
  const double op_s = (gpu ? kGpu : kCpu).op_s;
  double spent_s = 0;
  std::set<std::string> forms;
  for (const auto& [content_s, source] : by_seconds(contract, cases, gpu)) {
    spent_s += case_run_seconds(content_s);
    const std::string form = form_of(contract, *source);
    const bool first = out.timed.empty();
    if (first || (content_s <= kContentSeconds && spent_s <= op_s)) {
      out.timed = source->name;
      forms.insert(form);
      continue;
    }
    if (kCalled * kLeastContents * content_s <= kFormSeconds && forms.insert(form).second) continue;
    out.left_out[source->name] =
        content_s > kContentSeconds
            ? "the oracle takes more than " + human_duration(kContentSeconds) + " for an answer"
            : "there are " + human_duration(op_s) + " for the cases of an op";
  }
  return out;
}

std::map<std::string, std::string> ranges_left_out(const Contract& contract,
                                                   const std::vector<const Case*>& cases,
                                                   bool gpu) {
  std::map<std::string, std::string> out;
  const double share_s = (gpu ? kGpu : kCpu).range_s;
  double spent_s = 0;
  for (const auto& [content_s, source] : by_seconds(contract, cases, gpu)) {
    spent_s += kRangeCalled * content_s;
    if (spent_s > share_s)
      out[source->name] = "there are " + human_duration(share_s) + " for the range cases of an op";
  }
  return out;
}

}  // namespace fk
