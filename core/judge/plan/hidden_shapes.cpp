// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/hidden_shapes.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include "core/tensor/random.hpp"

namespace fk {

namespace {

const std::string kAnother = "hidden rows of another ";

using Sizes = std::map<std::string, int64_t>;

// The integers of init and the free axes.
Sizes sizes_of(const Contract& contract, const Case& source) {
  Sizes out = source.axes;
  for (const Slot& slot : contract.section(SectionId::init)) {
    if (slot.kind != SlotKind::integer) continue;
    const auto written = source.init.find(slot.name);
    out[slot.name] = written == source.init.end()
                         ? slot.default_value.i
                         : std::strtoll(written->second.c_str(), nullptr, 0);
  }
  return out;
}

// Numbers of a few bits are packed and have scales for blocks, which other numbers do not care for.
std::map<std::string, DType> narrow(const Case& source) {
  std::map<std::string, DType> out;
  for (const auto& [field, type] : source.dtypes)
    if (bytes(type) < 2) out[field] = type;
  return out;
}

bool is_multiple(int64_t a, int64_t b) { return b > 0 && a > 0 && a % b == 0; }

// What a width is in all cases, odd or a multiple, and to the other sizes: alone to one or to two
// of them, and together with one of them to another.
class Laws {
 public:
  Laws(const Contract& contract, const Case& source, const std::string& width) {
    const Sizes own = sizes_of(contract, source);
    std::vector<Sizes> cases;
    for (const Case& other : contract.cases)
      if (other.size != kRangeSize && narrow(other) == narrow(source))
        cases.push_back(sizes_of(contract, other));
    std::vector<std::string> names;
    for (const auto& [name, value] : own)
      if (name != width &&
          std::ranges::all_of(cases, [&](const Sizes& c) { return c.count(name); }))
        names.push_back(name);
    for (const Sizes& c : cases) {
      Call call{c.at(width), {1}};
      for (const auto& name : names) call.others.push_back(c.at(name));
      known_.push_back(call.width);
      all_of_ = std::gcd(all_of_, call.width);
      calls_.push_back(std::move(call));
    }
    own_.push_back(1);
    for (const auto& name : names) own_.push_back(own.at(name));
    find();
  }

  bool allow(int64_t width) const {
    const Call call{width, own_};
    const bool odd = std::ranges::all_of(known_, [](int64_t n) { return n % 2 == 1; });
    return !std::ranges::count(known_, width) && is_multiple(width, all_of_) &&
           (!odd || width % 2 == 1) &&
           std::ranges::all_of(laws_, [&](const Law& law) { return law.holds(call); });
  }

 private:
  struct Call {
    int64_t width;
    std::vector<int64_t> others;  // the first is 1
  };
  // width * others[with] beside others[a] * others[b].
  struct Law {
    enum class Kind { most, least, multiple, divisor } kind;
    size_t with, a, b;
    bool holds(const Call& call) const {
      const int64_t mine = call.width * call.others[with], its = call.others[a] * call.others[b];
      switch (kind) {
        case Kind::most:
          return mine <= its;
        case Kind::least:
          return mine >= its;
        case Kind::multiple:
          return is_multiple(mine, its);
        default:
          return is_multiple(its, mine);
      }
    }
  };

  void find() {
    using Kind = Law::Kind;
    const auto keep = [&](size_t with, size_t a, size_t b) {
      for (const Kind kind : {Kind::most, Kind::least, Kind::multiple, Kind::divisor}) {
        const Law law{kind, with, a, b};
        if (std::ranges::all_of(calls_, [&](const Call& call) { return law.holds(call); }))
          laws_.push_back(law);
      }
    };
    for (size_t a = 1; a < own_.size(); ++a) {
      for (size_t b = 0; b <= a; ++b) keep(0, a, b);
      for (size_t with = 1; with < own_.size(); ++with)
        if (with != a) keep(with, a, 0);
    }
  }

  std::vector<int64_t> known_, own_;
  int64_t all_of_ = 0;
  std::vector<Call> calls_;
  std::vector<Law> laws_;
};

// From `first` downwards by `step`, and round about, the first that `laws` allow above half of the
// case's own width.
std::optional<int64_t> allowed(const Laws& laws, int64_t own, int64_t first, int64_t step) {
  const int64_t least = own / 2 / step + 1, most = (own - 1) / step, all = most - least + 1;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t at = least + (first / step - least + 2 * all - i) % all;
    if (laws.allow(at * step)) return at * step;
  }
  return std::nullopt;
}

// Numbers in the contents that are written for the case's sizes: ids, and how large a sink is.
bool is_tied(const Contract& contract, const Case& source) {
  return std::ranges::any_of(source.values, [&](const auto& made) {
    const Slot& slot = contract.at(made.first);
    const bool whole = !slot.dtypes.empty() && !is_float(slot.dtypes[0]);
    return made.second.starts_with("sinks(") || (whole && !made.second.starts_with("constant("));
  });
}

}  // namespace

std::vector<std::string> width_variants(const Contract& contract, const Case& source) {
  std::vector<std::string> out;
  if (contract.comm() || source.size == kRangeSize || is_tied(contract, source)) return out;
  for (const Slot& slot : contract.section(SectionId::init))
    if (slot.kind == SlotKind::integer && !slot.axis.empty() &&
        draw_width(contract, source, slot.name, 0))
      out.push_back(kAnother + slot.name);
  return out;
}

std::string width_of(const std::string& variant) {
  return variant.starts_with(kAnother) ? variant.substr(kAnother.size()) : "";
}

// Half of them as it comes, so that ends fill no block; the others, as models have them, multiples
// of a power of two, for which there may be code of its own.
std::optional<int64_t> draw_width(const Contract& contract, const Case& source,
                                  const std::string& width, uint64_t draw) {
  constexpr int64_t kMost = 7;  // of its exponent
  const Laws laws(contract, source, width);
  const int64_t own = sizes_of(contract, source).at(width);
  Random random(seed_of("width", draw));  // rows are drawn of it as well
  const int64_t exponent = std::max<int64_t>(0, random.integer(-kMost, kMost + 1));
  for (int64_t step = int64_t{1} << exponent; step > 0 && own > 1; step /= 2)
    if (const auto found = allowed(laws, own, random.integer(own / 2, own), step)) return found;
  return std::nullopt;
}

}  // namespace fk
