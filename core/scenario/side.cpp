// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/side.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/clock.hpp"
#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/measure/background_work.hpp"
#include "core/worker/symbols.hpp"
#include "core/worker/task.hpp"

namespace fk {

bool Side::fail_with(const std::string& verdict, const std::string& why) {
  verdict_ = verdict;
  why_ = why;
  hosts_ = runner_ && runner_->failed() && runner_->failure().kind == "environment";
  if (runner_) log_ = runner_->failed() ? runner_->failure().log : runner_->log();
  const size_t named = std::max<size_t>(1, setup_.spec.policy.candidates.size());
  for (size_t i = setup_.files.size() - named; i < setup_.files.size(); ++i)
    for (std::string* text : {&why_, &log_}) *text = with_symbols(*text, setup_.files[i].path);
  runner_.reset();
  info_.reset();
  return false;
}

bool Side::load() {
  const auto loaded = runner_->load(setup_.files);
  protections_ = runner_->protections();
  // A plugin that crashes or hangs in its first call fails during the load.
  if (!loaded) return fail_with("failed", runner_->failure().sentence());
  try {
    unusable_ = unusable_of(setup_.files, loaded->errors);
    std::vector<std::string> pinned;
    for (const auto& [op, provider] : setup_.spec.policy.pins) pinned.push_back(provider);
    need_loaded(pinned, unusable_);
  } catch (const Error& e) {
    return fail_with("refused", e.what());
  }
  refused_ops_.clear();
  for (const auto& r : loaded->refused)
    if (contains(setup_.spec.policy.candidates, r.plugin))
      refused_ops_.push_back(r.op + ": " + r.why);
  return true;
}

bool Side::smoke_check() {
  if (!setup_.smoke_check || checked_ || !has_task(SmokeCheck::kName)) return true;
  checked_ = true;
  for (const auto& candidate : setup_.spec.policy.candidates) {
    const auto wrong = runner_->ask(SmokeCheck{candidate, setup_.spec.device});
    if (!wrong)
      return fail_with("failed", runner_->failure().sentence() + " (in the check of its ops)");
    // The answer comes from the candidate's process, so it counts only against it.
    if (!wrong->empty()) wrong_in_check_.emplace_back(candidate, *wrong);
  }
  return true;
}

bool Side::open() {
  const double start = now_seconds();
  info_.reset();
  const int64_t ranks = setup_.spec.limits.parallel.ranks();
  runner_ = std::make_unique<RankGroup>(setup_.runner, static_cast<int>(ranks));
  if (runner_->failed()) return fail_with("failed", runner_->failure().sentence());
  if (!load() || !smoke_check()) return false;
  const auto states =
      setup_.states_of ? setup_.states_of->runner_->states() : std::vector<StatesHandle>();
  info_ =
      runner_->open(setup_.spec, handles_of({setup_.weights, static_cast<size_t>(ranks)}), states);
  if (!info_) return fail_with("failed", runner_->failure().sentence());
  open_s_ = now_seconds() - start;
  return runner_->freeze() || fail_with("failed", runner_->failure().sentence());
}

bool Side::clear() {
  runner_->thaw();
  if (runner_->clear() && runner_->freeze()) return true;
  return fail_with("failed", runner_->failure().sentence());
}

bool Side::drive(const std::vector<Request>& requests, const RoundOptions& options, Round& round) {
  if (!is_open()) return false;
  // The other side left answers to the same requests in the states, or NaN.
  if (setup_.spec.shares_states && !clear()) return false;
  if (setup_.states_of && !setup_.states_of->clear())
    return fail_with("failed", "the caches could not be cleared: " + setup_.states_of->why());
  // The threads of a side could share a core by chance in one process and not in another.
  if (setup_.spec.device == "cpu" && runner_->size() == 1)
    leave_core_to_first_thread(runner_->pid(0));
  runner_->thaw();
  if (!drive_round(*runner_, requests, options, round) || !runner_->freeze())
    return fail_with("failed", runner_->failure().sentence());
  gap_s_ = std::max(gap_s_, round.gap_s);
  return true;
}

RankGroup& Side::awake() {
  FK_CHECK(is_open(), "a closed side was woken");
  runner_->thaw();
  return *runner_;
}

std::string Side::log() { return is_open() ? runner_->log() : log_; }

bool Side::close() {
  if (!is_open()) return true;
  runner_->thaw();
  if (!runner_->close_session())
    return fail_with("failed", runner_->failure().sentence() + " (when its session ended)");
  log_ = runner_->log();
  runner_.reset();
  info_.reset();
  return true;
}

double Side::device_wait_s() {
  if (!is_open()) return 0;
  runner_->thaw();
  double most = 0;
  const auto answers =
      runner_->task_on_all(IdleWait{.device = setup_.spec.device}, [](int, const Json&) {});
  for (size_t r = 0; answers && r < answers->size(); ++r) most = std::max(most, (*answers)[r]);
  if (answers && runner_->freeze()) return most;
  fail_with("failed", runner_->failure().sentence());
  return 0;
}

bool Side::works_on(Side& beside) {
  if (setup_.spec.device == "cpu" || !is_open() || !has_task(IdleWait::kName)) return false;
  constexpr int kLooks = 4;  // work of milliseconds ends before the other's turn
  const auto look = [&] { return beside.device_wait_s(); };
  const std::string found = works_while_stopped(*runner_, look, kLooks);
  if (!runner_->failed()) return false;
  // It was ended, but the work was another process's.
  if (found.empty()) return !open();
  fail_with("violation", "the device does work for it during the baseline's turn: " + found);
  return true;
}

int64_t Side::own_bytes() const {
  return info_->packed_bytes + info_->persistent_bytes + info_->states_bytes + info_->arena_bytes +
         info_->scratch_bytes;
}

int64_t Side::held_bytes() const { return is_open() ? runner_->held_bytes() : 0; }

void Side::set_patience(double seconds) {
  setup_.runner.patience_s = seconds;
  if (runner_) runner_->set_patience(seconds);
}

std::vector<OpRow> Side::ops() const {
  std::vector<OpRow> rows;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> index;
  if (!info_) return rows;
  for (const auto& phase : info_->phases) {
    for (const auto& node : phase.nodes) {
      const auto [it, fresh] = index.try_emplace({phase.name, node.op, node.provider}, rows.size());
      if (fresh)
        rows.push_back({phase.name, node.op, node.provider, node.level, 0,
                        node.refusals.empty() ? "" : node.refusals.front()});
      ++rows[it->second].nodes;
    }
  }
  return rows;
}

int64_t Side::nodes_of(const std::vector<std::string>& providers) const {
  int64_t count = 0;
  if (!info_) return count;
  for (const auto& phase : info_->phases)
    count += std::ranges::count_if(
        phase.nodes, [&](const NodeRow& node) { return contains(providers, node.provider); });
  return count;
}

std::string Side::wrong_in_check() const {
  const bool alone = setup_.spec.policy.candidates.size() == 1;
  for (const auto& [candidate, why] : wrong_in_check_)
    if (alone || nodes_of({candidate}) > 0) return why;
  return {};
}

std::string Side::why_unused(const std::vector<const FoundPlugin*>& candidates) const {
  if (!refused_ops_.empty()) return refused_ops_.front();
  for (const auto& phase : info_->phases)
    for (const auto& node : phase.nodes)
      for (const auto& refusal : node.refusals)
        for (const auto& name : setup_.spec.policy.candidates)
          if (starts_with(refusal, name + ": "))
            return (candidates.size() > 1 ? name : "it") + " refused " + node.op + " (" +
                   node.path + "): " + refusal.substr(name.size() + 2);
  std::string why = "none of its ops is a node of this model";
  for (const auto* candidate : candidates)
    for (const auto& op : candidate->note.ops)
      if (op.op == "linear_all_reduce" && !setup_.spec.limits.parallel.overlap)
        why += "; linear_all_reduce is one with --tp and --overlap";
  return why;
}

}  // namespace fk
