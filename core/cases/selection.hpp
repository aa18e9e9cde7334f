// SPDX-License-Identifier: Apache-2.0
// Ops that choose (top-k, sampling): when is another choice as right as the reference's?
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

// The reference's outputs for other contents; empty when it fails. Where ranks call an op together,
// `values` are those of the one that is compared; with `moved` the other ranks' are moved as well,
// by move_others() with this seed.
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

 private:
  std::function<CaseValues(const CaseValues&, Moved)> ask_;
};

// 1 for every element of an integer output where `got` is another choice than `want` but float32
// arithmetic cannot tell which is right:
//   scores   both name columns whose scores differ by less than rounding. Equal scores do not
//            count: the contract orders those by index.
//            Where a softmax or sigmoid makes them (`scoring_func` of init), they may be equal in
//            float32 where the logits differ.
//   drawing  the op draws with `uniform`, and the choice lies between those that the reference
//            makes when uniform and top_p are moved by the error of a float32 running sum.
// The scores are an input, or an output of the same call, which two sides may have as far apart as
// that output's tolerance says; `want` are the reference's outputs.
std::vector<uint8_t> equally_right(const ResolvedCase& resolved, const CaseField& chosen,
                                   const Tensor& got, const CaseValues& want,
                                   const CaseValues& values, const AskReference& ask);

// The function from logits to scores ("softmax", "sigmoid"); empty: logits are compared
// themselves.
std::string scoring_of(const ResolvedCase& resolved);

// Moves logits to where float32 has the same scores of them: of those beyond the lower index is as
// right, also where a group is chosen by its best and all that follows is another's.
void saturate(const ResolvedCase& resolved, CaseValues& values);

}  // namespace fk
