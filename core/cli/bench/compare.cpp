// SPDX-License-Identifier: Apache-2.0
// fk-host compare A B: two plugins of one op against each other. The judge holds two races on the
// same inputs: A with B as its baseline, then B with A. Penalties of a race count against its
// candidate alone, so the interval covers both races.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/cases/routing.hpp"
#include "core/check/bench.hpp"
#include "core/check/check.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/judged.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verb.hpp"
#include "core/cli/verdict_progress.hpp"
#include "core/device/rank_device.hpp"
#include "core/judge/plan/case_plan.hpp"
#include "core/report/table.hpp"
#include "core/report/verdict_documents.hpp"
#include "core/report/verdict_text.hpp"

namespace fk {
namespace {

constexpr double kSameBand = 0.01;  // as in a race

struct CompareArguments {
  std::string first, second, device = "cpu";
  JsonOutput json;
  Policy policy;
};

// A case in both races. The ratio is the second plugin's time over the first one's.
struct ComparedCase {
  std::string op, case_name, variant;
  Status first = Status::unused, second = Status::unused;
  double first_s = 0, second_s = 0;  // 0: not timed
  Ratio ratio;                       // value 0: no race was held in both directions
};
template <class Visitor>
void fields(Visitor& v, ComparedCase& c) {
  const bool timed = c.ratio.value > 0;
  v("op", c.op, "the op");
  v("case", c.case_name, "the case");
  v("variant", c.variant, "the variant of the case; empty: as written");
  v("first", c.first, "the status of the first plugin");
  v("second", c.second, "the status of the second plugin");
  v.optional("first_s", c.first_s, timed, "median time of one call with flushed caches");
  v.optional("second_s", c.second_s, timed, "the same of the second plugin");
  v.optional("speedup", c.ratio.value, timed, "the second plugin's time over the first one's");
  v.optional("speedup_low", c.ratio.low, timed, "the lower of both races' 99 % intervals");
  v.optional("speedup_high", c.ratio.high, timed, "the upper of both");
  v.optional("verdict", c.ratio.speed, timed,
             "the first plugin is faster, same, slower or unknown");
}

struct CompareDocument {
  static constexpr const char* kSchema = "fk-host.compare/1";
  static constexpr const char* kTitle = "Two plugins against each other";
  std::string first, second, device;
  Ratio ratio;
  std::vector<ComparedCase> cases;
  InnerVerdict first_verdict, second_verdict;
};
template <class Visitor>
void fields(Visitor& v, CompareDocument& d) {
  const bool timed = d.ratio.value > 0;
  v("first", d.first, "the first plugin, as it was named");
  v("second", d.second, "the second plugin");
  v("device", d.device, "the device");
  v.optional("speedup", d.ratio.value, timed,
             "geometric mean over the cases that were timed in both races");
  v.optional("speedup_low", d.ratio.low, timed, "lower end of its interval");
  v.optional("speedup_high", d.ratio.high, timed, "upper end");
  v.optional("verdict", d.ratio.speed, timed,
             "the first plugin is faster, same, slower or unknown");
  v("cases", d.cases, "cases of both verdicts");
  v("first_verdict", d.first_verdict, "on the first plugin, with the second as its baseline");
  v("second_verdict", d.second_verdict, "the reverse, with the same seeds");
}
FK_DOCUMENT(compare, CompareDocument);

// The plugin behind a word; a folder is compiled first.
FoundPlugin compared_plugin(const std::string& word, const PluginSet& plugin_set) {
  std::error_code none;
  if (word.find('/') == std::string::npos || !std::filesystem::is_directory(word, none))
    return plugin_set.plugin(word);
  const auto dir = candidate_dir(word);
  const auto built = build_candidate(dir);
  if (!built) fail(dir.string(), "it does not compile", "the compiler's words are above");
  return plugin_set.plugin(*built);
}

std::vector<std::string> common_ops(const FoundPlugin& a, const FoundPlugin& b) {
  std::vector<std::string> of_a, of_b, out;
  for (const auto& op : a.note.ops) of_a.push_back(op.op);
  for (const auto& op : b.note.ops) of_b.push_back(op.op);
  for (const auto& op : of_a)
    if (contains(of_b, op)) out.push_back(op);
  if (out.empty())
    fail("compare", "there is no op that both have",
         plugin_name(a) + " has " + join(of_a, ", ") + "; " + plugin_name(b) + " has " +
             join(of_b, ", "));
  return out;
}

// Both races in one: the first plugin's ratio, and the reverse of the second one's.
Ratio of_both(const Ratio& first, const Ratio& second) {
  Ratio out;
  if (!(first.value > 0 && first.low > 0 && second.value > 0 && second.low > 0)) return out;
  out.value = std::sqrt(first.value / second.value);
  out.low = std::min(first.low, 1 / second.high);
  out.high = std::max(first.high, 1 / second.low);
  out.blocks = first.blocks + second.blocks;
  out.speed = speed_of(out.low, out.high, kSameBand);
  return out;
}

std::vector<ComparedCase> compared_cases(const Verdict& first, const Verdict& second) {
  std::vector<ComparedCase> out;
  for (const CaseVerdict& a : first.cases) {
    const auto same = [&](const CaseVerdict& b) {
      return b.op == a.op && b.case_name == a.case_name && b.variant == a.variant &&
             b.routing == a.routing && b.ranks == a.ranks && b.size == a.size;
    };
    const auto b = std::ranges::find_if(second.cases, same);
    if (b == second.cases.end() || a.left_out || b->left_out) continue;
    // Small cases are judged by values; right ones are not worth a line.
    if (a.beside && is_right(a.status) && is_right(b->status)) continue;
    ComparedCase row{a.op, a.case_name, a.variant, a.status, b->status, 0, 0, {}};
    if (!a.timings.empty() && !b->timings.empty() && is_right(a.status) && is_right(b->status)) {
      row.ratio = of_both(a.timings.front().ratio, b->timings.front().ratio);
      row.first_s = a.timings.front().candidate.cold.median_s;
      row.second_s = b->timings.front().candidate.cold.median_s;
    }
    out.push_back(std::move(row));
  }
  return out;
}

Ratio ratio_of_cases(const std::vector<ComparedCase>& cases) {
  double value = 0, low = 0, high = 0;
  int timed = 0, blocks = 0;
  for (const auto& c : cases) {
    if (!(c.ratio.value > 0)) continue;
    value += std::log(c.ratio.value);
    low += std::log(c.ratio.low);
    high += std::log(c.ratio.high);
    blocks += c.ratio.blocks;
    ++timed;
  }
  Ratio out;
  if (!timed) return out;
  out = {std::exp(value / timed), std::exp(low / timed), std::exp(high / timed), blocks, {}};
  out.speed = speed_of(out.low, out.high, kSameBand);
  return out;
}

// Why there is no ratio; empty: there is one.
std::string untimed_because(const CompareDocument& d) {
  if (d.ratio.value > 0) return "";
  for (const auto& [name, verdict] :
       {std::pair(&d.first, &d.first_verdict), std::pair(&d.second, &d.second_verdict)})
    if (!is_right(verdict->status))
      return *name + " is `" + name_of(verdict->status) + "`: " + verdict->why;
  return "no case was timed in both races";
}

// Why the times do not tell, and the next step, as a race has said; empty: they tell.
std::string untold_because(const CompareDocument& d) {
  if (d.ratio.speed != Speed::unknown) return "";
  for (const auto& [name, verdict] :
       {std::pair(&d.first, &d.first_verdict), std::pair(&d.second, &d.second_verdict)})
    if (verdict->status == Status::cannot_tell)
      return "  why the race of " + excerpt(*name, 200) + ": " + excerpt(verdict->why, 600) +
             "\n  next " + excerpt(verdict->next, 300) + "\n";
  return "  next More --seconds make the interval narrower, if the machine is idle.\n";
}

void print(const CompareDocument& d) {
  const bool colour = colour_wanted(stdout);
  print_report(excerpt(d.first, 200) + " against " + excerpt(d.second, 200) + " on " +
               excerpt(d.device, 200) + "\n\n");
  Table table({{"op"},
               {"case"},
               {excerpt(d.first, 40)},
               {"time", Align::right},
               {excerpt(d.second, 40)},
               {"time", Align::right},
               {"speed of the first (99 %)", Align::right},
               {"verdict"}});
  const auto status = [](Status s) {
    return Cell(name_of(s), is_right(s) ? Style::plain : Style::bad);
  };
  for (const auto& c : d.cases) {
    const bool timed = c.ratio.value > 0;
    table.row({c.op, c.case_name + (c.variant.empty() ? "" : ", " + c.variant), status(c.first),
               timed ? human_duration(c.first_s) : "", status(c.second),
               timed ? human_duration(c.second_s) : "", ratio_text(c.ratio),
               timed ? speed_name(c.ratio.speed) : ""});
  }
  std::printf("%s\n", table.text(colour).c_str());
  const std::string why = untimed_because(d);
  if (!why.empty())
    print_report("not compared: " + excerpt(why, 600) + "\n");
  else
    print_report(std::string(speed_name(d.ratio.speed)) + ": " + excerpt(d.first, 200) + " is " +
                 ratio_text(d.ratio) + " times as fast as " + excerpt(d.second, 200) + "\n" +
                 untold_because(d));
}

Verdict verdict_against(const FoundPlugin& plugin, const FoundPlugin& rival,
                        const CompareArguments& a, const Secret& secret) {
  Question question;
  question.candidate = plugin.path;
  question.policy = a.policy;
  question.device = a.device;
  VerdictProgress progress;
  return judge_against(rival, question, secret, progress.listener());
}

int compare(CompareArguments& a) {
  a.json.open();
  check_device_name(a.device);
  check_seconds(a.policy.seconds);
  if (a.policy.captured.empty())
    need_size(a.policy.size);
  else
    a.policy.captured = std::filesystem::absolute(a.policy.captured).lexically_normal();
  if (!a.policy.captured.empty()) a.policy.size = "captured";
  skew_of_routing(a.policy.routing);
  const Catalog catalog(paths::registry_dirs());
  const PluginSet plugin_set = PluginSet::find(catalog);
  const FoundPlugin first = compared_plugin(a.first, plugin_set);
  const FoundPlugin second = compared_plugin(a.second, plugin_set);
  std::error_code none;
  if (std::filesystem::equivalent(first.path, second.path, none))
    fail("compare", "both are the same file: " + first.path.string(), "name two plugins");
  const auto common = common_ops(first, second);
  need_known(a.policy.ops, common, "--op", "op that both have");
  if (a.policy.ops.empty()) a.policy.ops = common;
  const Secret secret = Secret::draw();
  CompareDocument out{a.first, a.second, {}, {}, {}, {}, {}};
  out.first_verdict = {verdict_against(first, second, a, secret)};
  out.second_verdict = {verdict_against(second, first, a, secret)};
  out.device = out.first_verdict.device;
  out.cases = compared_cases(out.first_verdict, out.second_verdict);
  out.ratio = ratio_of_cases(out.cases);
  if (a.json.given()) a.json.write(document(out));
  if (a.json.with_report()) print(out);
  return std::max(out.first_verdict.exit_code(), out.second_verdict.exit_code());
}

std::function<int()> add_compare(const Options& app) {
  auto a = std::make_shared<CompareArguments>();
  app.add_option("A", a->first, "a plugin: a .so, a name, or a folder, which is compiled first")
      .required();
  app.add_option("B", a->second, "its opponent; a baseline is one, too").required();
  app.add_option("--device", a->device, "cpu (the default) or cuda:0");
  app.add_option("--op", a->policy.ops, "only this one of the ops that both have").one_at_a_time();
  app.add_option("--case", a->policy.cases, "only this case (may be repeated)").one_at_a_time();
  app.add_option("--size", a->policy.size, "full (the default), ci or smoke cases");
  app.add_option("--recorded", a->policy.captured, "cases of this folder (fk-host record)");
  app.add_option("--routing", a->policy.routing, "load of experts, as for bench");
  app.add_option("--seconds", a->policy.seconds, "approximate time per case and race");
  app.add_flag("--thorough", a->policy.thorough,
               "all cases, and all timed; else those for which there is time");
  app.add_option("--patience", a->policy.patience_s,
                 "seconds without a sign of life before a plugin is stopped")
      .positive();
  app.add_option("--budget", a->policy.budget_s, "seconds for each of the two verdicts; 0: no end");
  app.add_flag("!--no-sandbox", a->policy.sandbox,
               "run candidates without a sandbox, with all rights of this user");
  a->json.declare(app);
  a->json.declare_views(app);
  return [a] { return compare(*a); };
}

FK_VERB(compare, "race two plugins of one op against each other, with intervals", add_compare);

}  // namespace
}  // namespace fk
