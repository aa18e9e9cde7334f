// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/mutants.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/cases/numerics/codes.hpp"
#include "core/cases/comparison.hpp"
#include "core/cases/counted.hpp"
#include "core/cases/each_row.hpp"
#include "core/tensor/compare.hpp"

namespace fk {

namespace {

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bytes);
}

// Rounds to ten bits of mantissa, to nearest even, like tensor cores do with float32.
float tf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits >> 23 & 0xFF) == 0xFF) return value;
  bits += 0xFFF + (bits >> 13 & 1);
  bits &= ~uint32_t{0x1FFF};
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// Rounds to the values of a dtype.
void round_to(DType low, Tensor& t) {
  each_row(t, [low](int64_t, std::span<float> row) {
    const auto count = static_cast<int64_t>(row.size());
    std::vector<std::byte> stored(row.size() * static_cast<size_t>(bytes(low)));
    convert(row.data(), DType::f32, stored.data(), low, count);
    convert(stored.data(), low, row.data(), DType::f32, count);
    return true;
  });
}

// Rounds to whole numbers of eight bits, with a scale for every row (last axis).
void to_eight_bits(Tensor& t) {
  each_row(t, [](int64_t, std::span<float> row) {
    float most = 0;
    for (const float v : row) most = std::max(most, std::abs(v));
    const float step = most / 127;
    for (float& v : row)
      if (step > 0) v = std::nearbyint(v / step) * step;
    return step > 0;
  });
}

class Mutator {
 public:
  Mutator(const ResolvedCase& resolved, const CaseValues& inputs, const CaseValues& want,
        const AskReference& ask, const std::function<bool(const Mutant&)>& take)
      : r_(resolved), inputs_(inputs), want_(want), ask_(ask), take_(take) {
    for (const auto& f : r_.fields) {
      if (!f.present || f.slot->section != SectionId::forward || f.slot->role == Role::in) continue;
      outputs_.push_back(&f);
      right_[f.slot->name] = rounded(f, want_.at(f.slot->name));
    }
  }

  void run() {
    for (const CaseField* f : outputs_) {
      if (f->entries == 0 || numel(f->shape) == 0 || nothing_is_valid(*f)) continue;
      if (done_) {
        left_out.push_back("all of " + f->slot->name);
        continue;
      }
      nothing(*f);
      if (f->slot->count.empty()) copies(*f);
      constant(*f);
      missing(*f);
      if (!f->slot->any_order) swapped(*f);
      scaled(*f);
    }
    if (ask_) asked();
  }

  std::vector<std::string> left_out;  // mutants left when take_ had returned false

 private:
  using Tensors = std::vector<Tensor>;

  static Tensors rounded(const CaseField& field, const Tensors& values) {
    Tensors out;
    for (const Tensor& t : values)
      out.push_back(t.shape == field.shape ? t.to(field.dtype) : codes_of(t, field.dtype));
    return out;
  }

  void offer(const std::string& name, const CaseField& field, Tensors values) {
    Mutant mutant{name + " in " + field.slot->name, field.slot->name, {}};
    if (done_) return left_out.push_back(std::move(mutant.name));
    mutant.answer = right_;
    mutant.answer[field.slot->name] = std::move(values);
    done_ = !take_(mutant);
  }

  // The content if no kernel writes: an inout field's earlier content, or zeros.
  Tensors empty(const CaseField& field) const {
    if (field.slot->role == Role::inout) return rounded(field, inputs_.at(field.slot->name));
    Tensors out;
    for (const Tensor& t : right_.at(field.slot->name)) out.emplace_back(t.dtype, t.shape);
    return out;
  }

  void nothing(const CaseField& field) {
    offer(field.slot->role == Role::inout ? "stale contents" : "zeros", field, empty(field));
    if (field.slot->role != Role::inout) return;
    // Zeros in all elements that a call writes.
    Tensors out = right_.at(field.slot->name);
    const Tensors before = empty(field);
    for (size_t k = 0; k < out.size(); ++k)
      for (int64_t i = 0; i < out[k].numel(); ++i)
        if (out[k].at(i) != before[k].at(i)) out[k].set(i, 0);
    if (!same(out, before)) offer("zeros", field, std::move(out));
  }

  // True for a counted output without a valid row.
  bool nothing_is_valid(const CaseField& field) const {
    for (int64_t k = 0; k < field.entries; ++k)
      if (extent_of(r_, field, k, want_).rows() > 0) return false;
    return true;
  }

  void copies(const CaseField& field) {
    const std::string& name = field.slot->name;
    for (const auto& from : r_.fields) {
      const auto it = inputs_.find(from.slot->name);
      if (!from.present || it == inputs_.end() || from.slot->name == name) continue;
      if (from.entries != field.entries || is_float(from.dtype) != is_float(field.dtype)) continue;
      Tensors out;
      for (int64_t k = 0; k < field.entries; ++k) {
        const auto at = static_cast<size_t>(k);
        if (numel(from.shape_of(k)) != numel(field.shape_of(k))) break;
        out.push_back(it->second[at].to(field.dtype).reshaped(field.shape_of(k)));
      }
      if (static_cast<int64_t>(out.size()) != field.entries) continue;
      if (!same(out, right_.at(name))) offer("a copy of " + from.slot->name, field, std::move(out));
    }
  }

  void constant(const CaseField& field) {
    Tensors out = right_.at(field.slot->name);
    const Tensors before = empty(field);
    double sum = 0;
    int64_t count = 0;
    const auto written = [&](size_t k, int64_t i) {
      return field.slot->role != Role::inout || out[k].at(i) != before[k].at(i);
    };
    for (size_t k = 0; k < out.size(); ++k) {
      for (int64_t i = 0; i < out[k].numel(); ++i) {
        if (!written(k, i) || !std::isfinite(out[k].at(i))) continue;
        sum += out[k].at(i);
        ++count;
      }
    }
    if (count < 2) return;
    for (size_t k = 0; k < out.size(); ++k)
      for (int64_t i = 0; i < out[k].numel(); ++i)
        if (written(k, i)) out[k].set(i, sum / static_cast<double>(count));
    offer("the mean everywhere", field, std::move(out));
  }

  // The rows (last axis) of an entry that hold a result.
  std::vector<int64_t> rows_of(const CaseField& field, size_t k) const {
    const Tensor& t = right_.at(field.slot->name)[k];
    const int64_t width = t.shape.size() < 2 ? 1 : t.shape.back();
    const Extent extent = extent_of(r_, field, static_cast<int64_t>(k), want_);
    std::vector<int64_t> out;
    for (size_t g = 0; g < extent.counts.size(); ++g) {
      const int64_t first = static_cast<int64_t>(g) * extent.capacity * extent.row / width;
      for (int64_t i = 0; i < extent.counts[g] * extent.row / width; ++i) out.push_back(first + i);
    }
    return out;
  }

  // Replaces rows and columns of `t` by those of `before`. Returns false, and leaves `t` unchanged,
  // if there is no difference.
  static bool leave_out(const Tensor& before, const std::vector<int64_t>& rows,
                        int64_t first_column, Tensor& t) {
    const int64_t width = t.shape.size() < 2 ? 1 : t.shape.back();
    const auto size = static_cast<size_t>((width - first_column) * bytes(t.dtype));
    bool seen = false;
    for (const int64_t row : rows) {
      const auto at = static_cast<size_t>((row * width + first_column) * bytes(t.dtype));
      auto* to = static_cast<std::byte*>(t.data()) + at;
      const auto* from = static_cast<const std::byte*>(before.data()) + at;
      seen |= std::memcmp(to, from, size) != 0;
      std::memcpy(to, from, size);
    }
    return seen;
  }

  void missing(const CaseField& field) {
    const Tensors& right = right_.at(field.slot->name);
    const size_t k = right.size() - 1;  // the last entry of a list that has rows
    std::vector<int64_t> rows;
    size_t at = k + 1;
    while (rows.empty() && at > 0) rows = rows_of(field, --at);
    if (rows.empty()) return;
    const int64_t width = right[at].shape.size() < 2 ? 1 : right[at].shape.back();
    Tensors out = right;
    const Tensor before = empty(field)[at];
    const auto try_one = [&](const std::string& name, const std::vector<int64_t>& some,
                             int64_t first_column) {
      if (!leave_out(before, some, first_column, out[at])) return false;
      offer(name, field, out);
      out[at] = right[at];
      return true;
    };
    const auto half = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
    if (rows.size() > 1) try_one("half of the rows missing", {half, rows.end()}, 0);
    if (width > 1) try_one("half of the columns missing", rows, width - width / 2);
    // The last row whose loss changes the answer.
    for (size_t i = rows.size(); i-- > 1 && !try_one("the last row missing", {rows[i]}, 0);) {
    }
    for (size_t end = rows.size(); end > 16 && width > 1; end -= 16) {
      const auto tile = rows.begin() + static_cast<std::ptrdiff_t>(end);
      if (try_one("a late tile missing", {tile - 16, tile}, std::max(width - 64, width / 2))) break;
    }
  }

  void swapped(const CaseField& field) {
    Tensors out = right_.at(field.slot->name);
    const std::vector<int64_t> rows = rows_of(field, 0);
    if (rows.size() < 2) return;
    Tensor& t = out[0];
    const auto width =
        static_cast<size_t>((t.shape.size() < 2 ? 1 : t.shape.back()) * bytes(t.dtype));
    auto* data = static_cast<std::byte*>(t.data());
    const Tensors before = field.slot->role == Role::inout ? empty(field) : Tensors();
    const auto row = [&](size_t i) { return data + static_cast<size_t>(rows[i]) * width; };
    const auto kept = [&](size_t i) {
      if (before.empty()) return false;
      const auto* was = static_cast<const std::byte*>(before[0].data());
      return std::memcmp(row(i), was + static_cast<size_t>(rows[i]) * width, width) == 0;
    };
    size_t first = 0;
    while (first < rows.size() && kept(first)) ++first;
    for (size_t i = rows.size(); i-- > first + 1;) {
      if (kept(i) || std::memcmp(row(first), row(i), width) == 0) continue;
      std::swap_ranges(row(first), row(first) + width, row(i));
      offer("two rows swapped", field, std::move(out));
      return;
    }
  }

  void scaled(const CaseField& field) {
    if (!is_float(field.dtype)) return;
    Tensors out = want_.at(field.slot->name);
    const Tensors before = empty(field);
    for (size_t k = 0; k < out.size(); ++k) {
      const Tensor& right = right_.at(field.slot->name)[k];
      for (int64_t i = 0; i < out[k].numel(); ++i)
        if (field.slot->role != Role::inout || right.at(i) != before[k].at(i))
          out[k].set(i, out[k].at(i) * 1.01);
    }
    out = rounded(field, out);
    if (!same(out, right_.at(field.slot->name))) offer("1.01 times the answer", field, out);
  }

  void asked() {
    const bool floats = std::any_of(outputs_.begin(), outputs_.end(),
                                    [](const CaseField* f) { return is_float(f->dtype); });
    if (floats && working_dtype(r_) == DType::f32) {
      ask("inputs in tf32", [](const CaseField&, Tensor& t) {
        if (t.dtype != DType::f32) return;
        for (float& v : t.as<float>()) v = tf32(v);
      });
      ask("inputs in bf16", [](const CaseField&, Tensor& t) { round_to(DType::bf16, t); });
    } else if (floats) {
      // An op that rounds to f8e4m3 itself may get inputs that are already rounded.
      const DType low = rounds_inputs(r_) ? DType::f8e5m2 : DType::f8e4m3;
      ask("inputs in " + std::string(name(low)), [low](const CaseField& field, Tensor& t) {
        if (bytes(field.dtype) == 2) round_to(low, t);
      });
    }
    ask("every weight 1", [](const CaseField& field, Tensor& t) {
      if (field.slot->section != SectionId::weights) return;
      each_row(t, [](int64_t, std::span<float> row) {
        std::fill(row.begin(), row.end(), 1.F);
        return true;
      });
    });
    for (const CaseField& f : r_.fields)
      if (floats && f.present && bytes(f.dtype) == 2 && f.values.starts_with("fed_by("))
        ask(f.slot->name + " in eight bits", [&f](const CaseField& field, Tensor& t) {
          if (&field == &f) to_eight_bits(t);
        });
  }

  // The reference's answer for changed floats; inout fields stay in the inputs' dtypes.
  void ask(const std::string& name, const std::function<void(const CaseField&, Tensor&)>& change) {
    if (done_) return left_out.push_back(name);
    CaseValues values = inputs_;
    for (const auto& f : r_.fields) {
      const auto it = values.find(f.slot->name);
      if (it == values.end() || !f.present || !is_float(f.dtype)) continue;
      for (Tensor& t : it->second) change(f, t);
    }
    CaseValues answer = ask_(values);
    if (answer.empty()) return;
    Mutant mutant{name, "", {}};
    bool differs = false;
    for (const CaseField* f : outputs_) {
      const std::string& field = f->slot->name;
      mutant.answer[field] = rounded(*f, answer.at(field));
      keep_unwritten(*f, mutant.answer[field]);
      differs |= !same(mutant.answer[field], right_.at(field));
    }
    if (differs) done_ = !take_(mutant);
  }

  // Restores the elements that the call does not write: they are no part of its answer.
  void keep_unwritten(const CaseField& field, Tensors& answer) const {
    if (field.slot->role != Role::inout) return;
    const Tensors before = empty(field);
    const Tensors& right = right_.at(field.slot->name);
    for (size_t k = 0; k < answer.size(); ++k)
      for (int64_t i = 0; i < answer[k].numel(); ++i)
        if (right[k].at(i) == before[k].at(i)) answer[k].set(i, right[k].at(i));
  }

  const ResolvedCase& r_;
  const CaseValues& inputs_;
  const CaseValues& want_;
  const AskReference& ask_;
  const std::function<bool(const Mutant&)>& take_;
  std::vector<const CaseField*> outputs_;
  CaseValues right_;  // the reference's, in the case's dtypes
  bool done_ = false;
};

}  // namespace

int64_t written_elements(const ResolvedCase& resolved) {
  int64_t out = 0;
  for (const CaseField* f : resolved.written())
    for (int64_t i = 0; i < f->entries; ++i) out += numel(f->shape_of(i));
  return out;
}

std::vector<std::string> each_mutant(const ResolvedCase& resolved, const CaseValues& inputs,
                                   const CaseValues& want, const AskReference& ask,
                                   const std::function<bool(const Mutant&)>& take) {
  Mutator mutator(resolved, inputs, want, ask, take);
  mutator.run();
  return std::move(mutator.left_out);
}

std::vector<std::string> accepted_mutants(const ResolvedCase& resolved, const CaseValues& inputs,
                                        const CaseValues& want, const AskReference& ask) {
  const Comparer comparer(resolved, inputs, want, ask);
  std::vector<std::string> out;
  each_mutant(resolved, inputs, want, ask, [&](const Mutant& mutant) {
    if (comparer.look(mutant.answer, mutant.field).ok) out.push_back(mutant.name);
    return true;
  });
  return out;
}

}  // namespace fk
