// SPDX-License-Identifier: Apache-2.0
// One case of a judgement, as the broker conducts it: asks the oracle to deal and to look, lets a
// runner call, and fills the case's verdict.
#pragma once
#include <map>

#include "core/referee/judge/clocks.hpp"
#include "core/referee/judge/judge.hpp"
#include "core/tensor/random.hpp"

namespace fk {

// Requests to the oracle's process; Error when that fails: then nothing can be said.
class Oracle {
 public:
  explicit Oracle(Runner& runner) : runner_(runner) {}
  Json ask(const char* task, const Json& arguments);
  std::vector<int> take_fds() { return runner_.take_fds(); }

 private:
  Runner& runner_;
};

struct ExamRequest {
  int id = 0;
  std::string device, size;
  int threads = 2;
  std::vector<std::string> families;
  uint64_t seed = 0;
  double seconds = 1;  // of timing
};

class Exam {
 public:
  Exam(Oracle& oracle, Runner& runner, const std::string& plugin, CaseVerdict& row,
       ExamRequest request);
  ~Exam();
  Exam(const Exam&) = delete;

  bool open();    // false with the row's status and why
  bool values();  // the same
  bool baseline_is_right(Sitter& baseline);
  // Candidate against baseline; the row's status is one of speed, or what was found on the way.
  // Error when the baseline fails.
  void race(Sitter& baseline);

 private:
  class Turn;
  struct Look {
    bool ok = true, stale = false, changed = false;
    int set = -1, content = -1;
    std::string rule, text;
    double worst = 0;
  };
  std::vector<int> ring(int first, int count) const;
  std::optional<Sitter::Call> take(Sitter& sitter, int first, const std::vector<int>& contents,
                                   std::vector<Look>& looks);
  bool accept(const std::vector<Look>& looks, bool timed);
  std::vector<int> some_contents(int count);
  void fresh_rounds(Turn& mine, Turn& theirs);
  void conclude_race(const Turn& mine, const Turn& theirs, const RaceResult& result);
  void fill_families();
  void count(const Look& look);

  Oracle& oracle_;
  Sitter candidate_;
  CaseVerdict& row_;
  ExamRequest request_;
  Random random_;
  Json shape_;  // what both sides are told
  std::vector<int> fds_;
  std::vector<std::string> families_;
  std::map<std::string, FamilyRow> by_family_;
  int sets_ = 0, seen_ = 0;  // contents [0, seen_) may be called at any time, others once
  bool plan_ = false, open_ = false, flush_ = false;
  int poison_ = 0;
  double bytes_ = 0, flops_ = 0, floor_s_ = 0;
};

// Fills status, why and rule from a sitter that did not do what it was asked.
void blame(CaseVerdict& row, Sitter& sitter);

}  // namespace fk
