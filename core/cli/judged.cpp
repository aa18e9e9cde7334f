// SPDX-License-Identifier: Apache-2.0
#include "core/cli/judged.hpp"

#include <cstdio>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/cases/routing.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/compiler.hpp"
#include "core/cli/output.hpp"
#include "core/cli/profile.hpp"
#include "core/cli/server.hpp"
#include "core/cli/verdict_progress.hpp"
#include "core/judge/judge.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_text.hpp"

namespace fk {

namespace {

void print(const Verdict& verdict, const BenchRequest& request) {
  if (request.as_json)
    print_json(to_json(verdict), request.json);
  else
    std::printf("%s", verdict_text(verdict, colour_wanted(stdout)).c_str());
}

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
  return [seeds, progress](const Question& question, const Secret& secret) {
    const Secret* const these = seeds == Seeds::these ? &secret : nullptr;
    if (auto told = ask_server(question, these, progress)) return *told;
    const Catalog catalog(paths::registry_dirs());
    const PluginSet plugin_set = PluginSet::of_baselines(question.device);
    JudgePool::Options options;
    options.device = question.device;
    options.sandbox = question.policy.sandbox;
    JudgePool room(plugin_set, options);
    return judge_question(question, &secret, catalog, plugin_set, room, progress);
  };
}

int bench_candidate(const BenchRequest& request) {
  Answer found;
  std::optional<VerdictProgress> progress(std::in_place);
  if (request.secret.empty()) {
    found = answer(request.question, the_judge(Seeds::any, progress->listener()), request.answer);
    if (!request.receipt.empty())
      print_json(found.receipt, request.receipt);
    else if (!request.answer.store)
      found.verdict.receipt.clear();  // the receipt is not stored
  } else {
    found.verdict = ask(request.question, the_judge(Seeds::these, progress->listener()),
                        Secret::from_hex(request.secret, "--secret"), request.answer.host_version);
  }
  progress.reset();
  if (request.profile) {
    constexpr double kPatience = 300;
    found.verdict.profile = profile_of(request.question, found.verdict, kPatience);
  }
  // Compared with the sources as they are now, so it is not stored.
  found.verdict.stale = stale_build(request.question.candidate);
  if (request.as_json && !found.verdict.stale.empty()) found.notes.push_back(found.verdict.stale);
  for (const auto& note : found.notes)
    std::fprintf(stderr, "fk-host: %s\n", excerpt(note, 1000).c_str());
  print(found.verdict, request);
  return found.verdict.exit_code();
}

bool build_for_bench(const std::filesystem::path& folder, BenchRequest& request) {
  std::string words;
  if (const auto library = build_candidate(folder, &words)) {
    std::fputs(words.c_str(), stderr);
    request.question.candidate = *library;
    return true;
  }
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
  print(verdict, request);
  return false;
}

}  // namespace fk
