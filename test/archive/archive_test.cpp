// SPDX-License-Identifier: Apache-2.0
// The parts of the archive that need no judge.
#include "core/archive/archive.hpp"

#include <cmath>

#include "core/archive/difference.hpp"
#include "core/archive/elites.hpp"
#include "core/archive/memory.hpp"
#include "core/archive/mutate.hpp"
#include "core/archive/trajectories.hpp"
#include "core/base/error.hpp"
#include "test/catch.hpp"
#include "test/folder.hpp"

using namespace fk;

namespace {

JudgedProgram judged(const std::string& text, const std::string& status, double speed = 0) {
  JudgedProgram p;
  p.op = "rms_norm", p.family = "norm", p.kind = "cpu", p.language = "cpp", p.name = "mine";
  p.files = {{"rms_norm.cpp", text}};
  p.verdict.status = status;
  p.verdict.why = "because of " + text;
  p.verdict.device = "a processor";
  if (speed > 0) p.verdict.speed = speed, p.verdict.low = speed * 0.9, p.verdict.high = speed * 1.1;
  return p;
}

}  // namespace

// Fails when a comment or a blank makes another program, or a changed text does not.
TEST_CASE("archive: normalised sources") {
  const auto same = [](const std::string& a, const std::string& b, const char* ext = ".cpp") {
    return normalised(a, ext) == normalised(b, ext);
  };
  CHECK(same("int a = 1;  // one\n", "int   a=1;"));
  CHECK(same("/* x */ f( a , b )", "f(a,b)"));
  CHECK(same("#define A 1\nint b;", "#define A 1 // one\n\nint b;"));
  CHECK_FALSE(same("#define A 1\nint b;", "#define A 1 int b;"));
  CHECK_FALSE(same("f(\"a  b\")", "f(\"a b\")"));
  CHECK_FALSE(same("f(\"// a\")", "f(\"// b\")"));
  CHECK_FALSE(same("int ab;", "int a b;"));
  CHECK_FALSE(same("int x = 1'000; int y = '1';", "int x = 1'000; int y = '2';"));
  CHECK(normal_hash({{"a.cpp", "FK_PLUGIN(\"a\", \"1\");"}}) ==
        normal_hash({{"a.cpp", "FK_PLUGIN(\"b\", \"1\");"}}));
  CHECK_FALSE(normal_hash({{"a.cpp", "f(\"a\", \"1\");"}}) ==
              normal_hash({{"a.cpp", "f(\"b\", \"1\");"}}));
  CHECK(same("x = 1  # one\n\ny = 2\n", "x = 1\ny = 2", ".py"));
  CHECK_FALSE(same("if a:\n  b\n  c\n", "if a:\n  b\nc\n", ".py"));
}

// Fails when a verdict is lost, counted twice, or the wrong one counts.
#if defined(FK_SQLITE)
TEST_CASE("archive: programs and their verdicts") {
  const Folder folder;
  const auto file = folder.path / "a.sqlite";
  Archive archive(file);
  JudgedProgram a = judged("int a;", "faster", 2);
  a.verdict.receipt = "r1";
  a.notes.strategy = "tiles";
  const auto first = archive.put(a);
  CHECK(first.fresh);
  CHECK_FALSE(archive.put(a).fresh);
  CHECK(archive.verdicts(first.id).size() == 1);
  a.verdict = judged("int a;", "correct").verdict;
  a.verdict.receipt = "r2";
  archive.put(a);
  CHECK(archive.verdicts(first.id).size() == 2);
  CHECK(archive.program(first.id.substr(0, 8)).verdict.status == "faster");
  a.verdict.status = "wrong", a.verdict.receipt = "r3";
  archive.put(a);
  CHECK(archive.program(first.id).verdict.status == "wrong");
  a.verdict.status = "environment", a.verdict.receipt = "r4";
  archive.put(a);
  CHECK(archive.program(first.id).verdict.status == "wrong");
  CHECK(archive.program(first.id).files[0].text == "int a;");

  const auto copy = archive.put(judged("int  a; // again", "faster", 3));
  CHECK(copy.fresh);
  CHECK(copy.same_as == first.id);
  JudgedProgram child = judged("int b;", "faster", 1.5);
  child.notes.parents = {first.id, "unknown"};
  const auto second = archive.put(child);
  CHECK(archive.lineage(second.id).size() == 2);
  CHECK_THROWS_AS(archive.program("no such"), Error);
  CHECK_THROWS_AS(archive.program(""), Error);

  Archive::Search right;
  right.op = "rms_norm", right.kind = "cpu", right.right = true;
  REQUIRE(archive.list(right).size() == 1);
  CHECK(archive.list(right)[0].id == second.id);
  right.duplicates = true;
  CHECK(archive.list(right)[0].id == copy.id);
  // The parent of a kept program stays; the copy goes.
  CHECK(archive.prune(1, 0) == 1);
  CHECK(archive.lineage(second.id).size() == 2);
  CHECK_THROWS_AS(archive.program(copy.id), Error);
  CHECK(Archive(file).program(second.id).notes.parents.size() == 2);
}

// Fails when a cell has two programs, a wrong program is sampled, or a seed has two answers.
#endif

TEST_CASE("archive: elites and samples") {
  std::vector<JudgedProgram> all;
  for (int i = 1; i <= 6; ++i) {
    all.push_back(judged("int x" + std::to_string(i) + ";", "faster", i));
    all.back().id = std::to_string(i);
    all.back().features.registers = i <= 3 ? 60 : 200;
  }
  all.push_back(judged("int y;", "wrong"));
  all.back().features.tag = "alone";
  const auto elites = elites_of(all);
  REQUIRE(elites.size() == 2);
  CHECK(elites[0]->id == "6");
  CHECK(elites[1]->id == "3");
  std::mt19937_64 one(7), two(7), three(8);
  const auto sample = sampled(all, 4, one);
  REQUIRE(sample.size() == 4);
  CHECK(sample[0]->id == "6");
  CHECK(sample[1]->id == "3");
  CHECK(sample == sampled(all, 4, two));
  CHECK(sampled(all, 99, three).size() == 6);
}

// Fails when a failure does not lower an estimate, or one try outweighs many.
TEST_CASE("archive: memory of strategies") {
  std::vector<JudgedProgram> all = {judged("int p;", "slower", 1)};
  all[0].id = "p";
  const auto add = [&](const std::string& strategy, const std::string& status, double speed) {
    all.push_back(judged("int c" + std::to_string(all.size()) + ";", status, speed));
    all.back().id = "c" + std::to_string(all.size());
    all.back().notes.parents = {"p"};
    all.back().notes.strategy = strategy;
  };
  for (int i = 0; i < 6; ++i) add("Larger  tiles", "faster", 1.5);
  add("lucky", "faster", 1.6);
  add("mixed", "faster", 1.5), add("mixed", "wrong", 0);
  add("other family", "faster", 3);
  all.back().family = "gemm";
  const auto found = strategies_of(all, "norm", "cpu");
  REQUIRE(found.size() == 3);
  CHECK(found[0].strategy == "larger tiles");
  CHECK(found[0].tries == 6);
  CHECK(found[0].faster == 6);
  CHECK(std::abs(found[0].gain - std::pow(1.5, 6.0 / 8)) < 1e-9);
  CHECK(found[1].strategy == "lucky");
  CHECK(found[2].right == 1);
  CHECK(found[0].low < found[0].gain);
  CHECK(found[0].high - found[0].low < found[1].high - found[1].low);
  CHECK(strategies_of(all, "norm", "cuda").empty());
}

// Fails when a difference does not turn one text into the other.
TEST_CASE("archive: differences") {
  CHECK(unified_diff("a\nb\n", "a\nb\n", "x", "y").empty());
  CHECK(unified_diff("a\nb\nc\n", "a\nB\nc\n", "x", "y") ==
        "--- x\n+++ y\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
  CHECK(unified_diff("", "n\n", "/dev/null", "y") == "--- /dev/null\n+++ y\n@@ -0,0 +1,1 @@\n+n\n");
  std::string many, changed;
  for (int i = 0; i < 30; ++i) {
    many += std::to_string(i) + "\n";
    changed += (i == 3 || i == 25 ? "x" : std::to_string(i)) + "\n";
  }
  const std::string diff = unified_diff(many, changed, "x", "y");
  CHECK(diff.find("@@ -1,7 +1,7 @@") != std::string::npos);
  CHECK(diff.find("@@ -23,7 +23,7 @@") != std::string::npos);
}

// Fails when a change is missing, repeats the parent, or touches another file.
TEST_CASE("archive: mutations") {
  const std::vector<ProgramFile> files = {
      {"candidate.yaml", "flags: [\"-funroll-loops\"]\ndefinitions: [\"A=1\"]\n"},
      {"x.cpp", "constexpr int kTile = 8;\nstatic constexpr int64_t kOdd = 3;\n"}};
  std::vector<std::string> names;
  for (const auto& m : mutations_of(files, "cpp")) {
    names.push_back(m.strategy);
    CHECK(normal_hash(m.files) != normal_hash(files));
    if (m.strategy == "constant kTile / 2")
      CHECK(m.files[1].text.find("kTile = 4;") != std::string::npos);
    if (m.strategy == "no flag -funroll-loops")
      CHECK(m.files[0].text == "definitions: [\"A=1\"]\n");
  }
  for (const char* name : {"constant kTile x 2", "constant kTile / 2", "constant kOdd x 2",
                           "no flag -funroll-loops", "flag -O2", "target native"})
    CHECK(contains(names, name));
  CHECK_FALSE(contains(names, "constant kOdd / 2"));
  const std::vector<ProgramFile> python = {{"x.py", "import a\nBLOCK: tl.constexpr = 64\nn = 3\n"}};
  CHECK(mutations_of(python, "triton").size() == 2);
  CHECK(mutations_of({{"x.rs", "fn a() {}"}}, "rust").empty());
}

// Fails when a failure of the host counts as one of the child.
TEST_CASE("archive: a failure of the host says nothing of a step") {
  std::vector<JudgedProgram> all = {judged("int p;", "slower", 1), judged("int c;", "environment", 0)};
  all[0].id = "p", all[1].id = "c";
  all[1].notes.parents = {"p"};
  const auto steps = trajectories_of(all, [](const std::string&) { return std::string(); }, {});
  REQUIRE(steps.size() == 2);
  CHECK(to_fields(steps[1]).at("result").at("kept_right") == nullptr);
  CHECK_FALSE(steps[1].reward);
}

// Fails when a filter lets a slow or uncertain step pass, or a pair has a right loser without
// proof.
TEST_CASE("archive: training records") {
  std::vector<JudgedProgram> all = {judged("int p;", "slower", 1)};
  all[0].id = "p";
  const auto add = [&](const std::string& id, const std::string& status, double speed) {
    all.push_back(judged("int " + id + ";", status, speed));
    all.back().id = id;
    all.back().normal = id;
    all.back().notes.parents = {"p"};
  };
  add("fast", "faster", 2), add("bit", "same", 1.15), add("wrong", "wrong", 0);
  all[1].notes.license = "MIT";
  const auto page = [](const std::string& op) { return "page of " + op; };
  TrajectoryFilter filter;
  const auto steps = trajectories_of(all, page, filter);
  REQUIRE(steps.size() == 4);
  const auto supervised = supervised_of(steps, filter);
  REQUIRE(supervised.size() == 1);  // `bit` is not certain
  CHECK(supervised[0].ids[0] == "fast");
  CHECK(supervised[0].prompt.find("int p;") != std::string::npos);
  CHECK(supervised[0].licenses[0] == "MIT");
  std::vector<std::string> pairs;
  for (const auto& pair : preferences_of(steps)) pairs.push_back(pair.ids[0] + ">" + pair.ids[1]);
  CHECK(pairs == std::vector<std::string>{"fast>bit", "fast>wrong", "bit>wrong"});
  CHECK(rewards_of(steps).size() == 4);
  CHECK(reward_of(all[1].verdict)->value == 1);
  CHECK(reward_of(all[3].verdict)->high == -2);
  CHECK(to_fields(steps[1]).at("result").at("kept_right") == true);
  CHECK(to_fields(steps[3]).at("result").at("kept_right") == false);
  CHECK(to_fields(steps[0]).at("result").at("kept_right") == nullptr);
  filter.licenses = {"MIT"};
  CHECK(trajectories_of(all, page, filter).empty());  // the parent's licence is another
  all[0].notes.license = "MIT";
  CHECK(trajectories_of(all, page, filter).size() == 2);
  CHECK(split_of("norm") == split_of("norm"));
}
