// SPDX-License-Identifier: Apache-2.0
#include "core/referee/check.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/referee/counted.hpp"
#include "core/referee/execute.hpp"
#include "core/referee/selection.hpp"
#include "core/referee/slice.hpp"
#include "core/referee/tolerance.hpp"
#include "core/tensor/compare.hpp"

namespace fk {

const char* status_name(CheckStatus status) {
  static constexpr const char* kNames[] = {"ok", "unsupported", "unjudged", "wrong", "violation"};
  return kNames[static_cast<int>(status)];
}

int CheckReport::count(CheckStatus status) const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(),
                                        [&](const CheckRow& r) { return r.status == status; }));
}

namespace {

struct Broken {
  std::string rule, text;
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  const auto size = static_cast<size_t>(a.bytes());
  return a.bytes() == b.bytes() && (!size || std::memcmp(a.data(), b.data(), size) == 0);
}

// One case and variant of one provider. Any broken rule ends it.
class Trial {
 public:
  Trial(const Provider& provider, const Provider* reference, const Case& source,
        const Variant& variant, const CheckOptions& options, CheckRow& row)
      : provider_(provider),
        reference_(reference),
        source_(source),
        variant_(variant),
        options_(options),
        row_(row) {
    if (options.plugins)
      children_ = std::make_unique<LoadedChildren>(*options.plugins, provider.plugin);
  }

  void run() {
    try {
      judge_all();
    } catch (const Broken& broken) {
      row_.status = CheckStatus::violation;
      row_.rule = broken.rule;
      row_.text = broken.text;
    } catch (const Error& error) {
      row_.status = CheckStatus::violation;
      row_.rule = error.what_text().find("prepare:") == std::string::npos ? "create" : "prepare";
      row_.text = error.what();
    }
  }

 private:
  void step(const std::string& name) {
    if (options_.on_step) options_.on_step(row_, name);
  }

  void judge_all() {
    const Contract& contract = *provider_.contract;
    resolved_ = resolve(contract, source_, variant_);
    values_ = make_inputs(resolved_, options_.seed, options_.threads);
    Layout layout;
    layout.interleaved = variant_.layout == Variant::Layout::interleaved;
    // A smaller shape is a call of an instance that was prepared for the case as it is written.
    Variant largest = variant_;
    largest.axes.clear();
    largest.listed.clear();
    const ResolvedCase limits = resolve(contract, source_, largest);
    const CaseValues limit_values =
        variant_.axes.empty() ? values_ : make_inputs(limits, options_.seed, options_.threads);
    step("supports");
    const CaseFrames max(limits, limit_values, layout);
    const Support support = ask(max);
    if (!support.ok) {
      row_.status = CheckStatus::unsupported;
      row_.text = support.why;
      return;
    }
    CaseFrames frames(resolved_, values_, layout);
    step("first call");
    const CaseValues first = call(max, frames, support.need, 0, Poison::ones);
    step("again at other addresses");
    Layout moved = layout;
    moved.shift = 1;
    moved.poison = Poison::random;
    CaseFrames again(resolved_, values_, moved);
    const CaseValues second = call(max, again, support.need, 1, Poison::random);
    if (provider_.op->claims->deterministic) {
      need_equal(first, second, "scratch",
                 "differs when undefined memory has other contents and buffers other addresses; is "
                 "scratch read that was never written?");
    }
    if (provider_.op->claims->batch_invariant && variant_.axes.empty())
      check_batch(max, support.need, layout, first);
    step("comparison with the reference");
    compare(frames, first);
  }

  // supports() is asked thrice and must not change its mind nor touch what it sees.
  Support ask(const CaseFrames& frames) {
    Support support = Instance::supports(provider_, frames.meta());
    for (int i = 0; i < 2; ++i) {
      const Support other = Instance::supports(provider_, frames.meta());
      if (other.ok != support.ok ||
          std::memcmp(&other.need, &support.need, sizeof support.need) != 0)
        throw Broken{"supports", "it gives another answer when it is asked again"};
    }
    if (!frames.broken().empty()) throw Broken{"supports", frames.broken()[0].text};
    return support;
  }

  // Calls of one instance on outputs with different poison, and of an equal instance. Outputs must
  // be written each time, and be equal when that is claimed.
  CaseValues call(const CaseFrames& max, CaseFrames& frames, const fk_need& need, int shift,
                  Poison scratch) {
    GuardDevice device(shift, options_.threads);
    PackedCache packed;
    Execution execution(provider_, max, need, device, packed, children_.get());
    const std::string packed_hash = device.hash_of("packed");
    CaseValues undefined_a, undefined_b, ignored;
    const CaseValues once = results(execution, frames, Poison::ones, scratch, undefined_a);
    const CaseValues twice = results(execution, frames, Poison::random, scratch, undefined_b);
    check_written(frames, once, undefined_a, twice, undefined_b);
    const bool deterministic = provider_.op->claims->deterministic;
    if (deterministic) {
      need_equal(once, results(execution, frames, Poison::ones, scratch, ignored), "deterministic",
                 "differs between two runs of one instance with equal inputs");
      need_equal(once, twice, "unwritten",
                 "depends on what the output held before; is it read before it is written?");
    }
    if (need.packed) {
      // An equal instance is told that `packed` is filled: it must neither write it nor need it
      // refilled.
      Execution sharer(provider_, max, need, device, packed, children_.get());
      const CaseValues shared = results(sharer, frames, Poison::ones, scratch, ignored);
      if (device.hash_of("packed") != packed_hash)
        throw Broken{"packed", "memory that packed_ready protects was written"};
      if (deterministic)
        need_equal(once, shared, "packed",
                   "differs in an instance that was given packed memory ready to use");
    }
    if (execution.instance().reset() != FK_OK) throw Broken{"reset", "reset() failed"};
    if (!max.broken().empty()) throw Broken{max.broken()[0].rule, max.broken()[0].text};
    return twice;
  }

  CaseValues results(Execution& execution, CaseFrames& frames, Poison outputs, Poison scratch,
                     CaseValues& undefined) {
    frames.restore(outputs);
    undefined = contents(frames);
    const Execution::Outcome outcome = execution.run(frames, scratch);
    if (!outcome.failure.empty()) throw Broken{"forward", outcome.failure};
    if (!outcome.broken.empty()) throw Broken{outcome.broken[0].rule, outcome.broken[0].text};
    return contents(frames);
  }

  static CaseValues contents(const CaseFrames& frames) {
    CaseValues out;
    for (const CaseField* field : frames.written())
      for (int64_t i = 0; i < field->entries; ++i)
        out[field->slot->name].push_back(frames.contents(field->slot->name, i));
    return out;
  }

  // An output element that kept two different poisons was not written.
  void check_written(const CaseFrames& frames, const CaseValues& a, const CaseValues& before_a,
                     const CaseValues& b, const CaseValues& before_b) const {
    for (const CaseField* field : frames.written()) {
      if (field->slot->role != Role::out || field->shape.empty()) continue;
      const std::string& name = field->slot->name;
      const auto width = static_cast<size_t>(bytes(field->dtype));
      for (size_t k = 0; k < a.at(name).size(); ++k) {
        const Extent extent = extent_of(resolved_, *field, static_cast<int64_t>(k), b);
        const auto kept = [&](const CaseValues& now, const CaseValues& before, int64_t i) {
          const auto at = static_cast<size_t>(i) * width;
          return std::memcmp(static_cast<const std::byte*>(now.at(name)[k].data()) + at,
                             static_cast<const std::byte*>(before.at(name)[k].data()) + at,
                             width) == 0;
        };
        int64_t count = 0, first = -1;
        for (size_t g = 0; g < extent.counts.size(); ++g) {
          const int64_t begin = static_cast<int64_t>(g) * extent.capacity * extent.row;
          for (int64_t i = begin; i < begin + extent.counts[g] * extent.row; ++i) {
            if (!kept(a, before_a, i) || !kept(b, before_b, i)) continue;
            if (first < 0) first = i;
            ++count;
          }
        }
        if (count) {
          throw Broken{"unwritten", name + ": " + std::to_string(count) + " of " +
                                        std::to_string(extent.rows() * extent.row) +
                                        " elements were not written, the first at " +
                                        position_text(field->shape, first)};
        }
      }
    }
  }

  void need_equal(const CaseValues& a, const CaseValues& b, const std::string& rule,
                  const std::string& why) const {
    for (const auto& [name, tensors] : a) {
      const CaseField& field = *resolved_.find(name);
      for (size_t i = 0; i < tensors.size(); ++i) {
        // Beyond the count anything may stand; the counts themselves are compared like this too.
        const auto part = [&](const CaseValues& of) {
          const Extent extent = extent_of(resolved_, field, static_cast<int64_t>(i), of);
          return valid_part(extent, of.at(name)[i], false);
        };
        const bool counted = !field.slot->count.empty();
        if (!(counted ? same_bytes(part(a), part(b)) : same_bytes(tensors[i], b.at(name)[i])))
          throw Broken{rule, name + " " + why};
      }
    }
  }

  // The claim that a row's bits do not depend on the other rows: the first row or request alone,
  // and the first half of them, give the bits that they have in the whole batch.
  void check_batch(const CaseFrames& max, const fk_need& need, const Layout& layout,
                   const CaseValues& whole) {
    for (const bool half : {false, true}) {
      std::optional<Slice> slice = first_rows(resolved_, source_, variant_, values_, 1);
      if (slice && half) {
        int64_t rows = 2;  // twice as many as long as that is possible
        while (auto more = first_rows(resolved_, source_, variant_, values_, rows)) {
          slice = std::move(more);
          rows *= 2;
        }
      }
      if (!slice) return;
      step("a part of the batch");
      CaseFrames part(slice->resolved, slice->values, layout);
      GuardDevice device(0, options_.threads);
      PackedCache packed;
      Execution execution(provider_, max, need, device, packed, children_.get());
      CaseValues ignored;
      const CaseValues got = results(execution, part, Poison::ones, Poison::ones, ignored);
      for (const auto& name : slice->outputs) {
        const Tensor &x = got.at(name)[0], &y = whole.at(name)[0];
        const auto size = static_cast<size_t>(x.bytes());
        if (std::memcmp(x.data(), y.data(), size) == 0) continue;
        throw Broken{"batch_invariant",
                     name + ": the first " + std::to_string(x.shape[0]) + " of " +
                         std::to_string(y.shape[0]) +
                         " rows have other bits when they are computed without the rest; the claim "
                         "is false"};
      }
    }
  }

  void compare(const CaseFrames& frames, const CaseValues& got) {
    row_.status = CheckStatus::unjudged;
    row_.text = "no reference provider implements " + row_.op;
    if (!reference_) return;
    row_.text.clear();
    const CaseValues want =
        reference_outputs(*reference_, resolved_, source_, variant_, values_, options_, row_.text);
    if (!row_.text.empty()) return;
    row_.status = CheckStatus::ok;
    // Counts first: what they count has no meaning where they are wrong.
    const auto written = frames.written();
    const auto counts_others = [&](const CaseField* field) {
      return std::any_of(written.begin(), written.end(), [&](const CaseField* other) {
        return other->slot->count == field->slot->name;
      });
    };
    for (const bool counts : {true, false}) {
      for (const CaseField* field : written) {
        if (counts_others(field) != counts) continue;
        for (int64_t i = 0; i < field->entries; ++i) judge_field(*field, i, got, want);
        if (row_.status == CheckStatus::wrong) return;
      }
    }
  }

  void judge_field(const CaseField& field, int64_t entry, const CaseValues& got,
                   const CaseValues& want) {
    const std::string& name = field.slot->name;
    const auto part = [&](const CaseValues& values) {
      return valid_part(extent_of(resolved_, field, entry, values),
                        values.at(name)[static_cast<size_t>(entry)], field.slot->any_order);
    };
    Tensor mine = part(got);
    const Tensor theirs = part(want);
    if (mine.numel() == 0) return;
    if (!is_float(field.dtype) && field.slot->count.empty() && field.slot->list.empty())
      forgive_choices(field, mine, want);
    const Judgement judgement = judge(mine, theirs, error_model(resolved_, field));
    row_.worst = std::max(row_.worst, judgement.worst);
    if (judgement.ok || row_.status == CheckStatus::wrong) return;
    row_.status = CheckStatus::wrong;
    row_.text = name + ": " + judgement.text;
  }

  // Where another choice is as right as the reference's, it is taken for equal.
  void forgive_choices(const CaseField& field, Tensor& mine, const CaseValues& want) {
    const auto ask = [&](const CaseValues& values) {
      std::string why;
      return reference_outputs(*reference_, resolved_, source_, variant_, values, options_, why);
    };
    const auto equal = equally_right(resolved_, field, mine, want, values_, ask);
    const Tensor& theirs = want.at(field.slot->name)[0];
    for (int64_t i = 0; i < mine.numel(); ++i)
      if (equal[static_cast<size_t>(i)]) mine.set(i, theirs.at(i));
  }

  const Provider& provider_;
  const Provider* reference_;
  const Case& source_;
  const Variant& variant_;
  const CheckOptions& options_;
  CheckRow& row_;
  ResolvedCase resolved_;
  CaseValues values_;
  std::unique_ptr<LoadedChildren> children_;
};

bool wanted(const CheckOptions& options, const std::string& size) {
  if (options.size == "full") return true;
  return options.size == "ci" ? size != "full" : size == "smoke";
}

}  // namespace

CheckReport check_provider(const Provider& provider, const Provider* reference,
                           const CheckOptions& options) {
  CheckReport report;
  if (provider.op->claims->device_type != FK_CPU) {
    CheckRow row;
    row.op = provider.contract->op;
    row.provider = provider.plugin;
    row.status = CheckStatus::unsupported;
    row.text = "it runs on CUDA devices, this check on the CPU";
    if (options.on_row) options.on_row(row);
    report.rows.push_back(std::move(row));
    return report;
  }
  for (const Case& source : provider.contract->cases) {
    if (!wanted(options, source.size)) continue;
    if (!options.only_case.empty() && options.only_case != source.name) continue;
    for (const Variant& variant : variants_of(*provider.contract, source, options.quick)) {
      CheckRow row;
      row.op = provider.contract->op;
      row.provider = provider.plugin;
      row.case_name = source.name;
      row.variant = variant.name;
      Trial(provider, reference, source, variant, options, row).run();
      if (options.on_row) options.on_row(row);
      report.rows.push_back(std::move(row));
    }
  }
  return report;
}

CheckReport check_plugin(const Plugins& plugins, const std::string& plugin,
                         const std::string& reference, const CheckOptions& options) {
  CheckReport report;
  const auto of = [&](const std::string& op, const std::string& name) -> const Provider* {
    for (const Provider* p : plugins.of(op))
      if (p->plugin == name) return p;
    return nullptr;
  };
  for (const auto& op : plugins.catalog().ops()) {
    if (!options.ops.empty() &&
        std::find(options.ops.begin(), options.ops.end(), op) == options.ops.end())
      continue;
    if (const Provider* provider = of(op, plugin)) {
      CheckReport one = check_provider(*provider, of(op, reference), options);
      report.rows.insert(report.rows.end(), std::make_move_iterator(one.rows.begin()),
                         std::make_move_iterator(one.rows.end()));
    }
  }
  for (const auto& refused : plugins.refused()) {
    if (refused.plugin != plugin) continue;
    report.rows.push_back(
        {refused.op, plugin, "", "", CheckStatus::violation, "contract", refused.why, 0});
    if (options.on_row) options.on_row(report.rows.back());
  }
  return report;
}

}  // namespace fk
