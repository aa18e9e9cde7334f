// SPDX-License-Identifier: Apache-2.0
#include "core/cases/columns.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/each_row.hpp"
#include "core/cases/generator_text.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr int kMostPower = 4, kOneIn = 8;
constexpr std::string_view kFewMark = " few";

// A field that feeds, and its first feeding row.
struct ColumnSource {
  const CaseField* field;
  int64_t from = 0;
};
// An argument of fed_by().
struct Feed {
  std::string key;  // names its powers
  std::vector<ColumnSource> sources;
  int64_t size = 0;  // powers before they repeat
  bool few = false;
};
// A weight with fed columns.
struct Fed {
  const CaseField* field;
  bool several;  // feeds follow one another
  std::vector<Feed> feeds;
};

size_t last_axis(const CaseField& f) { return f.shape.size() - 1; }
size_t feeding_axis(const CaseField& f) {
  const bool matrix = f.slot->section == SectionId::weights && f.shape.size() > 1;
  return f.shape.size() - (matrix ? 2 : 1);
}
bool fine(const CaseField& f) { return is_float(f.dtype) && bytes(f.dtype) > 1; }

class Scaler {
 public:
  Scaler(const ResolvedCase& resolved, CaseValues& values) : r_(resolved), values_(values) {}

  void run() {
    std::vector<Fed> all;
    std::set<std::string> coarse;  // keys of columns that cannot be scaled
    for (const auto& f : r_.fields) {
      if (!f.present || !f.values.starts_with("fed_by(")) continue;
      const GeneratorText text = GeneratorText::parse(f.values, r_.contract->where);
      Fed fed{&f, text.args.size() > 1, {}};
      for (const auto& arg : text.args)
        if (auto feed = parse(f, arg); !feed.sources.empty()) fed.feeds.push_back(std::move(feed));
      for (const auto& feed : fed.feeds) {
        bool good = fine(f);
        for (const auto& source : feed.sources) good &= fine(*source.field);
        if (!good) coarse.insert(feed.key);
      }
      all.push_back(std::move(fed));
    }
    std::set<std::pair<std::string, int64_t>> divided;
    for (const auto& fed : all) {
      const size_t axis = last_axis(*fed.field);
      std::vector<float> by;
      for (const auto& feed : fed.feeds) {
        const auto columns = static_cast<size_t>(fed.field->shape[axis]), at = by.size();
        if (at == columns) break;
        const std::vector<int> powers = powers_of(feed, coarse.count(feed.key) != 0);
        const size_t count = fed.several ? powers.size() : columns;
        const bool fits = at + count <= columns && count % powers.size() == 0;
        if (!fits && !fed.several)
          wrong(*fed.field, feed.key + " feeds " + std::to_string(powers.size()) +
                                " columns, which do not fit into " + std::to_string(columns));
        if (!fits) continue;
        for (size_t i = 0; i < count; ++i) by.push_back(std::ldexp(1.F, powers[i % powers.size()]));
        for (const auto& source : feed.sources)
          if (divided.emplace(source.field->slot->name, source.from).second) divide(source, powers);
      }
      if (by.empty()) continue;
      by.resize(static_cast<size_t>(fed.field->shape[axis]), 1.F);
      multiply(*fed.field, axis, by);
    }
  }

 private:
  [[noreturn]] void wrong(const CaseField& f, const std::string& what,
                          const std::string& hint = "") const {
    fail(r_.contract->where, "values of `" + f.slot->name + "`: " + what, hint);
  }
  int64_t whole(const std::string& text) const {
    return Expr::parse(text, r_.contract->where).eval(r_.axes);
  }

  // Parses an argument. The sources are empty if a field is absent.
  Feed parse(const CaseField& fed, std::string text) const {
    Feed out;
    out.few = text.ends_with(kFewMark);
    if (out.few) text.resize(text.size() - kFewMark.size());
    const auto every = text.find(" every ");
    std::string left = text.substr(0, every);
    for (size_t plus; !left.empty();
         left = plus == std::string::npos ? "" : left.substr(plus + 3)) {
      plus = left.find(" + ");
      const std::string one = left.substr(0, plus);
      const auto from = one.find(" from ");
      const std::string name(trim(one.substr(0, from)));
      const auto& names = r_.contract->field_names();
      if (std::find(names.begin(), names.end(), name) == names.end())
        wrong(fed, "`" + name + "` is not a field", did_you_mean(name, names));
      const CaseField* field = r_.find(name);
      if (!field) continue;
      out.sources.push_back({field, from == std::string::npos ? 0 : whole(one.substr(from + 6))});
      if (out.size) continue;
      const ColumnSource& first = out.sources[0];
      out.key = one;
      out.size = every != std::string::npos ? whole(text.substr(every + 7))
                                            : field->shape[feeding_axis(*field)] - first.from;
      if (out.size < 1) wrong(fed, one + " has no rows");
    }
    return out;
  }

  std::vector<int> powers_of(const Feed& feed, bool none) const {
    std::vector<int> out(static_cast<size_t>(feed.size));
    if (none) return out;
    Random random(seed_of(r_.contract->op + "/" + r_.name + " columns of " + feed.key, 0));
    for (int& power : out)
      if (!feed.few)
        power = static_cast<int>(random.integer(-kMostPower, kMostPower + 1));
      else if (random.integer(0, kOneIn) == 0)
        power = kMostPower;
    return out;
  }

  void divide(const ColumnSource& source, const std::vector<int>& powers) {
    const size_t axis = feeding_axis(*source.field);
    std::vector<float> by(static_cast<size_t>(source.field->shape[axis]), 1.F);
    for (auto i = static_cast<size_t>(source.from), k = size_t{0}; i < by.size(); ++i, ++k)
      by[i] = std::ldexp(1.F, -powers[k % powers.size()]);
    multiply(*source.field, axis, by);
  }

  // Multiplies every present tensor of the field along one axis.
  void multiply(const CaseField& field, size_t axis, const std::vector<float>& by) {
    const auto it = values_.find(field.slot->name);
    if (it == values_.end() || std::all_of(by.begin(), by.end(), [](float v) { return v == 1; }))
      return;
    const bool columns = axis + 1 == field.shape.size();
    for (Tensor& t : it->second) {
      each_row(t, [&](int64_t i, std::span<float> row) {
        const float all = by[static_cast<size_t>(i) % by.size()];
        if (!columns && all == 1.F) return false;
        for (size_t j = 0; j < row.size(); ++j) row[j] *= columns ? by[j] : all;
        return true;
      });
    }
  }

  const ResolvedCase& r_;
  CaseValues& values_;
};

}  // namespace

void scale_columns(const ResolvedCase& resolved, CaseValues& values) {
  // Recorded contents already have the sizes of their run.
  if (!resolved.contents) Scaler(resolved, values).run();
}

}  // namespace fk
