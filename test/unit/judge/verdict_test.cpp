// SPDX-License-Identifier: Apache-2.0
// The content of a verdict: the table of statuses, the choice among several, and the geometric
// mean. JSON loses nothing.
#include "core/judge/verdict/verdict.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/report/verdict_text.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

CaseVerdict timed(const std::string& name, double ratio, double half) {
  CaseVerdict c;
  c.op = "rms_norm";
  c.case_name = name;
  c.baseline = "cpu";
  TimingRow t;
  t.mode = "eager";
  t.ratio.value = ratio;
  t.ratio.low = ratio * std::exp(-half);
  t.ratio.high = ratio * std::exp(half);
  t.ratio.blocks = 10;
  t.ratio.speed = speed_of(t.ratio.low, t.ratio.high, 0.01);
  t.candidate.cold = {1e-5, 0.9e-5, 1.1e-5, 20, 1};
  t.candidate.roofline = 0.5;
  c.status = status_of(t.ratio.speed);
  c.timings.push_back(t);
  return c;
}

CaseVerdict with(Status status) {
  CaseVerdict c;
  c.op = "rms_norm";
  c.case_name = "small";
  c.status = status;
  c.why = "because";
  return c;
}

Status status_with(std::vector<CaseVerdict> cases) {
  Verdict v;
  v.cases = std::move(cases);
  conclude(v);
  return v.status;
}

}  // namespace

TEST_CASE("every status has its row, a name of its own and a sentence to go on with") {
  std::set<std::string> names;
  int count = 0;
  for (const auto& info : statuses()) {
    CHECK(static_cast<int>(info.status) == count++);
    CHECK(&info_of(info.status) == &info);
    CHECK(status_of(std::string_view(info.name)) == info.status);
    CHECK(names.insert(info.name).second);
    const std::string next = info.next;
    REQUIRE(!next.empty());
    CHECK(next.back() == '.');
    CHECK((info.exit_code == 0 || info.exit_code == 1 || info.exit_code == 3));
    CHECK(is_failure(info.status) <= (info.exit_code == 1));
    CHECK(is_right(info.status) <= (info.exit_code == 0));
  }
  CHECK(count == static_cast<int>(Status::unused) + 1);
  CHECK_FALSE(status_of(std::string_view("fine")));
}

TEST_CASE("a broken rule says what to look at") {
  for (const char* rule : {"supports",        "create",     "prepare",   "plan",      "forward",
                           "input",           "frame",      "leak",      "state",     "packed",
                           "batch_invariant", "scratch",    "footprint", "reset",     "threads",
                           "thread",          "instances",  "stream",    "unwritten", "waits",
                           "sandbox",         "replicated", "guard"}) {
    INFO(rule);
    Verdict v;
    v.cases = {with(Status::violation)};
    v.cases[0].rule = rule;
    conclude(v);
    CHECK(v.next == next_of_rule(rule));
    REQUIRE(!v.next.empty());
    CHECK(v.next.back() == '.');
  }
  // Whoever knows more has said it.
  Verdict v;
  v.cases = {with(Status::violation)};
  v.cases[0].rule = "input";
  v.cases[0].next = "Look there.";
  conclude(v);
  CHECK(v.next == "Look there.");
  Verdict other;
  other.cases = {with(Status::violation)};
  other.cases[0].rule = "of tomorrow";
  conclude(other);
  CHECK(other.next == info_of(Status::violation).next);
}

// A CPU has neither a roofline nor launches, so the next step names other measures.
TEST_CASE("verdict_next_step_fits_the_device_and_the_reason") {
  const auto next = [](const char* device, const char* why, Status status) {
    Verdict v;
    v.device = device;
    v.cases = {with(status)};
    v.cases[0].why = why;
    v.cases[0].timings.emplace_back();
    conclude(v);
    CHECK(v.cases[0].next == v.next);
    return v.next;
  };
  for (const Status status : {Status::slower, Status::same})
    CHECK_THAT(next("cpu AMD EPYC", "", status), ContainsSubstring("of copy"));
  CHECK_THAT(next("cuda:0 NVIDIA H200", "", Status::slower), ContainsSubstring("roofline"));
  CHECK_THAT(next("cpu AMD EPYC", "no reference provider implements cube", Status::unjudged),
             ContainsSubstring("reference.NAME"));
  CHECK(next("cpu AMD EPYC", "the case is too large", Status::unjudged) ==
        info_of(Status::unjudged).next);
}

TEST_CASE("one bad case decides, a refused or untestable one does not") {
  const auto fast = timed("a", 1.5, 0.01);
  CHECK(status_with({fast, with(Status::refused), with(Status::untestable)}) == Status::faster);
  CHECK(status_with({fast, with(Status::wrong), with(Status::crashed)}) == Status::crashed);
  CHECK(status_with({fast, with(Status::wrong), with(Status::cheating)}) == Status::cheating);
  CHECK(status_with({fast, with(Status::environment)}) == Status::environment);
  CHECK(status_with({with(Status::environment), with(Status::wrong)}) == Status::wrong);
  CHECK(status_with({with(Status::refused), with(Status::refused)}) == Status::refused);
  CHECK(status_with({with(Status::correct), with(Status::refused)}) == Status::correct);
  CHECK(status_with({with(Status::unjudged), with(Status::refused)}) == Status::unjudged);
}

TEST_CASE("an op that nobody judged is not hidden by a right one") {
  const auto of_op = [](CaseVerdict c, const char* op) {
    c.op = op;
    return c;
  };
  const CaseVerdict right = of_op(timed("a", 1.5, 0.01), "add");
  const CaseVerdict unjudged = of_op(with(Status::unjudged), "gelu");
  CHECK(status_with({right, unjudged}) == Status::unjudged);
  CHECK(status_with({right, unjudged, of_op(with(Status::refused), "gelu")}) == Status::unjudged);
  CHECK(status_with({right, unjudged, of_op(with(Status::correct), "gelu")}) == Status::faster);
  CHECK(status_with({right, of_op(with(Status::unjudged), "add")}) == Status::faster);
  CHECK(status_with({of_op(with(Status::wrong), "add"), unjudged}) == Status::wrong);
  CaseVerdict left_out = unjudged;
  left_out.left_out = true;
  CHECK(status_with({right, left_out}) == Status::faster);
  Verdict v;
  v.cases = {right, unjudged};
  conclude(v);
  CHECK(v.why.find("gelu") == 0);
  CHECK(contradiction(v).empty());
}

TEST_CASE("speed of the whole is that of the geometric mean, with a narrower interval") {
  Verdict v;
  v.cases = {timed("a", 2.0, 0.04), timed("b", 0.5, 0.04), timed("c", 1.0, 0.04),
             timed("d", 1.0, 0.04)};
  conclude(v);
  CHECK(v.aggregate.ratio.value == Approx(1.0));
  CHECK(v.aggregate.ratio.high == Approx(std::exp(0.02)));  // 0.04 * sqrt(4) / 4
  CHECK(v.aggregate.ratio.low == Approx(std::exp(-0.02)));
  CHECK(v.status == Status::cannot_tell);
  CHECK(v.aggregate.faster == 1);
  CHECK(v.aggregate.slower == 1);
  CHECK(v.aggregate.cannot_tell == 2);
  CHECK(v.aggregate.right == 4);
  CHECK_THAT(v.why, ContainsSubstring("of 4 cases 1 faster"));
  // Twenty cases that cannot be told for the same penalty are not faster together.
  std::vector<CaseVerdict> penalised(20, timed("a", 1.5, 0.01));
  for (auto& c : penalised) {
    c.status = Status::cannot_tell;
    c.timings[0].ratio.low = 0.9;
  }
  CHECK(aggregate_of(penalised).ratio.speed == Speed::unknown);
  CHECK(aggregate_of(penalised).ratio.low == Approx(0.9).epsilon(0.02));
  // Nor are those that cannot be told for noise, of which nobody has penalised one.
  std::vector<CaseVerdict> noisy(20, timed("a", 1.3, 0.3));
  CHECK(noisy[0].status == Status::cannot_tell);
  CHECK(aggregate_of(noisy).ratio.speed == Speed::unknown);
  noisy.push_back(timed("b", 1.5, 0.01));
  CHECK(aggregate_of(noisy).ratio.speed == Speed::faster);
  CHECK(aggregate_of(noisy).ratio.low == Approx(std::exp((std::log(1.5) - 0.01) / 21)));
  CHECK(aggregate_of({&noisy[0], 1}).ratio.low == Approx(noisy[0].timings[0].ratio.low));
  // A case alone decides for itself.
  CHECK(status_with({timed("a", 0.9, 0.01)}) == Status::slower);
  CHECK(status_with({timed("a", 1.001, 0.005)}) == Status::same);
}

TEST_CASE("smaller cases beside those that were asked for count when they fail") {
  const auto beside = [](Status status) {
    CaseVerdict c = with(status);
    c.size = "smoke";
    c.beside = true;
    return c;
  };
  Verdict v;
  v.cases = {beside(Status::correct), timed("a", 1.5, 0.01)};
  conclude(v);
  CHECK(v.status == Status::faster);
  CHECK(v.aggregate.cases == 1);
  CHECK(v.aggregate.right == 1);
  CHECK(v.aggregate.beside == 1);
  CHECK(v.why == "of 1 case 1 faster; 1 more right");
  v = {};
  v.cases = {beside(Status::wrong), timed("a", 1.5, 0.01)};
  conclude(v);
  CHECK(v.status == Status::wrong);
  CHECK(v.aggregate.cases == 1);
  CHECK(v.aggregate.failed == 1);
  CHECK(v.why == "rms_norm, case small of smoke cases: because; right: a");
  // A candidate which refuses the requested cases was not judged.
  v = {};
  v.cases = {beside(Status::correct), with(Status::refused)};
  conclude(v);
  CHECK(v.status == Status::refused);
}

TEST_CASE("a case without a rival wins no medal for the whole") {
  CaseVerdict alone = timed("b", 25, 0.01);
  alone.oracle = alone.baseline = "reference";
  alone.status = Status::correct;  // as the race concludes
  alone.why = "it has no rival";
  Verdict v;
  v.cases = {timed("a", 1.5, 0.01), alone};
  conclude(v);
  CHECK(v.status == Status::faster);
  CHECK(v.why == "of 2 cases 1 faster, 1 right and not compared");
  CHECK(v.aggregate.ratio.value == Approx(1.5));
  CHECK(contradiction(v).empty());
  Verdict only;
  only.cases = {alone, alone};
  conclude(only);
  CHECK(only.status == Status::correct);
  CHECK(only.aggregate.ratio.value == 0);
  CHECK_THAT(only.why, ContainsSubstring("it has no rival"));
  CHECK_THAT(verdict_text(only, false), !ContainsSubstring("25.0"));
}

TEST_CASE("the case that decides speaks for the whole") {
  Verdict v;
  v.cases = {timed("a", 1.5, 0.01), with(Status::wrong)};
  v.cases[1].evidence = "element 7";
  conclude(v);
  CHECK(v.why == "rms_norm, case small: because; right: a");
  CHECK(v.evidence == "element 7");
  CHECK(v.next == info_of(Status::wrong).next);
  CHECK(v.exit_code() == 1);
  // Which sizes fail, and which do not, says why.
  Verdict some;
  some.cases = {timed("a", 1.5, 0.01), with(Status::wrong)};
  some.cases[0].sizes = "T=5 size=32";
  some.cases[1].sizes = "T=3 size=17";
  conclude(some);
  CHECK(some.why == "rms_norm, case small (T=3 size=17): because; right: a (T=5 size=32)");
  CHECK_THAT(verdict_text(some, false), ContainsSubstring("case small (T=3 size=17): wrong"));
  // One failed case is told in full, or all of them.
  Verdict several = some;
  several.cases.push_back(with(Status::wrong));
  several.cases[2].case_name = "tiny";
  several.cases[2].sizes = "T=1";
  several.cases[2].why = "for another reason";
  CHECK_THAT(verdict_text(several, false), ContainsSubstring("case tiny (T=1): wrong"));
  const std::string brief = verdict_text(several, false, false);
  CHECK_THAT(brief, ContainsSubstring("case small (T=3 size=17): wrong"));
  CHECK_THAT(brief, !ContainsSubstring("case tiny (T=1): wrong"));
  CHECK_THAT(brief, ContainsSubstring("The table has 1 more failed case; `--verbose`"));
  for (const char* name : {"b", "c", "d"}) some.cases.push_back(timed(name, 1.5, 0.01));
  some.why.clear();
  conclude(some);
  CHECK_THAT(some.why, ContainsSubstring("; right: a (T=5 size=32), b, c and 1 more"));
  // A finding from before the cases stays.
  Verdict early;
  early.status = Status::lint;
  early.why = "no note";
  conclude(early);
  CHECK(early.status == Status::lint);
  CHECK(early.why == "no note");
  CHECK(early.next == info_of(Status::lint).next);
}

TEST_CASE("the wrong case with the largest error speaks") {
  const auto wrong = [](const char* name, double worst) {
    CaseVerdict c = with(Status::wrong);
    c.case_name = name;
    c.why = name;
    c.errors.emplace().worst = worst;
    return c;
  };
  Verdict v;
  v.cases = {wrong("small", 2), wrong("large", 900), wrong("middle", 30)};
  conclude(v);
  CHECK_THAT(v.why, ContainsSubstring("case large: large"));
  // No number is larger than any, and a status that comes first is no matter of size.
  v = {};
  v.cases = {wrong("large", 900), wrong("none", NAN), with(Status::crashed)};
  conclude(v);
  CHECK(v.status == Status::crashed);
  v.cases.pop_back();
  v.why.clear();
  conclude(v);
  CHECK_THAT(v.why, ContainsSubstring("case none: none"));
}

TEST_CASE("the pattern that most wrong cases have speaks, before the largest error") {
  const auto wrong = [](const char* pattern, double worst) {
    CaseVerdict c = with(Status::wrong);
    c.next = std::string("mend ") + pattern;
    ErrorFigures& errors = c.errors.emplace();
    errors.worst = worst;
    errors.name = pattern;
    return c;
  };
  const auto next = [](std::vector<CaseVerdict> cases) {
    Verdict v;
    v.cases = std::move(cases);
    conclude(v);
    return v.next;
  };
  const CaseVerdict asked = wrong("attribute_without_effect", 5), sum = wrong("factor", 30),
                    place = wrong("every_element", 900);
  CHECK(next({place, asked, place, place}) == "mend attribute_without_effect");
  CHECK(next({sum, place, place}) == "mend factor");
  CHECK(next({sum, sum, sum, asked}) == "mend attribute_without_effect");
  CHECK(next({sum, sum, asked, sum, sum, sum}) == "mend factor");
  CHECK(next({wrong("nan", 1), wrong("tail", 2)}) == "mend tail");  // equal: the larger error
}

TEST_CASE("gaps are the cause where no case without them is wrong") {
  const auto wrong = [](std::vector<std::string> strided, const char* name) {
    CaseVerdict c = with(Status::wrong);
    c.why = "out: NaN in 9 elements; 9 are off";
    c.strided = std::move(strided);
    ErrorFigures& errors = c.errors.emplace();
    errors.worst = INFINITY;
    errors.pattern = "NaN in 9 elements";
    errors.name = name;
    return c;
  };
  const auto concluded = [](std::vector<CaseVerdict> cases) {
    Verdict v;
    v.cases = std::move(cases);
    conclude(v);
    return v;
  };
  const Verdict gaps = concluded({wrong({"k", "v"}, "nan"), timed("a", 1.5, 0.01)});
  CHECK(gaps.cases[0].errors->name == "strided");
  CHECK_THAT(gaps.why, ContainsSubstring("wrong only where rows are strided: in cases with gaps in "
                                         "k, v; 9 are off"));
  CHECK_THAT(gaps.next, ContainsSubstring("strides in each of k, v"));
  // No right case, a wrong case without gaps, a right case with gaps, and numbers that are wrong.
  CHECK(concluded({wrong({"k"}, "nan")}).cases[0].errors->name == "nan");
  CHECK(concluded({wrong({"k"}, "nan"), wrong({}, "nan"), timed("a", 1.5, 0.01)})
            .cases[0]
            .errors->name == "nan");
  CaseVerdict right = timed("a", 1.5, 0.01);
  right.strided = {"k"};
  CHECK(concluded({wrong({"k"}, "nan"), right}).cases[0].errors->name == "nan");
  CHECK(concluded({wrong({"k"}, "tail"), timed("a", 1.5, 0.01)}).cases[0].errors->name == "tail");
  // A right row 0 says nothing where a dense case is wrong, or a case with the same gaps right.
  const auto named = [&](std::vector<CaseVerdict> cases) {
    return concluded(std::move(cases)).cases[0].errors->name;
  };
  CHECK(named({wrong({"k"}, "strided")}) == "strided");
  CaseVerdict knows = wrong({"k", "v"}, "strided");
  knows.next = "Compute the addresses of k.";
  const Verdict known = concluded({knows, timed("a", 1.5, 0.01)});
  CHECK(known.cases[0].errors->pattern == "wrong only where rows are strided: NaN in 9 elements");
  CHECK(known.next == "Compute the addresses of k.");
  CHECK(named({wrong({"k"}, "strided"), wrong({}, "factor"), timed("a", 1.5, 0.01)}) ==
        "rows_or_columns");
  CHECK(named({wrong({"k"}, "strided"), right}) == "rows_or_columns");
  const Verdict refuted = concluded({wrong({"k"}, "strided"), right, timed("a", 1.5, 0.01)});
  CHECK(refuted.cases[0].errors->pattern == "row 0 alone is right");
  CHECK(refuted.why.find("strided") == std::string::npos);
  CHECK(refuted.next == info_of(Status::wrong).next);
  right.strided = {"q"};
  CHECK(named({wrong({"k"}, "strided"), right}) == "strided");
}

TEST_CASE("a verdict survives JSON, and the text has what the JSON has") {
  Verdict v;
  v.candidate = {"mine", "1.0", "candidates/mine.so", "ab12"};
  v.baselines = {{"cpu", "0.1", "cpu.so", "cd34"}};
  v.cases = {timed("a", 1.5, 0.01), with(Status::wrong)};
  auto& c = v.cases[1];
  c.errors = ErrorFigures{.field = "y",
                          .worst = INFINITY,
                          .pattern = "row 3",
                          .name = "axis",
                          .axes = {{"T", "tokens", 4, 1, "3"}},
                          .figures = {{"factor", 1.5}},
                          .first_bad = 7,
                          .got = 1.5,
                          .want = 2.5,
                          .wrong = 3,
                          .compared = 400,
                          .limit = "0.01 |want|"};
  c.families = {{"normal", "correct", 3, 0.5}, {"heavy_tail", "wrong", 1, 12.0}};
  c.nulls = {{"zeros", true, 100.0}, {"copy", false, 0.25}};
  c.evidence = "line one\nline two";
  v.protections = {{"landlock", true, ""}, {"seccomp", false, "not allowed here"}};
  v.secret = "00ff";
  v.commitment = "beef";
  v.time = "2026-01-31T12:00:00Z";
  conclude(v);
  const Json json = to_json(v);
  const Verdict back = verdict_from(parse_json(json.dump(), "test"), "test");
  CHECK(to_json(back).dump() == json.dump());
  CHECK(std::isnan(back.cases[1].errors->worst));
  CHECK(json["cases"][1]["errors"]["axes"][0]["indices"] == "3");
  CHECK(back.cases[1].errors->axes.at(0).meaning == "tokens");
  CHECK(back.cases[1].errors->figures.at("factor") == 1.5);
  CHECK_FALSE(back.cases[0].errors);
  CHECK(back.cases[0].timings[0].candidate.roofline == 0.5);
  CHECK_FALSE(back.cases[0].timings[0].candidate.occupancy);

  const std::string text = verdict_text(v, false);
  for (const char* part : {"mine", "candidates/mine.so", "1.500 (1.485-1.515)", "wrong", "because",
                           "line two", "row 3", "heavy_tail", "copy", "landlock",
                           "not allowed here", "00ff", "beef", "10.0 us", "50%"})
    CHECK_THAT(text, ContainsSubstring(part));
}

TEST_CASE("JSON that is no verdict is refused with the place") {
  Json json = to_json(Verdict{});
  json["aggregate"]["ratio"]["value"] = "much";
  CHECK_THAT(message_of<Error>([&] { verdict_from(json, "x.json"); }),
             ContainsSubstring("x.json.aggregate.ratio.value: is no number"));
  json = to_json(Verdict{});
  json["status"] = "splendid";
  CHECK_THAT(message_of<Error>([&] { verdict_from(json, "x.json"); }),
             ContainsSubstring("status: is none of the names"));
  json = to_json(Verdict{});
  json["schema"] = "fk-host.verdict/2";
  CHECK_THAT(message_of<Error>([&] { verdict_from(json, "x.json"); }),
             ContainsSubstring("this host knows fk-host.verdict/1"));
}

TEST_CASE("docs/schema/verdict.json is what this host writes") {
  // Written by `fk-host show verdict --schema > docs/schema/verdict.json`.
  const std::string committed = read_file(paths::home() / "docs/schema/verdict.json");
  CHECK(committed == verdict_schema().dump(1) + "\n");
}

TEST_CASE("docs/verdict.md has the table of statuses as it is") {
  const std::string page = read_file(paths::home() / "docs/verdict.md");
  for (const auto& s : statuses())
    CHECK_THAT(
        page, ContainsSubstring("| `" + std::string(s.name) + "` | " + std::to_string(s.exit_code) +
                                " | " + s.meaning + " | " + s.next + " |"));
}
