// SPDX-License-Identifier: Apache-2.0
// fk-host leaderboard [SUITE]: ranks stored evaluations. Each suite and device has a ranking of its
// own, because scores of others are no rivals.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/eval/evaluate.hpp"
#include "core/report/document.hpp"
#include "core/report/table.hpp"
#include "core/store/store.hpp"

namespace fk {
namespace {

struct LeaderboardArguments {
  std::string suite;
  JsonOutput json;
  std::vector<std::string> folders;
  bool all = false;
};

struct RankedRow {
  int64_t rank = 0;
  Evaluation of;
  double fast_1 = 0;
  std::string signed_by;
};
template <class Visitor>
void fields(Visitor& v, RankedRow& r) {
  Evaluation& e = r.of;
  v("suite", e.suite, "the suite");
  v("suite_sha256", e.suite_sha256, "SHA-256 of the suite's file and its scenarios");
  v("device", e.device, "the device");
  v("rank", r.rank, "1 is the best of its suite and device");
  v("submission", e.submission, "name of the submission");
  v("author", e.author, "as in the manifest");
  v("kind", e.kind, "agent, human, vendor or baseline");
  v("score", e.score, "MacroEval");
  v("components", e.components, "the components of the score");
  v("fast_1", r.fast_1, "share of cases that are right and faster than the baseline");
  v("id", e.id, "id of the evaluation");
  v("date", e.date, "end of its last job, UTC");
  v("signed_by", r.signed_by, "the public key; `nobody`");
}
struct LeaderboardDocument {
  static constexpr const char* kSchema = "fk-host.leaderboard/1";
  static constexpr const char* kTitle = "Ranked evaluations of `fk-host leaderboard`";
  std::string signed_by;
  std::vector<RankedRow> rows;
  std::vector<NotRun> refused;
};
template <class Visitor>
void fields(Visitor& v, LeaderboardDocument& d) {
  v("signed_by", d.signed_by, "the public key of this host; empty: it signs nothing");
  v("rows", d.rows, "by suite, device and rank");
  v("refused", d.refused, "files that are no valid evaluation, with the reason");
}
FK_DOCUMENT(leaderboard, LeaderboardDocument);

double share_of_fast(const Evaluation& e) {
  for (const auto& f : e.fast_p)
    if (f.p == 1) return f.share;
  return 0;
}

std::string group_of(const Evaluation& e) {
  return e.suite + "\n" + e.suite_sha256 + "\n" + e.device;
}

// The newest evaluation of each submission, ranked.
std::vector<RankedRow> ranked_rows(std::vector<RankedRow> rows, bool all) {
  std::ranges::stable_sort(
      rows, [](const RankedRow& a, const RankedRow& b) { return a.of.date > b.of.date; });
  std::vector<RankedRow> kept;
  for (auto& row : rows) {
    const bool older = std::ranges::any_of(kept, [&](const RankedRow& k) {
      return group_of(k.of) == group_of(row.of) && k.of.submission == row.of.submission;
    });
    if (all || !older) kept.push_back(std::move(row));
  }
  std::ranges::stable_sort(kept, [](const RankedRow& a, const RankedRow& b) {
    return std::pair(group_of(a.of), -a.of.score.value) <
           std::pair(group_of(b.of), -b.of.score.value);
  });
  for (size_t i = 0; i < kept.size(); ++i) {
    const bool first = i == 0 || group_of(kept[i].of) != group_of(kept[i - 1].of);
    kept[i].rank = first ? 1 : kept[i - 1].rank + 1;
  }
  return kept;
}

std::string three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

// `own` is the public key of this host.
void print_ranking(const std::vector<RankedRow>& rows, const std::string& own) {
  const bool colour = colour_wanted(stdout);
  for (size_t begin = 0; begin < rows.size();) {
    const Evaluation& first = rows[begin].of;
    std::printf("%s%s on %s\n", begin ? "\n" : "",
                styled("suite " + excerpt(first.suite), Style::strong, colour).c_str(),
                excerpt(first.device, 100).c_str());
    Table table({{"", Align::right},
                 {"submission"},
                 {"author"},
                 {"kind"},
                 {"MacroEval (95 %)", Align::right},
                 {"speed", Align::right},
                 {"correctness", Align::right},
                 {"coverage", Align::right},
                 {"fast_1", Align::right},
                 {"date"},
                 {"evaluation"},
                 {""}});
    size_t i = begin;
    for (; i < rows.size() && group_of(rows[i].of) == group_of(first); ++i) {
      const Evaluation& e = rows[i].of;
      const std::string interval =
          e.score.low && e.score.high
              ? " (" + three_digits(*e.score.low) + "-" + three_digits(*e.score.high) + ")"
              : "";
      table.row({std::to_string(rows[i].rank), e.submission, excerpt(e.author), e.kind,
                 three_digits(e.score.value) + interval, three_digits(e.components.speed),
                 three_digits(e.components.correctness), three_digits(e.components.coverage),
                 three_digits(rows[i].fast_1), e.date, e.id,
                 Cell(rows[i].signed_by == own        ? ""
                      : rows[i].signed_by == "nobody" ? "not signed"
                                                      : "signed by " + rows[i].signed_by,
                      Style::bad)});
    }
    std::printf("%s", table.text(colour).c_str());
    begin = i;
  }
  if (rows.empty()) std::printf("no evaluation is stored; fk-host eval makes them\n");
}

int leaderboard(LeaderboardArguments& a) {
  a.json.open();
  std::vector<std::filesystem::path> folders(a.folders.begin(), a.folders.end());
  for (const auto& folder : folders)
    if (std::error_code none; !std::filesystem::is_directory(folder, none))
      fail(folder.string(), "there is no such folder", "fk-host eval --folder makes one");
  if (folders.empty()) folders = {evaluations_dir()};
  LeaderboardDocument out;
  std::vector<std::string> suites;
  std::vector<RankedRow> rows;
  for (auto& found : find_evaluations(folders)) {
    if (!found.error.empty()) {
      out.refused.push_back({found.file.string(), found.error});
      continue;
    }
    Evaluation& e = found.evaluation;
    if (!contains(suites, e.suite)) suites.push_back(e.suite);
    if (!a.suite.empty() && e.suite != a.suite) continue;
    const std::string by =
        !found.unverified.empty() || e.signed_by.empty() ? "nobody" : e.signed_by;
    rows.push_back({0, e, share_of_fast(e), by});
  }
  if (!a.suite.empty() && !contains(suites, a.suite))
    fail("leaderboard", "no evaluation of a suite `" + excerpt(a.suite) + "` is stored",
         did_you_mean(a.suite, suites));
  out.rows = ranked_rows(std::move(rows), a.all);
  const Store store = Store::open_default(false);
  out.signed_by = store.signer() ? store.signer()->public_key() : "";
  for (const auto& [file, why] : out.refused)
    std::fprintf(stderr, "fk-host: not ranked: %s\n", excerpt(why, 1000).c_str());
  if (a.json.given()) a.json.write(document(out));
  if (a.json.with_report()) print_ranking(out.rows, out.signed_by);
  return kExitOk;
}

std::function<int()> add_leaderboard(const Options& app) {
  auto a = std::make_shared<LeaderboardArguments>();
  app.add_option("SUITE", a->suite, "only this suite");
  app.add_option("--folder", a->folders,
                 "of results, as of `eval` (may be repeated); default: all in the data folder");
  app.add_flag("--all", a->all, "also older evaluations of a submission");
  a->json.declare(app);
  a->json.declare_views(app);
  return [a] { return leaderboard(*a); };
}

FK_VERB(leaderboard, "ranked evaluations of submissions", add_leaderboard);

}  // namespace
}  // namespace fk
