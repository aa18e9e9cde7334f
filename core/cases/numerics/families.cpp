// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/families.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/parts.hpp"
#include "core/base/text.hpp"
#include "core/cases/counted.hpp"
#include "core/cases/each_row.hpp"
#include "core/cases/exchanged.hpp"
#include "core/cases/numerics/masked.hpp"
#include "core/cases/numerics/unread.hpp"
#include "core/cases/odd_rows.hpp"
#include "core/cases/tolerance.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr std::array kFamilyNames = {"ordinary", "large",  "small",     "shift",    "heavy_tails",
                                     "ties",     "sparse", "denormals", "permuted", "equal",
                                     "outliers", "rows",   "unread",    "masked"};

// Uniform numbers in [0, 1) by position, so that changes do not depend on the number of threads.
class Coins {
 public:
  explicit Coins(uint64_t seed) : seed_(seed) {}
  double operator()(int64_t i) const {
    uint64_t z = seed_ + 0x9E3779B97F4A7C15 * static_cast<uint64_t>(i + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  uint64_t seed_;
};

// Changes every element by change(value, index).
void each(Tensor& t, const std::function<double(double, int64_t)>& change) {
  each_row(t, [&](int64_t i, std::span<float> row) {
    int64_t at = i * static_cast<int64_t>(row.size());
    for (float& value : row) value = static_cast<float>(change(static_cast<double>(value), at++));
    return true;
  });
}

// The smallest normal number, and the smallest positive number.
struct Smallest {
  double normal, any;
};
Smallest smallest(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {0x1p-14, 0x1p-24};
    case DType::bf16:
      return {0x1p-126, 0x1p-133};
    case DType::f8e4m3:
      return {0x1p-6, 0x1p-9};
    case DType::f8e5m2:
      return {0x1p-14, 0x1p-16};
    default:
      return {0x1p-126, 0x1p-149};
  }
}

// The upper end of a range is exclusive, and values near it may round up to it.
double inside(const Legal& legal, double value) {
  const double margin = (legal.high - legal.low) * 0x1p-12;
  return std::clamp(value, legal.low, legal.high - margin);
}

bool scale(const Legal& legal, Random& random, bool up, Tensor& t) {
  // A range promises a magnitude; eight bits have no room for another scale.
  if (legal.kind != Legal::Kind::free || bytes(t.dtype) < 2) return false;
  const bool little = legal.gentle || t.dtype == DType::f16;
  if (up && legal.beyond && t.dtype == DType::bf16) {
    const double size = std::max(std::abs(legal.mean), legal.spread);
    const double reach = 0x1p15 * (1 + random.uniform()) / size;
    each(t, [&](double v, int64_t) { return v * reach; });
    return true;
  }
  const auto power =
      static_cast<int>(up ? random.integer(legal.gentle ? 0 : 1, legal.gentle ? 2 : 6)
                          : random.integer(little ? -4 : -12, -1));
  const double factor = std::exp2(power) * (1 + random.uniform() / 2);
  each(t, [&](double v, int64_t) { return v * factor; });
  return true;
}

bool shift(const Legal& legal, Random& random, Tensor& t) {
  if (legal.kind != Legal::Kind::free || bytes(t.dtype) < 2) return false;
  const double size = std::exp2((legal.gentle ? 0 : 2) + 3 * random.uniform());  // 4 to 32 spreads
  const double by = (random.uniform() < 0.5 ? -1 : 1) * size * legal.spread;
  each(t, [&](double v, int64_t) { return v + by; });
  return true;
}

bool heavy_tails(const Legal& legal, Random& random, Tensor& t) {
  const double power = (legal.gentle ? 1.5 : 2) + random.uniform();
  if (legal.kind == Legal::Kind::range) {  // most values near its lower end
    const double width = legal.high - legal.low;
    each(t, [&](double v, int64_t) {
      const double share = std::clamp((v - legal.low) / width, 0.0, 1.0);
      return inside(legal, legal.low + width * std::pow(share, power));
    });
    return true;
  }
  each(t, [&](double v, int64_t) {
    const double z = (v - legal.mean) / legal.spread;
    return legal.mean + legal.spread * std::copysign(std::pow(std::abs(z), power), z);
  });
  return true;
}

bool ties(const Legal& legal, Random& random, Tensor& t) {
  if (legal.kind == Legal::Kind::range) {
    const auto levels = static_cast<double>(random.integer(2, 6));
    const double step = (legal.high - legal.low) / levels;
    each(t, [&](double v, int64_t) {
      return inside(legal, legal.low + step * std::floor((v - legal.low) / step));
    });
    return true;
  }
  const double step = legal.spread * (0.5 + random.uniform());
  each(t, [&](double v, int64_t) {
    return legal.mean + step * std::nearbyint((v - legal.mean) / step);
  });
  return true;
}

bool has_zero(const Legal& legal) {
  return legal.kind == Legal::Kind::free || (legal.low <= 0 && legal.high > 0);
}

bool sparse(const Legal& legal, Random& random, const Coins& coins, Tensor& t) {
  if (!has_zero(legal)) return false;
  const double kept = std::exp2(-2 - 4 * random.uniform());  // share of 1/4 to 1/64
  const int64_t one = random.integer(0, t.numel());          // stays: the tensor is never all zeros
  each(t, [&](double v, int64_t i) { return i == one || coins(i) < kept ? v : 0.0; });
  return true;
}

bool denormals(const Legal& legal, Random& random, const Coins& coins, Tensor& t) {
  if (!has_zero(legal)) return false;
  const Smallest s = smallest(t.dtype);
  const double share = 0.2 + 0.4 * random.uniform(), span = std::log2(s.normal / s.any);
  const bool positive = legal.kind == Legal::Kind::range && legal.low >= 0;
  each(t, [&](double v, int64_t i) {
    const double coin = coins(i);
    if (coin >= share) return v;
    const double size = s.any * std::exp2(span * coin / share);
    return !positive && v < legal.mean ? -size : size;
  });
  return true;
}

// Permutes rows of the first axis, or the elements if there is one row.
bool permute(const FamilySeeds& seeds, Tensor& t) {
  const bool one = t.shape.empty() || t.shape[0] < 2;
  const int64_t rows = one ? t.numel() : t.shape[0];
  if (rows < 2) return false;
  Random random(one ? seeds.tensor : seeds.rows);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  // Sattolo's algorithm: no row keeps its place.
  for (size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
  const Tensor before = t;
  const auto width = static_cast<size_t>(t.bytes() / rows);
  for (size_t i = 0; i < order.size(); ++i)
    std::memcpy(
        static_cast<std::byte*>(t.data()) + i * width,
        static_cast<const std::byte*>(before.data()) + static_cast<size_t>(order[i]) * width,
        width);
  return true;
}

bool all_equal(const Legal& legal, Random& random, Tensor& t) {
  // One of the tensor's own values, so it is legal; the largest of a few, so that it is unlikely to
  // be 0.
  double value = 0;
  for (int i = 0; i < 4; ++i) {
    const double other = t.at(random.integer(0, t.numel()));
    if (std::abs(other) > std::abs(value)) value = other;
  }
  // The sign is equal on all ranks: a sum that cancels everywhere has no spread to measure its
  // error by.
  if (legal.kind == Legal::Kind::free) value = std::copysign(value, random.uniform() - 0.5);
  each(t, [&](double, int64_t) { return value; });
  return true;
}

bool outliers(const Legal& legal, Random& random, Tensor& t) {
  const int64_t count = random.integer(1, 5);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = random.integer(0, t.numel());
    const double side = random.uniform() < 0.5 ? -1 : 1;
    // 16 to 128 spreads
    const double size = std::exp2((legal.gentle ? 3 : 4) + 3 * random.uniform());
    if (legal.kind == Legal::Kind::range)
      t.set(at, side < 0 ? legal.low : inside(legal, legal.high));
    else
      t.set(at, legal.mean + side * size * legal.spread);
  }
  return true;
}

// A single row, or rows of one element, cannot differ in size from other rows.
bool has_rows(const Shape& shape) {
  return shape.size() > 1 && shape.back() > 1 && numel(shape) > shape.back();
}

bool size_rows(const Legal& legal, Random& random, Tensor& t) {
  if (legal.kind != Legal::Kind::free || bytes(t.dtype) < 2 || !has_rows(t.shape)) return false;
  make_sized_rows(random, legal.gentle || t.dtype == DType::f16 ? 4 : 12, t);
  return true;
}

// True if all numbers are finite and at most `most`.
bool within(const Tensor& t, double most) {
  constexpr int64_t kPart = int64_t{1} << 18;
  std::atomic<bool> all = true;
  in_parts(static_cast<size_t>((t.numel() + kPart - 1) / kPart), [&](size_t part) {
    const int64_t begin = static_cast<int64_t>(part) * kPart;
    std::vector<double> values(static_cast<size_t>(std::min(kPart, t.numel() - begin)));
    convert(static_cast<const std::byte*>(t.data()) + begin * bytes(t.dtype), t.dtype,
            values.data(), DType::f64, static_cast<int64_t>(values.size()));
    for (const double v : values)
      if (!(std::abs(v) <= most)) all = false;
  });
  return all;
}

// True if all numbers are equal in the output's dtype.
bool constant(const Tensor& t, DType dtype) {
  const bool whole = !is_float(dtype);
  const double rounding =
      whole ? 0 : std::abs(t.at(0)) * epsilon(dtype) / 2 + 8 * negligible(dtype);
  for (int64_t i = 1; i < t.numel(); ++i)
    if (!(std::abs(t.at(i) - t.at(0)) <= rounding)) return false;
  return whole || t.numel() > 1 || std::abs(t.at(0)) > rounding;
}

}  // namespace

const char* family_name(Family family) { return kFamilyNames[static_cast<size_t>(family)]; }

Family family_of(const std::string& text, const std::string& where) {
  for (size_t i = 0; i < kFamilyNames.size(); ++i)
    if (text == kFamilyNames[i]) return static_cast<Family>(i);
  fail(where, "there is no family of inputs `" + text + "`",
       did_you_mean(text, {kFamilyNames.begin(), kFamilyNames.end()}));
}

std::vector<Family> all_families() {
  std::vector<Family> out;
  for (size_t i = 0; i < kFamilyNames.size(); ++i) out.push_back(static_cast<Family>(i));
  return out;
}

bool apply_family(Family family, const Legal& legal, const FamilySeeds& seeds, Tensor& t) {
  FK_CHECK(is_float(t.dtype), "a family of inputs changes floats alone");
  if (legal.kind == Legal::Kind::fixed || t.numel() == 0) return false;
  Random random(seeds.tensor);
  // Ranks share the scale but have their own zeros. If all ranks' terms lay among zeros at equal
  // places, they could cancel in a block without spread. Its rounding would then be unexplained.
  const Coins coins(random.next() ^ seeds.places);
  switch (family) {
    case Family::ordinary:
    case Family::unread:
    case Family::masked:
      return false;
    case Family::large:
      return scale(legal, random, true, t);
    case Family::small:
      return scale(legal, random, false, t);
    case Family::shift:
      return shift(legal, random, t);
    case Family::heavy_tails:
      return heavy_tails(legal, random, t);
    case Family::ties:
      return ties(legal, random, t);
    case Family::sparse:
      return sparse(legal, random, coins, t);
    case Family::denormals:
      return denormals(legal, random, coins, t);
    case Family::permuted:
      return permute(seeds, t);
    case Family::equal:
      return all_equal(legal, random, t);
    case Family::outliers:
      return outliers(legal, random, t);
    case Family::rows:
      return size_rows(legal, random, t);
  }
  return false;
}

void change_together(Family family, const ResolvedCase& resolved, uint64_t seed,
                     CaseValues& values) {
  if (family == Family::outliers) exchange_numbers(resolved, seed, values);
  if (family == Family::unread) spoil_unread(resolved, seed, values);
  if (family == Family::masked) mask_logits(resolved, seed, values);
}

bool family_may_change(const ResolvedCase& resolved, const CaseField& field) {
  const Slot& slot = *field.slot;
  if (!field.present || !is_float(field.dtype) || field.entries == 0) return false;
  if (slot.section == SectionId::weights ? resolved.contract->level > 1 : slot.role == Role::out)
    return false;
  const std::string name = field.values.substr(0, field.values.find('('));
  return name.empty() || name == "normal" || name == "unit_gain" || name == "uniform" ||
         name == "positive";
}

bool family_may_go_beyond(const ResolvedCase& resolved, const CaseField& field) {
  const Contract& c = *resolved.contract;
  const auto keeps = [](const CaseField& f) { return f.slot->role == Role::inout; };
  if (c.level == 1) return c.tolerance.numerics != "selection";
  if (keeps(field) && field.slot->writes.empty()) return true;
  return c.level == 2 && c.tolerance.numerics == "reduction" && !c.find("top_k") &&
         std::none_of(resolved.fields.begin(), resolved.fields.end(), keeps);
}

std::string family_unfit(const ResolvedCase& resolved, Family family) {
  if (family == Family::ordinary) return "";
  if (family == Family::unread)
    return std::ranges::any_of(resolved.fields,
                               [&](const CaseField& f) { return has_unread(resolved, f); })
               ? ""
               : "it has no caches and no states";
  if (family == Family::masked)
    return std::ranges::any_of(resolved.fields,
                               [&](const CaseField& f) { return may_mask(resolved, f); })
               ? ""
               : "it has no logits that may be masked";
  // A value shared by all elements may lie between two numbers of eight bits. Then a layer rounds
  // all of them by the same step.
  if ((family == Family::equal || family == Family::shift) && resolved.contract->level > 1 &&
      rounds_inputs(resolved))
    return "what is nearly the same everywhere is rounded to f8e4m3 alike";
  const bool sized = family == Family::large || family == Family::small ||
                     family == Family::shift || family == Family::rows;
  bool any = false;
  for (const auto& f : resolved.fields) {
    if (!family_may_change(resolved, f)) continue;
    any = true;
    int64_t most = 0;
    bool rows = false;
    for (int64_t i = 0; i < f.entries; ++i) {
      most = std::max(most, numel(f.shape_of(i)));
      rows |= has_rows(f.shape_of(i));
    }
    if (most < (family == Family::permuted ? 2 : 1) || (family == Family::rows && !rows)) continue;
    const std::string kind = f.values.substr(0, f.values.find('('));
    const bool range = kind == "uniform" || kind == "positive";
    if (sized ? !range && bytes(f.dtype) > 1 : true) {
      const bool needs_zero = family == Family::sparse || family == Family::denormals;
      if (!needs_zero || !range) return "";
      // The lower end decides; an expression is assumed to be above 0.
      if (kind == "uniform" && std::strtod(f.values.c_str() + kind.size() + 1, nullptr) <= 0)
        return "";
    }
  }
  if (family == Family::outliers)
    for (const auto& f : resolved.fields)
      if (may_exchange(resolved, f)) return "";
  if (!any) return "no input of this case is free to change";
  return std::string("no input of this case may be ") +
         (family == Family::rows ? "scaled row by row: they are drawn from ranges, or have one row"
          : sized                ? "scaled or shifted: they are drawn from ranges"
                                 : "changed so");
}

std::string family_meaningless(const ResolvedCase& resolved, Family family,
                               const CaseValues& want) {
  if (family == Family::ordinary) return "";
  bool varies = false, any = false;
  // Choices between equal scores say nothing.
  const bool chosen =
      resolved.contract->tolerance.numerics == "selection" &&
      std::any_of(resolved.fields.begin(), resolved.fields.end(),
                  [&](const auto& f) { return is_float(f.dtype) && want.count(f.slot->name); });
  for (const auto& [name, tensors] : want) {
    const CaseField* field = resolved.find(name);
    if (!field || (family == Family::unread && has_unread(resolved, *field))) continue;
    for (size_t entry = 0; entry < tensors.size(); ++entry) {
      // Rows beyond the valid ones belong to no answer.
      std::optional<Tensor> valid;
      if (!field->slot->count.empty())
        valid = valid_part(extent_of(resolved, *field, static_cast<int64_t>(entry), want),
                           tensors[entry], false);
      const Tensor& t = valid ? *valid : tensors[entry];
      if (t.numel() == 0) continue;
      any = true;
      varies |= !constant(t, field->dtype) && (!chosen || is_float(field->dtype));
      if (!is_float(field->dtype)) continue;
      // The logarithm of a masked probability is -inf.
      const double most = family == Family::masked ? HUGE_VAL : largest(field->dtype);
      if (!within(t, most)) return name + " overflows " + std::string(fk::name(field->dtype));
    }
  }
  return varies || !any ? "" : "every output is the same number everywhere";
}

}  // namespace fk
