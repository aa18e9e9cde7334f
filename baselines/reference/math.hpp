// SPDX-License-Identifier: Apache-2.0
// The arithmetic that several ops share, on rows of doubles. Ops of levels 2 and 3 use these
// functions and not ops of level 1, so nothing is rounded between their steps. Letters in brackets
// are axes of the ops' contracts, such as C for channels.
#pragma once
#include <limits>

#include "element.hpp"

namespace fk::reference {

// out[n] = sum over k of weight[at + n * columns + k] * x[k] + bias[n]
inline void matrix_vector(const fk_in* weight, int64_t at, int64_t rows, int64_t columns,
                          const fk_in* bias_or_null, const double* x, double* out) {
  if (bias_or_null)
    load(bias_or_null, 0, rows, out);
  else
    std::fill_n(out, rows, 0.0);
  for (int64_t n = 0; n < rows; ++n) out[n] += dot_view(weight, at + n * columns, x, columns);
}

// x *= weight, element by element.
inline void multiply(double* x, int64_t count, const fk_in* weight_or_null, double* row) {
  if (!weight_or_null) return;
  load(weight_or_null, 0, count, row);
  for (int64_t i = 0; i < count; ++i) x[i] *= row[i];
}

// x = x / sqrt(mean(x^2) + eps) * weight. Here and below, `row` has room for `count` doubles.
inline void rms_normalize(double* x, int64_t count, double eps, const fk_in* weight_or_null,
                          double* row) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
  for (int64_t i = 0; i < count; ++i) x[i] *= scale;
  multiply(x, count, weight_or_null, row);
}

// x = (x - mean) / sqrt(variance + eps) * weight + bias
inline void layer_normalize(double* x, int64_t count, double eps, const fk_in* weight_or_null,
                            const fk_in* bias_or_null, double* row) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
  for (int64_t i = 0; i < count; ++i) x[i] = (x[i] - mean) * scale;
  multiply(x, count, weight_or_null, row);
  if (bias_or_null) add_scaled(bias_or_null, 0, count, 1, x);
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }
// log(sigmoid(x)), without a sum that is rounded to 1.
inline double log_sigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x)));
}
// x[i] = silu(x[i]) * x[width + i]: the gate is the first half of x, the result overwrites it.
inline void silu_halves(double* x, int64_t width) {
  for (int64_t i = 0; i < width; ++i) x[i] = silu(x[i]) * x[width + i];
}
// The swiglu of swiglu_oai, whose gate and up are neighbouring columns. The result is the first
// half of x.
inline void swiglu_pairs(double* x, int64_t width, double alpha = 1.702, double limit = 7) {
  for (int64_t i = 0; i < width; ++i) {
    const double gate = std::min(x[2 * i], limit), up = std::clamp(x[2 * i + 1], -limit, limit);
    x[i] = (up + 1) * gate / (1 + std::exp(-alpha * gate));
  }
}
inline double gelu(double x, bool tanh_form) {
  constexpr double kPi = 3.14159265358979323846;
  if (tanh_form) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

// Rotary embedding: rotates pairs of the first `width` channels of a head by the angles of one
// position. `table` is the position's row of the cache: width/2 cosines, then width/2 sines. A pair
// is two neighbours if `interleaved`, else channels i and i + width/2.
inline void rotate(double* head, int64_t width, bool interleaved, const float* table) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    double& a = head[interleaved ? 2 * i : i];
    double& b = head[interleaved ? 2 * i + 1 : i + half];
    const double cosine = value(table[i]), sine = value(table[half + i]), old = a;
    a = old * cosine - b * sine;
    b = b * cosine + old * sine;
  }
}

// Softmax attention of one query over the keys [first, last). dot(j) returns q.k_j; add(j, p) adds
// p * v_j to the output, which the caller has set to 0. `scores` has room for last - first doubles.
struct Attention {
  double scale = 1, softcap = 0;
  const float* sink_or_null = nullptr;  // one more score in the softmax, without a value
  // The score of key j grows by slope * (j - position).
  double slope = 0;
  int64_t position = 0;
  // [rows, heads], or null: the score of key j grows by an element of column `head`. Its row is
  // (rows - 1) / 2 + (j - position), or the nearest one.
  const float* distances_or_null = nullptr;
  int64_t rows = 0, heads = 0, head = 0;

  // Adds a table [rows, heads] of a score's growth by distance; null: none.
  void look_up(const fk_in* table_or_null, int64_t at) {
    if (!table_or_null) return;
    distances_or_null = data<float>(table_or_null);
    rows = table_or_null->shape[0], heads = table_or_null->shape[1], head = at;
  }

  template <class Dot, class Add>
  void operator()(int64_t first, int64_t last, double* scores, Dot dot, Add add) const {
    if (first >= last) return;
    double top = sink_or_null ? value(*sink_or_null) : -std::numeric_limits<double>::infinity();
    for (int64_t j = first; j < last; ++j) {
      double score = scale * dot(j);
      if (softcap > 0) score = softcap * std::tanh(score / softcap);
      score += slope * static_cast<double>(j - position);
      if (distances_or_null) {
        const int64_t row = std::clamp<int64_t>((rows - 1) / 2 + j - position, 0, rows - 1);
        score += value(distances_or_null[row * heads + head]);
      }
      scores[j - first] = score;
      top = std::max(top, score);
    }
    double sum = sink_or_null ? std::exp(value(*sink_or_null) - top) : 0;
    for (int64_t j = first; j < last; ++j)
      sum += scores[j - first] = std::exp(scores[j - first] - top);
    for (int64_t j = first; j < last; ++j) add(j, scores[j - first] / sum);
  }
};

// Refuses a table of distances whose middle is not distance 0.
inline void need_odd_rows(const fk_in* table_or_null) {
  if (table_or_null && table_or_null->shape[0] % 2 == 0)
    throw unsupported{"distance_bias: an odd number of rows"};
}

// A request's keys and values, in pages of the views k and v [pages, slots, heads, width]. pages[i]
// is the page of positions [i * page_size, (i + 1) * page_size).
struct PagedRequest {
  const fk_in *k, *v;
  const int32_t* pages;
  int64_t page_size;

  // out[D] = attention of a query at `position` over positions up to itself: the last `window` of
  // them, or all if it is 0.
  void attend(const Attention& attention, const double* q, int64_t kv_head, int64_t width,
              int64_t position, int64_t window, double* scores, double* out) const {
    attend_range(attention, q, kv_head, width,
                 window > 0 ? std::max<int64_t>(0, position - window + 1) : 0, position + 1, scores,
                 out);
  }

  // As attend(), over the positions [first, end).
  void attend_range(const Attention& attention, const double* q, int64_t kv_head, int64_t width,
                    int64_t first, int64_t end, double* scores, double* out) const {
    const auto at = [&](const fk_in* cache, int64_t j) {
      return offset(cache, pages[j / page_size], j % page_size, kv_head);
    };
    std::fill_n(out, width, 0.0);
    attention(
        first, end, scores, [&](int64_t j) { return dot_view(k, at(k, j), q, width); },
        [&](int64_t j, double p) { add_scaled(v, at(v, j), width, p, out); });
  }

  // As attend(), over the `count` positions of the list `seen`.
  void attend_to(const Attention& attention, const double* q, int64_t kv_head, int64_t width,
                 const int64_t* seen, int64_t count, double* scores, double* out) const {
    const auto at = [&](const fk_in* cache, int64_t i) {
      return offset(cache, pages[seen[i] / page_size], seen[i] % page_size, kv_head);
    };
    std::fill_n(out, width, 0.0);
    attention(
        0, count, scores, [&](int64_t i) { return dot_view(k, at(k, i), q, width); },
        [&](int64_t i, double p) { add_scaled(v, at(v, i), width, p, out); });
  }
};

// A context of `length` positions whose last `nodes` are a tree of draft tokens.
struct TreeOf {
  int64_t length, nodes;
  // Writes the positions that a query sees, and returns their number: all before the tree, and the
  // nodes whose mask is not 0.
  int64_t seen(const int32_t* mask, int64_t* positions) const {
    int64_t count = 0;
    for (int64_t j = 0; j < length; ++j)
      if (j < length - nodes || mask[j - (length - nodes)]) positions[count++] = j;
    return count;
  }
};

// Writes the ids of the `count` largest logits, and their probabilities as weights; ties go to the
// lowest id. The order of logits is exact, while probabilities of different logits may be equal.
// probabilities = softmax(logits); both may be one array.
inline void choose_experts(const double* logits, int64_t experts, int64_t count, bool renormalize,
                           double* probabilities, double* weights, int32_t* ids) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e) {
      const bool taken = std::find(ids, ids + i, static_cast<int32_t>(e)) != ids + i;
      if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
    }
    ids[i] = static_cast<int32_t>(best);
  }
  const double top = *std::max_element(logits, logits + experts);
  double sum = 0, chosen = 0;
  for (int64_t e = 0; e < experts; ++e) sum += probabilities[e] = std::exp(logits[e] - top);
  for (int64_t e = 0; e < experts; ++e) probabilities[e] /= sum;
  for (int64_t i = 0; i < count; ++i) chosen += weights[i] = probabilities[ids[i]];
  if (renormalize)
    for (int64_t i = 0; i < count; ++i) weights[i] /= chosen;
}

// out[C] = down @ (silu(gate) * up), where [gate; up] = gate_up @ x. `hidden` has room for 2 *
// width. The matrices begin at the given offsets of their views: an expert's offset, or 0.
inline void gated_mlp(const fk_in* gate_up, int64_t gate_up_at, const fk_in* down, int64_t down_at,
                      int64_t channels, int64_t width, const double* x, double* hidden,
                      double* out) {
  matrix_vector(gate_up, gate_up_at, 2 * width, channels, nullptr, x, hidden);
  for (int64_t i = 0; i < width; ++i) hidden[i] = silu(hidden[i]) * hidden[width + i];
  matrix_vector(down, down_at, channels, width, nullptr, hidden, out);
}

// out[C] = sum over the chosen experts of weight * MLP; `part` has room for C. first(expert, x,
// hidden[2*F]) and second(expert, hidden[F], part[C]) are the two products with their biases.
// activate(hidden) computes F values from 2*F, in place.
template <class First, class Activate, class Second>
void experts_sum(int64_t channels, int64_t count, const double* weights, const int32_t* ids,
                 const double* x, double* hidden, double* part, double* out, First first,
                 Activate activate, Second second) {
  std::fill_n(out, channels, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    first(ids[i], x, hidden);
    activate(hidden);
    second(ids[i], hidden, part);
    for (int64_t c = 0; c < channels; ++c) out[c] += weights[i] * part[c];
  }
}

}  // namespace fk::reference
