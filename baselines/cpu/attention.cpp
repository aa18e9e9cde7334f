// SPDX-License-Identifier: Apache-2.0
// The kernel of attention.hpp. It passes over the keys once, in blocks, with a running maximum
// (online softmax). Scores are stored transposed, [key, row], so the softmax runs over vectors of
// rows, without a sum across lanes. Many rows multiply blocks of float32 copies; few rows
// (decoding) take dot products with the keys in place.
#include "attention.hpp"

#include "math.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

// The parts of a task's working memory, attention_floats() in all.
struct Buffers {
  int64_t rows, width, v_width;  // padded to whole vectors
  float* qt;      // queries times scale: [D, rows], or [rows, D] if there are few rows
  float* scores;  // [key, rows]
  float *k, *v;   // [key, D], [key, v_width]
  float* sums;    // unnormalised outputs [rows, v_width]
  // of each row: running maximum; sum of weights; factor for sums before the last block
  float *top, *mass, *fade;
  float* slope;       // of each row
  int32_t* position;  // of each row's token
};

// Rounds up to whole vectors.
FK_INLINE int64_t whole(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

inline constexpr int64_t kFewRows = 8;  // this many rows or fewer take dot_scores()

// C[i][j] = C[i][j] * fade[i] + sum_k A(i, k) * B[k][j] for I rows and J vectors. Without kAdd it
// only writes the sum. A(i, k) is a[i * i_stride + k * k_stride]. The sum over k begins at 0 for
// each block of keys: one float32 sum over tens of thousands of keys would lose precision.
struct Panel {
  const float* a;
  int64_t i_stride, k_stride;
  const float* b;
  int64_t b_stride, depth;
  float* c;
  int64_t c_stride;
  const float* fade;
};
template <int I, int J, bool kAdd>
FK_INLINE void panel_block(const Panel& p, int64_t i0, int64_t j0) {
  Vf acc[I][J] = {};
  const float* a = p.a + i0 * p.i_stride;
  const float* b = p.b + j0;
  for (int64_t k = 0; k < p.depth; ++k) {
    Vf row[J];
    for (int j = 0; j < J; ++j) row[j] = load(b + k * p.b_stride + j * kLanes);
    for (int i = 0; i < I; ++i) {
      const Vf x = splat(a[i * p.i_stride + k * p.k_stride]);
      for (int j = 0; j < J; ++j) acc[i][j] += x * row[j];
    }
  }
  for (int i = 0; i < I; ++i) {
    for (int j = 0; j < J; ++j) {
      float* c = p.c + (i0 + i) * p.c_stride + j0 + j * kLanes;
      store(c, kAdd ? load(c) * p.fade[i0 + i] + acc[i][j] : acc[i][j]);
    }
  }
}
// All rows of J vectors of columns from j0 on. kI rows at a time keep the accumulators in
// registers.
template <int J, bool kAdd>
FK_INLINE void panel_columns(const Panel& p, int64_t rows, int64_t j0) {
  constexpr int kI = kLanes == 16 ? (J == 4 ? 6 : 8) : (J == 1 ? 8 : 4);
  int64_t i = 0;
  for (; i + kI <= rows; i += kI) panel_block<kI, J, kAdd>(p, i, j0);
  for (; i + 4 <= rows; i += 4) panel_block<4, J, kAdd>(p, i, j0);
  for (; i + 2 <= rows; i += 2) panel_block<2, J, kAdd>(p, i, j0);
  if (i < rows) panel_block<1, J, kAdd>(p, i, j0);
}
// The whole product, [rows, columns]; `columns` is a multiple of kLanes.
template <bool kAdd>
void panel(const Panel& p, int64_t rows, int64_t columns) {
  constexpr int kJ = kLanes == 16 ? 4 : 2;
  int64_t j = 0;
  for (; j + kJ * kLanes <= columns; j += kJ * kLanes) panel_columns<kJ, kAdd>(p, rows, j);
  for (; j < columns; j += kLanes) panel_columns<1, kAdd>(p, rows, j);
}

// With a series near zero, where the other formula would lose digits.
FK_INLINE Vf tanh(Vf y) {
  const Vf y2 = y * y;
  const Vf small =
      y + y * y2 * (-1.f / 3 + y2 * (2.f / 15 + y2 * (-17.f / 315 + y2 * (62.f / 2835))));
  const Vf large = 1.f - 2.f / (1.f + exp(y + y));
  return y2 < splat(0.09f) ? small : large;
}

// Fills qt with scaled queries in float32, and with zeros in the padding.
template <class T>
void load_queries(const AttentionTask& a, const Buffers& b, bool few) {
  for (int64_t r = 0; r < b.rows; ++r) {
    const bool real = r < a.tokens * a.group;
    const int64_t token = r / a.group, head = r % a.group;
    const T* q = static_cast<const T*>(a.q) + token * a.q_token_stride + head * a.q_head_stride;
    const T* tail = static_cast<const T*>(a.q_tail) + token * a.q_tail_token_stride +
                    head * a.q_tail_head_stride;
    const float scale = a.head_scales ? a.scale * a.head_scales[head] : a.scale;
    for (int64_t i = 0; i < b.width; ++i) {
      const float value = !real || i >= a.width ? 0.f
                          : i < a.q_width       ? to_float(q[i]) * scale
                                                : to_float(tail[i - a.q_width]) * scale;
      b.qt[few ? r * b.width + i : i * b.rows + r] = value;
    }
  }
}

// Offsets, in elements, of the keys and values of one block. The kernel keeps two: this block's and
// the next one's, whose rows are prefetched.
struct Places {
  int64_t count;
  int64_t k[kKeyBlock], v[kKeyBlock];
};

// Sets the offsets of the block that begins at key `first`; no keys at or after `end`.
void locate(const AttentionTask& a, int64_t first, int64_t end, Places& to) {
  to.count = first >= end ? 0 : end - first < kKeyBlock ? end - first : kKeyBlock;
  if (to.count == 0) return;
  int64_t page = a.pages ? first / a.page_size : 0, slot = a.pages ? first % a.page_size : first;
  for (int64_t i = 0; i < to.count;) {
    const int64_t number = a.pages ? a.pages[page] : 0;
    const int64_t left = a.pages ? a.page_size - slot : to.count;
    const int64_t run = left < to.count - i ? left : to.count - i;
    for (int64_t j = 0; j < run; ++j) {
      to.k[i + j] = number * a.k_page_stride + (slot + j) * a.k_slot_stride;
      to.v[i + j] = number * a.v_page_stride + (slot + j) * a.v_slot_stride;
    }
    i += run;
    slot = 0;
    ++page;
  }
}

// Converts the keys (or values) of a block to float32, and prefetches the rows that are needed
// next.
template <class T>
void load_block(const AttentionTask& a, const void* base, int64_t count, const int64_t* at,
                const void* next, int next_type, int64_t next_count, const int64_t* next_at,
                float* to, int64_t columns, int64_t width) {
  const T* rows = static_cast<const T*>(base);
  const int64_t next_bytes = next_type == 0 ? 4 : 2;
  for (int64_t i = 0; i < count; ++i) {
    if (i < next_count) {
      const char* line = static_cast<const char*>(next) + next_at[i] * next_bytes;
      for (int64_t j = 0; j < a.width * next_bytes; j += 64) __builtin_prefetch(line + j);
    }
    const T* row = rows + at[i];
    float* target = to + i * width;
    each_vector(columns, [&](int64_t j, auto n) { store(target + j, load(row + j, n)); });
  }
}

// Scores of few rows: dot products with the keys in place, four rows at a time. It prefetches the
// values of the block.
template <class T>
void dot_scores(const AttentionTask& a, const Buffers& b, const Places& here, int64_t rows) {
  const T* keys = static_cast<const T*>(a.k);
  const char* values = static_cast<const char*>(a.v);
  const int64_t value_bytes = a.v_type == 0 ? 4 : 2;
  for (int64_t key = 0; key < here.count; ++key) {
    const char* value = values + here.v[key] * value_bytes;
    for (int64_t i = 0; i < a.v_width * value_bytes; i += 64) __builtin_prefetch(value + i);
    const T* k = keys + here.k[key];
    for (int64_t r = 0; r < rows; r += 4) {  // qt has zero rows up to a multiple of four
      const float* q = b.qt + r * b.width;
      Vf acc[4] = {};
      each_vector(a.width, [&](int64_t i, auto n) {
        const Vf x = load(k + i, n);
        for (int j = 0; j < 4; ++j) acc[j] += x * load(q + j * b.width + i);
      });
      for (int j = 0; j < 4; ++j) b.scores[key * b.rows + r + j] = sum(acc[j]);
    }
  }
}

// Sets the scores that the tree mask hides to -infinity, for keys [first, first + count).
void hide(const AttentionTask& a, const Buffers& b, int64_t first, int64_t count) {
  for (int64_t key = 0; key < count; ++key) {
    const int64_t node = first + key - a.tree_first;
    if (node < 0) continue;
    for (int64_t r = 0; r < a.tokens * a.group; ++r) {
      if (a.mask[r / a.group * a.mask_stride + node] == 0)
        b.scores[key * b.rows + r] = -__builtin_inff();
    }
  }
}

// Adds the biases of keys [first, first + count) to their scores.
void add_biases(const AttentionTask& a, const Buffers& b, int64_t first, int64_t count) {
  for (const AttentionTask::Bias& bias : a.biases) {
    if (!bias.at) continue;
    with_type(bias.type, [&]<class T>() {
      for (int64_t r = 0; r < a.tokens * a.group; ++r) {
        const T* row = static_cast<const T*>(bias.at) + r % a.group * bias.head_stride +
                       (bias.first + r / a.group) % bias.rows * bias.row_stride + first;
        for (int64_t key = 0; key < count; ++key) b.scores[key * b.rows + r] += to_float(row[key]);
      }
    });
  }
}

// Adds the table's rows of keys [first, first + count) to their scores.
void add_distances(const AttentionTask& a, const Buffers& b, int64_t first, int64_t count) {
  const int64_t rows = a.tokens * a.group, end = a.distance_rows - 1;
  for (int64_t key = 0; key < count; ++key) {
    for (int64_t r = 0; r < rows; ++r) {
      int64_t row = a.distance_rows / 2 + first + key - (a.position + r / a.group);
      row = row < 0 ? 0 : row > end ? end : row;
      b.scores[key * b.rows + r] += a.distances[row * a.distance_stride + r % a.group];
    }
  }
}

// Turns the scores of keys [first, first + count) into weights relative to the new maximum, and
// updates top, mass and fade. `masked`: some scores may be outside causal or window limits.
void soften(const AttentionTask& a, const Buffers& b, int64_t first, int64_t count, bool masked) {
  const float low = -__builtin_inff();
  const auto window = static_cast<int32_t>(a.window);
  for (int64_t r = 0; r < b.rows; r += kLanes) {
    const Vi position = read<Vi>(b.position + r);
    Vf top = load(b.top + r);
    const Vf before = top;
    for (int64_t key = 0; key < count; ++key) {
      float* at = b.scores + key * b.rows + r;
      Vf s = load(at);
      if (a.softcap > 0) s = a.softcap * tanh(s / a.softcap);
      const Vi p = Vi{} + static_cast<int32_t>(first + key);
      if (a.slopes) s += load(b.slope + r) * __builtin_convertvector(p - position, Vf);
      if (masked) {
        if (a.causal) s = p > position ? splat(low) : s;
        if (a.window > 0) s = p <= position - window ? splat(low) : s;
        if (a.window > 0 && !a.causal) s = p >= position + window ? splat(low) : s;
      }
      if (masked || a.softcap > 0 || a.slopes) store(at, s);
      top = max(top, s);
    }
    const Vf base = top == splat(low) ? splat(0.f) : top;
    const Vf fade = exp(before - base);
    Vf mass = {};
    for (int64_t key = 0; key < count; ++key) {
      float* at = b.scores + key * b.rows + r;
      const Vf p = exp(load(at) - base);
      store(at, p);
      mass += p;
    }
    store(b.top + r, top);
    store(b.fade + r, fade);
    store(b.mass + r, load(b.mass + r) * fade + mass);
  }
}

// Sets the running values of all rows to no keys seen, or to the sink alone.
void begin_rows(const AttentionTask& a, const Buffers& b) {
  const int64_t rows = a.tokens * a.group;
  for (int64_t r = 0; r < b.rows; ++r) {
    const bool real = r < rows;
    b.top[r] = real && a.sinks ? a.sinks[r % a.group] : -__builtin_inff();
    b.mass[r] = real && a.sinks ? 1.f : 0.f;
    b.slope[r] = real && a.slopes ? a.slopes[r % a.group] : 0.f;
    b.position[r] = static_cast<int32_t>(a.position + (real ? r / a.group : a.tokens - 1));
  }
  for (int64_t i = 0; i < rows * b.v_width; ++i) b.sums[i] = 0.f;
  // The products read whole vectors, so the columns behind D must be 0.
  for (int64_t i = 0; i < kKeyBlock; ++i) {
    for (int64_t j = a.width; j < b.width; ++j) b.k[i * b.width + j] = 0.f;
    for (int64_t j = a.v_width; j < b.v_width; ++j) b.v[i * b.v_width + j] = 0.f;
  }
}

// Divides by the sum of weights and stores the rows.
template <class T>
void finish_rows(const AttentionTask& a, const Buffers& b) {
  for (int64_t r = 0; r < a.tokens * a.group; ++r) {
    const float scale = b.mass[r] > 0 ? 1.f / b.mass[r] : 0.f;  // a row that sees no key is 0
    T* out =
        static_cast<T*>(a.out) + r / a.group * a.out_token_stride + r % a.group * a.out_head_stride;
    each_vector(a.v_width, [&](int64_t i, auto n) {
      store(out + i, load(b.sums + r * b.v_width + i) * scale, n);
    });
  }
}

// Divides the working memory.
Buffers carve(const AttentionTask& a, float* work) {
  Buffers b{};
  const auto take = [&](int64_t floats) {
    float* at = work;
    work += floats;
    return at;
  };
  b.rows = whole(a.tokens * a.group);
  b.width = whole(a.width);
  b.v_width = whole(a.v_width);
  b.qt = take(b.width * b.rows);
  b.scores = take(kKeyBlock * b.rows);
  b.k = take(kKeyBlock * b.width);
  b.v = take(kKeyBlock * b.v_width);
  b.sums = take(b.rows * b.v_width);
  b.top = take(b.rows);
  b.mass = take(b.rows);
  b.fade = take(b.rows);
  b.slope = take(b.rows);
  b.position = reinterpret_cast<int32_t*>(take(b.rows));
  return b;
}

}  // namespace

void attention_task(const AttentionTask& a, float* work) {
  const Buffers b = carve(a, work);
  const int64_t rows = a.tokens * a.group;
  const bool few = rows <= kFewRows;
  with_type(a.q_type, [&]<class T>() { load_queries<T>(a, b, few); });
  begin_rows(a, b);
  const int64_t last = a.position + a.tokens;  // one past the last token's position
  const int64_t reach = a.causal ? last : a.window > 0 ? last - 1 + a.window : a.keys;
  const int64_t end = reach < a.keys ? reach : a.keys;
  int64_t first = a.window > 0 ? a.position - a.window + 1 : 0;
  if (first < 0) first = 0;
  Places places[2];
  locate(a, first, end, places[0]);
  for (int turn = 0; first < end; first += kKeyBlock, turn ^= 1) {
    const Places &here = places[turn], &next = places[turn ^ 1];
    locate(a, first + kKeyBlock, end, places[turn ^ 1]);
    const int64_t count = here.count;
    with_type(a.k_type, [&]<class T>() {
      if (few) return dot_scores<T>(a, b, here, rows);
      load_block<T>(a, a.k, count, here.k, a.v, a.v_type, count, here.v, b.k, a.width, b.width);
      panel<false>(
          {/*a=*/b.k, /*i_stride=*/b.width, /*k_stride=*/1, /*b=*/b.qt, /*b_stride=*/b.rows,
           /*depth=*/a.width, /*c=*/b.scores, /*c_stride=*/b.rows, /*fade=*/nullptr},
          count, b.rows);
    });
    const bool masked = (a.causal && first + count > a.position + 1) ||
                        (a.window > 0 && (!a.causal || first <= last - 1 - a.window));
    if (a.mask && first + count > a.tree_first) hide(a, b, first, count);
    add_biases(a, b, first, count);
    if (a.distances) add_distances(a, b, first, count);
    soften(a, b, first, count, masked);
    with_type(a.v_type, [&]<class T>() {
      load_block<T>(a, a.v, count, here.v, a.k, a.k_type, next.count, next.k, b.v, a.v_width,
                    b.v_width);
    });
    panel<true>(
        {/*a=*/b.scores, /*i_stride=*/1, /*k_stride=*/b.rows, /*b=*/b.v, /*b_stride=*/b.v_width,
         /*depth=*/count, /*c=*/b.sums, /*c_stride=*/b.v_width, /*fade=*/b.fade},
        rows, b.v_width);
  }
  with_type(a.out_type, [&]<class T>() { finish_rows<T>(a, b); });
}

}  // namespace fk::cpu::FK_CPU_LEVEL
