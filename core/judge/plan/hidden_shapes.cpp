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

// Dtypes of a few bits: these are packed, with scales per block, and restrict widths.
std::map<std::string, DType> narrow(const Case& source) {
  std::map<std::string, DType> out;
  for (const auto& [field, type] : source.dtypes)
    if (bytes(type) < 2) out[field] = type;
  return out;
}

bool is_multiple(int64_t a, int64_t b) { return b > 0 && a > 0 && a % b == 0; }

// Relations of a width in all cases: parity, and order and divisibility with the other sizes. The
// width is compared with one of them or a product of two. A product of the width and one of them is
// compared with a third.
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
  // Compares width * others[with] with others[a] * others[b].
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

// The first allowed width, in steps downwards from `first` and round again, between half of the
// case's width and the width.
std::optional<int64_t> allowed(const Laws& laws, int64_t own, int64_t first, int64_t step) {
  const int64_t least = own / 2 / step + 1, most = (own - 1) / step, all = most - least + 1;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t at = least + (first / step - least + 2 * all - i) % all;
    if (laws.allow(at * step)) return at * step;
  }
  return std::nullopt;
}

// True for contents whose numbers fit the case's sizes: ids, and sinks.
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

// Half of the draws take any width, so that ends fill no block. The others take multiples of a
// power of two, as models do, which may have code of their own.
std::optional<int64_t> draw_width(const Contract& contract, const Case& source,
                                  const std::string& width, uint64_t draw) {
  constexpr int64_t kMost = 7;  // of the exponent
  const Laws laws(contract, source, width);
  const int64_t own = sizes_of(contract, source).at(width);
  Random random(seed_of("width", draw));  // rows come from the same draw
  const int64_t exponent = std::max<int64_t>(0, random.integer(-kMost, kMost + 1));
  for (int64_t step = int64_t{1} << exponent; step > 0 && own > 1; step /= 2)
    if (const auto found = allowed(laws, own, random.integer(own / 2, own), step)) return found;
  return std::nullopt;
}

}  // namespace fk
