// SPDX-License-Identifier: Apache-2.0
#include "core/judge/plan/hidden_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/routing.hpp"
#include "core/check/check.hpp"
#include "core/judge/plan/hidden_shapes.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

struct Part {
  int bit;
  const char* name;
};
constexpr Part kParts[] = {{kHiddenFields, "fields"},
                           {kHiddenSwitches, "switches"},
                           {kHiddenValues, "values"},
                           {kHiddenOthers, "other switches"},
                           {kHiddenDense, "dense heads"}};
constexpr int64_t kRowsOfWidths = 1024;  // upper limit
constexpr int kAll = kHiddenFields | kHiddenSwitches | kHiddenValues | kHiddenPadded;

std::string name_of_kind(int parts) {
  std::vector<std::string> words = {"hidden rows"};
  for (const Part& part : kParts)
    if (parts & part.bit) words.emplace_back(part.name);
  const std::string last = words.back();
  words.pop_back();
  return (words.empty() ? last : join(words, ", ") + " and " + last) +
         (parts & (kHiddenPadded | kHiddenDense) ? ", padded" : "");
}

// Erases some of several values: keeps one surely, and each other one with probability 3/4. One
// change may hide another. `others`: keeps the erased ones, or else the sure one alone.
template <class Value>
void leave_some(uint64_t draw, std::map<std::string, Value>& all, bool others = false) {
  if (!draw || all.empty()) return;
  const auto turn = [&](const std::string& name) { return seed_of("some " + name, draw); };
  const std::string sure =
      std::ranges::min_element(all, {}, [&](const auto& one) { return turn(one.first); })->first;
  const auto kept = [&](const auto& one) { return one.first == sure || turn(one.first) % 4 != 0; };
  const bool none = std::ranges::all_of(all, kept);
  std::erase_if(all, [&](const auto& one) {
    return others && none ? one.first != sure : kept(one) == others;
  });
}

// True for integers in float fields beside numbers of init: large scores, for example. They are
// exact in float32 with this case's numbers and fields. With others rounding would move them.
bool is_exact(const Contract& contract, const Case& source) {
  const auto& init = contract.section(SectionId::init);
  return contract.level == 1 &&
         std::ranges::any_of(init, [](const Slot& s) { return s.kind == SlotKind::number; }) &&
         std::ranges::any_of(source.values, [&](const auto& made) {
           const Slot* slot = contract.find(made.first);
           return made.second.starts_with("randint(") && slot && !slot->dtypes.empty() &&
                  is_float(slot->dtypes[0]);
         });
}

// Other numbers for init: the largest of a small case, or the smallest if the largest is the case's
// own. Sizes and switches are excluded, because they would make another case.
std::map<std::string, std::string> other_values(const Contract& contract, const Case& source,
                                                uint64_t draw) {
  std::map<std::string, std::string> out;
  if (is_exact(contract, source)) return out;
  const auto value_in = [](const Case& c, const Slot& slot) {
    const auto written = c.init.find(slot.name);
    return written == c.init.end() ? slot.default_value.f
                                   : std::strtod(written->second.c_str(), nullptr);
  };
  for (const auto& slot : contract.section(SectionId::init)) {
    if (slot.kind != SlotKind::number) continue;
    const double own = value_in(source, slot);
    double least = own, most = own;
    for (const Case& c : contract.cases) {
      if (c.size != "smoke") continue;
      least = std::min(least, value_in(c, slot));
      most = std::max(most, value_in(c, slot));
    }
    if (least < most) out[slot.name] = fmt::format("{}", most > own ? most : least);
  }
  leave_some(draw, out);
  return out;
}

// Switches: booleans, choices, and integers with a default below 1, which means none (a window).
bool is_switch(const Slot& slot) {
  if (slot.kind == SlotKind::integer)
    return slot.axis.empty() && slot.has_default && slot.default_value.i < 1;
  return slot.kind == SlotKind::boolean || slot.kind == SlotKind::choice;
}

struct Switched {
  std::string to;
  const Case* from = nullptr;
};

// Other positions of switches from small cases. Such a case may have no optional field that this
// one lacks, because the two may belong together.
std::map<std::string, Switched> other_switches(const Contract& contract, const Case& source,
                                               uint64_t draw, bool others = false) {
  std::map<int, std::map<int64_t, const Case*>> found;  // by slot and value
  const ResolvedCase own = resolve(contract, source, {});
  for (const Case& c : contract.cases) {
    const bool fits = std::ranges::all_of(
        c.with, [&](const auto& field) { return std::ranges::count(source.with, field) > 0; });
    if (c.size != "smoke" || !fits) continue;
    const ResolvedCase small = resolve(contract, c, {});
    for (const auto& slot : contract.section(SectionId::init)) {
      const auto at = static_cast<size_t>(slot.index);
      if (is_switch(slot) && small.init[at].i != own.init[at].i)
        found[slot.index].emplace(small.init[at].i, &c);
    }
  }
  std::map<std::string, Switched> out;
  for (const auto& [index, cases] : found) {
    const Slot& slot = contract.section(SectionId::init)[static_cast<size_t>(index)];
    const auto& [value, from] =
        *std::next(cases.begin(), static_cast<int64_t>((draw >> 8) % cases.size()));
    out[slot.name] = {slot.kind == SlotKind::choice ? slot.choices[static_cast<size_t>(value)]
                                                    : std::to_string(value),
                      from};
  }
  leave_some(draw, out, others);
  return out;
}

// True for dtypes of eight bits or fewer, which come with scales.
bool has_narrow(const Contract& contract, const Case& source) {
  return std::ranges::any_of(resolve(contract, source, {}).fields,
                             [](const auto& f) { return f.present && bytes(f.dtype) < 2; });
}

// True when each case without the field has no such size, as with shared experts.
bool goes_with_size(const Contract& contract, const std::string& field) {
  bool missing = false, sized = false;
  for (const Case& c : contract.cases) {
    if (c.size == kRangeSize || std::ranges::count(c.with, field)) continue;
    missing = true;
    const Axes axes = resolve(contract, c, {}).axes;
    for (const auto id : {SectionId::weights, SectionId::forward})
      for (const Slot& slot : contract.section(id))
        if (slot.optional && (slot.name == field || slot.group == field))
          sized |= std::ranges::all_of(slot.shape, [&](const Expr& n) { return n.eval(axes) > 0; });
  }
  return missing && !sized;
}

// Other combinations of optional fields that small cases have. Fields that go with sizes stay as
// they are.
std::vector<std::vector<std::string>> other_fields(const Contract& contract, const Case& source) {
  std::set<std::set<std::string>> known = {{source.with.begin(), source.with.end()}};
  std::vector<std::vector<std::string>> out;
  if (has_narrow(contract, source) || is_exact(contract, source)) return out;
  std::set<std::string> tied;
  if (contract.level > 1)
    for (const Case& c : contract.cases)
      for (const auto& field : c.with)
        if (!tied.count(field) && goes_with_size(contract, field)) tied.insert(field);
  for (const Case& c : contract.cases) {
    if (c.size != "smoke" || has_narrow(contract, c)) continue;
    std::set<std::string> with;
    for (const auto& field : c.with)
      if (!tied.count(field)) with.insert(field);
    for (const auto& field : source.with)
      if (tied.count(field)) with.insert(field);
    if (known.insert(with).second) out.emplace_back(with.begin(), with.end());
  }
  return out;
}

struct Contents {
  std::map<std::string, std::string> values;   // field, generator
  std::map<std::string, std::string> numbers;  // of init, where exact contents need them
};

Case with_contents(Case source, const Contents& contents) {
  for (const auto& [name, text] : contents.values) source.values[name] = text;
  for (const auto& [name, text] : contents.numbers) source.init[name] = text;
  return source;
}

std::map<std::string, std::string> numbers_of(const Contract& contract, const Case& c) {
  std::map<std::string, std::string> out;
  for (const Slot& slot : contract.section(SectionId::init)) {
    if (slot.kind != SlotKind::number) continue;
    const auto written = c.init.find(slot.name);
    out[slot.name] =
        written == c.init.end() ? fmt::format("{}", slot.default_value.f) : written->second;
  }
  return out;
}

// The elements of a field's last axis in a case.
int64_t width_in(const Contract& contract, const Slot& field, const Case& c) {
  Axes axes(c.axes.begin(), c.axes.end());
  for (const Slot& slot : contract.section(SectionId::init)) {
    if (slot.kind != SlotKind::integer || slot.axis.empty()) continue;
    const auto written = c.init.find(slot.name);
    axes[slot.axis] = written == c.init.end() ? slot.default_value.i
                                              : std::strtoll(written->second.c_str(), nullptr, 10);
  }
  return field.shape.back().eval(axes);
}

// True when the rows of exact contents are at most as wide as in their own case `c`. Scores are
// sums over a row: in wider rows they grow, until kernels round them by whole weights.
bool has_room_for(const Contract& contract, const Case& c, const Case& source) {
  return std::ranges::all_of(c.values, [&](const auto& made) {
    const Slot* slot = contract.find(made.first);
    return !slot || slot->dtypes.empty() || !is_float(slot->dtypes[0]) ||
           width_in(contract, *slot, source) <= width_in(contract, *slot, c);
  });
}

// True when integer contents can be generated for these sizes.
bool can_be_made(const Contract& contract, const Case& source) {
  try {
    const ResolvedCase all = resolve(contract, source, {});
    for (const CaseField& field : all.fields)
      if (field.present && field.slot->section == SectionId::forward &&
          field.slot->role != Role::out && !is_float(field.dtype))
        make_field(all, field.slot->name, 1, 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Generators of a small case for fields where the source uses the contract's: skipped ids, ties,
// other requests of rows. A sink's size belongs to the width of a head and stays. Above level 1
// other values belong to sizes; only integers that can be generated and choices are taken. There
// each field takes any small case's generator, so that none is left out; at level 1 all come from
// one case. Exact contents take the numbers of their case along, and need its optional fields. They
// are for rows of this width and narrower ones.
Contents other_contents(const Contract& contract, const Case& source, uint64_t draw) {
  std::vector<Contents> sets;
  const bool layer = contract.level > 1;
  for (const Case& c : contract.cases) {
    if (c.size != "smoke") continue;
    Contents its;
    const bool exact = is_exact(contract, c);
    bool fits = !exact || (std::set(c.with.begin(), c.with.end()) ==
                               std::set(source.with.begin(), source.with.end()) &&
                           has_room_for(contract, c, source));
    if (exact) its.numbers = numbers_of(contract, c);
    for (const auto& [name, text] : c.values) {
      const Slot* slot = contract.find(name);
      const bool given = !text.starts_with("sinks(") && !source.values.count(name) &&
                         (!slot->optional || std::ranges::count(source.with, name) ||
                          std::ranges::count(source.with, slot->group));
      const bool free =
          slot->section == SectionId::forward && !text.starts_with("constant(") &&
          (text.starts_with("either(") || (!slot->dtypes.empty() && !is_float(slot->dtypes[0])));
      fits &= layer || given;
      if (given && (!layer || free)) its.values[name] = text;
    }
    if (fits && !its.values.empty() &&
        (!layer || can_be_made(contract, with_contents(source, its))))
      sets.push_back(std::move(its));
  }
  if (sets.empty()) return {};
  if (layer) {
    std::map<std::string, std::set<std::string>> texts;
    for (const Contents& its : sets)
      for (const auto& [name, text] : its.values) texts[name].insert(text);
    Contents all;
    for (const auto& [name, of] : texts)
      all.values[name] = *std::next(of.begin(), static_cast<int64_t>(draw % of.size()));
    if (can_be_made(contract, with_contents(source, all))) return all;
  }
  return sets[draw % sets.size()];
}

// Sets of other_fields() that allow as many switches as without them.
std::vector<std::vector<std::string>> switched_fields(const Contract& contract,
                                                      const Case& source) {
  const size_t all = other_switches(contract, source, 0).size();
  auto out = other_fields(contract, source);
  std::erase_if(out, [&](const auto& with) {
    Case other = source;
    other.with = with;
    const size_t now = other_switches(contract, other, 0).size();
    return now == 0 || now < all;
  });
  return out;
}

// Large cases have constant integers, such as lengths, to save time. These get the contract's
// generators again.
void release_numbers(const Contract& contract, Case& source) {
  std::erase_if(source.values, [&](const auto& made) {
    const Slot* slot = contract.find(made.first);
    return slot && !slot->dtypes.empty() && !is_float(slot->dtypes[0]) &&
           made.second.starts_with("constant(");
  });
}

// `most` limits the rows: a case with more rows counts as one with `most` rows.
Variant fewer_rows(const Case& source, uint64_t draw, int64_t most = INT64_MAX) {
  Variant out;
  const double share = Random(draw).uniform();
  shrink_rows(
      source,
      [&](int64_t n) {
        if (draw) n = std::min(n, most);
        const int64_t least = fewest_hidden(n);
        return draw ? least + static_cast<int64_t>(share * static_cast<double>(n - least)) : n;
      },
      out);
  return out;
}

// Ragged requests in place of equal lengths: for `cu(T)` of B requests, the last one is shorter, so
// that there are fewer tokens.
void make_ragged(const Contract& contract, const Case& source, uint64_t draw, Variant& out) {
  for (const auto& slot : contract.section(SectionId::forward)) {
    if (!slot.values.starts_with("cu(") || !slot.list.empty() || slot.shape.size() != 1) continue;
    const std::string tokens = slot.values.substr(3, slot.values.size() - 4);
    const auto requests = slot.shape[0].symbols();
    const auto all = out.axes.find(tokens);
    if (all == out.axes.end() || requests.size() != 1 || !out.axes.count(*requests.begin()))
      continue;
    const bool others = std::ranges::any_of(out.axes, [&](const auto& axis) {
      return axis.first != tokens && source.axes.at(axis.first) >= source.axes.at(tokens);
    });
    const int64_t each = all->second / std::max<int64_t>(1, out.axes.at(*requests.begin()));
    if (!others && each > 1) all->second -= static_cast<int64_t>(draw >> 20) % each;
  }
}

// Between twice the mean and a load beyond any routing, where every token has the busiest expert.
// Room for half more than the mean is enough for uniform routing only.
double drawn_skew(uint64_t draw) { return std::exp2(1 + 4.5 * Random(draw ^ 0x5e).uniform()); }

// True if a tensor with gaps may have parts of a row (heads) with gaps of their own.
bool has_heads(const Contract& contract) {
  return std::ranges::any_of(contract.section(SectionId::forward),
                             [](const Slot& s) { return s.strided && s.shape.size() > 2; });
}

// The layout of tensors with gaps. Caches are neighbours or interleaved, as in some models; heads
// are dense or not.
Variant::Layout padded_layout(const Contract& contract, uint64_t draw) {
  const Slot* cache = contract.find("v_cache");
  if (cache && cache->strided && (draw >> 40 & 1)) return Variant::Layout::interleaved;
  return has_heads(contract) && (draw >> 41 & 1) ? Variant::Layout::padded_rows
                                                 : Variant::Layout::padded;
}

bool has_rows(const Case& source) {
  const Variant most = fewer_rows(source, 0);
  const auto more = [](int64_t n) { return n > 1; };
  return std::any_of(most.axes.begin(), most.axes.end(),
                     [&](const auto& axis) { return more(axis.second); }) ||
         std::any_of(most.listed.begin(), most.listed.end(), [&](const auto& axis) {
           return std::any_of(axis.second.begin(), axis.second.end(), more);
         });
}

}  // namespace

int64_t fewest_hidden(int64_t rows) {
  return std::max<int64_t>(std::min<int64_t>(rows, 2), rows / 2);
}

std::optional<int> hidden_parts(const std::string& variant) {
  for (int parts = 0; parts <= kAll; ++parts)
    if (variant == name_of_kind(parts)) return parts;
  for (const int alone : {kHiddenOthers, kHiddenDense})
    if (variant == name_of_kind(alone)) return alone;
  return std::nullopt;
}

bool is_hidden(const std::string& variant) { return variant.starts_with("hidden rows"); }

std::vector<std::string> hidden_variants(const Contract& contract, const Case& source) {
  if (!has_rows(source) || source.size == kRangeSize) return {};
  const auto& forward = contract.section(SectionId::forward);
  int may = 0;
  if (!other_fields(contract, source).empty()) may |= kHiddenFields;
  if (!other_switches(contract, source, 0).empty()) may |= kHiddenSwitches;
  if (!other_values(contract, source, 0).empty()) may |= kHiddenValues;
  if (std::ranges::any_of(forward, [](const Slot& s) { return s.strided; })) may |= kHiddenPadded;
  // Some switches need fields.
  constexpr int kBoth = kHiddenFields | kHiddenSwitches;
  const bool both = !switched_fields(contract, source).empty();
  std::vector<std::string> out;
  for (int parts = kAll; parts >= 0; --parts)
    if ((parts & kBoth) == kBoth ? both && !(parts & ~kBoth & ~may) : !(parts & ~may))
      out.push_back(name_of_kind(parts));
  if (other_switches(contract, source, 0).size() > 1) out.push_back(name_of_kind(kHiddenOthers));
  if (has_heads(contract)) out.push_back(name_of_kind(kHiddenDense));
  return out;
}

// The variants of a case share a draw, which says for all of them which switches are the others.
AskedCase hidden_by(AskedCase asked, const Secret& secret) {
  if (!is_hidden(asked.variant)) return asked;
  AskedCase drawn = asked;
  if (hidden_parts(asked.variant)) drawn.variant = name_of_kind(0);
  asked.draw = secret.seed("rows of " + drawn.key()) | 1;
  return asked;
}

int hidden_of(const Contract& contract, int cases) {
  return has_routing(contract) ? cases : std::max(3, (cases + 1) / 2);
}

uint64_t hidden_order(const Secret& secret, const std::string& op, const std::string& case_name,
                      const std::string& variant) {
  const std::string width = width_of(variant);
  return secret.seed("turn of " + op + "/" + case_name + (width.empty() ? "" : "/" + width));
}

PosedCase pose_hidden(const AskedCase& asked, const Contract& contract, Case source) {
  // A width variant changes only the width, so that a failure shows its cause. It has few rows, to
  // save time.
  const std::string width = width_of(asked.variant);
  const int parts = width.empty() ? hidden_parts(asked.variant).value() : 0;
  PosedCase out;
  if (asked.draw && !width.empty())
    source.init[width] = std::to_string(draw_width(contract, source, width, asked.draw).value());
  if (parts & kHiddenValues)
    for (const auto& [name, text] : other_values(contract, source, asked.draw))
      source.init[name] = text;
  if (asked.draw && parts & kHiddenFields) {
    const auto fields = parts & kHiddenSwitches ? switched_fields(contract, source)
                                                : other_fields(contract, source);
    source.with = fields.at(asked.draw / 2 % fields.size());
  }
  if (parts & (kHiddenSwitches | kHiddenOthers)) {
    // The switch takes the contents of its case along.
    for (const auto& [name, other] :
         other_switches(contract, source, asked.draw, parts & kHiddenOthers)) {
      source.init[name] = other.to;
      for (const auto& [field, made] : other.from->values) source.values[field] = made;
    }
  }
  if (asked.draw)
    out.variant = fewer_rows(source, asked.draw, width.empty() ? INT64_MAX : kRowsOfWidths);
  if (asked.draw) make_ragged(contract, source, asked.draw, out.variant);
  if (asked.draw && width.empty())
    source = with_contents(source, other_contents(contract, source, asked.draw >> 48));
  if (asked.draw && has_routing(contract))
    source = with_skew(contract, source, drawn_skew(asked.draw));
  release_numbers(contract, source);
  out.variant.name = asked.variant;
  if (parts & kHiddenPadded) out.variant.layout = padded_layout(contract, asked.draw);
  if (parts & kHiddenDense) out.variant.layout = Variant::Layout::padded_rows;
  out.source = std::move(source);
  return out;
}

}  // namespace fk
