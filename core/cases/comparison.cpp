// SPDX-License-Identifier: Apache-2.0
#include "core/cases/comparison.hpp"

#include <algorithm>
#include <cstring>

#include "core/cases/counted.hpp"
#include "core/cases/tolerance.hpp"

namespace fk {

namespace {

// Every stride-th row of the last axis.
Tensor sample(const Tensor& all, int64_t stride) {
  const int64_t row = all.shape.size() < 2 ? 1 : all.shape.back(), rows = all.numel() / row;
  Tensor out(all.dtype, {(rows + stride - 1) / stride, row});
  const auto width = static_cast<size_t>(row * bytes(all.dtype));
  for (int64_t i = 0; i < out.shape[0]; ++i)
    std::memcpy(static_cast<std::byte*>(out.data()) + static_cast<size_t>(i) * width,
                static_cast<const std::byte*>(all.data()) + static_cast<size_t>(i * stride) * width,
                width);
  return out;
}

class Comparer {
 public:
  Comparer(const ResolvedCase& resolved, const CaseValues& values, const CaseValues& got,
           const CaseValues& want, int64_t elements_max, const AskReference& ask)
      : resolved_(resolved),
        values_(values),
        got_(got),
        want_(want),
        elements_max_(elements_max),
        ask_(ask) {}

  // Counts first: what they count has no meaning where they are wrong.
  Comparison run() {
    const auto written = resolved_.written();
    const auto counts_others = [&](const CaseField* field) {
      return std::any_of(written.begin(), written.end(), [&](const CaseField* other) {
        return other->slot->count == field->slot->name;
      });
    };
    for (const bool counts : {true, false}) {
      for (const CaseField* field : written) {
        if (counts_others(field) != counts) continue;
        for (int64_t i = 0; i < field->entries; ++i) compare(*field, i);
      }
      if (!out_.ok) break;
    }
    return std::move(out_);
  }

 private:
  void compare(const CaseField& field, int64_t entry) {
    const std::string& name = field.slot->name;
    const auto part = [&](const CaseValues& of) {
      return valid_part(extent_of(resolved_, field, entry, of),
                        of.at(name)[static_cast<size_t>(entry)], field.slot->any_order);
    };
    Tensor mine = part(got_);
    Tensor theirs = part(want_);
    if (mine.numel() == 0) return;
    if (!is_float(field.dtype) && field.slot->count.empty() && field.slot->list.empty())
      forgive_choices(field, mine);
    std::string of;
    if (mine.numel() > elements_max_) {
      const int64_t stride = (mine.numel() / elements_max_) | 1;
      mine = sample(mine, stride), theirs = sample(theirs, stride);
      of = " (one row in " + std::to_string(stride) + " was compared)";
    }
    const Judgement judgement = judge(mine, theirs, error_model(resolved_, field));
    out_.worst = std::max(out_.worst, judgement.worst);
    if (judgement.ok && out_.ok && !of.empty()) out_.text = name + of;
    if (judgement.ok || !out_.ok) return;
    out_.ok = false;
    out_.text = name + ": " + judgement.text + of;
  }

  // Where another choice is as right as the reference's, it is taken for equal.
  void forgive_choices(const CaseField& field, Tensor& mine) const {
    if (!ask_) return;
    const auto equal = equally_right(resolved_, field, mine, want_, values_, ask_);
    const Tensor& theirs = want_.at(field.slot->name)[0];
    for (int64_t i = 0; i < mine.numel(); ++i)
      if (equal[static_cast<size_t>(i)]) mine.set(i, theirs.at(i));
  }

  const ResolvedCase& resolved_;
  const CaseValues &values_, &got_, &want_;
  int64_t elements_max_;
  const AskReference& ask_;
  Comparison out_;
};

}  // namespace

Comparison compare_outputs(const ResolvedCase& resolved, const CaseValues& values,
                           const CaseValues& got, const CaseValues& want, int64_t elements_max,
                           const AskReference& ask) {
  return Comparer(resolved, values, got, want, elements_max, ask).run();
}

}  // namespace fk
