// SPDX-License-Identifier: Apache-2.0
// The input generators. Some fields belong together (lengths and tables with indices by them), so a
// generator may name other fields, which are made first.
#include "core/cases/inputs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/columns.hpp"
#include "core/cases/generator_text.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/odd_rows.hpp"
#include "core/cases/places.hpp"
#include "core/cases/received.hpp"
#include "core/cases/rope_table.hpp"
#include "core/cases/routing.hpp"
#include "core/cases/shuffle.hpp"
#include "core/cases/strides.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

class Maker {
 public:
  Maker(const ResolvedCase& resolved, uint64_t seed, int threads, Family family)
      : r_(resolved),
        where_(resolved.contract->where),
        seed_(seed),
        threads_(threads),
        family_(family) {}

  std::vector<Tensor> field(const std::string& name) {
    make(*r_.find(name));
    scale_columns(r_, out_);
    return out_[name];
  }
  CaseValues run(bool weights) {
    for (const auto& field : r_.fields) {
      const bool weight = field.slot->section == SectionId::weights;
      if (field.present && (weight ? weights : field.slot->role != Role::out)) make(field);
    }
    if (family_ != Family::ordinary) change();
    scale_columns(r_, out_);
    change_together(family_, r_, base(), out_);
    return std::move(out_);
  }

 private:
  using Generator = void (Maker::*)(const CaseField&, const GeneratorText&, Tensor&);
  struct Named {
    const char* name;
    Generator make;
    size_t args;
  };
  static constexpr size_t kAny = 99;
  friend std::vector<std::string> fk::generator_names();
  static const std::vector<Named>& generators();

  [[noreturn]] void wrong(const CaseField& field, const std::string& what,
                          const std::string& hint = "") const {
    fail(where_, "values of `" + field.slot->name + "`: " + what, hint);
  }

  Random random(const std::string& what) const { return Random(seed_of(what, base())); }
  uint64_t base() const { return seed_of(r_.contract->op + "/" + r_.name, seed_); }

  double number(const std::string& text) const {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && !*end) return value;
    return static_cast<double>(whole(text));
  }
  int64_t whole(const std::string& text) const { return Expr::parse(text, where_).eval(axes_); }

  // The contents of another field, made now if missing; of a list, the same entry.
  const Tensor& other(const CaseField& from, const std::string& field) {
    const CaseField* f = r_.find(field);
    if (!f)
      wrong(from, "`" + field + "` is not a field of this case",
            did_you_mean(field, r_.contract->field_names()));
    const int64_t entry = at_;
    const std::string stream = entry_;
    const Axes axes = axes_;
    const auto& made = make(*f);
    at_ = entry;
    entry_ = stream;
    axes_ = axes;
    return made[f->slot->list.empty() ? 0 : static_cast<size_t>(entry)];
  }

  // Applies the distribution. At least one of the fields that may change does, and about three in
  // four of the others. Distributions that keep magnitudes apply to all fields.
  void change() {
    std::vector<const CaseField*> fields;
    // With ties, weights of an op with expert groups stay: sums of a few distinct values would be
    // equal except for the order of terms.
    const bool sums = family_ == Family::ties && r_.contract->find("num_expert_group");
    for (const auto& f : r_.fields)
      if (family_may_change(r_, f) && out_.count(f.slot->name) &&
          !(sums && f.slot->section == SectionId::weights))
        fields.push_back(&f);
    if (fields.empty()) return;
    const std::string stream = std::string("family ") + family_name(family_) + " ";
    Random r = random(stream);
    const bool all = family_ == Family::permuted || family_ == Family::equal;
    const auto surely = static_cast<size_t>(r.integer(0, static_cast<int64_t>(fields.size())));
    bool changed = false;
    for (size_t k = 0; k < fields.size(); ++k) {
      const CaseField& f = *fields[(surely + k) % fields.size()];
      // The next field that can change must, until one has changed.
      if (const bool taken = r.uniform() < 0.75; !taken && changed && !all) continue;
      const Legal its = legal(f, !changed && family_may_go_beyond(r_, f));
      for (int64_t i = 0; i < f.entries; ++i) {
        axes_ = r_.axes_of(*f.slot, i);
        FamilySeeds seeds{seed_of(stream + f.slot->name + "#" + std::to_string(i), base())};
        if (!f.slot->shape.empty())
          seeds.rows = seed_of(stream + f.slot->shape[0].text() + "#" + std::to_string(i), base());
        if (!f.slot->replicated) seeds.places = static_cast<uint64_t>(r_.rank);
        changed |= apply_family(family_, its, seeds, out_[f.slot->name][static_cast<size_t>(i)]);
      }
    }
  }

  Legal legal(const CaseField& field, bool beyond) const {
    const GeneratorText c =
        GeneratorText::parse(field.values.empty() ? fallback(field) : field.values, where_);
    const bool gentle = r_.contract->level > 1;
    const auto range = [&](double low, double high) {
      const double spread = (high - low) / std::sqrt(12.0);
      return Legal{Legal::Kind::range, (low + high) / 2, spread, low, high, gentle, beyond};
    };
    if (c.name == "positive") return range(0.125, 1.125);
    if (c.name == "uniform") return range(number(c.args[0]), number(c.args[1]));
    Legal out{Legal::Kind::free, 0, 1, 0, 0, gentle, beyond};
    if (c.name == "normal")
      out.mean = number(c.args[0]), out.spread = number(c.args[1]);
    else
      out.spread = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, field.shape.back())));
    return out;
  }

  const std::vector<Tensor>& make(const CaseField& field) {
    const std::string& name = field.slot->name;
    if (const auto it = out_.find(name); it != out_.end()) {
      if (it->second.empty()) wrong(field, "the fields' generators refer to each other in a ring");
      return it->second;
    }
    out_[name] = {};
    if (r_.contents && r_.contents->count(name)) return out_[name] = recorded(field);
    const GeneratorText call =
        GeneratorText::parse(field.values.empty() ? fallback(field) : field.values, where_);
    const auto& known = generators();
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&](const Named& g) { return g.name == call.name; });
    if (it == known.end())
      wrong(field, "there is no generator `" + call.name + "`",
            did_you_mean(call.name, generator_names()));
    if (call.args.size() != it->args && it->args != kAny)
      wrong(field, call.name + " takes " + std::to_string(it->args) + " arguments, not " +
                       std::to_string(call.args.size()));
    std::vector<Tensor> made;
    for (int64_t i = 0; i < field.entries; ++i) {
      at_ = i;
      entry_ = name + (i ? "#" + std::to_string(i) : "");
      if (r_.rank && !field.slot->replicated) entry_ += "@" + std::to_string(r_.rank);
      axes_ = r_.axes_of(*field.slot, i);
      made.emplace_back(field.dtype, contents_shape(field, i));
      if (made.back().numel()) (this->*it->make)(field, call, made.back());
    }
    if (made.empty()) made.emplace_back(field.dtype, field.shape);
    return out_[name] = std::move(made);
  }

  // Recorded contents; a variant may need floats of another dtype.
  std::vector<Tensor> recorded(const CaseField& field) const {
    std::vector<Tensor> out;
    for (const Tensor& t : r_.contents->at(field.slot->name)) out.push_back(t.to(field.dtype));
    if (static_cast<int64_t>(out.size()) != std::max<int64_t>(1, field.entries))
      wrong(field, "recorded contents of " + std::to_string(out.size()) + " tensors");
    for (int64_t i = 0; i < field.entries; ++i)
      if (out[static_cast<size_t>(i)].shape != field.shape_of(i))
        wrong(field, "recorded contents of another shape than the case's");
    return out;
  }

  std::string fallback(const CaseField& field) const {
    if (!is_float(field.dtype))
      wrong(field, "a field of whole numbers needs a generator", "values: randint(0, V)");
    if (field.slot->section != SectionId::weights) return "normal(0,1)";
    // Gains and biases are around 1, so that a missing one shows; matrices have unit gain.
    if (field.shape.size() < 2) return "normal(1,0.25)";
    return "unit_gain()";
  }

  void among(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const CaseField* of = r_.find(c.args[0]);
    const auto rows = of ? named_rows(*of) : std::vector<int64_t>{};
    if (rows.empty()) wrong(f, "`" + c.args[0] + "` has no `held` rows");
    set_all(t, ids_among(rows, t.shape, random(entry_)));
  }
  void normal(const CaseField&, const GeneratorText& c, Tensor& t) {
    fill_normal(t.data(), t.dtype, t.numel(), seed_of(entry_, base()), 0, number(c.args[0]),
                number(c.args[1]), threads_);
  }
  void unit_gain(const CaseField& f, const GeneratorText&, Tensor& t) {
    fill_normal(t.data(), t.dtype, t.numel(), seed_of(entry_, base()), 0, 0,
                1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, f.shape.back()))), threads_);
  }
  void uniform(const CaseField&, const GeneratorText& c, Tensor& t) {
    fill_uniform(t.data(), t.dtype, t.numel(), seed_of(entry_, base()), 0, number(c.args[0]),
                 number(c.args[1]), threads_);
    if (c.name == "ellipses") make_ellipses(t);
  }
  void either(const CaseField& f, const GeneratorText& c, Tensor& t) {
    uniform(f, {"uniform", {c.args[1], c.args[2]}}, t);
    make_either(random(entry_ + " which"), number(c.args[0]), t);
  }
  void positive(const CaseField& f, const GeneratorText&, Tensor& t) {
    uniform(f, {"uniform", {"0.125", "1.125"}}, t);
  }
  void randint(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const int64_t low = whole(c.args[0]), high = whole(c.args[1]);
    if (low >= high) wrong(f, "randint(" + join(c.args, ", ") + ") is an empty range here");
    fill_int(t.data(), t.dtype, t.numel(), seed_of(entry_, base()), 0, low, high, threads_);
  }
  void arange(const CaseField&, const GeneratorText&, Tensor& t) {
    for (int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<double>(i));
  }
  void constant(const CaseField&, const GeneratorText& c, Tensor& t) {
    for (int64_t i = 0; i < t.numel(); ++i) t.set(i, number(c.args[0]));
  }

  // Distinct values below n. If a table has more entries than pages, its first columns are
  // distinct. Its last columns, which short requests do not reach, repeat.
  void perm(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const int64_t n = whole(c.args[0]);
    if (n < 1) wrong(f, "perm(" + c.args[0] + ") of nothing");
    Random r = random(entry_);
    set_all(t, distinct_by_column(t.numel(), f.shape.size() > 1 ? f.shape[0] : 1, n, r));
    if (c.name == "skipping") skip_some(random(entry_ + " skipped"), t);
  }
  void zero_rows(const CaseField& f, const GeneratorText&, Tensor& t) {
    normal(f, {"normal", {"0", "1"}}, t);
    make_zero_rows(random(entry_ + " rows"), t);
  }
  void sinks(const CaseField& f, const GeneratorText& c, Tensor& t) {
    normal(f, {"normal", {"0", "1"}}, t);
    make_sinks(random(entry_ + " rows"), number(c.args[0]), t);
  }

  void peak(const CaseField& f, const GeneratorText& c, Tensor& t) {
    uniform(f, {"uniform", {c.args[1], c.args[2]}}, t);
    make_peaks(random(entry_ + " rows"), number(c.args[0]), t);
  }
  void cu(const CaseField& f, const GeneratorText& c, Tensor& t) {
    if (f.shape.size() != 1 || f.shape[0] < 1) wrong(f, "cu() needs the shape [B+1]");
    Random r = random(entry_);
    const int64_t total = whole(c.args[0]), parts = f.shape[0] - 1;
    const int64_t most = bound_of(c.args[0]);
    if (total > most * parts)
      wrong(f, std::to_string(parts) + " requests of at most " + std::to_string(most) + " for " +
                   std::to_string(total) + " tokens");
    int64_t at = 0, i = 0;
    t.set(i++, 0);
    for (const int64_t n : cut(total, parts, r, most)) t.set(i++, static_cast<double>(at += n));
  }
  // The case's value of a bound (max_query_len); without one `all`, the tokens of all requests.
  int64_t bound_of(const std::string& all) const {
    for (const auto& slot : r_.contract->section(SectionId::forward))
      if (slot.capture && slot.expr == all) return r_.scalars[static_cast<size_t>(slot.index)].i;
    return whole(all);
  }

  void lens(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const Tensor& starts = other(f, c.args[0]);
    const int64_t cap = whole(c.args[1]);
    Random r = random(entry_);
    for (int64_t b = 0; b < t.numel(); ++b) {
      const auto queries = static_cast<int64_t>(starts.at(b + 1) - starts.at(b));
      if (queries > cap)
        wrong(f, "a request has " + std::to_string(queries) + " query tokens but room for " +
                     std::to_string(cap));
      // Lengths: a first prefill (no context), a full cache, or any length between.
      const int64_t pick = r.integer(0, 4);
      const int64_t length = pick == 0 ? queries : pick == 1 ? cap : r.integer(queries, cap + 1);
      t.set(b, static_cast<double>(std::max<int64_t>(length, std::min<int64_t>(1, cap))));
    }
  }

  // For each request, the number of its last positions which are nodes of a tree. The nodes are its
  // query tokens and some earlier tokens, but at least one token stays as context.
  void nodes(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const Tensor &starts = other(f, c.args[0]), &lengths = other(f, c.args[1]);
    Random r = random(entry_);
    for (int64_t b = 0; b < t.numel(); ++b) {
      const auto queries = static_cast<int64_t>(starts.at(b + 1) - starts.at(b));
      const auto most = std::min(whole(c.args[2]), static_cast<int64_t>(lengths.at(b)) - 1);
      t.set(b, static_cast<double>(r.integer(queries, std::max(queries, most) + 1)));
    }
  }

  // Calls body(token, request, position) for every query token.
  void each_token(const CaseField& f, const std::string& cu_name, const std::string& lens_name,
                  const std::function<void(int64_t, int64_t, int64_t)>& body) {
    const Tensor starts = other(f, cu_name), lengths = other(f, lens_name);
    for (int64_t b = 0; b < lengths.numel(); ++b) {
      const auto first = static_cast<int64_t>(starts.at(b)),
                 last = static_cast<int64_t>(starts.at(b + 1));
      const auto length = static_cast<int64_t>(lengths.at(b));
      for (int64_t i = first; i < last; ++i) body(i, b, length - last + i);
    }
  }
  void slots(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const Tensor table = other(f, c.args[0]);
    const int64_t page = whole(c.args[3]), width = table.shape.back();
    each_token(f, c.args[2], c.args[1], [&](int64_t token, int64_t b, int64_t position) {
      const double id = table.at(b * width + position / page);
      t.set(token, id * static_cast<double>(page) + static_cast<double>(position % page));
    });
  }
  void some_slots(const CaseField& f, const GeneratorText& c, Tensor& t) {
    slots(f, c, t);
    skip_some(random(entry_ + " skipped"), t);
  }
  void positions(const CaseField& f, const GeneratorText& c, Tensor& t) {
    each_token(f, c.args[1], c.args[0], [&](int64_t token, int64_t, int64_t position) {
      t.set(token, static_cast<double>(position));
    });
  }

  void unique(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const int64_t n = whole(c.args[0]), columns = f.shape.back();
    if (columns > n)
      wrong(f, "rows of " + std::to_string(columns) + " distinct ids below " + std::to_string(n));
    Random r = random(entry_);
    set_all(t, distinct_by_row(t.numel() / columns, columns, n, r));
    if (c.name == "some_unique") skip_some(random(entry_ + " skipped"), t);
  }

  // The expert of each of `count` assignments: for "(E)" uneven, for "(E, skew)" from route().
  std::vector<int64_t> assignments(const GeneratorText& c, int64_t count) const {
    const int64_t n = whole(c.args[0]);
    if (c.args.size() == 1) return uneven_experts(count, n, random("moe routing"));
    const auto it = r_.axes.find("top_k");
    const int64_t k = it == r_.axes.end() ? 1 : std::clamp<int64_t>(it->second, 1, n);
    Random r = random("moe routing");
    auto of = route((count + k - 1) / k, k, n, number(c.args[1]), random("busy"), r);
    of.resize(static_cast<size_t>(count));
    return of;
  }
  static void set_all(Tensor& t, const std::vector<int64_t>& values) {
    for (int64_t i = 0; i < t.numel(); ++i)
      t.set(i, static_cast<double>(values[static_cast<size_t>(i)]));
  }
  void routed(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const int64_t n = whole(c.args[0]), columns = f.shape.back();
    if (columns > n)
      wrong(f, "rows of " + std::to_string(columns) + " experts of " + std::to_string(n));
    Random r = random(entry_);
    set_all(t, route(t.numel() / columns, columns, n, number(c.args[1]), random("busy"), r));
  }
  void moe_rows(const CaseField&, const GeneratorText& c, Tensor& t) {
    set_all(t, rows_by_expert(assignments(c, t.numel()), whole(c.args[0])));
  }
  void moe_offsets(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const int64_t n = whole(c.args[0]);
    const auto rows = std::find_if(r_.fields.begin(), r_.fields.end(), [](const CaseField& o) {
      return o.values.starts_with("moe_rows") || o.values.starts_with("routed_rows");
    });
    if (rows == r_.fields.end()) wrong(f, c.name + " goes with a field of rows by expert");
    if (t.numel() != n + 1) wrong(f, c.name + " needs the shape [E+1]");
    set_all(t, expert_offsets(assignments(c, rows->shape[0]), n));
  }

  void rope(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const int64_t length = whole(c.args[0]), width = whole(c.args[1]);
    if (t.numel() != length * width) wrong(f, "rope(L,R) needs the shape [L,R]");
    make_rope(random(entry_), length, width, t);
  }

  void levels(const CaseField& f, const GeneratorText& c, Tensor& t) {
    if (f.shape.size() != 2 || f.shape[1] != 2) wrong(f, "levels(S) needs a shape [.., 2]");
    set_all(t, pyramid(whole(c.args[0]), f.shape[0]));
  }
  void level_starts(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const std::vector<double> sides = other(f, c.args[0]).values();
    std::vector<int64_t> areas;
    for (size_t i = 0; i + 1 < sides.size(); i += 2)
      areas.push_back(static_cast<int64_t>(sides[i] * sides[i + 1]));
    Random r = random(entry_);
    set_all(t, pyramid_starts(areas, whole(c.args[1]), r));
  }
  void voxels(const CaseField& f, const GeneratorText& c, Tensor& t) {
    const std::array grids{whole(c.args[0]), whole(c.args[1]), whole(c.args[2]), whole(c.args[3])};
    if (f.shape.size() != 2 || f.shape[1] != 4) wrong(f, "voxels() needs a shape [.., 4]");
    if (f.shape[0] > grids[0] * grids[1] * grids[2] * grids[3])
      wrong(f, "more voxels than the grids have cells");
    Random r = random(entry_);
    int64_t at = 0;
    for (const auto& cell : surface_cells(f.shape[0], grids, r))
      for (const int64_t i : cell) t.set(at++, static_cast<double>(i));
  }

  // The rows that moe_dispatch brings to this rank if every rank routes like its own case.
  std::vector<int64_t> received(const CaseField& f, const std::string& ids) {
    other(f, ids);  // an Error when there is no such field
    return received_rows(r_, [&](const ResolvedCase& there) {
      return Maker(there, seed_, threads_, Family::ordinary).make(*there.find(ids))[0];
    });
  }
  void moe_source(const CaseField& f, const GeneratorText& c, Tensor& t) {
    int64_t at = 0;
    for (const int64_t row : received(f, c.args[0])) t.set(at++, static_cast<double>(row));
  }
  void moe_received(const CaseField& f, const GeneratorText& c, Tensor& t) {
    t.set(0, static_cast<double>(received(f, c.args[0]).size()));
  }

  const ResolvedCase& r_;
  std::string where_;
  uint64_t seed_;
  int threads_;
  Family family_;
  // The tensor in the making: its index in its list, the name of its stream, its axes.
  int64_t at_ = 0;
  std::string entry_;
  Axes axes_;
  CaseValues out_;
};

const std::vector<Maker::Named>& Maker::generators() {
  static const std::vector<Named> list = {{"normal", &Maker::normal, 2},
                                          {"unit_gain", &Maker::unit_gain, 0},
                                          {"fed_by", &Maker::unit_gain, kAny},
                                          {"held", &Maker::unit_gain, kAny},
                                          {"among", &Maker::among, 1},
                                          {"uniform", &Maker::uniform, 2},
                                          {"ellipses", &Maker::uniform, 2},
                                          {"either", &Maker::either, 3},
                                          {"positive", &Maker::positive, 0},
                                          {"randint", &Maker::randint, 2},
                                          {"arange", &Maker::arange, 0},
                                          {"constant", &Maker::constant, 1},
                                          {"perm", &Maker::perm, 1},
                                          {"skipping", &Maker::perm, 1},
                                          {"zero_rows", &Maker::zero_rows, 0},
                                          {"sinks", &Maker::sinks, 1},
                                          {"peak", &Maker::peak, 3},
                                          {"cu", &Maker::cu, 1},
                                          {"lens", &Maker::lens, 2},
                                          {"nodes", &Maker::nodes, 3},
                                          {"slots", &Maker::slots, 4},
                                          {"some_slots", &Maker::some_slots, 4},
                                          {"positions", &Maker::positions, 2},
                                          {"unique", &Maker::unique, 1},
                                          {"some_unique", &Maker::unique, 1},
                                          {"moe_rows", &Maker::moe_rows, 1},
                                          {"moe_offsets", &Maker::moe_offsets, 1},
                                          {"routed", &Maker::routed, 2},
                                          {"routed_rows", &Maker::moe_rows, 2},
                                          {"routed_offsets", &Maker::moe_offsets, 2},
                                          {"moe_source", &Maker::moe_source, 1},
                                          {"moe_received", &Maker::moe_received, 1},
                                          {"rope", &Maker::rope, 2},
                                          {"levels", &Maker::levels, 1},
                                          {"level_starts", &Maker::level_starts, 2},
                                          {"voxels", &Maker::voxels, 4}};
  return list;
}

}  // namespace

std::vector<std::string> generator_names() {
  std::vector<std::string> names;
  for (const auto& g : Maker::generators()) names.emplace_back(g.name);
  return names;
}

CaseValues make_inputs(const ResolvedCase& resolved, uint64_t seed, int threads, Family family) {
  return Maker(resolved, seed, threads, family).run(true);
}

CaseValues make_forward_inputs(const ResolvedCase& resolved, uint64_t seed, int threads,
                               Family family) {
  return Maker(resolved, seed, threads, family).run(false);
}

std::vector<Tensor> make_field(const ResolvedCase& resolved, const std::string& field,
                               uint64_t seed, int threads) {
  return Maker(resolved, seed, threads, Family::ordinary).field(field);
}

}  // namespace fk
