// SPDX-License-Identifier: Apache-2.0
#include "core/check/check.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/tensor/random.hpp"

namespace fk {

const char* status_name(CheckStatus status) {
  static constexpr const char* kNames[] = {"ok",         "unsupported", "left_out", "unjudged",
                                           "untestable", "wrong",       "violation"};
  return kNames[static_cast<int>(status)];
}

int CheckReport::count(CheckStatus status) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(),
                                        [&](const CheckRow& r) { return r.status == status; }));
}

namespace {

CheckRow row_of(const Provider& provider, const Case& source, const Variant& variant) {
  CheckRow row;
  row.op = provider.contract->op;
  row.provider = provider.plugin;
  row.case_name = source.name;
  row.variant = variant.name;
  return row;
}

int32_t device_type(const CheckOptions& options) {
  return options.device ? options.device->type() : FK_CPU;
}

// Why a case is not called on this device; empty: it is.
std::string left_out(const Contract& contract, const Case& source, const CheckOptions& options) {
  if (device_type(options) != FK_CPU) return "";
  return too_large_for_cpu(resolve(contract, source, {}));
}

bool usable(const CheckOptions& options) {
  try {
    if (options.device) options.device->synchronize();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// True when the case has this communicator's number of ranks.
bool for_these_ranks(const Provider& provider, const Case& source, const CheckOptions& options) {
  const Slot* comm = provider.contract->comm();
  if (!comm) return true;
  const auto ranks = source.axes.find(comm->axis);
  return options.comm && ranks != source.axes.end() && ranks->second == options.comm->size();
}

// Many kernels for models take 16 bits only. So a float32 case that they refuse is also asked in
// bfloat16.
std::optional<Variant> in_bf16(const Contract& contract, const Case& source) {
  for (Variant& v : variants_of(contract, source, false))
    if (v.name == name(DType::bf16)) return std::move(v);
  return std::nullopt;
}

// Calls the case as written once with each of several other families. The request names the
// families. Otherwise the seed chooses two for a smoke case, and a larger case gets all that fit. A
// family may say nothing about a smoke case, because every right answer is the same number. The
// next by the seed takes its place.
void check_families(const Provider& provider, const Oracles& oracles, const Case& source,
                    const CheckOptions& options, CheckReport& report) {
  std::vector<Family> fit;
  const ResolvedCase resolved = resolve(*provider.contract, source, {});
  for (const Family family : all_families())
    if (family != Family::ordinary && family_unfit(resolved, family).empty() &&
        (options.families.empty() || std::ranges::count(options.families, family)))
      fit.push_back(family);
  const bool sampled = source.size == "smoke" && options.families.empty() && fit.size() > 2;
  if (sampled) {
    Random random(seed_of(resolved.contract->op + "/" + source.name + " families", options.seed));
    for (size_t i = 0; i < fit.size(); ++i)
      std::swap(fit[i], fit[static_cast<size_t>(random.integer(static_cast<int64_t>(i),
                                                               static_cast<int64_t>(fit.size())))]);
  }
  size_t left = sampled ? 2 : fit.size();
  Variant plain;
  if (provider.contract->comm()) plain.comm = options.comm->table();
  for (const Family family : fit) {
    if (left == 0) return;
    CheckOptions other = options;
    other.family = family;
    other.values_only = true;
    CheckRow row = row_of(provider, source, {});
    row.variant = std::string("inputs: ") + family_name(family);
    CaseAnswers answers;
    run_trial(provider, oracles, source, plain, other, answers, row);
    // Ranks see different contents, and must make the same calls.
    const bool replaced = sampled && !provider.contract->comm();
    if (replaced && row.status == CheckStatus::left_out) continue;
    --left;
    if (options.on_row) options.on_row(row);
    report.rows.push_back(std::move(row));
    if (report.rows.back().status == CheckStatus::violation && !usable(options)) return;
  }
}

}  // namespace

CheckRow check_case(const Provider& provider, const Oracles& oracles, const Case& source,
                    const CheckOptions& options, CaseAnswers& answers) {
  Variant written;
  if (provider.contract->comm() && options.comm) written.comm = options.comm->table();
  CheckRow row = row_of(provider, source, written);
  run_trial(provider, oracles, source, written, options, answers, row);
  return row;
}

CheckReport check_provider(const Provider& provider, const Oracles& oracles,
                           const CheckOptions& options) {
  CheckReport report;
  if (provider.op->claims->device_type != device_type(options)) {
    CheckRow row;
    row.op = provider.contract->op;
    row.provider = provider.plugin;
    row.status = CheckStatus::unsupported;
    row.text = device_type(options) == FK_CPU
                   ? "it runs on CUDA devices, this check on the CPU: --device cuda:0"
                   : "it runs on the CPU, this check on a CUDA device";
    if (options.on_row) options.on_row(row);
    report.rows.push_back(std::move(row));
    return report;
  }
  const bool quick = options.quick || options.cases;
  for (const Case& source : options.cases ? *options.cases : provider.contract->cases) {
    if (!options.cases && !size_includes(options.size, source.size)) continue;
    if (!for_these_ranks(provider, source, options)) continue;
    if (!options.only_cases.empty() && !contains(options.only_cases, source.name)) continue;
    if (std::string why = left_out(*provider.contract, source, options); !why.empty()) {
      CheckRow row = row_of(provider, source, {});
      row.text = std::move(why);
      row.status = CheckStatus::left_out;
      if (options.on_row) options.on_row(row);
      report.rows.push_back(std::move(row));
      continue;
    }
    bool all_ok = true;
    const bool range = source.size == kRangeSize;
    const bool once = options.quick || range;  // as written, or in bf16 after a refusal
    auto variants = variants_of(*provider.contract, source, quick || range);
    // Ranks must all make the same calls.
    if (once && !options.cases && !provider.contract->comm())
      if (auto other = in_bf16(*provider.contract, source)) variants.push_back(std::move(*other));
    for (Variant& variant : variants) {
      if (once && &variant != &variants[0] && report.rows.back().status != CheckStatus::unsupported)
        break;
      if (provider.contract->comm()) variant.comm = options.comm->table();
      CheckRow row = row_of(provider, source, variant);
      CaseAnswers answers;
      run_trial(provider, oracles, source, variant, options, answers, row);
      if (options.on_row) options.on_row(row);
      report.rows.push_back(std::move(row));
      if (report.rows.back().status == CheckStatus::violation && !usable(options)) return report;
      all_ok &= report.rows.back().status == CheckStatus::ok;
    }
    if (provider.contract->comm()) all_ok = options.comm->meeting().all_say("families", all_ok);
    if (all_ok && !quick && !range && source.size != "full")
      check_families(provider, oracles, source, options, report);
  }
  return report;
}

void need_size(const std::string& size) {
  if (size != "smoke" && size != "ci" && size != "full" && size != kRangeSize)
    fail("--size", "`" + size + "` is not a size of cases", "smoke, ci, full or range");
}

bool size_includes(const std::string& asked, const std::string& size) {
  if (asked == size) return true;
  if (asked == kRangeSize || size == kRangeSize) return false;
  return asked == "full" || (asked == "ci" && size == "smoke");
}

std::vector<int> ranks_of(const Contract& contract, const std::vector<Case>& cases,
                          const std::string& size, bool alone) {
  std::set<int> ranks;
  const Slot* comm = contract.comm();
  if (!comm) return {1};
  for (const Case& source : cases)
    if (const auto it = source.axes.find(comm->axis);
        it != source.axes.end() && (alone ? size == source.size : size_includes(size, source.size)))
      ranks.insert(static_cast<int>(it->second));
  return {ranks.begin(), ranks.end()};
}

CheckReport check_plugin(const Plugins& plugins, const std::string& plugin,
                         const CheckOptions& options) {
  CheckReport report;
  const auto of = [&](const std::string& op, const std::string& name) -> const Provider* {
    for (const Provider* p : plugins.of(op))
      if (p->plugin == name) return p;
    return nullptr;
  };
  for (const auto& op : plugins.catalog().ops()) {
    if (!options.ops.empty() &&
        std::find(options.ops.begin(), options.ops.end(), op) == options.ops.end())
      continue;
    if (const Provider* provider = of(op, plugin)) {
      CheckReport one = check_provider(*provider, Oracles::of(plugins, op), options);
      report.rows.insert(report.rows.end(), std::make_move_iterator(one.rows.begin()),
                         std::make_move_iterator(one.rows.end()));
    }
  }
  for (const auto& refused : plugins.refused()) {
    if (refused.plugin != plugin) continue;
    report.rows.push_back(
        {refused.op, plugin, "", "", CheckStatus::violation, "contract", refused.why, 0});
    if (options.on_row) options.on_row(report.rows.back());
  }
  return report;
}

}  // namespace fk
