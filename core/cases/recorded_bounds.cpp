// SPDX-License-Identifier: Apache-2.0
#include "core/cases/recorded_bounds.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/cases/generator_text.hpp"

namespace fk {

namespace {

// The smallest and the largest allowed number.
struct Bounds {
  int64_t low = 0, high = 0;
};

class Checker {
 public:
  Checker(const ResolvedCase& resolved, const std::string& where) : r_(resolved), where_(where) {}

  void check(const CaseField& f) {
    const auto& tensors = r_.contents->at(f.slot->name);
    for (entry_ = 0; entry_ < tensors.size(); ++entry_) {
      const Bounds bounds = bounds_of(f);
      const Tensor& t = tensors[entry_];
      for (int64_t i = 0; i < t.numel(); ++i) {
        const auto value = static_cast<int64_t>(t.at(i));
        if (value < bounds.low || value > bounds.high)
          wrong(f, std::to_string(value) + " is not within " + std::to_string(bounds.low) +
                       " and " + std::to_string(bounds.high));
      }
      const std::string name = generator_of(f).name;
      if (name == "cu" || name.ends_with("_offsets")) rising(f, t);
      if (name == "lens") enough(f, t);
      if (name == "level_starts") inside(f, t);
    }
  }

 private:
  [[noreturn]] void wrong(const CaseField& f, const std::string& what) const {
    fail(where_, "recorded contents of `" + f.slot->name + "`: " + what);
  }

  GeneratorText generator_of(const CaseField& f) const {
    return GeneratorText::parse(f.values, where_);
  }
  int64_t whole(const CaseField& f, const std::string& text) const {
    return Expr::parse(text, where_).eval(r_.axes_of(*f.slot, static_cast<int64_t>(entry_)));
  }
  const CaseField& other(const CaseField& f, const std::string& name) const {
    const CaseField* found = r_.find(name);
    if (!found) wrong(f, "they refer to `" + name + "`, which is not there");
    return *found;
  }
  // Bounds from the contract's generator and from generators that its cases use in its place: some
  // fields may leave rows out only in certain cases.
  Bounds bounds_of(const CaseField& f) const {
    Bounds out = bounds_of(f, generator_of(f));
    for (const Case& c : r_.contract->cases) {
      const auto values = c.values.find(f.slot->name);
      if (values == c.values.end() || c.size == kRangeSize) continue;
      const Bounds its = bounds_of(f, GeneratorText::parse(values->second, where_));
      out = {std::min(out.low, its.low), std::max(out.high, its.high)};
    }
    return out;
  }

  Bounds bounds_of(const CaseField& f, const GeneratorText& g) const {
    const auto arg = [&](size_t i) { return whole(f, g.args.at(i)); };
    if (g.name == "randint") return {arg(0), arg(1) - 1};
    if (g.name == "constant") return {arg(0), arg(0)};
    if (g.name == "unique" || g.name == "routed" || g.name == "perm") return {0, arg(0) - 1};
    if (g.name == "skipping" || g.name == "some_unique") return {-1, arg(0) - 1};
    if (g.name == "cu") return {0, arg(0)};
    if (g.name == "lens") return {0, arg(1)};
    if (g.name == "nodes") return {0, arg(2)};
    if (g.name == "positions") return {0, bounds_of(other(f, g.args.at(0))).high - 1};
    if (g.name == "slots" || g.name == "some_slots")  // padding requests of a batch have none
      return {-1, (bounds_of(other(f, g.args.at(0))).high + 1) * arg(3) - 1};
    if (g.name == "levels") return {0, arg(0)};
    if (g.name == "level_starts") return {0, arg(1)};
    if (g.name == "voxels") return {0, std::max({arg(0), arg(1), arg(2), arg(3)}) - 1};
    if (g.name == "moe_rows" || g.name == "routed_rows") return {0, f.shape[0] - 1};
    if (g.name == "moe_offsets" || g.name == "routed_offsets")
      for (const CaseField& rows : r_.fields)
        if (rows.present && rows.values.find("_rows(") != rows.values.npos)
          return {0, rows.shape[0]};
    wrong(f, "nothing tells which numbers `" + f.values + "` allows");
  }

  void rising(const CaseField& f, const Tensor& t) const {
    for (int64_t i = 0; i < t.numel(); ++i)
      if (i == 0 ? t.at(0) != 0 : t.at(i) < t.at(i - 1)) wrong(f, "they do not rise from 0");
  }

  // A request must be at least as long as its query.
  void enough(const CaseField& f, const Tensor& t) const {
    const auto starts = r_.contents->find(generator_of(f).args.at(0));
    if (starts == r_.contents->end() || starts->second.size() <= entry_) return;
    const Tensor& s = starts->second[entry_];
    for (int64_t i = 0; i < t.numel() && i + 1 < s.numel(); ++i)
      if (t.at(i) < s.at(i + 1) - s.at(i)) wrong(f, "a request is shorter than its query");
  }

  // Each level of a pyramid, of rows times columns from its start on, lies within all levels.
  void inside(const CaseField& f, const Tensor& t) const {
    const auto shapes = r_.contents->find(generator_of(f).args.at(0));
    if (shapes == r_.contents->end() || shapes->second.size() <= entry_) return;
    const Tensor& s = shapes->second[entry_];
    for (int64_t i = 0; i < t.numel() && 2 * i + 1 < s.numel(); ++i)
      if (t.at(i) + s.at(2 * i) * s.at(2 * i + 1) >
          static_cast<double>(whole(f, generator_of(f).args.at(1))))
        wrong(f, "a level ends behind all values");
  }

  const ResolvedCase& r_;
  const std::string& where_;
  size_t entry_ = 0;
};

}  // namespace

void check_bounds(const ResolvedCase& resolved, const std::string& where) {
  Checker checker(resolved, where);
  for (const CaseField& f : resolved.fields)
    if (f.present && f.entries > 0 && f.slot->section == SectionId::forward && !is_float(f.dtype) &&
        resolved.contents && resolved.contents->count(f.slot->name))
      checker.check(f);
}

}  // namespace fk
