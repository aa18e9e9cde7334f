// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/case_plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/captured.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/routing.hpp"
#include "core/cases/strides.hpp"
#include "core/check/check.hpp"
#include "core/comm/device_comm.hpp"
#include "core/contract/show.hpp"
#include "core/judge/plan/default_cases.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/plan/hidden_shapes.hpp"

namespace fk {

namespace {

constexpr const char *kSmall = "smoke", *kNoRows = "no rows";

// Applies the variant to the case.
Case varied(PosedCase& posed) {
  for (const auto& [axis, size] : posed.variant.axes) posed.source.axes[axis] = size;
  for (const auto& [field, dtype] : posed.variant.dtypes) posed.source.dtypes[field] = dtype;
  if (posed.variant.with) posed.source.with = *posed.variant.with;
  return posed.source;
}

class CasePlan {
 public:
  CasePlan(const Catalog& catalog, const JudgeOptions& options) : catalog_(catalog), o_(options) {
    if (!o_.captured.empty()) captured_.emplace(Captured::open(o_.captured, catalog));
  }

  std::vector<CasePlanEntry> all(const std::vector<std::string>& ops) {
    check_policy();
    bool routed = false;
    for (const auto& op : ops) {
      const Contract& contract = catalog_.at(op);
      routed |= has_routing(contract);
      choose(contract);
      for (const Case& source : captured_ ? captured_->cases(op) : contract.cases) {
        if (!captured_ && (source.size != o_.size || is_too_far(contract, source))) continue;
        names_.push_back(source.name);
        if (const auto left = chosen_.left_out.find(source.name); left != chosen_.left_out.end())
          out_.push_back(left_out(contract, source, size(), left->second));
        else if (o_.cases.empty() || std::count(o_.cases.begin(), o_.cases.end(), source.name))
          routings(contract, source);
      }
    }
    for (const auto& name : o_.cases)
      if (!std::count(names_.begin(), names_.end(), name))
        fail("--case", "there is no " + size() + " case `" + name + "`",
             did_you_mean(name, names_));
    if (captured_ && names_.empty())
      fail("--recorded", o_.captured + " has no cases of " + join(ops, ", "),
           "it has " + join(captured_->ops(), ", "));
    if (o_.skew > 0 && !routed)
      fail("--routing", "calls of " + join(ops, ", ") + " have no expert ids as input");
    check_variants();
    if (o_.cases.empty() && size() != kSmall && !out_.empty())
      for (auto op = ops.rbegin(); op != ops.rend(); ++op) beside(catalog_.at(*op));
    std::map<std::string, std::set<std::string>> cases;
    for (const CasePlanEntry& entry : after_) cases[entry.row.op].insert(entry.row.case_name);
    for (CasePlanEntry& entry : after_)
      entry.hidden_cases =
          hidden_of(catalog_.at(entry.row.op), static_cast<int>(cases[entry.row.op].size()));
    out_.insert(out_.end(), after_.begin(), after_.end());
    return std::move(out_);
  }

 private:
  // The server's socket may bring a request that no option parser has checked.
  void check_policy() const {
    for (const auto& family : o_.families) family_of(family, "--family");
    check_seconds(o_.seconds);
    if (!(o_.patience_s > 0)) fail("--patience", "is not more than nothing");
    if (!(o_.budget_s >= 0)) fail("--budget", "is less than nothing", "0 has no end");
  }
  std::string size() const { return captured_ ? "captured" : o_.size; }

  // False for named and recorded cases, small cases and range cases: all of those are judged.
  bool is_default() const {
    return !o_.thorough && !captured_ && o_.cases.empty() && size() != kSmall &&
           size() != kRangeSize;
  }
  bool on_gpu() const { return o_.device != "cpu"; }
  void choose(const Contract& contract) {
    chosen_ = {};
    if (!is_default()) return;
    std::vector<const Case*> all;
    for (const Case& source : contract.cases)
      if (source.size == o_.size) all.push_back(&source);
    chosen_ = default_cases(contract, all, on_gpu());
  }
  static CasePlanEntry left_out(const Contract& contract, const Case& source,
                                const std::string& size, const std::string& why) {
    CasePlanEntry entry = entry_of(contract, source, size);
    entry.row.left_out = true;
    entry.row.beside = source.size == kRangeSize;
    entry.row.status = Status::unused;
    entry.row.why = why;
    entry.row.next = "`--thorough` judges it, and so does `" +
                     std::string(entry.row.beside ? "--size range " : "") + "--case " +
                     source.name + "`.";
    return posed(entry, contract, source);
  }

  // Memory shared between processes has no gaps on a GPU. `check` covers these cases there.
  bool is_too_far(const Contract& contract, const Case& source) const {
    return on_gpu() && source.size == kRangeSize && has_gaps(resolve(contract, source, {}));
  }

  // Adds small and range cases, which come before long ones and are judged by values only. Small
  // cases show the effect of each field (test/numerics checks it); range cases show an index of too
  // few bits. They have the other cases' number of ranks, or the smallest number.
  void beside(const Contract& contract) {
    const auto ranks = ranks_of(contract, contract.cases, kSmall);
    std::set<int> called = {ranks.empty() ? 1 : ranks[0]};
    for (const CasePlanEntry& entry : out_)
      if (entry.row.op == contract.op) called.insert(entry.row.ranks);
    std::vector<CasePlanEntry> all;
    std::set<std::map<std::string, DType>> written;
    const auto add = [&](const Case& source, bool every_variant) {
      CasePlanEntry entry = entry_of(contract, source, source.size);
      entry.row.beside = true;
      if (source.size == kRangeSize) {
        entry.timed = false;
        entry.cheap = !is_default() || is_cheap(content_seconds(contract, source, on_gpu()));
      }
      if (!called.count(entry.row.ranks)) return;
      all.push_back(posed(entry, contract, source));
      for (const Variant& v : variants_of(contract, source, false)) {
        entry.extra = v.name != Variant().name;
        entry.other_dtype = !v.dtypes.empty();
        entry.asked.variant = entry.row.variant = v.name;
        if (entry.extra && (every_variant || entry.other_dtype))
          all.push_back(posed(entry, contract, source));
      }
    };
    for (const Case& source : contract.cases)
      if (source.size == kSmall) add(source, written.insert(source.dtypes).second);
    std::vector<const Case*> ranges;
    for (const Case& source : contract.cases)
      if (source.size == kRangeSize && !is_too_far(contract, source)) ranges.push_back(&source);
    std::map<std::string, std::string> too_long;
    if (is_default()) too_long = ranges_left_out(contract, ranges, on_gpu());
    for (const Case* source : ranges) {
      if (const auto left = too_long.find(source->name); left != too_long.end())
        all.push_back(left_out(contract, *source, kRangeSize, left->second));
      else
        add(*source, false);
    }
    out_.insert(out_.begin(), all.begin(), all.end());
  }

  static CasePlanEntry entry_of(const Contract& contract, const Case& source,
                                const std::string& size) {
    CasePlanEntry entry;
    entry.asked.op = entry.row.op = contract.op;
    entry.asked.name = entry.row.case_name = source.name;
    entry.asked.size = entry.row.size = size;
    if (const Slot* comm = contract.comm())
      entry.row.ranks = static_cast<int>(source.axes.at(comm->axis));
    entry.row.contract_hash = contract.text_hash;
    return entry;
  }

  static CasePlanEntry posed(CasePlanEntry entry, const Contract& contract, const Case& source) {
    name_case(entry.row, contract, pose(entry.asked, contract, source));
    return entry;
  }

  // The uniform routing comes first, because others are compared with it.
  void routings(const Contract& contract, const Case& source) {
    if (!has_routing(contract) || (!captured_ && o_.skew <= 0))
      return variants(contract, source, "", 0);
    const double published = captured_ && captured_->random_weights() ? kPublishedSkew : 0;
    const double skew = o_.skew > 0 ? o_.skew : published;
    variants(contract, source, "uniform", 1);
    if (skew > 1) variants(contract, source, "skewed", skew);
    if (captured_) variants(contract, source, "captured", 0);
  }

  void variants(const Contract& contract, const Case& source, const std::string& routing,
                double skew) {
    CasePlanEntry entry = entry_of(contract, source, size());
    entry.timed = size() != kRangeSize && (!is_default() || source.name == chosen_.timed);
    entry.cheap = !is_default() || is_cheap(content_seconds(contract, source, on_gpu()));
    entry.asked.skew = skew;
    entry.row.routing = routing;
    if (captured_) {
      entry.asked.captured = o_.captured;
      entry.asked.recorded = recorded_text(source);
      entry.row.captured = captured_->origin();
      if (const std::string field = Captured::of_one_rank(contract, source); !field.empty())
        entry.row.why = "it is called by several ranks at once, and " + field +
                        " has the recording of one rank alone";
    }
    out_.push_back(posed(entry, contract, source));
    for (const auto& v : variants_of(contract, source, false)) known_.push_back(v.name);
    for (const auto& v : dtype_variants(contract, source)) known_.push_back(v.name);
    for (const CaseField& field : resolve(contract, source, {}).fields)
      if (field.present && is_float(field.dtype)) written_.emplace(fk::name(field.dtype));
    for (const auto& name : variants_wanted(contract, source, o_.variants, o_.dtypes)) {
      entry.asked.variant = entry.row.variant = name;
      entry.extra = true;
      out_.push_back(posed(entry, contract, source));
    }
    // Recorded contents fit only the recorded rows.
    if (!o_.cases.empty() || captured_ || (!routing.empty() && skew != 1)) return;
    entry.extra = entry.after = entry.row.beside = true;
    std::vector<std::string> others = hidden_variants(contract, source);
    for (auto& name : width_variants(contract, source)) others.push_back(std::move(name));
    // With larger cases it comes as a smaller case. An op without rows has none.
    const auto variants = variants_of(contract, source, /*quick=*/false);
    if (size() == kSmall &&
        std::ranges::any_of(variants, [](const Variant& v) { return v.name == kNoRows; }))
      others.emplace_back(kNoRows);
    for (const auto& name : others) {
      entry.asked.variant = entry.row.variant = name;
      if (is_hidden(name) || std::count(known_.begin(), known_.end(), name))
        after_.push_back(posed(entry, contract, source));
    }
  }

  void check_variants() const {
    for (const auto& name : o_.variants)
      if (name != "all" && !contains(known_, name))
        fail("--variant", "no case has a variant `" + name + "`", did_you_mean(name, names()));
    // A dtype of every case as written is no variant.
    for (const auto& name : o_.dtypes)
      if (name != "all" && !contains(known_, name) && !written_.count(name))
        fail("--dtype", "no " + size() + " case takes " + name,
             "as written the cases take " + join({written_.begin(), written_.end()}, ", ") +
                 "; other dtypes: " + dtypes());
  }
  std::vector<std::string> names() const {
    std::set<std::string> all(known_.begin(), known_.end());
    return {all.begin(), all.end()};
  }
  std::string dtypes() const {
    std::vector<std::string> out;
    for (const std::string name : {"f32", "bf16", "f16"})
      if (contains(known_, name)) out.push_back(name);
    return out.empty() ? "none" : join(out, ", ");
  }

  const Catalog& catalog_;
  const JudgeOptions& o_;
  std::optional<Captured> captured_;
  std::vector<CasePlanEntry> out_, after_;
  std::vector<std::string> names_, known_;
  std::set<std::string> written_;  // dtypes of cases as written
  DefaultCases chosen_;            // of the current op
};

std::string case_of(const CaseVerdict& row) { return row.op + ", " + row.case_name; }

// Key of a variant that is judged once per op. Rows are counted separately.
std::string once_of(const CaseVerdict& row) {
  return row.op + ", " + (width_of(row.variant).empty() ? row.variant : "width");
}

bool same_case(const CaseVerdict& a, const CaseVerdict& b) {
  return a.op == b.op && a.size == b.size && a.case_name == b.case_name;
}

}  // namespace

void name_case(CaseVerdict& row, const Contract& contract, PosedCase posed) {
  row.case_hash = case_hash(contract, posed);
  row.sizes = excerpt(sizes_text(varied(posed)), 200);
  row.strided.clear();  // a hidden case may be posed twice
  for (const CaseField& field : resolve(contract, posed.source, posed.variant).fields)
    if (field.present && field.strided) row.strided.push_back(field.slot->name);
}

void check_seconds(double seconds) {
  if (!(seconds >= 0)) fail("--seconds", "is less than nothing", "0 judges the values alone");
}

std::vector<CasePlanEntry> case_plan(const std::vector<std::string>& ops, const Catalog& catalog,
                                     const JudgeOptions& options) {
  return CasePlan(catalog, options).all(ops);
}

std::vector<size_t> order_of(const std::vector<CasePlanEntry>& case_plan, const Secret& secret) {
  std::vector<std::pair<uint64_t, size_t>> all;
  for (size_t i = 0; i < case_plan.size(); ++i) {
    const AskedCase& asked = case_plan[i].asked;
    all.emplace_back(
        case_plan[i].after ? hidden_order(secret, asked.op, asked.name, asked.variant) : 0, i);
  }
  std::sort(all.begin(), all.end());
  std::vector<size_t> out;
  for (const auto& [turn, i] : all) out.push_back(i);
  return out;
}

bool cannot_talk(CaseVerdict& row, const std::string& device) {
  try {
    need_communicator(row.ranks, device);
  } catch (const Error& error) {
    row.why = "several ranks call the op together: " + error.what_text();
  }
  if (row.why.empty()) return false;
  row.status = Status::unjudged;
  row.next = "`fk-host check` compares the values of every rank; `fk-host bench " + row.op +
             "` races providers that are trusted.";
  return true;
}

// A long case is not needed before the short one is mended.
void leave_for_failure(CaseVerdict& row, bool hidden) {
  row.status = Status::unused;
  row.left_out = !hidden;
  if (hidden) return;
  row.why = "a smaller case has failed";
  row.next = "Mend the smaller case first; `--thorough` judges this one as well.";
}

bool SmallerCases::wants(const CaseVerdict& row, bool other_dtype) {
  if (!row.beside || row.variant.empty()) return true;
  if (case_ != case_of(row)) return false;
  if (other_dtype && !as_written_ && !in_a_dtype_) return true;
  return (other_dtype || as_written_) && !had_.count(row.op + ", " + row.variant);
}

void SmallerCases::judged(const CaseVerdict& row) {
  if (!row.beside) return;
  const bool taken = row.status != Status::refused;
  if (row.variant.empty()) {
    case_ = case_of(row);
    as_written_ = taken;
    in_a_dtype_ = false;
  } else if (taken) {
    in_a_dtype_ = true;
    had_.insert(row.op + ", " + row.variant);
  }
}

bool HiddenCases::wants(const CaseVerdict& row, int hidden_cases) const {
  if (!right_.count(case_of(row))) return false;
  const auto parts = hidden_parts(row.variant);
  const auto had = parts ? hidden_.find(case_of(row)) : hidden_.end();
  if (had != hidden_.end()) return *parts & ~had->second;
  const auto many = of_.find(parts ? row.op : once_of(row));
  return many == of_.end() || many->second < (parts ? hidden_cases : 1);
}

void HiddenCases::judged(const CaseVerdict& row) {
  if (!row.beside && row.variant.empty() && is_right(row.status)) right_.insert(case_of(row));
  if (!row.beside || row.status == Status::refused || row.status == Status::unjudged) return;
  const auto parts = hidden_parts(row.variant);
  if (!parts) {
    ++of_[once_of(row)];
    return;
  }
  const auto [had, first] = hidden_.emplace(case_of(row), *parts);
  had->second |= *parts | (*parts & kHiddenPadded ? kHiddenDense : 0);
  of_[row.op] += first;
}

void settle(std::vector<CaseVerdict>& rows) {
  for (CaseVerdict& row : rows) {
    if (row.routing.empty() || row.routing == "uniform" || row.timings.empty()) continue;
    for (const CaseVerdict& other : rows) {
      if (!same_case(row, other) || other.routing != "uniform" || other.variant != row.variant ||
          other.timings.empty())
        continue;
      const double uniform = other.timings[0].candidate.cold.median_s;
      if (uniform > 0) row.of_uniform = row.timings[0].candidate.cold.median_s / uniform;
    }
  }
  std::erase_if(rows, [](const CaseVerdict& row) {
    const bool said = row.status == Status::environment && !row.why.empty();
    return row.beside && !row.left_out && !is_right(row.status) && !is_failure(row.status) && !said;
  });
  const std::vector<CaseVerdict> all = rows;
  std::erase_if(rows, [&](const CaseVerdict& row) {
    return row.status == Status::refused &&
           std::any_of(all.begin(), all.end(), [&](const CaseVerdict& other) {
             return same_case(row, other) && other.variant != row.variant &&
                    other.status != Status::refused;
           });
  });
  // A plugin that was asked only for small cases may refuse them, being made for large ones.
  for (CaseVerdict& row : rows)
    if (row.status == Status::refused && row.next.empty() &&
        std::ranges::any_of(
            all, [&](const CaseVerdict& other) { return other.left_out && other.op == row.op; }))
      row.next = std::string(info_of(Status::refused).next) +
                 " Others were left out for the sake of time: `--thorough` asks for all.";
}

}  // namespace fk
