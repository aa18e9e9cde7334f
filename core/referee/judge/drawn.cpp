// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/drawn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/referee/check.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

struct Kind {
  const char* name;
  bool fields, values, padded;
};
constexpr Kind kKinds[] = {{"drawn rows, fields and values, padded", true, true, true},
                           {"drawn rows, fields and values", true, true, false},
                           {"drawn rows and fields, padded", true, false, true},
                           {"drawn rows and fields", true, false, false},
                           {"drawn rows and values, padded", false, true, true},
                           {"drawn rows and values", false, true, false},
                           {"drawn rows, padded", false, false, true},
                           {"drawn rows", false, false, false}};

const Kind* kind_of(const std::string& variant) {
  const auto found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& kind) { return variant == kind.name; });
  return found == std::end(kKinds) ? nullptr : found;
}

// Of every number of init the largest one that a small case has, or the smallest where that is the
// case's own: sizes and switches would make another case of it.
std::map<std::string, std::string> other_values(const Contract& contract, const Case& source) {
  std::map<std::string, std::string> out;
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
  return out;
}

// Scales go with numbers of eight bits.
bool has_narrow(const Contract& contract, const Case& source) {
  return std::ranges::any_of(resolve(contract, source, {}).fields,
                             [](const auto& f) { return f.present && bytes(f.dtype) < 2; });
}

// Which optional fields small cases have together, other than this one. Above L1 they go with sizes
// and with each other.
std::vector<std::vector<std::string>> other_fields(const Contract& contract, const Case& source) {
  std::set<std::set<std::string>> known = {{source.with.begin(), source.with.end()}};
  std::vector<std::vector<std::string>> out;
  if (contract.level > 1 || has_narrow(contract, source)) return out;
  for (const Case& c : contract.cases)
    if (c.size == "smoke" && known.insert({c.with.begin(), c.with.end()}).second &&
        !has_narrow(contract, c))
      out.push_back(c.with);
  return out;
}

// Contents that a small case has of what the source leaves to the contract: ids that are skipped,
// ties, rows that are asked something else. Above L1 they go with sizes; how large a sink is goes
// with the width of a head.
std::vector<std::map<std::string, std::string>> other_contents(const Contract& contract,
                                                               const Case& source) {
  std::vector<std::map<std::string, std::string>> out;
  if (contract.level > 1) return out;
  for (const Case& c : contract.cases) {
    std::map<std::string, std::string> its;
    bool fits = c.size == "smoke";
    for (const auto& [name, text] : c.values) {
      const Slot* slot = contract.find(name);
      fits &= !text.starts_with("sinks(") && !source.values.count(name) &&
              (!slot->optional || std::ranges::count(source.with, name));
      its[name] = text;
    }
    if (fits && !its.empty()) out.push_back(std::move(its));
  }
  return out;
}

// Whole numbers that are the same everywhere in a large case, as lengths are for the sake of its
// time, become what they are elsewhere.
void release_numbers(const Contract& contract, Case& source) {
  std::erase_if(source.values, [&](const auto& made) {
    const Slot* slot = contract.find(made.first);
    return slot && !slot->dtypes.empty() && !is_float(slot->dtypes[0]) &&
           made.second.starts_with("constant(");
  });
}

Variant fewer_rows(const Case& source, uint64_t draw) {
  Variant out;
  const double share = Random(draw).uniform();
  shrink_rows(
      source,
      [&](int64_t n) {
        const int64_t least = std::max<int64_t>(std::min<int64_t>(n, 1), n / 2);
        return draw ? least + static_cast<int64_t>(share * static_cast<double>(n - least)) : n;
      },
      out);
  return out;
}

// Requests of equal lengths are for who asks for them: of ragged ones (`cu(T)` of B requests) there
// are fewer tokens by less than a request has.
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

bool is_drawn(const std::string& variant) { return kind_of(variant) != nullptr; }

std::vector<std::string> drawn_variants(const Contract& contract, const Case& source) {
  std::vector<std::string> out;
  if (!has_rows(source)) return out;
  const auto& forward = contract.section(SectionId::forward);
  const bool gaps = std::ranges::any_of(forward, [](const Slot& s) { return s.strided; });
  const bool fields = !other_fields(contract, source).empty();
  const bool values = !other_values(contract, source).empty();
  for (const Kind& kind : kKinds)
    if ((fields || !kind.fields) && (values || !kind.values) && (gaps || !kind.padded))
      out.emplace_back(kind.name);
  return out;
}

AskedCase drawn_by(AskedCase asked, const Secret& secret) {
  if (is_drawn(asked.variant)) asked.draw = secret.seed("rows of " + asked.key()) | 1;
  return asked;
}

uint64_t drawn_turn(const Secret& secret, const std::string& op, const std::string& case_name) {
  return secret.seed("turn of " + op + "/" + case_name);
}

PosedCase pose_drawn(const AskedCase& asked, const Contract& contract, Case source) {
  const Kind& kind = *kind_of(asked.variant);
  PosedCase out;
  if (kind.values)
    for (const auto& [name, text] : other_values(contract, source)) source.init[name] = text;
  const auto fields = other_fields(contract, source);
  if (asked.draw && kind.fields) source.with = fields.at(asked.draw / 2 % fields.size());
  if (asked.draw) out.variant = fewer_rows(source, asked.draw);
  if (asked.draw) make_ragged(contract, source, asked.draw, out.variant);
  const auto contents = other_contents(contract, source);
  if (asked.draw && !contents.empty())
    for (const auto& [name, text] : contents[(asked.draw >> 48) % contents.size()])
      source.values[name] = text;
  release_numbers(contract, source);
  out.variant.name = kind.name;
  // Caches lie beside each other or in each other, as in some models.
  const Slot* cache = contract.find("v_cache");
  const bool pair = cache && cache->strided && (asked.draw >> 40 & 1);
  if (kind.padded)
    out.variant.layout = pair ? Variant::Layout::interleaved : Variant::Layout::padded;
  out.source = std::move(source);
  return out;
}

}  // namespace fk
