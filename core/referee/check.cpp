// SPDX-License-Identifier: Apache-2.0
#include "core/referee/check.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/referee/execute.hpp"
#include "core/referee/selection.hpp"
#include "core/referee/tolerance.hpp"

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
    const ResolvedCase resolved = resolve(contract, source_, variant_);
    const CaseValues values = make_inputs(resolved, options_.seed, options_.threads);
    Layout layout;
    layout.interleaved = variant_.layout == Variant::Layout::interleaved;
    step("supports");
    CaseFrames frames(resolved, values, layout);
    const Support support = ask(frames);
    if (!support.ok) {
      row_.status = CheckStatus::unsupported;
      row_.text = support.why;
      return;
    }
    step("first call");
    const CaseValues first = call(frames, support.need, 0, Poison::ones, Poison::ones);
    step("again at other addresses");
    Layout moved = layout;
    moved.shift = 1;
    moved.poison = Poison::random;
    CaseFrames again(resolved, values, moved);
    const CaseValues second = call(again, support.need, 1, Poison::random, Poison::random);
    if (provider_.op->claims->deterministic) compare_runs(first, second);
    step("comparison with the reference");
    compare(frames, resolved, values, first);
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

  // Two calls of one instance: outputs must be written each time, and equal when that is claimed.
  CaseValues call(CaseFrames& frames, const fk_need& need, int shift, Poison outputs,
                  Poison scratch) {
    GuardDevice device(shift, options_.threads);
    PackedCache packed;
    Execution execution(provider_, frames, need, device, packed, children_.get());
    const std::string packed_hash = device.hash_of("packed");
    const CaseValues once = results(execution, frames, outputs, scratch);
    const CaseValues twice = results(
        execution, frames, outputs == Poison::ones ? Poison::random : Poison::ones, scratch);
    if (provider_.op->claims->deterministic) compare_runs(once, twice);
    if (need.packed) {
      // An equal instance is told that `packed` is filled: it must neither write it nor need it
      // refilled.
      Execution sharer(provider_, frames, need, device, packed, children_.get());
      if (device.hash_of("packed") != packed_hash)
        throw Broken{"packed", "memory that packed_ready protects was written"};
      const CaseValues shared = results(sharer, frames, outputs, scratch);
      if (provider_.op->claims->deterministic) compare_runs(once, shared);
    }
    if (execution.instance().reset() != FK_OK) throw Broken{"reset", "reset() failed"};
    return twice;
  }

  CaseValues results(Execution& execution, CaseFrames& frames, Poison outputs, Poison scratch) {
    frames.restore(outputs);
    const Execution::Outcome outcome = execution.run(frames, scratch);
    if (!outcome.failure.empty()) throw Broken{"forward", outcome.failure};
    if (!outcome.broken.empty()) throw Broken{outcome.broken[0].rule, outcome.broken[0].text};
    CaseValues out;
    for (const CaseField* field : frames.written())
      for (int64_t i = 0; i < field->entries; ++i)
        out[field->slot->name].push_back(frames.contents(field->slot->name, i));
    return out;
  }

  void compare_runs(const CaseValues& a, const CaseValues& b) {
    const ResolvedCase resolved = resolve(*provider_.contract, source_, variant_);
    for (const auto& [name, tensors] : a) {
      const CaseField* field = resolved.find(name);
      if (field && !field->slot->count.empty()) continue;  // beyond the count anything may stand
      for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor &x = tensors[i], &y = b.at(name)[i];
        if (std::memcmp(x.data(), y.data(), static_cast<size_t>(x.bytes())) != 0)
          throw Broken{"deterministic",
                       "`" + name +
                           "` differs between two runs with equal inputs (other addresses, other "
                           "undefined memory); is something read that was never written?"};
      }
    }
  }

  void compare(const CaseFrames& frames, const ResolvedCase& resolved, const CaseValues& values,
               const CaseValues& got) {
    if (!reference_) {
      row_.status = CheckStatus::unjudged;
      row_.text = "no reference provider implements " + row_.op;
      return;
    }
    std::string why;
    const CaseValues want =
        reference_outputs(*reference_, resolved, source_, variant_, values, options_, why);
    if (!why.empty()) {
      row_.status = CheckStatus::unjudged;
      row_.text = why;
      return;
    }
    for (const CaseField* field : frames.written()) {
      for (int64_t i = 0; i < field->entries; ++i)
        judge_field(frames, resolved, values, *field, i, got, want);
      if (row_.status == CheckStatus::wrong) return;
    }
  }

  void judge_field(const CaseFrames& frames, const ResolvedCase& resolved, const CaseValues& values,
                   const CaseField& field, int64_t entry, const CaseValues& got,
                   const CaseValues& want) {
    const std::string& name = field.slot->name;
    Tensor mine = got.at(name)[static_cast<size_t>(entry)];
    const Tensor& theirs = want.at(name)[static_cast<size_t>(entry)];
    if (mine.numel() == 0) return;
    if (!is_float(field.dtype)) forgive_choices(resolved, field, values, mine, theirs);
    const Judgement judgement =
        judge(mine, theirs, error_model(resolved, field), frames.valid_rows(field));
    row_.worst = std::max(row_.worst, judgement.worst);
    if (judgement.ok || row_.status == CheckStatus::wrong) return;
    row_.status = CheckStatus::wrong;
    row_.text = name + ": " + judgement.text;
  }

  // Where another choice is as right as the reference's, it is taken for equal.
  static void forgive_choices(const ResolvedCase& resolved, const CaseField& field,
                              const CaseValues& values, Tensor& mine, const Tensor& theirs) {
    const auto equal = equally_right(resolved, field, mine, theirs, values);
    for (int64_t i = 0; i < mine.numel(); ++i)
      if (equal[static_cast<size_t>(i)]) mine.set(i, theirs.at(i));
  }

  const Provider& provider_;
  const Provider* reference_;
  const Case& source_;
  const Variant& variant_;
  const CheckOptions& options_;
  CheckRow& row_;
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
