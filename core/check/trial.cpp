// SPDX-License-Identifier: Apache-2.0
// One case and variant of a provider: the rules in order, until the first broken one.
#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/counted.hpp"
#include "core/cases/execute.hpp"
#include "core/cases/numerics/families.hpp"
#include "core/cases/numerics/moved_inputs.hpp"
#include "core/cases/numerics/mutants.hpp"
#include "core/cases/slice.hpp"
#include "core/check/check.hpp"
#include "core/check/device_conformance.hpp"
#include "core/check/input_dependence.hpp"
#include "core/check/rank_oracle.hpp"
#include "core/tensor/compare.hpp"
#include "core/worker/process_state.hpp"

namespace fk {
namespace {
struct Broken {
  std::string rule, text;
};

class Trial {
 public:
  Trial(const Provider& provider, const Oracles& oracles, const Case& source,
        const Variant& variant, const CheckOptions& options, CaseAnswers& answers, CheckRow& row)
      : provider_(provider),
        oracles_(oracles),
        source_(source),
        variant_(variant),
        options_(options),
        answers_(answers),
        row_(row),
        cpu_(open_device("cpu")),
        device_(options.device ? *options.device : *cpu_) {
    if (options.plugins) children_ = std::make_unique<LoadedChildren>(*options.plugins, provider);
  }

  void run() {
    try {
      judge_all();
    } catch (const Broken& broken) {
      row_.status = CheckStatus::violation;
      row_.rule = broken.rule, row_.text = broken.text;
    } catch (const HostError&) {
      throw;
    } catch (const Error& error) {
      const auto says = [&](const char* words) {
        return error.what_text().find(words) != std::string::npos;
      };
      row_.status = CheckStatus::violation;
      row_.rule = says("prepare:")               ? "prepare"  // the words tell which call failed
                  : says("failed on the device") ? "forward"
                                                 : "create";
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
    if (!answers_.inputs)
      answers_.inputs = make_inputs(resolved_, options_.seed, options_.threads, options_.family);
    const Layout layout{.interleaved = variant_.layout == Variant::Layout::interleaved,
                        .least_aligned = variant_.name != Variant().name,
                        .snapshot = !options_.values_only};
    // A smaller shape is called on an instance that was prepared for the case as written.
    Variant largest = variant_;
    largest.axes.clear(), largest.listed.clear();
    const ResolvedCase limits = resolve(contract, source_, largest);
    std::optional<CaseValues> limit_values;
    if (!variant_.axes.empty()) limit_values = make_inputs(limits, options_.seed, options_.threads);
    step("supports");
    const CaseFrames max(device_, limits, limit_values ? *limit_values : values(), layout);
    const Support support = ask(max);
    if (!support.ok) {
      if (support.broken) throw Broken{support.changed.empty() ? "supports" : "state", support.why};
      row_.status = CheckStatus::unsupported;
      row_.text = support.why;
      return;
    }
    CaseFrames frames(device_, resolved_, values(), layout);
    step("first call");
    if (options_.values_only) {
      GuardDevice device(device_, 0, options_.threads);
      PackedCache packed;
      Execution execution(provider_, max, support.need, device, packed, children_.get());
      CaseValues ignored;
      compare(results(execution, frames, Poison::ones, Poison::ones, ignored));
      return;
    }
    // False for an op of several ranks: its calls have all rows, and must not overlap.
    const bool alone = provider_.contract->comm() == nullptr;
    const bool conformance =
        options_.conformance && source_.size == "smoke" && variant_.name == Variant().name;
    // Comes before comparisons: with work on another stream, values are right or wrong by chance.
    if (conformance && alone && !device_.host_memory()) check_stream(max, frames, support.need);
    const CaseValues first = call(max, frames, support.need, 0, Poison::ones);
    step("again at other addresses");
    Layout moved = layout;
    moved.shift = moved.at_end = true, moved.poison = Poison::random;
    CaseFrames again(device_, resolved_, values(), moved);
    const CaseValues second = call(max, again, support.need, 1, Poison::random);
    if (provider_.op->claims->deterministic)
      need_equal(first, second, "scratch",
                 "differs when undefined memory has other contents and buffers other addresses; "
                 "does the op read unwritten scratch, or the gaps between rows (strides)?");
    step("comparison with the reference");
    compare(first);
    // Values come before claims, which say little about wrong values.
    const bool fit = row_.status != CheckStatus::wrong;
    if (alone ? !fit : !options_.comm->meeting().all_say("values", fit)) return;
    if (alone && provider_.op->claims->batch_invariant && variant_.axes.empty())
      check_batch(max, support.need, layout, first);
    if (conformance) check_conformance(max, frames, again, support.need, second);
    if (device_.can_capture() && may_capture(provider_, resolved_, values()))
      check_captured(max, frames, again, support.need);
    // More calls need all ranks. A case that one rank cannot judge may be judged by another.
    const bool right =
        row_.status == CheckStatus::ok || (!alone && row_.status == CheckStatus::untestable);
    if (!alone && !options_.comm->meeting().all_say("compared", right)) return;
    const std::string differ =
        alone ? "" : not_in_common(options_.comm->meeting(), resolved_, first);
    if (!differ.empty()) throw Broken{"replicated", differ};
    if (device_.host_memory() && source_.size == "smoke" && variant_.name == Variant().name &&
        right)
      check_other_contents(max, frames, again, support.need);
  }

  // Asks supports() three times. It must give the same answer, and touch none of its arguments.
  Support ask(const CaseFrames& frames) {
    (void)device_.left_behind();
    Support support = Instance::supports(provider_, frames.meta());
    for (int i = 0; i < 2; ++i) {
      const Support other = Instance::supports(provider_, frames.meta());
      if (other.ok != support.ok || other.broken != support.broken ||
          std::memcmp(&other.need, &support.need, sizeof support.need) != 0)
        throw Broken{"supports", "supports() gives different answers for the same question"};
    }
    if (const auto left = device_.left_behind(); !left.empty()) throw Broken{"state", left};
    if (!frames.broken().empty()) throw Broken{"supports", frames.broken()[0].text};
    return support;
  }

  // Calls one instance on outputs with two different poisons, and then equal instances. Outputs
  // must be written each time, and be equal if that is claimed.
  CaseValues call(const CaseFrames& max, CaseFrames& frames, const fk_need& need, int shift,
                  Poison scratch) {
    const ProcessState before = ProcessState::now();
    // Comes first, because changed modes or signals may be the reason for other broken rules.
    const auto look = [&] {
      if (!device_.host_memory()) return;  // a driver opens files and has threads
      const std::string changed = before.changed_in(ProcessState::now());
      before.put_back();
      if (!changed.empty()) throw Broken{"state", changed};
    };
    try {
      CaseValues out = calls(max, frames, need, shift, scratch);
      look();
      return out;
    } catch (const Broken&) {
      look();
      throw;
    }
  }

  CaseValues calls(const CaseFrames& max, CaseFrames& frames, const fk_need& need, int shift,
                   Poison scratch) {
    GuardDevice device(device_, shift, options_.threads);
    PackedCache packed;
    Execution execution(provider_, max, need, device, packed, children_.get());
    const auto packed_before = device.fingerprints_of("packed");
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
      // An equal instance gets filled `packed` memory, and must neither write nor refill it.
      Execution sharer(provider_, max, need, device, packed, children_.get());
      const CaseValues shared = results(sharer, frames, Poison::ones, scratch, ignored);
      if (device.fingerprints_of("packed") != packed_before)
        throw Broken{"packed", "memory that packed_ready protects was written"};
      if (deterministic)
        need_equal(once, shared, "packed", "differs in an instance with packed_ready 1");
    }
    if (execution.instance().has_plan()) {
      Execution planned(provider_, max, need, device, packed, children_.get());
      planned.plan_by(execution);
      const CaseValues other = results(planned, frames, Poison::ones, scratch, ignored);
      if (deterministic)
        need_equal(once, other, "plan",
                   "differs where an equal instance has planned, as one does for all layers of a "
                   "model; does plan() keep in its instance what belongs into the blob?");
    }
    if (execution.instance().reset() != FK_OK) throw Broken{"reset", "reset() failed"};
    if (!max.broken().empty()) throw Broken{max.broken()[0].rule, max.broken()[0].text};
    return twice;
  }

  CaseValues results(Execution& execution, CaseFrames& frames, Poison outputs, Poison scratch,
                     CaseValues& undefined, const std::function<void()>& launch = nullptr) {
    frames.restore(outputs);
    undefined = frames.written();
    const Execution::Outcome outcome = execution.run(frames, scratch, launch);
    if (!outcome.failure.empty()) throw Broken{"forward", outcome.failure};
    if (!outcome.broken.empty()) throw Broken{outcome.broken[0].rule, outcome.broken[0].text};
    return frames.written();
  }

  CaseValues once(Execution& execution, CaseFrames& frames) {
    CaseValues ignored;
    return results(execution, frames, Poison::random, Poison::random, ignored);
  }

  // An element that kept two different poisons was not written. Equal bytes of poison say nothing.
  void check_written(const CaseFrames& frames, const CaseValues& a, const CaseValues& before_a,
                     const CaseValues& b, const CaseValues& before_b) const {
    for (const CaseField* field : frames.resolved().written()) {
      if (field->slot->role != Role::out || field->shape.empty()) continue;
      const std::string& name = field->slot->name;
      const auto width = static_cast<size_t>(bytes(field->dtype));
      for (size_t k = 0; k < a.at(name).size(); ++k) {
        const Extent extent = extent_of(resolved_, *field, static_cast<int64_t>(k), b);
        const auto equal = [&](const CaseValues& one, const CaseValues& other, int64_t i) {
          const auto at = static_cast<size_t>(i) * width;
          return std::memcmp(static_cast<const std::byte*>(one.at(name)[k].data()) + at,
                             static_cast<const std::byte*>(other.at(name)[k].data()) + at,
                             width) == 0;
        };
        int64_t count = 0, first = -1;
        for (size_t g = 0; g < extent.counts.size(); ++g) {
          const int64_t begin = static_cast<int64_t>(g) * extent.capacity * extent.row;
          for (int64_t i = begin; i < begin + extent.counts[g] * extent.row; ++i) {
            if (!equal(a, before_a, i) || !equal(b, before_b, i)) continue;
            if (equal(before_a, before_b, i)) continue;
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
        // Bytes beyond the count are arbitrary. Counts are compared like other outputs.
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

  // Claim: a row's bits do not depend on other rows. The first row or request alone has the bits of
  // the whole batch. So have the first rows in the largest number of 2, 4, 8 ... below all.
  void check_batch(const CaseFrames& max, const fk_need& need, const Layout& layout,
                   const CaseValues& whole) {
    for (const bool half : {false, true}) {
      std::optional<Slice> slice = first_rows(resolved_, source_, variant_, values(), 1);
      if (slice && half) {
        int64_t rows = 2;  // twice as many while possible
        while (auto more = first_rows(resolved_, source_, variant_, values(), rows)) {
          slice = std::move(more);
          rows *= 2;
        }
      }
      if (!slice) return;
      step("a part of the batch");
      CaseFrames part(device_, slice->resolved, slice->values, layout);
      GuardDevice device(device_, 0, options_.threads);
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

  void check_other_contents(const CaseFrames& max, CaseFrames& frames, CaseFrames& others,
                            const fk_need& need) {
    step("other contents");
    const auto call = [this](Execution& e, CaseFrames& on) { return once(e, on); };
    const ConformanceCase c{provider_, source_,         max,     frames, others, need,
                            device_,   children_.get(), options_};
    const StaleFinding found = stale(c, oracles_, variant_, values(), call);
    if (found.kept) throw Broken{"stale", found.text};
    if (found.text.empty()) return;
    row_.status = CheckStatus::wrong;
    row_.worst = found.worst;
    row_.text = found.text;
  }

  void check_stream(const CaseFrames& max, CaseFrames& frames, const fk_need& need) {
    step("a stream that stands still");
    const ConformanceFault found = stream_of_forward(
        {provider_, source_, max, frames, frames, need, device_, children_.get(), options_});
    if (!found.rule.empty()) throw Broken{found.rule, found.text};
  }

  void check_conformance(const CaseFrames& max, CaseFrames& frames, CaseFrames& others,
                         const fk_need& need, const CaseValues& answer) {
    const auto call = [this](Execution& e, CaseFrames& on) { return once(e, on); };
    const auto differ = [&](const CaseValues& a, const CaseValues& b) {
      try {
        if (provider_.op->claims->deterministic) need_equal(a, b, "", "");
        return false;
      } catch (const Broken&) {
        return true;
      }
    };
    const ConformanceFault found =
        fault({provider_, source_, max, frames, others, need, device_, children_.get(), options_},
              answer, call, differ, [this](const std::string& name) { step(name); });
    if (!found.rule.empty()) throw Broken{found.rule, found.text};
  }

  const CaseValues& values() const { return *answers_.inputs; }
  // A captured call, replayed at once and after a call on other buffers, must give the eager
  // results.
  void check_captured(const CaseFrames& max, CaseFrames& frames, CaseFrames& other,
                      const fk_need& need) {
    step("captured");
    GuardDevice device(device_, 0, options_.threads);
    PackedCache packed;
    Execution execution(provider_, max, need, device, packed, children_.get());
    CaseValues ignored;
    const CaseValues eager = results(execution, frames, Poison::ones, Poison::ones, ignored);
    const std::shared_ptr<void> graph = capture(execution, frames);
    const auto replay = [&](Poison poison, const std::string& when) {
      const CaseValues got =
          results(execution, frames, poison, poison, ignored, [&] { device_.launch(graph.get()); });
      if (provider_.op->claims->deterministic)
        need_equal(eager, got, "graph",
                   "of a captured call " + when + " is not that of the eager one");
    };
    replay(Poison::random, "that is replayed");
    const CaseValues moved = results(execution, other, Poison::random, Poison::ones, ignored);
    if (provider_.op->claims->deterministic)
      need_equal(eager, moved, "stale",
                 "of a call with other buffers differs from the first call's");
    replay(Poison::ones, "that is replayed after other work");
  }

  std::shared_ptr<void> capture(Execution& execution, const CaseFrames& frames) {
    const auto broken = [&](const std::string& why) {
      const std::string said = execution.instance().error().text;
      return Broken{"graph", "the claim that forward() can be captured is false: " + why +
                                 (said.empty() ? "" : ": " + said)};
    };
    const auto frame = execution.fitted(frames);
    device_.begin_capture();
    device_.mark_capture(provider_.contract->op, provider_.trust == Trust::candidate,
                         execution.instance().side_streams());
    const int32_t status = execution.forward(frame);
    const bool whole = device_.capture_is_whole();
    std::shared_ptr<void> graph;
    try {
      graph = device_.end_capture();
    } catch (const Error& error) {
      throw broken(error.what_text());
    }
    if (status != FK_OK) throw broken("it failed");
    if (!whole) throw broken("it made a call that a capture does not allow");
    return graph;
  }

  const CaseValues& want() {
    if (answers_.want || !answers_.why.empty()) return answers_.want ? *answers_.want : nothing_;
    const Provider* oracle = oracle_of(oracles_, provider_, resolved_, answers_.why);
    if (!oracle) return nothing_;
    CaseValues made = answer_of(*oracle, values(), answers_.why);
    if (oracle == oracles_.device && !answers_.why.empty() && oracles_.cpu) {
      answers_.why.clear();
      if (oracle_of({oracles_.cpu, nullptr}, provider_, resolved_, answers_.why))
        made = answer_of(*oracles_.cpu, values(), answers_.why);
    }
    if (answers_.why.empty()) answers_.want = std::move(made);
    return answers_.want ? *answers_.want : nothing_;
  }

  CaseValues answer_of(const Provider& oracle, const CaseValues& of, std::string& why,
                       AskReference::Moved moved = std::nullopt) {
    if (!resolved_.contract->comm())
      return reference_outputs(oracle, resolved_, source_, variant_, of, options_, why);
    if (contents_.empty())
      contents_ = contents_of_ranks(resolved_, options_.seed, options_.threads, options_.family);
    std::vector<CaseValues> all = contents_;
    if (moved) move_others(resolved_, *moved, all);
    all.at(static_cast<size_t>(resolved_.rank)) = of;
    return reference_of_ranks(oracle, resolved_, source_, variant_, all, options_, why);
  }

  void leave_out(const std::string& why) {
    row_.status = CheckStatus::left_out;
    row_.text = "not judged: " + why;
  }
  void compare(const CaseValues& got) {
    row_.status = CheckStatus::unjudged;
    const CaseValues& wanted = want();
    row_.text = answers_.why;
    if (!answers_.want) return;
    if (const auto why = family_meaningless(resolved_, options_.family, wanted); !why.empty())
      return leave_out(why);
    std::string none;
    const Provider* const oracle = oracle_of(oracles_, provider_, resolved_, none);
    AskReference ask = [&](const CaseValues& other, AskReference::Moved moved) {
      std::string why;
      return oracle ? answer_of(*oracle, other, why, moved) : CaseValues{};
    };
    if (oracle)
      ask.with_changes([&](const CallChange& change, const CaseValues& other) {
        return changed_outputs(*oracle, resolved_, source_, variant_, change, other, options_);
      });
    Comparison result = compare_outputs(resolved_, values(), got, wanted,
                                        options_.values_only ? kQuickElements : kMostElements, ask);
    row_.status = result.ok ? CheckStatus::ok : CheckStatus::wrong;
    row_.worst = result.worst;
    row_.text = std::move(result.text);
    if (!result.undecided.empty() && options_.family != Family::ordinary)
      leave_out(result.undecided);
    if (result.ok && !options_.values_only && variant_.name == Variant().name &&
        written_elements(resolved_) <= kMutantElements) {
      const auto accepted = accepted_mutants(resolved_, values(), wanted, ask);
      if (accepted.empty()) return;
      row_.status = CheckStatus::untestable;
      row_.text = "mutants would pass: " + join(accepted, "; ");
    }
  }

  const Provider& provider_;
  const Oracles& oracles_;
  const Case& source_;
  const Variant& variant_;
  const CheckOptions& options_;
  CaseAnswers& answers_;
  CheckRow& row_;
  std::unique_ptr<Device> cpu_;
  Device& device_;
  ResolvedCase resolved_;
  std::unique_ptr<LoadedChildren> children_;
  const CaseValues nothing_;
  std::vector<CaseValues> contents_;  // of all ranks of a collective
};

}  // namespace

void run_trial(const Provider& provider, const Oracles& oracles, const Case& source,
               const Variant& variant, const CheckOptions& options, CaseAnswers& answers,
               CheckRow& row) {
  Trial(provider, oracles, source, variant, options, answers, row).run();
  if (!options.comm || !provider.contract->comm()) return;
  if (row.text.find(kNotThere) != row.text.npos) row.rule = "where";
  // Ranks must not wait for one that has stopped. The next case begins with all of them.
  row.echo = !options.comm->meeting().failure().empty();
  using enum CheckStatus;
  if (row.status == violation || row.status == unsupported || row.status == left_out)
    options.comm->meeting().give_up((row.rule.empty() ? "" : row.rule + ": ") + row.text);
  options.comm->settle();
}

}  // namespace fk
