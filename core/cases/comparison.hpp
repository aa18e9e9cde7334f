// SPDX-License-Identifier: Apache-2.0
// All outputs of one call against the reference's: the one comparison behind `check`, `bench` and
// the null candidates. It needs no provider, so whoever holds inputs and references can use it.
//
// What the model of rounding (tolerance.hpp) does not know of a case is measured: where an answer
// is not within its bounds, the reference is asked again for inputs that are moved by rounding (an
// element x by at most 4 eps(f32) |x|; by eps(working dtype) |x| for ops above L1, which store
// intermediates in it). The root mean square by which a block of the reference moves is its
// `noise`. Where it jumps by more than the hard maximum (a token that another expert is as good
// for), the block may be that of any of the moved references instead; so may a row that an op
// chooses, and then what else it says of that row is that reference's too. The moves follow from
// the inputs alone, so a candidate cannot choose them. Where ranks call an op together, what each
// of them has is moved.
#pragma once
#include <map>
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
  WrongElements wrong;    // in it
  std::string text;       // when not ok: the first wrong output, where, how far, the pattern; when
                          // ok: of which output only a sample was compared
  std::string undecided;  // when not ok: why rounding itself decides these outputs; else empty
};

// How many elements of an output are compared: in a quick look, and ever. Of a larger output it is
// one row in so many, of each so many a random one: who makes them must not know which.
constexpr int64_t kQuickElements = int64_t{1} << 22, kMostElements = int64_t{1} << 26;

// Moves the inputs of all ranks but resolved.rank as rounding may move them, each its own but for
// what all have in common: what AskReference::Moved asks for.
void move_others(const ResolvedCase& resolved, uint64_t seed, std::vector<CaseValues>& ranks);

class Comparer {
 public:
  // All that is passed outlives this object. `want`: the reference's outputs for `inputs`. Without
  // `ask` nothing is measured and no other choice is as right.
  Comparer(const ResolvedCase& resolved, const CaseValues& inputs, const CaseValues& want,
           AskReference ask, int64_t elements_max = kMostElements);

  // `got` has every output, in the case's dtypes. Counts are compared first: what they count has
  // no meaning where they are wrong.
  Comparison compare(const CaseValues& got) const { return compare(got, "", true); }
  // The same without words for where and how it is wrong, which is quicker; with `only`, of that
  // output alone.
  Comparison look(const CaseValues& got, const std::string& only) const {
    return compare(got, only, false);
  }

 private:
  struct Pair {
    Tensor mine, theirs, before;  // what is compared; `before` of inout fields, else empty
    int64_t stride = 1;           // one row in so many
  };
  Comparison compare(const CaseValues& got, const std::string& only, bool words) const;
  Pair pair_of(const CaseField& field, int64_t entry, const CaseValues& got) const;
  std::vector<double> floors_of(const CaseField& field, int64_t entry, const Pair& pair) const;
  Tensor part(const CaseField& field, int64_t entry, const CaseValues& values) const;
  // Of rows (of an axis) that a moved reference chooses: which it was.
  using Chosen = std::map<std::string, std::map<int64_t, size_t>>;
  std::vector<std::pair<int, const CaseField*>> in_turn() const;
  static void forgive_rows(const std::vector<uint8_t>& equal, Pair& pair);
  void choose_rows(const CaseField& field, Pair& pair, Chosen& chosen) const;
  bool same_choice(const CaseField& field, const Chosen& chosen, const Pair& pair, int64_t at,
                   size_t k) const;
  void follow(const CaseField& field, const Chosen& chosen, Pair& pair) const;
  std::string tied_in(const CaseField& field, const Pair& pair) const;
  Judgement judge_moved(const CaseField& field, int64_t entry, const Pair& pair,
                        const Chosen& chosen, bool words, std::string& undecided) const;
  bool probe(size_t most) const;  // one more; false when there are no more

  const ResolvedCase& resolved_;
  const CaseValues& inputs_;
  const CaseValues& want_;
  AskReference ask_;
  int64_t elements_max_;
  const uint64_t rows_;  // which of them are compared
  mutable std::vector<CaseValues> probes_;
  mutable bool exhausted_ = false;
};

// One comparison alone. `got` and `want` hold what the call writes, `values` what it read. `ask`
// may be null.
Comparison compare_outputs(const ResolvedCase& resolved, const CaseValues& values,
                           const CaseValues& got, const CaseValues& want, int64_t elements_max,
                           const AskReference& ask);

}  // namespace fk
