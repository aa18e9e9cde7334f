// SPDX-License-Identifier: Apache-2.0
// fk-host compare-submissions A B: two stored evaluations beside each other, by op, model and
// family.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/eval/comparison.hpp"
#include "core/eval/evaluate.hpp"
#include "core/report/document.hpp"

namespace fk {
namespace {

struct CompareSubmissionsArguments {
  std::string a, b, suite;
  JsonOutput json;
  std::vector<std::string> folders;
};
FK_DOCUMENT(comparison, SubmissionComparison);

// The file, the id's first digits, or the newest evaluation of a submission.
Evaluation chosen_evaluation(const std::string& word, const std::string& suite,
                             const std::vector<FoundEvaluation>& all) {
  if (ends_with(word, ".json")) {
    std::string unverified;
    return read_evaluation(load_json(word), word, unverified);
  }
  constexpr size_t kDigitsLeast = 4;
  const Evaluation* best = nullptr;
  std::vector<std::string> known;
  for (const auto& found : all) {
    const Evaluation& e = found.evaluation;
    if (!found.error.empty() || (!suite.empty() && e.suite != suite)) continue;
    if (!contains(known, e.submission)) known.push_back(e.submission);
    const bool by_id = word.size() >= kDigitsLeast && starts_with(e.id, word);
    if (!by_id && e.submission != word) continue;
    if (best && best->suite != e.suite)
      fail("compare-submissions", "`" + excerpt(word) + "` was evaluated in several suites",
           "--suite " + best->suite + " or --suite " + e.suite);
    if (!best || best->date < e.date) best = &e;
  }
  if (!best)
    fail("compare-submissions", "there is no evaluation `" + excerpt(word) + "`",
         known.empty() ? "fk-host eval makes them" : did_you_mean(word, known));
  return *best;
}

int compare_submissions(CompareSubmissionsArguments& a) {
  a.json.open();
  std::vector<std::filesystem::path> folders(a.folders.begin(), a.folders.end());
  if (folders.empty()) folders = {evaluations_dir()};
  const auto all = find_evaluations(folders);
  const SubmissionComparison c = compare_evaluations(chosen_evaluation(a.a, a.suite, all),
                                                     chosen_evaluation(a.b, a.suite, all));
  if (a.json.given()) a.json.write(document(c));
  if (!a.json.with_report()) return kExitOk;
  const bool colour = colour_wanted(stdout);
  std::printf("%s beside %s, suite %s on %s\n", excerpt(c.b).c_str(), excerpt(c.a).c_str(),
              excerpt(c.suite).c_str(), excerpt(c.device, 100).c_str());
  for (const auto& note : c.notes)
    std::printf("  %s\n", styled(excerpt(note, 300), Style::bad, colour).c_str());
  for (const auto& [name, title, table] : comparison_tables(c))
    std::printf("\n%s\n%s", styled(title, Style::strong, colour).c_str(),
                table.text(colour).c_str());
  return kExitOk;
}

std::function<int()> add_compare_submissions(const Options& app) {
  auto a = std::make_shared<CompareSubmissionsArguments>();
  app.add_option("A", a->a, "a submission's name, an evaluation's id, or its file").required();
  app.add_option("B", a->b, "another one, which is compared with A").required();
  app.add_option("--suite", a->suite, "only evaluations of this suite");
  app.add_option("--folder", a->folders,
                 "of results, as of `eval` (may be repeated); default: all in the data folder");
  a->json.declare(app);
  a->json.declare_views(app);
  return [a] { return compare_submissions(*a); };
}

const VerbRegistration compare_submissions_verb("compare-submissions",
                                                "two evaluations beside each other",
                                                add_compare_submissions);

}  // namespace
}  // namespace fk
