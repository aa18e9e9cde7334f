// SPDX-License-Identifier: Apache-2.0
// Ops that choose (top-k, sampling): decides when another choice is as right as the reference's.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

// Differences of a call from its case. An answer that is right for the changed call tells the cause
// of its error.
struct CallChange {
  std::map<std::string, std::string> init = {};  // constructor values, as a case writes them
  std::vector<std::string> without = {};         // optional fields and groups to leave out
};

// The reference's outputs for other contents; empty when it fails. With several ranks, `values`
// belong to the compared rank. With `moved`, move_others() moves the other ranks' inputs with this
// seed.
class AskReference {
 public:
  using Moved = std::optional<uint64_t>;
  AskReference(std::nullptr_t) {}
  template <class Ask>
  requires std::invocable<Ask, const CaseValues&, Moved> AskReference(Ask ask)
      : ask_(std::move(ask)) {}
  template <class Ask>
  requires std::invocable<Ask, const CaseValues&> AskReference(Ask ask)
      : ask_([ask = std::move(ask)](const CaseValues& values, Moved) { return ask(values); }) {}
  CaseValues operator()(const CaseValues& values, Moved moved = std::nullopt) const {
    return ask_(values, moved);
  }
  explicit operator bool() const { return ask_ != nullptr; }

  // The reference's outputs for a changed call with these contents; empty when it refuses. Null
  // where nobody can ask for other calls.
  using AskChanged = std::function<CaseValues(const CallChange&, const CaseValues&)>;
  AskReference& with_changes(AskChanged ask) {
    changed_ = std::move(ask);
    return *this;
  }
  const AskChanged& changed() const { return changed_; }

 private:
  std::function<CaseValues(const CaseValues&, Moved)> ask_;
  AskChanged changed_;
};

// 1 for every element of an integer output whose choice differs from `want`, if float32 arithmetic
// cannot tell which is right:
//   scores   Both choices name columns whose scores differ by less than rounding. Equal scores do
//            not count: the contract orders those by index. Scores of a softmax or sigmoid
//            (`scoring_func` of init) may be equal in float32 although the logits differ.
//   drawing  The op draws with `uniform`. The choice lies between the reference's choices for
//            uniform and top_p moved by the error of a float32 running sum.
// Scores are an input, or an output of the same call, which may differ between two sides by its
// tolerance. `want` are the reference's outputs.
std::vector<uint8_t> equally_right(const ResolvedCase& resolved, const CaseField& chosen,
                                   const Tensor& got, const CaseValues& want,
                                   const CaseValues& values, const AskReference& ask);

// The function from logits to scores ("softmax", "sigmoid"); empty: the logits are compared.
std::string scoring_of(const ResolvedCase& resolved);

// Moves logits to the point where their scores are equal in float32. Beyond this point the lower
// index is as right, even if it changes the chosen group and all that follows.
void saturate(const ResolvedCase& resolved, CaseValues& values);

}  // namespace fk
