// SPDX-License-Identifier: Apache-2.0
// Asking twice: the second answer comes from the store, unless anything that it depends on has
// changed. Replaying: what must be equal and what may differ.
#include "core/store/answer.hpp"

#include <cstdlib>
#include <filesystem>

#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#if defined(FK_SQLITE)
#include "core/store/database.hpp"
#endif
#include "core/store/replay.hpp"
#include "core/store/store.hpp"
#include "test/catch.hpp"

using namespace fk;
namespace fs = std::filesystem;

namespace {

struct StoreSetting {
  fs::path path;
  Question question;
  int asked = 0;
  StoreSetting() {
    std::string name = (fs::temp_directory_path() / "fk_answer_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
    ::setenv("FK_DATA", (path / "data").c_str(), 1);
    question.candidate = path / "mine.so";
    write_file_atomic(question.candidate, "no plugin at all");
  }
  ~StoreSetting() {
    ::unsetenv("FK_DATA");
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Answer ask_again(const AnswerOptions& options = {}, Status status = Status::wrong) {
    const AskJudge judge = [&](const Question&, const Secret& secret) {
      ++asked;
      Verdict v;
      CaseVerdict c;
      c.op = "rms_norm";
      c.case_name = std::to_string(secret.seed("case"));
      c.status = status;
      v.cases = {c};
      return v;
    };
    return answer(question, judge, options);
  }
};

CaseVerdict timed(double ratio, double half) {
  CaseVerdict c;
  c.op = "rms_norm";
  c.case_name = "small";
  TimingRow t;
  t.ratio = {ratio, ratio - half, ratio + half, 20, Speed::unknown};
  t.ratio.speed = speed_of(t.ratio.low, t.ratio.high, 0.01);
  c.status = status_of(t.ratio.speed);
  c.timings = {t};
  return c;
}

Verdict of(std::vector<CaseVerdict> cases) {
  Verdict v;
  v.cases = std::move(cases);
  conclude(v);
  return v;
}

bool reproduced(const Verdict& was, const Verdict& now) {
  for (const auto& d : verdict_differences(was, now))
    if (d.matters) return false;
  return true;
}

}  // namespace

TEST_CASE("a question that was asked before is not asked again") {
  StoreSetting s;
  const Answer first = s.ask_again();
  CHECK_FALSE(first.verdict.stored);
  CHECK(first.verdict.candidate.sha256 == sha256("no plugin at all"));
  CHECK(Secret::from_hex(first.verdict.secret, "x").commitment() == first.verdict.commitment);
  CHECK(first.verdict.receipt.size() == 16);
  std::string unverified;
  CHECK(read_receipt(first.receipt, "r", unverified).verdict.receipt == first.verdict.receipt);
  if (!no_store().empty()) return;

  const Answer second = s.ask_again();
  CHECK(s.asked == 1);
  CHECK(second.verdict.stored);
  CHECK(second.verdict.cases[0].case_name == first.verdict.cases[0].case_name);
  CHECK(second.receipt == first.receipt);

  // Fresh: another secret, and it is the newest from then on.
  AnswerOptions fresh;
  fresh.fresh = true;
  const Answer third = s.ask_again(fresh);
  CHECK(s.asked == 2);
  CHECK(third.verdict.secret != first.verdict.secret);
  CHECK(s.ask_again().verdict.secret == third.verdict.secret);
  AnswerOptions none;
  none.store = false;
  CHECK_FALSE(s.ask_again(none).verdict.stored);
  CHECK(s.asked == 3);
  CHECK(s.ask_again().verdict.secret == third.verdict.secret);
}

TEST_CASE("what the answer depends on makes another question") {
  if (!no_store().empty()) return;
  StoreSetting s;
  s.ask_again();
  REQUIRE(s.ask_again().verdict.stored);
  const auto changes = std::vector<std::function<void(Question&)>>{
      [](Question& q) { q.policy.size = "smoke"; },
      [](Question& q) { q.policy.cases = {"small"}; },
      [](Question& q) { q.policy.families = {"ties"}; },
      [](Question& q) { q.policy.seconds = 2; },
      [](Question& q) { q.policy.threads = 3; },
      [](Question& q) { q.policy.patience_s = 3; },
      [](Question& q) { q.policy.sandbox = false; },
      [](Question& q) { q.policy.ops = {"rms_norm"}; },
      [](Question& q) { q.device = "cuda:0"; },
      [](Question& q) {
        q.also = {{"captured", "1234"}};
      },
      [](Question& q) { write_file_atomic(q.candidate, "no plugin at all!"); }};
  for (const auto& change : changes) {
    change(s.question);
    CHECK_FALSE(s.ask_again().verdict.stored);
    CHECK(s.ask_again().verdict.stored);
  }
  // A baseline that was not there.
  write_file_atomic(s.path / "more" / "baseline.so", "x");
  ::setenv("FK_PLUGIN_PATH", (s.path / "more").c_str(), 1);
  CHECK_FALSE(s.ask_again().verdict.stored);
  ::unsetenv("FK_PLUGIN_PATH");
  CHECK(s.ask_again().verdict.stored);
}

#if defined(FK_SQLITE)
TEST_CASE("what the store remembers of a file is no answer to which file it is") {
  StoreSetting s;
  s.question.candidate = fs::canonical("/proc/self/exe");  // was not written just now
  const std::string hash = s.ask_again().verdict.candidate.sha256;
  const fs::path file = s.path / "data" / "verdicts.sqlite";
  Database(file, 1000)
      .run("UPDATE files SET sha256='of another file' WHERE path='" +
           s.question.candidate.string() + "'");
  CHECK(s.ask_again().verdict.stored);
  CHECK(s.ask_again().verdict.candidate.sha256 == hash);
}
#endif

TEST_CASE("a verdict in which the host failed is never an answer") {
  StoreSetting s;
  s.ask_again({}, Status::environment);
  CHECK_FALSE(s.ask_again({}, Status::environment).verdict.stored);
  CHECK(s.asked == 2);
}

TEST_CASE(
    "a verdict whose times do not tell is judged again, and the new one answers from then on") {
  if (!no_store().empty()) return;
  StoreSetting s;
  CHECK(s.ask_again({}, Status::cannot_tell).verdict.status == Status::cannot_tell);
  CHECK_FALSE(s.ask_again({}, Status::wrong).verdict.stored);
  CHECK(s.asked == 2);
  const Answer third = s.ask_again({}, Status::slower);
  CHECK(third.verdict.stored);
  CHECK(third.verdict.status == Status::wrong);
}

TEST_CASE("a file that changes while it is judged has no verdict") {
  StoreSetting s;
  const AskJudge judge = [&](const Question& q, const Secret&) {
    write_file_atomic(q.candidate, "another");
    Verdict v;
    v.cases = {timed(1.5, 0.01)};
    return v;
  };
  const Verdict v = answer(s.question, judge, {}).verdict;
  CHECK(v.status == Status::environment);
  CHECK_THAT(v.why, ContainsSubstring("written while it was judged"));
  CHECK(v.cases.empty());
  CHECK(v.exit_code() == 3);
}

TEST_CASE("a store that cannot be written changes nothing but the notes") {
  StoreSetting s;
  write_file_atomic(s.path / "file", "x");
  ::setenv("FK_DATA", (s.path / "file" / "below").c_str(), 1);
  const Answer a = s.ask_again();
  CHECK(a.verdict.status == Status::wrong);
  REQUIRE(a.notes.size() == 2);
  CHECK_THAT(a.notes[0], ContainsSubstring("the verdict is not stored"));
  CHECK_THAT(a.notes[1], ContainsSubstring("the receipt is not signed"));
}

TEST_CASE("a verdict is reproduced when right stays right and intervals meet") {
  CHECK(reproduced(of({timed(1.5, 0.02)}), of({timed(1.53, 0.02)})));
  CHECK_FALSE(reproduced(of({timed(1.5, 0.02)}), of({timed(1.6, 0.02)})));
  // Faster and cannot tell, with intervals that meet.
  CHECK(reproduced(of({timed(1.03, 0.02)}), of({timed(1.0, 0.02)})));
  CaseVerdict wrong;
  wrong.op = "rms_norm";
  wrong.case_name = "small";
  wrong.status = Status::wrong;
  wrong.errors = ErrorFigures{};
  wrong.errors->worst = 3;
  CHECK(reproduced(of({wrong}), of({wrong})));
  CHECK_FALSE(reproduced(of({wrong}), of({timed(1.5, 0.02)})));
  CaseVerdict crashed = wrong;
  crashed.status = Status::crashed;
  CHECK_FALSE(reproduced(of({wrong}), of({crashed})));
  CaseVerdict other = wrong;
  other.case_name = "large";
  CHECK_FALSE(reproduced(of({wrong, other}), of({wrong})));
  CHECK_FALSE(reproduced(of({wrong}), of({wrong, other})));
  // Another largest error is told and does not matter.
  CaseVerdict further = wrong;
  further.errors->worst = 4;
  const auto d = verdict_differences(of({wrong}), of({further}));
  REQUIRE(d.size() == 1);
  CHECK(d[0].was == "3");
  CHECK(d[0].now == "4");
  CHECK_FALSE(d[0].matters);
}

TEST_CASE("whoever claims a speed is held to it, however wide its interval is") {
  const auto claims = [](double value, double low, double high) {
    CaseVerdict c = timed(value, 0);
    c.timings[0].ratio = {value, low, high, 20, speed_of(low, high, 0.01)};
    c.status = status_of(c.timings[0].ratio.speed);
    return of({c});
  };
  CHECK_FALSE(reproduced(claims(9, 1.01, 100), of({timed(1.05, 0.02)})));
  CHECK_FALSE(reproduced(claims(0.1, 0.001, 0.99), of({timed(0.9, 0.02)})));
  // Wide because it was noisy, then or now.
  CHECK(reproduced(claims(1.5, 1.1, 2), of({timed(1.4, 0.02)})));
  CHECK(reproduced(claims(1.5, 1.49, 1.51), claims(1.3, 0.8, 2.1)));
  CHECK(reproduced(claims(1.3, 0.8, 2.1), claims(2, 1.99, 2.01)));
  // A status that its interval does not give.
  Verdict better = of({timed(0.4, 0.02)});
  const Verdict now = better;
  better.status = Status::faster;
  CHECK_FALSE(reproduced(better, now));
  better = now;
  better.cases[0].status = Status::faster;
  CHECK_FALSE(reproduced(better, now));
}

TEST_CASE("a receipt that contradicts itself is none") {
  const auto read = [](const std::function<void(Verdict&)>& change) {
    CaseVerdict right;
    right.op = "rms_norm";
    right.case_name = "large";
    right.status = Status::correct;
    Verdict v = of({timed(0.4, 0.02), right});
    change(v);
    std::string unverified;
    return read_receipt(make_receipt({}, v, nullptr, "no key"), "r", unverified).verdict.status;
  };
  CHECK(read([](Verdict&) {}) == Status::slower);
  CHECK(read([](Verdict& v) { v.cases.pop_back(), conclude(v); }) == Status::slower);
  const auto lies = std::vector<std::pair<const char*, std::function<void(Verdict&)>>>{
      {"is `faster`; of its cases", [](Verdict& v) { v.status = Status::faster; }},
      {"which its interval", [](Verdict& v) { v.cases[0].status = Status::faster, conclude(v); }},
      {"which its interval",
       [](Verdict& v) {
         v.cases[0].status = Status::faster;
         v.cases[0].timings[0].ratio.speed = Speed::faster;
         conclude(v);
       }},
      {"without a time", [](Verdict& v) { v.cases[0].timings.clear(); }},
      {"without a case", [](Verdict& v) { v.cases.clear(); }},
      {"is not that of its cases", [](Verdict& v) { v.aggregate.ratio.value = 4; }},
      {"is not that of its cases", [](Verdict& v) { v.aggregate.faster = 1; }}};
  for (const auto& [why, lie] : lies)
    CHECK_THROWS_WITH(read(lie), ContainsSubstring("contradicts itself") && ContainsSubstring(why));
}

TEST_CASE("differences of keys are told by name") {
  VerdictKey a, b;
  a.add("driver", "1"), a.add("size", "ci"), a.add("gone", "x");
  b.add("driver", "2"), b.add("size", "ci");
  const auto d = key_differences(a, b);
  REQUIRE(d.size() == 2);
  CHECK(d[0].what == "driver");
  CHECK(d[1].what == "gone");
  CHECK(d[1].now == "absent");
}
