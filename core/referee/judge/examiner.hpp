// SPDX-License-Identifier: Apache-2.0
// The oracle's side of an examination. A trusted process makes contents and their answers, lays
// several sets of buffers of one case into shared memory, deals contents to sets, and looks at what
// was written there. Answers never leave its own memory, so a candidate's process has nothing to
// find; which contents lie in which set, and where poison was, only the oracle knows.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cases/case_frames.hpp"
#include "core/cases/comparison.hpp"
#include "core/referee/check.hpp"
#include "core/referee/judge/asked_case.hpp"
#include "core/referee/judge/null_gate.hpp"

namespace fk {

// What both sides must agree on to lay out the same memory.
struct ExamShape {
  AskedCase asked;
  int sets = 1;
  int64_t read_bytes = 0, written_bytes = 0;
};

// The layout of one set; sets lie behind one another.
Layout exam_layout(const Variant& variant, int set);

struct ExamOptions {
  Device* device = nullptr;
  const Plugins* plugins = nullptr;  // with the oracle's
  int threads = 2;
  double seconds = 0.5;  // for answers, about; two contents are made whatever that takes
  int64_t memory = int64_t{256} << 20;  // of all sets
  std::vector<std::string> families;    // empty: those that fit, chosen by the seed
  int contents_max = 64;
  double call_s = 0;  // sets are so many that one call on each takes about that long; 0: two sets
  int sets_max = 128;
  double gate_s = 0.25;  // for null candidates, about
};

class Examiner {
 public:
  Examiner(const Contract& contract, AskedCase asked, PosedCase posed, uint64_t seed,
           ExamOptions options);

  const ExamShape& shape() const { return shape_; }
  const std::string& unjudged() const { return unjudged_; }  // why there are no answers, or empty
  const std::string& oracle() const { return oracle_; }
  // The examiner's own: whoever gives them away duplicates them.
  int read_fd() const { return read_.fd(); }
  int written_fd() const { return written_.fd(); }
  size_t contents() const { return contents_.size(); }
  const char* family(size_t content) const { return family_name_of(content); }
  // Families that say nothing here, with the reason.
  const std::vector<std::pair<std::string, std::string>>& left_out() const { return left_out_; }
  // Wrong answers that were tried on the comparison of this case; one that it takes makes the case
  // untestable. Tried once per case in this process.
  const std::vector<TriedFake>& nulls() const { return nulls_; }
  double bytes() const { return bytes_; }
  // The busiest expert's load over the mean in the first contents; 0 where there is no routing.
  double skew() const { return skew_; }
  // Fields of a recorded case whose contents are not its own but made by the generators.
  std::vector<std::string> generated() const;
  double flops() const;
  double roofline_s() const;  // by the data sheet, with all bytes from memory; 0: not known
  double floor_s() const;     // no kernel is faster on this device; 0: not known
  bool has_plan() const;

  // Contents into sets, outputs poisoned. With `numbers_only`, floats are garbage: what plan()
  // may see is there and what forward() computes with is not.
  void deal(const std::vector<int>& sets, const std::vector<int>& contents, Poison poison,
            bool numbers_only);

  struct Finding {
    int set = -1, content = -1;
    bool ok = true;
    std::string rule;  // of a violation; empty: values
    std::string text;
    double worst = 0;
    bool stale = false;    // holds what another content's answer is, or was not written at all
    bool changed = false;  // right, but other bits than an earlier right answer
    // Why rounding itself decides these outputs, so that no value of this content is judged; the
    // finding is ok then.
    std::string undecided;
  };
  // What the sets hold after a call each of one side (candidate, baseline ... by number).
  std::vector<Finding> look(const std::vector<int>& sets, int side);
  // Caches hold nothing of the sets afterwards.
  void flush(const std::vector<int>& sets);

 private:
  struct Content {
    Family family = Family::ordinary;
    CaseValues inputs, want;
    std::unique_ptr<CaseFrames> master;  // the inputs where they are dealt from
    // What was found right, by side: bytes, and on a device what tells them apart there.
    std::map<int, std::vector<CaseValues>> accepted;
    std::map<int, std::vector<uint64_t>> prints;
  };
  void make_contents(uint64_t seed);
  bool make_content(uint64_t seed, Family family);
  void try_nulls();
  CheckOptions oracle_options() const;
  void place();
  void take_weights(CaseValues& values);
  Finding look_at(int set, int side);
  const char* family_name_of(size_t content) const;
  AskReference asker(const Provider& oracle);

  const Contract& contract_;
  const PosedCase posed_;
  ExamOptions options_;
  Oracles oracles_;
  const Provider* provider_ = nullptr;
  ResolvedCase resolved_;
  ExamShape shape_;
  std::string unjudged_, oracle_;
  std::vector<std::pair<std::string, std::string>> left_out_;
  CaseValues weights_;
  std::vector<Content> contents_;
  std::vector<TriedFake> nulls_;
  SharedMapping read_, written_;
  std::vector<std::unique_ptr<CaseFrames>> sets_;
  std::vector<int> dealt_;
  std::unique_ptr<Stopwatch> watch_;
  double bytes_ = 0, skew_ = 0;
};

}  // namespace fk
