// SPDX-License-Identifier: Apache-2.0
// Compares all outputs of one call with the reference's, for `check`, `bench` and the mutants. It
// needs no provider, only inputs and the reference's outputs.
//
// The rounding model (tolerance.hpp) does not know everything about a case. If an answer exceeds
// its bounds, the reference is asked again for inputs moved by rounding: an element x by at most 4
// eps(f32) |x|. Ops above L1 store intermediates in the working dtype, so there the limit is
// eps(working dtype) |x|. The root mean square of a block's movement in the reference is its
// `noise`. A block may jump by more than the hard maximum, for example if two experts are equally
// good. The answer's block may then equal any moved reference. The same holds for a row that an op
// chooses; other outputs of the row must then match the same reference. Moves follow from the
// inputs alone, so a candidate cannot choose them. In a call of several ranks, all ranks' inputs
// are moved.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/cases/numerics/judgement.hpp"
#include "core/cases/selection.hpp"

namespace fk {

struct Comparison {
  bool ok = true;
  double worst = 0;       // largest error as a share of what is allowed
  std::string field;      // the first wrong output
  WrongElements wrong;    // elements of this output
  std::string text;       // not ok: the first wrong output, place, error and pattern;
                          // ok: outputs that were compared by a sample
  std::string undecided;  // not ok: why rounding itself decides these outputs, or empty
};

// Limits of compared elements: in a quick comparison, and in any. Larger outputs are sampled: one
// row of each group of equal size, at random, so that a candidate cannot know which.
constexpr int64_t kQuickElements = int64_t{1} << 22, kMostElements = int64_t{1} << 26;

class Comparer {
 public:
  // All arguments must outlive this object. `want`: the reference's outputs for `inputs`. Without
  // `ask` no noise is measured, and no other choice is accepted.
  Comparer(const ResolvedCase& resolved, const CaseValues& inputs, const CaseValues& want,
           AskReference ask, int64_t elements_max = kMostElements);

  // `got` has every output, in the case's dtypes. Counts are compared first, because counted rows
  // are meaningless if the counts are wrong.
  Comparison compare(const CaseValues& got) const { return compare(got, "", true); }
  // The same without a description of place and pattern, which is quicker. `only`: compare this
  // output alone.
  Comparison look(const CaseValues& got, const std::string& only) const {
    return compare(got, only, false);
  }

 private:
  struct Pair {
    Tensor mine, theirs, before;  // compared values; `before` of inout fields, else empty
    int64_t stride = 1;           // one row in this number is compared
  };
  Comparison compare(const CaseValues& got, const std::string& only, bool words) const;
  Pair pair_of(const CaseField& field, int64_t entry, const CaseValues& got) const;
  std::vector<double> floors_of(const CaseField& field, int64_t entry, const Pair& pair) const;
  Tensor part(const CaseField& field, int64_t entry, const CaseValues& values) const;
  // For rows (along an axis) that equal a moved reference: the index of this reference.
  using Chosen = std::map<std::string, std::map<int64_t, size_t>>;
  std::vector<std::pair<int, const CaseField*>> in_turn() const;
  static void forgive_rows(const std::vector<uint8_t>& equal, Pair& pair);
  void choose_rows(const CaseField& field, Pair& pair, Chosen& chosen) const;
  bool same_choice(const CaseField& field, const Chosen& chosen, const Pair& pair, int64_t at,
                   size_t k) const;
  void follow(const CaseField& field, const Chosen& chosen, Pair& pair) const;
  // Replaces the pattern of a wrong answer by a surer one, and fills axes and figures.
  void explain_wrong(const CaseField& field, int64_t entry, const Pair& pair, Judgement& j) const;
  Judgement judge_moved(const CaseField& field, int64_t entry, const Pair& pair,
                        const Chosen& chosen, bool words, std::string& undecided) const;
  Judgement judge_rounded(const CaseField& field, int64_t entry, const Pair& pair) const;
  bool probe(size_t most) const;  // adds one; false when all are used

  const ResolvedCase& resolved_;
  const CaseValues& inputs_;
  const CaseValues& want_;
  AskReference ask_;
  int64_t elements_max_;
  const uint64_t rows_;  // seed of the compared rows
  mutable std::vector<CaseValues> probes_;
  mutable std::optional<CaseValues> with_rounded_;  // the answer with `tolerance.rounded` rounded
  mutable bool exhausted_ = false;
  mutable double ask_s_ = 0;  // of the last question to the reference
};

// A single comparison. `got` and `want` hold the written fields, `values` the read fields. `ask`
// may be null.
Comparison compare_outputs(const ResolvedCase& resolved, const CaseValues& values,
                           const CaseValues& got, const CaseValues& want, int64_t elements_max,
                           const AskReference& ask);

}  // namespace fk
