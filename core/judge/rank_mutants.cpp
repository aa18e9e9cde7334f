// SPDX-License-Identifier: Apache-2.0
#include "core/judge/rank_mutants.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/clock.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/numerics/moved_inputs.hpp"
#include "core/cases/numerics/mutants.hpp"
#include "core/tensor/compare.hpp"

namespace fk {

namespace {

// Reasons in a verdict for a mutant that was not tried.
constexpr const char* kNoTime = "no time";
constexpr const char* kNoTimeOnAll = "no time on all ranks";
constexpr const char* kNoAnswer = "the oracle has no answer to it";

class Gate {
 public:
  Gate(const ResolvedCase& resolved, const std::vector<CaseValues>& inputs,
       const std::vector<CaseValues>& want, const AskRanks& ask, double seconds)
      : inputs_(inputs), want_(want), ask_(ask), end_(now_seconds() + seconds) {
    for (size_t r = 0; r < inputs.size(); ++r) {
      ranks_.push_back(resolved);
      ranks_.back().rank = static_cast<int>(r);
      right_.push_back(rounded(want[r]));
    }
    for (size_t r = 0; r < inputs.size(); ++r)
      comparers_.push_back(
          std::make_unique<Comparer>(ranks_[r], inputs[r], want[r], asker(r), kQuickElements));
  }

  std::vector<MutantRow> run() {
    offer("rank 0's answer", std::vector<CaseValues>(ranks_.size(), right_[0]));
    const size_t last = ranks_.size() - 1;
    std::vector<CaseValues> contents = inputs_;
    clear(contents[last]);
    offer("the last rank missing", ask_(contents));
    lower();
    alone("nobody asked", [&](size_t own, std::vector<CaseValues>& all) {
      for (size_t r = 0; r < all.size(); ++r)
        if (r != own) clear(all[r]);
    });
    alone("all ranks as this one", [&](size_t own, std::vector<CaseValues>& all) {
      for (auto& values : all) copy_floats(inputs_[own], values);
    });
    for (size_t r = 0; r < ranks_.size(); ++r) usual(r);
    return std::move(tried_);
  }

 private:
  bool over() const { return now_seconds() > end_; }

  CaseValues rounded(const CaseValues& answer) const {
    CaseValues out;
    for (const CaseField* field : ranks_[0].written())
      for (const Tensor& t : answer.at(field->slot->name))
        out[field->slot->name].push_back(t.to(field->dtype));
    return out;
  }

  AskReference asker(size_t rank) const {
    return [this, rank](const CaseValues& values, AskReference::Moved moved) {
      std::vector<CaseValues> all = inputs_;
      if (moved) move_others(ranks_[rank], *moved, all);
      all[rank] = values;
      return std::move(ask_(all)[rank]);
    };
  }

  template <class Change>
  void each_float(CaseValues& values, const Change& change) const {
    for (const auto& field : ranks_[0].fields) {
      const auto it = values.find(field.slot->name);
      if (it == values.end() || !field.present || !is_float(field.dtype)) continue;
      if (field.slot->section == SectionId::weights) continue;
      for (Tensor& t : it->second) change(field, t);
    }
  }
  void clear(CaseValues& values) const {
    each_float(values, [](const CaseField& field, Tensor& t) {
      if (!field.slot->replicated) t = Tensor(t.dtype, t.shape);
    });
  }
  void copy_floats(const CaseValues& from, CaseValues& to) const {
    each_float(to, [&](const CaseField& field, Tensor& t) {
      const auto& tensors = to.at(field.slot->name);
      const auto at = static_cast<size_t>(&t - tensors.data());
      t = from.at(field.slot->name)[at];
    });
  }

  void leave_out(const std::string& name, const char* why) {
    tried_.push_back({name, false, 0, why});
  }

  void lower() {
    const bool wide = working_dtype(ranks_[0]) == DType::f32;
    const DType low = wide ? DType::bf16 : DType::f8e4m3;
    const std::string mutant = "inputs of all ranks in " + std::string(name(low));
    if (over()) return leave_out(mutant, kNoTime);
    std::vector<CaseValues> contents = inputs_;
    for (auto& values : contents)
      each_float(values, [&](const CaseField& field, Tensor& t) {
        if (bytes(field.dtype) == (wide ? 4 : 2)) t = t.to(low).to(t.dtype);
      });
    offer(mutant, ask_(contents));
  }

  // Changes the others' inputs for one rank: the last rank whose answer differs then.
  template <class Change>
  void alone(const std::string& name, const Change& change) {
    bool answered = false;
    for (size_t own = ranks_.size(); own-- > 0;) {
      if (over()) return leave_out(name, kNoTime);
      std::vector<CaseValues> contents = inputs_, answers = right_;
      change(own, contents);
      CaseValues answer = std::move(ask_(contents)[own]);
      if (answer.empty()) continue;
      answered = true;
      answers[own] = rounded(answer);
      if (offer(name, answers)) return;
    }
    if (!answered) leave_out(name, kNoAnswer);
  }

  // False when the answers equal the right ones, or the reference does not take them.
  bool offer(const std::string& name, const std::vector<CaseValues>& answers) {
    MutantRow mutant{name, false, 0};
    bool differs = false;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (answers[r].empty()) return leave_out(name, kNoAnswer), false;
      const CaseValues answer = rounded(answers[r]);
      if (equal(answer, right_[r])) continue;
      differs = true;
      const Comparison found = comparers_[r]->compare(answer);
      mutant.rejected |= !found.ok;
      mutant.worst = std::max(mutant.worst, found.worst);
      if (mutant.rejected) break;
    }
    if (differs) tried_.push_back(mutant);
    return differs;
  }

  static bool equal(const CaseValues& a, const CaseValues& b) {
    return std::all_of(a.begin(), a.end(), [&](const auto& field) {
      const auto& other = b.at(field.first);
      return std::equal(field.second.begin(), field.second.end(), other.begin(), other.end(),
                        same_bytes);
    });
  }

  // Tries the usual mutants in one rank's answer. A mutant passes when no rank rejects it; a rank
  // that could not be asked leaves it undecided.
  void usual(size_t r) {
    const bool first = r == 0;
    const auto open = [](const MutantRow& mutant) {
      return !mutant.rejected && mutant.why.empty();
    };
    if (!first && std::none_of(tried_.begin(), tried_.end(), open)) return;
    const auto known = [&](const std::string& name) {
      return std::find_if(tried_.begin(), tried_.end(),
                          [&](const MutantRow& t) { return t.name == name; });
    };
    const auto miss = [&](const std::string& name) {
      const auto it = known(name);
      if (it != tried_.end()) {
        if (open(*it)) it->why = kNoTimeOnAll;
      } else if (first) {
        leave_out(name, kNoTime);
      }
    };
    const auto left =
        each_mutant(ranks_[r], inputs_[r], want_[r], nullptr, [&](const Mutant& mutant) {
          if (over()) return miss(mutant.name), false;
          auto it = known(mutant.name);
          if (it != tried_.end() && !open(*it)) return true;
          if (it == tried_.end() && !first) return true;
          const Comparison found = comparers_[r]->look(mutant.answer, mutant.field);
          if (it == tried_.end()) it = tried_.insert(it, {mutant.name, false, 0});
          it->rejected = !found.ok;
          it->worst = std::max(it->worst, found.worst);
          return true;
        });
    for (const auto& name : left) miss(name);
  }

  const std::vector<CaseValues>&inputs_, &want_;
  const AskRanks& ask_;
  double end_;
  std::vector<ResolvedCase> ranks_;
  std::vector<CaseValues> right_;  // in the case's dtypes
  std::vector<std::unique_ptr<Comparer>> comparers_;
  std::vector<MutantRow> tried_;
};

}  // namespace

std::vector<MutantRow> try_rank_mutants(const ResolvedCase& resolved,
                                        const std::vector<CaseValues>& inputs,
                                        const std::vector<CaseValues>& want, const AskRanks& ask,
                                        double seconds) {
  return Gate(resolved, inputs, want, ask, seconds).run();
}

}  // namespace fk
