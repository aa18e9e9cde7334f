// SPDX-License-Identifier: Apache-2.0
#include "core/eval/advice.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>

#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/exec/capture_index.hpp"

namespace fk {

namespace {

// The parts of a bench's document that count.
struct MeasuredRow {
  std::string op, name, provider, why, routing;
  double cold_s = 0, roofline = 0, of_copy = 0;
};
template <class Visitor>
void fields(Visitor& v, MeasuredRow& r) {
  v("op", r.op);
  v("case", r.name);
  v("provider", r.provider);
  v("why", r.why);
  v("routing", r.routing);
  v("cold_s", r.cold_s);
  v("roofline", r.roofline);
  v("of_copy", r.of_copy);
}
struct MeasuredOp {
  std::vector<MeasuredRow> rows;
};
template <class Visitor>
void fields(Visitor& v, MeasuredOp& o) {
  v("rows", o.rows);
}

// "model.layers.*.mlp" for "model.layers.3.mlp".
std::string place_of(const std::string& path) {
  std::vector<std::string> parts = split(path, '.');
  for (auto& part : parts)
    if (!part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c); }))
      part = "*";
  return join(parts, ".");
}

// Sums of one line.
struct Sum {
  AdviceRow row;
  double calls_sum = 0, limit_s = 0, limited_s = 0;  // of the calls with a known limit
  bool copies = false;
  std::map<std::string, double> by_provider;  // seconds, of providers that take all of its cases
  void add(const RecordedCase& c, double calls, const std::vector<const MeasuredRow*>& rows);
};

void Sum::add(const RecordedCase& c, double calls, const std::vector<const MeasuredRow*>& rows) {
  std::map<std::string, double> here;
  for (const auto* r : rows) {
    const bool oracle = is_oracle(r->provider) && r->provider != c.provider;
    if (r->cold_s <= 0 || !r->why.empty() || oracle) continue;
    here[r->provider] = calls * r->cold_s;
    if (r->provider != c.provider) continue;
    const double spent = calls * r->cold_s;
    calls_sum += calls;
    row.seconds += spent;
    const double of = r->roofline > 0 ? r->roofline : r->of_copy;
    copies |= r->roofline <= 0 && r->of_copy > 0;
    if (of <= 0) continue;
    limited_s += spent;
    limit_s += spent * std::min(1.0, of);
  }
  if (!here.contains(c.provider)) return;
  if (by_provider.empty()) {
    by_provider = here;
    return;
  }
  std::erase_if(by_provider, [&](const auto& entry) { return !here.contains(entry.first); });
  for (auto& [provider, seconds] : by_provider) seconds += here[provider];
}

double amdahl(double whole, double part, double new_part) {
  return whole / (whole - part + new_part);
}

void finish(double whole, Sum& sum) {
  AdviceRow& row = sum.row;
  row.calls = std::llround(sum.calls_sum);
  row.share = row.seconds / whole;
  if (row.share < 1) row.most_gain = 1 / (1 - row.share);
  if (sum.limited_s > 0) {
    row.limit = sum.copies ? "copy" : "roofline";
    row.of_limit = sum.limit_s / sum.limited_s;
    row.gain = amdahl(whole, row.seconds, row.seconds * *row.of_limit);
  }
  for (const auto& [provider, seconds] : sum.by_provider)
    if (seconds < row.seconds && (row.best.empty() || seconds < sum.by_provider[row.best]))
      row.best = provider;
  if (!row.best.empty()) row.best_gain = amdahl(whole, row.seconds, sum.by_provider[row.best]);
}

}  // namespace

Advice advice_of(const Json& index_document, const std::vector<Json>& benches,
                 const Catalog& catalog) {
  const auto index = from_fields<CaptureIndex>(index_document, "recording", {});
  std::map<std::pair<std::string, std::string>, std::vector<MeasuredRow>> measured;
  for (const auto& bench : benches)
    for (auto& row : from_fields<MeasuredOp>(bench, "bench", {}).rows)
      if (row.routing.empty() || row.routing == "captured")
        measured[{row.op, row.name}].push_back(row);
  std::map<std::pair<std::string, std::string>, double> kept, calls;  // by op and phase
  for (const auto& op : index.ops) calls[{op.op, op.phase}] += static_cast<double>(op.calls);
  for (const auto& c : index.cases) kept[{c.op, c.phase}] += static_cast<double>(c.count);
  std::map<std::string, Sum> ops, places;
  Advice out{index.scenario, index.profile, index.dtype, index.device, 0, {}, {}, {}};
  for (const auto& c : index.cases) {
    std::vector<const MeasuredRow*> rows;
    bool own = false;
    for (const auto& row : measured[{c.op, c.name}]) {
      rows.push_back(&row);
      own |= row.provider == c.provider && row.cold_s > 0 && row.why.empty();
    }
    if (!own) {
      out.notes.push_back(c.op + " " + c.name + ": no time of " + c.provider);
      continue;
    }
    // The recording keeps some cases of an op. They stand for its other calls as well.
    const double all = calls[{c.op, c.phase}], some = kept[{c.op, c.phase}];
    const double count = static_cast<double>(c.count) * (some > 0 ? std::max(1.0, all / some) : 1);
    const std::string place = place_of(c.path);
    for (Sum* sum : {&ops[c.op], &places[c.op + "\n" + c.phase + "\n" + place]}) {
      sum->row.op = c.op;
      sum->row.level = catalog.at(c.op).level;
      sum->row.provider = c.provider;
      sum->add(c, count, rows);
    }
    places[c.op + "\n" + c.phase + "\n" + place].row.phase = c.phase;
    places[c.op + "\n" + c.phase + "\n" + place].row.place = place;
  }
  for (const auto& [op, sum] : ops) out.seconds += sum.row.seconds;
  for (auto* sums : {&ops, &places})
    for (auto& [key, sum] : *sums) {
      finish(out.seconds, sum);
      (sums == &ops ? out.ops : out.places).push_back(sum.row);
    }
  std::ranges::stable_sort(out.ops, std::greater{}, [](const AdviceRow& r) {
    return r.gain.value_or(r.most_gain.value_or(HUGE_VAL));
  });
  std::ranges::stable_sort(out.places, std::greater{}, &AdviceRow::seconds);
  return out;
}

}  // namespace fk
