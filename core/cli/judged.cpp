// SPDX-License-Identifier: Apache-2.0
#include "core/cli/judged.hpp"

#include <memory>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cases/routing.hpp"
#include "core/check/sound.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/compiler.hpp"
#include "core/cli/profile.hpp"
#include "core/cli/serve/server.hpp"
#include "core/judge/judge.hpp"
#include "core/report/verdict_text.hpp"

namespace fk {

namespace {

// The pool and the plugins of a process that judges by itself. Its workers serve one question after
// the other.
struct OwnJudge {
  explicit OwnJudge(const Question& question, const FoundPlugin* rival = nullptr)
      : catalog(paths::registry_dirs()),
        plugin_set(plugins_for(question, rival)),
        room(plugin_set, options_for(question)) {}
  static PluginSet plugins_for(const Question& question, const FoundPlugin* rival) {
    PluginSet out = PluginSet::of_baselines(question.device);
    if (rival) out.rival = *rival;
    return out;
  }
  static JudgePool::Options options_for(const Question& question) {
    JudgePool::Options options;
    options.device = question.device;
    options.sandbox = question.policy.sandbox;
    return options;
  }
  bool serves(const Question& question) const {
    return room.device() == question.device && room.sandbox() == question.policy.sandbox;
  }
  Catalog catalog;
  PluginSet plugin_set;
  JudgePool room;
};

}  // namespace

Verdict judge_question(const Question& question, const Secret* secret, const Catalog& catalog,
                       const PluginSet& plugin_set, JudgePool& room,
                       const JudgeProgress& progress) {
  FoundPlugin candidate;
  candidate.path = question.candidate;
  candidate.trust = Trust::candidate;
  try {
    candidate.note = read_notes(question.candidate);
    candidate.note.hash =
        sha256_file(question.candidate);  // so that the notes must belong to the file that runs
  } catch (const Error& error) {
    Verdict none;
    none.candidate.sha256 = question.candidate_hash;
    none.status = Status::load;
    none.why = error.what();
    return none;
  }
  std::error_code none;
  for (const FoundPlugin& known : plugin_set.baselines)
    if (std::filesystem::equivalent(known.path, candidate.path, none))
      candidate.trust = known.trust;
  const Policy& policy = question.policy;
  for (const auto& op : candidate.note.ops)
    if (const Contract* const contract = catalog.find(op.op);
        contract && (policy.ops.empty() || contains(policy.ops, op.op)))
      need_sound_cases(*contract, false);
  JudgeOptions options;
  options.size = policy.size;
  options.ops = policy.ops;
  options.cases = policy.cases;
  options.families = policy.families;
  options.captured = policy.captured;
  options.skew = skew_of_routing(policy.routing);
  options.variants = policy.variants;
  options.dtypes = policy.dtypes;
  options.seconds = policy.seconds;
  options.patience_s = policy.patience_s;
  options.budget_s = policy.budget_s;
  options.threads = policy.threads;
  options.device = question.device;
  options.thorough = policy.thorough;
  options.on_step = progress.step;
  if (progress.ended)
    options.on_case_end = [&](const CaseVerdict& row) {
      if (!row.beside || is_failure(row.status)) progress.ended(case_line(row));
    };
  return judge(candidate, plugin_set, catalog, secret, room, options);
}

AskJudge the_judge(Seeds seeds, JudgeProgress progress) {
  const auto own = std::make_shared<std::unique_ptr<OwnJudge>>();
  return [seeds, progress, own](const Question& question, const Secret& secret) {
    const Secret* const these = seeds == Seeds::these ? &secret : nullptr;
    if (auto told = ask_server(question, these, progress)) return *told;
    if (!*own || !(*own)->serves(question)) *own = std::make_unique<OwnJudge>(question);
    OwnJudge& judge = **own;
    return judge_question(question, &secret, judge.catalog, judge.plugin_set, judge.room, progress);
  };
}

Verdict judge_against(const FoundPlugin& rival, const Question& question, const Secret& secret,
                      const JudgeProgress& progress) {
  const auto judge = [&](const Question& asked, const Secret& seeds) {
    OwnJudge own(asked, &rival);
    return judge_question(asked, &seeds, own.catalog, own.plugin_set, own.room, progress);
  };
  return ask(question, judge, secret, FK_VERSION);
}

Answer answer_of(const BenchRequest& request, const AskJudge& judge) {
  Answer found;
  if (request.secret.empty()) {
    found = answer(request.question, judge, request.answer);
    if (!request.receipt.empty())
      print_json(found.receipt, request.receipt);
    else if (!request.answer.store)
      found.verdict.receipt.clear();  // the receipt is not stored
  } else {
    found.verdict = ask(request.question, judge, Secret::from_hex(request.secret, "--secret"),
                        request.answer.host_version);
  }
  if (request.profile) {
    constexpr double kPatience = 300;
    add_profile(request.question, found.verdict, kPatience);
  }
  // Compared with the sources as they are now, so it is not stored.
  found.verdict.stale = stale_build(request.question.candidate);
  return found;
}

Verdict not_compiled(const std::filesystem::path& folder, const BenchRequest& request,
                     const std::string& words) {
  Verdict verdict;
  verdict.candidate.name = folder.filename();
  verdict.candidate.path = folder;
  verdict.policy = request.question.policy;
  verdict.host_version = request.answer.host_version;
  verdict.status = Status::compile_error;
  verdict.why = first_error(words);
  verdict.next = next_of_error(words);
  verdict.log = cut_words(words);
  conclude(verdict);
  return verdict;
}

}  // namespace fk
