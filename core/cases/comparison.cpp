// SPDX-License-Identifier: Apache-2.0
#include "core/cases/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/base/clock.hpp"
#include "core/cases/counted.hpp"
#include "core/cases/numerics/codes.hpp"
#include "core/cases/numerics/moved_blocks.hpp"
#include "core/cases/numerics/moved_inputs.hpp"
#include "core/cases/patterns/pattern.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

// The reference is asked three times at first. More calls follow only while jumping blocks are
// unexplained, or if a few tokens may have taken another expert. The latter is likely if a latent
// takes another step of eight bits.
constexpr size_t kProbesFirst = 3, kProbesMost = 12, kProbesCoarse = 40;
// Time for questions about the cause of a wrong answer. A cause leaves at most a twentieth of the
// wrong elements.
constexpr double kCausesSeconds = 0.5;
constexpr int64_t kFewLeft = 20;
// Above this share of blocks that jump, the case decides nothing.
constexpr double kOpenMost = 0.25;

// One row (last axis) of every `stride` rows; `seed` chooses it.
Tensor sample(const Tensor& all, int64_t stride, uint64_t seed) {
  if (stride == 1 || !all.numel()) return all;
  const int64_t row = all.shape.size() < 2 ? 1 : all.shape.back(), rows = all.numel() / row;
  Tensor out(all.dtype, {(rows + stride - 1) / stride, row});
  const auto width = static_cast<size_t>(row * bytes(all.dtype));
  for (int64_t i = 0; i < out.shape[0]; ++i) {
    const int64_t among = std::min(stride, rows - i * stride);
    const int64_t from = i * stride + philox(static_cast<uint64_t>(i), seed)[0] % among;
    std::memcpy(static_cast<std::byte*>(out.data()) + static_cast<size_t>(i) * width,
                static_cast<const std::byte*>(all.data()) + static_cast<size_t>(from) * width,
                width);
  }
  return out;
}

// Rows of a candidate's choices that differ from the reference's and are as right.
struct OwnChoices {
  const CaseField* field = nullptr;  // null: none
  Tensor given = {};
  std::vector<int64_t> rows = {};
};

// `values` with exchanged scores, in which the reference makes the candidate's choices. Only scores
// change places that float32 cannot tell apart. Empty if the scores are no input, or if no other
// input, such as factors, can tell their columns apart.
CaseValues with_choices(const ResolvedCase& r, const OwnChoices& own, const Tensor& want,
                        const CaseValues& values) {
  const CaseField* scores = nullptr;
  bool factors = false;
  for (const CaseField& f : r.fields) {
    if (!f.present || f.slot->role != Role::in || !is_float(f.dtype)) continue;
    const bool rows = f.slot->section == SectionId::forward && f.shape.size() == 2 &&
                      f.slot->list.empty() && f.shape[0] == own.given.shape[0];
    if (rows && !scores)
      scores = &f;
    else
      factors = true;
  }
  // A column of a sample (`uniform`) may have another score than the reference's.
  if (!scores || !factors || r.find("uniform")) return {};
  CaseValues out = values;
  const Tensor& before = values.at(scores->slot->name)[0];
  Tensor& table = out.at(scores->slot->name)[0];
  const int64_t columns = want.numel() / want.shape[0], width = scores->shape[1];
  for (const int64_t row : own.rows) {
    // The scores of columns `from`, the largest first, go to the columns `to`.
    std::vector<int64_t> from, to;
    const auto add = [&](std::vector<int64_t>& list, const Tensor& choices) {
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i)
        if (const auto e = static_cast<int64_t>(choices.at(i));
            e >= 0 && e < width && std::find(list.begin(), list.end(), e) == list.end())
          list.push_back(e);
    };
    add(from, want), add(from, own.given), add(to, own.given), add(to, want);
    for (size_t i = 0; i < from.size(); ++i)
      table.set(row * width + to[i], before.at(row * width + from[i]));
  }
  return out;
}

bool equal_row(const Tensor& a, const Tensor& b, int64_t row) {
  const int64_t columns = a.numel() / std::max<int64_t>(1, a.shape[0]);
  for (int64_t i = row * columns; i < (row + 1) * columns; ++i)
    if (a.at(i) != b.at(i)) return false;
  return true;
}

// The rows of `given` which differ from the compared choices: those were forgiven.
OwnChoices own_choices(const CaseField& field, const Tensor& given, const Tensor& compared) {
  if (given.shape.empty() || given.shape != compared.shape) return {};
  OwnChoices out;
  for (int64_t row = 0; row < given.shape[0]; ++row)
    if (!equal_row(given, compared, row)) out.rows.push_back(row);
  if (!out.rows.empty()) out.field = &field, out.given = given;
  return out;
}

}  // namespace

Comparer::Comparer(const ResolvedCase& resolved, const CaseValues& inputs, const CaseValues& want,
                   AskReference ask, int64_t elements_max)
    : resolved_(resolved),
      inputs_(inputs),
      want_(want),
      ask_(std::move(ask)),
      elements_max_(elements_max),
      rows_(std::random_device{}()) {}

Tensor Comparer::part(const CaseField& field, int64_t entry, const CaseValues& values) const {
  return valid_part(extent_of(resolved_, field, entry, values),
                    values.at(field.slot->name)[static_cast<size_t>(entry)], field.slot->any_order);
}

Comparer::Pair Comparer::pair_of(const CaseField& field, int64_t entry,
                                 const CaseValues& got) const {
  Pair out;
  out.mine = part(field, entry, got);
  const bool codes = resolved_.contract->tolerance.codes.count(field.slot->name) > 0;
  out.theirs =
      codes ? nearest_codes(resolved_, field, out.mine, want_, got) : part(field, entry, want_);
  if (!codes && !is_float(field.dtype) && field.slot->count.empty() && field.slot->list.empty() &&
      ask_) {
    // Choices as right as the reference's count as equal.
    const auto equal = equally_right(resolved_, field, out.mine, want_, inputs_, ask_);
    forgive_rows(equal, out);
  }
  if (field.slot->role == Role::inout)
    out.before = inputs_.at(field.slot->name)[static_cast<size_t>(entry)];
  if (out.mine.numel() > elements_max_) {
    out.stride = (out.mine.numel() / elements_max_) | 1;
    out.mine = sample(out.mine, out.stride, rows_);
    out.theirs = sample(out.theirs, out.stride, rows_);
    out.before = sample(out.before, out.stride, rows_);
  }
  return out;
}

Comparison Comparer::compare(const CaseValues& got, const std::string& only, bool words) const {
  Comparison out;
  Chosen chosen;
  OwnChoices own;
  const bool follows =
      resolved_.contract->level == 1 && resolved_.contract->tolerance.numerics == "selection";
  int before = 0;
  for (const auto& [turn, field] : in_turn()) {
    // Counted rows are meaningless if the counts are wrong.
    if (!out.ok && before == 0 && turn > 0) return out;
    before = turn;
    if (!only.empty() && field->slot->name != only) continue;
    for (int64_t i = 0; i < field->entries; ++i) {
      Pair pair = pair_of(*field, i, got);
      if (pair.mine.numel() == 0) continue;
      const ErrorModel model = error_model(resolved_, *field);
      if (follows && !is_float(field->dtype) && field->slot->count.empty() && field->entries == 1)
        own = own_choices(*field, got.at(field->slot->name)[0], pair.mine);
      // The answer with the candidate's choices becomes one of the moved references.
      if (own.field && is_float(field->dtype) && ask_) {
        const std::string& choices = own.field->slot->name;
        const CaseValues exchanged = with_choices(resolved_, own, want_.at(choices)[0], inputs_);
        if (CaseValues answer = exchanged.empty() ? exchanged : ask_(exchanged); !answer.empty()) {
          for (const int64_t row : own.rows)
            if (equal_row(answer.at(choices)[0], own.given, row))
              chosen[own.field->slot->shape[0].text()][row] = probes_.size();
          probes_.push_back(std::move(answer));
        }
        own.field = nullptr;
      }
      if (is_float(field->dtype))
        follow(*field, chosen, pair);
      else
        choose_rows(*field, pair, chosen);
      // Noise is measured on demand only.
      const bool moves = !model.exact && ask_;
      Judgement j = judge(pair.mine, pair.theirs, model, {}, pair.before,
                          floors_of(*field, i, pair), {}, words && !moves);
      std::string undecided;
      if (!j.ok && moves)
        if (const Judgement other = judge_rounded(*field, i, pair); other.ok) j = other;
      if (!j.ok && moves) j = judge_moved(*field, i, pair, chosen, words, undecided);
      const std::string& name = field->slot->name;
      const std::string of =
          pair.stride == 1 ? "" : " (one row in " + std::to_string(pair.stride) + " was compared)";
      out.worst = std::max(out.worst, j.worst);
      if (j.ok && out.ok && !of.empty()) out.text = name + of;
      if (j.ok) continue;
      out.undecided = undecided;
      if (!out.ok) continue;
      out.ok = false;
      if (words) explain_wrong(*field, i, pair, j);
      out.field = name;
      out.wrong = j.wrong;
      if (pair.stride != 1) out.wrong.first = -1;
      out.text = name + ": " + j.text + of;
    }
  }
  return out;
}

// Accepts rows in which every different choice is as right. Rows with a wrong choice get no
// exception here: a moved reference may still equal the whole row.
void Comparer::forgive_rows(const std::vector<uint8_t>& equal, Pair& pair) {
  const int64_t width = pair.mine.shape.size() < 2 ? 1 : pair.mine.shape.back();
  for (int64_t begin = 0; begin < pair.mine.numel(); begin += width) {
    bool right = true;
    for (int64_t i = begin; i < begin + width; ++i)
      right &= equal[static_cast<size_t>(i)] || pair.mine.at(i) == pair.theirs.at(i);
    for (int64_t i = begin; right && i < begin + width; ++i) pair.mine.set(i, pair.theirs.at(i));
  }
}

// The order of comparison: counts before counted outputs, choices before outputs that depend on
// them.
std::vector<std::pair<int, const CaseField*>> Comparer::in_turn() const {
  const auto written = resolved_.written();
  const bool selection = resolved_.contract->tolerance.numerics == "selection";
  std::vector<std::pair<int, const CaseField*>> out;
  for (const CaseField* field : written) {
    const bool counts = std::any_of(written.begin(), written.end(), [&](const CaseField* other) {
      return other->slot->count == field->slot->name;
    });
    out.emplace_back(counts ? 0 : selection && !is_float(field->dtype) ? 1 : 2, field);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

void Comparer::explain_wrong(const CaseField& field, int64_t entry, const Pair& pair,
                             Judgement& j) const {
  const ErrorModel model = error_model(resolved_, field);
  if (pair.mine.numel() > kQuickElements) return;  // such a case would take seconds
  WrongAnswer answer{
      .resolved = resolved_,
      .field = field,
      .inputs = inputs_,
      .model = model,
      .got = pair.mine,
      .want = pair.theirs,
      .before = pair.before,
      .got_values = pair.mine.values(),
      .want_values = pair.theirs.values(),
      .before_values = pair.before.numel() ? pair.before.values() : std::vector<double>{},
      .wrong = std::move(j.wrong_elements),
      .count = j.wrong.count,
      .whole = pair.stride == 1 && pair.mine.shape == field.shape_of(entry),
      .place = j.wrong.name,
      .right_if = nullptr};
  answer.wrong.resize(answer.got_values.size());
  const double start = now_seconds();
  answer.right_if = [&](const CallChange& change, const CaseValues& values) {
    const double begin = now_seconds();
    if (!ask_.changed() || begin - start + ask_s_ > kCausesSeconds) return false;
    const CaseValues other = ask_.changed()(change, values);
    ask_s_ = now_seconds() - begin;
    const auto its = other.find(field.slot->name);
    if (its == other.end() || its->second.size() != static_cast<size_t>(field.entries))
      return false;
    const Tensor right = sample(part(field, entry, other), pair.stride, rows_);
    if (right.shape != pair.mine.shape) return false;
    const Judgement as =
        judge(pair.mine, right, model, {}, pair.before, floors_of(field, entry, pair), {}, false);
    // Rounding may move a few elements beyond their bounds, if terms cancel.
    return as.ok || (as.wrong.count > 0 && as.wrong.count * kFewLeft <= j.wrong.count);
  };
  j.wrong.axes = wrong_axes(answer);
  auto found = explain(answer, j.wrong.name);
  if (!found) return;
  const std::string prefix = j.wrong.pattern + "; ";
  const std::string detail = j.text.starts_with(prefix) ? j.text.substr(prefix.size()) : j.text;
  j.wrong.pattern = std::move(found->text);
  j.wrong.next = std::move(found->next);
  j.wrong.name = std::move(found->name);
  j.wrong.figures = std::move(found->figures);
  j.text = j.wrong.pattern + "; " + detail;
}

// Error of float32 code in each block in which terms as large as an input cancel.
std::vector<double> Comparer::floors_of(const CaseField& field, int64_t entry,
                                        const Pair& pair) const {
  if (resolved_.contract->tolerance.numerics != "activation") return {};
  const auto input =
      std::find_if(resolved_.fields.begin(), resolved_.fields.end(), [&](const CaseField& f) {
        return f.present && f.slot->section == SectionId::forward && f.slot->role == Role::in &&
               is_float(f.dtype) && f.shape == field.shape;
      });
  if (input == resolved_.fields.end()) return {};
  const Tensor large =
      sample(inputs_.at(input->slot->name)[static_cast<size_t>(entry)], pair.stride, rows_);
  const Blocks blocks = blocks_of(pair.theirs.shape, error_model(resolved_, field).plane);
  std::vector<double> out(static_cast<size_t>(blocks.count), 0.0);
  if (large.numel() != pair.theirs.numel()) return {};
  for (size_t b = 0; b < out.size(); ++b) {
    for (int64_t i = blocks.begin[b]; i < blocks.begin[b + 1]; ++i)
      if (std::isfinite(large.at(i))) out[b] = std::max(out[b], std::abs(large.at(i)));
    out[b] *= epsilon(DType::f32);
  }
  return out;
}

// Accepts rows of choices (experts, tokens) that equal a moved reference's.
void Comparer::choose_rows(const CaseField& field, Pair& pair, Chosen& chosen) const {
  if (resolved_.contract->tolerance.numerics != "selection" || !ask_) return;
  if (!field.slot->count.empty() || !field.slot->list.empty() || pair.stride != 1) return;
  const int64_t width = pair.mine.shape.size() < 2 ? 1 : pair.mine.shape.back();
  const auto equal = [&](const Tensor& other, int64_t row) {
    for (int64_t i = row * width; i < (row + 1) * width; ++i)
      if (pair.mine.at(i) != other.at(i)) return false;
    return true;
  };
  std::vector<int64_t> left;
  for (int64_t row = 0; row < pair.mine.numel() / width; ++row)
    if (!equal(pair.theirs, row)) left.push_back(row);
  for (size_t k = 0; !left.empty() && (k < probes_.size() || probe(kProbesMost)); ++k) {
    const Tensor& other = probes_[k].at(field.slot->name)[0];
    std::erase_if(left, [&](int64_t row) {
      if (!equal(other, row)) return false;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) pair.mine.set(i, pair.theirs.at(i));
      if (!field.slot->shape.empty()) chosen[field.slot->shape[0].text()][row] = k;
      return true;
    });
    // A plainly wrong answer is recognised after a few references.
    if (k >= kProbesFirst && static_cast<int64_t>(left.size()) * 4 > pair.mine.numel() / width)
      return;
  }
}

// Weights belong to choices: rows that took a moved reference's choices are compared with its
// weights.
void Comparer::follow(const CaseField& field, const Chosen& chosen, Pair& pair) const {
  if (field.slot->shape.empty() || field.entries != 1 || pair.stride != 1) return;
  const auto rows = chosen.find(field.slot->shape[0].text());
  if (rows == chosen.end() || resolved_.contract->level != 1) return;
  const int64_t width = pair.theirs.numel() / field.shape[0];
  for (const auto& [row, k] : rows->second) {
    const Tensor& other = probes_[k].at(field.slot->name)[0];
    for (int64_t i = row * width; i < (row + 1) * width; ++i) pair.theirs.set(i, other.at(i));
  }
}

// True if moved reference `k` makes the choice that element `at` of a field belongs to.
bool Comparer::same_choice(const CaseField& field, const Chosen& chosen, const Pair& pair,
                           int64_t at, size_t k) const {
  if (resolved_.contract->tolerance.numerics != "selection" || resolved_.contract->level != 1 ||
      field.slot->shape.empty() || field.entries != 1 || pair.stride != 1)
    return true;
  const std::string axis = field.slot->shape[0].text();
  const int64_t row = at * field.shape[0] / pair.theirs.numel();
  const auto rows = chosen.find(axis);
  const CaseValues* mine = &want_;
  if (rows != chosen.end() && rows->second.count(row)) mine = &probes_[rows->second.at(row)];
  for (const CaseField* other : resolved_.written()) {
    if (is_float(other->dtype) || other->entries != 1 || other->slot->shape.empty() ||
        other->slot->shape[0].text() != axis)
      continue;
    const Tensor &a = mine->at(other->slot->name)[0], &b = probes_[k].at(other->slot->name)[0];
    const int64_t width = a.numel() / other->shape[0];
    for (int64_t i = row * width; i < (row + 1) * width; ++i)
      if (a.at(i) != b.at(i)) return false;
  }
  return true;
}

// A contract may allow a weight in the working dtype: the reference's answer with such a weight is
// right too.
Judgement Comparer::judge_rounded(const CaseField& field, int64_t entry, const Pair& pair) const {
  const std::string& weight = resolved_.contract->tolerance.rounded;
  const DType working = working_dtype(resolved_);
  const auto its = inputs_.find(weight);
  Judgement none;
  none.ok = false;
  if (weight.empty() || its == inputs_.end() || working == DType::f32 || !is_float(field.dtype))
    return none;
  if (!with_rounded_) {
    CaseValues inputs = inputs_;
    for (Tensor& t : inputs.at(weight)) t = t.to(working).to(t.dtype);
    with_rounded_ = ask_(inputs);
  }
  if (with_rounded_->empty()) return none;
  const Tensor theirs = sample(part(field, entry, *with_rounded_), pair.stride, rows_);
  if (theirs.shape != pair.theirs.shape) return none;
  return judge(pair.mine, theirs, error_model(resolved_, field), {}, pair.before,
               floors_of(field, entry, pair), {}, false);
}

// Judges again, with the measured noise of this case.
Judgement Comparer::judge_moved(const CaseField& field, int64_t entry, const Pair& pair,
                                const Chosen& chosen, bool words, std::string& undecided) const {
  while (probes_.size() < kProbesFirst && probe(kProbesFirst)) {
  }
  const ErrorModel model = error_model(resolved_, field);
  const std::vector<double> floors = floors_of(field, entry, pair);
  const std::vector<double> want = pair.theirs.values();
  std::vector<MovedBlock> blocks = blocks_with(want, blocks_of(pair.theirs.shape, model.plane),
                                               pair.before, model.small * size_of_all(pair.theirs));
  const Contract& contract = *resolved_.contract;
  // Softmax weights move continuously: an answer between two references is right.
  const bool mixes = contract.tolerance.numerics == "softmax";
  // A token takes another expert only in a few of many moves.
  const bool chooses =
      contract.level > 1 && contract.find(SectionId::init, "top_k") && !contract.find("topk_ids");
  const size_t most = chooses && model.coarse > 0 ? kProbesCoarse : kProbesMost;
  Tensor theirs = pair.theirs;
  std::vector<double> moves(model.alone ? want.size() : 0);
  std::vector<double> noise;
  int64_t open = 0;
  bool measured = false;
  const auto judged = [&](bool in_words) {
    return measured ? judge(pair.mine, theirs, model, noise, pair.before, floors, moves, in_words)
                    : judge(pair.mine, pair.theirs, model, {}, pair.before, floors, {}, in_words);
  };
  for (size_t k = 0; k < probes_.size() || probe(most); ++k) {
    const Tensor moved = sample(part(field, entry, probes_[k]), pair.stride, rows_);
    if (moved.shape != theirs.shape) continue;
    const std::vector<double> other = moved.values();
    int64_t jumps = 0;
    noise.clear();
    for (size_t i = 0; i < moves.size(); ++i)
      if (const double by = std::abs(other[i] - want[i]); by > moves[i]) moves[i] = by;
    for (MovedBlock& b : blocks) {
      const bool kept = b.kept || !same_choice(field, chosen, pair, b.begin, k);
      const auto [rms, by] = kept ? std::pair{0.0, 0.0} : moved_by(b, want, other);
      if (by <= model.hard * b.size) b.noise = std::max(b.noise, rms);
      noise.push_back(b.noise);
      b.open |= by > model.hard * b.size;
      jumps += b.open;
      if (by <= model.hard * b.size) continue;
      if (mixes) {
        mix_in(pair.mine, other, b, theirs);
        continue;
      }
      if (b.nearest < 0) b.nearest = distance(pair.mine, want, b.begin, b.end);
      const double off = distance(pair.mine, other, b.begin, b.end);
      if (off >= b.nearest) continue;
      b.nearest = off;
      for (int64_t i = b.begin; i < b.end; ++i) theirs.set(i, other[static_cast<size_t>(i)]);
    }
    if (k + 1 < kProbesFirst) continue;
    measured = true;
    const Judgement out = judged(false);
    if (out.ok) return out;
    const int64_t unmoved = jumps == 0 ? off_by_nothing(pair.mine, want, blocks, model.hard) : 0;
    const bool few = chooses && 4 * out.wrong.count < pair.mine.numel();
    if (jumps == 0 && !few && (unmoved == 0 || out.wrong.count > unmoved)) return judged(words);
    open = jumps;
  }
  if (static_cast<double>(open) > kOpenMost * static_cast<double>(blocks.size())) {
    undecided =
        fmt::format("rounding alone moves {} of {} blocks of {} by more than {:.2g} of their size",
                    open, blocks.size(), field.slot->name, model.hard);
  }
  return judged(words);
}

bool Comparer::probe(size_t most) const {
  // Inputs that the op rounds to eight bits may not move at all.
  exhausted_ |= resolved_.contract->level == 1 && rounds_inputs(resolved_);
  if (exhausted_ || probes_.size() >= most) return false;
  const uint64_t seed = probes_.size();
  const CaseValues moved = moved_inputs(resolved_, inputs_, seed);
  const double begin = now_seconds();
  CaseValues answer = ask_(moved, seed);
  ask_s_ = now_seconds() - begin;
  exhausted_ = answer.empty();
  if (!exhausted_) probes_.push_back(std::move(answer));
  return !exhausted_;
}

Comparison compare_outputs(const ResolvedCase& resolved, const CaseValues& values,
                           const CaseValues& got, const CaseValues& want, int64_t elements_max,
                           const AskReference& ask) {
  return Comparer(resolved, values, want, ask, elements_max).compare(got);
}

}  // namespace fk
