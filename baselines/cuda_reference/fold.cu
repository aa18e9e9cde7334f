// SPDX-License-Identifier: Apache-2.0
// Features of tokens and atoms of structures: one thread for each pair. rigid_augmentation: one block for each structure.
#include "common.cuh"
#include "fk/ops/atom_pair_features.h"
#include "fk/ops/distance_bins.h"
#include "fk/ops/fourier_embedding.h"
#include "fk/ops/pair_windows.h"
#include "fk/ops/relative_positions.h"
#include "fk/ops/rigid_augmentation.h"

namespace {
using namespace fkr;

struct RelativePositions : Plain<fk::relative_positions> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int32_t *residues = fk::data<int32_t>(a.residue_index), *numbers = fk::data<int32_t>(a.token_index), *chains = fk::data<int32_t>(a.asym_id);
    const int32_t *entities = fk::data<int32_t>(a.entity_id), *copies = fk::data<int32_t>(a.sym_id);
    const Ref out = ref(a.out);
    const int64_t tokens = a.out->shape[0], width = a.out->shape[2], near = init.max_relative_idx, most = init.max_relative_chain;
    for_each(tokens * tokens, ctx, [=] __device__(int64_t pair) {
      const int64_t i = pair / tokens, j = pair % tokens;
      const auto bin = [=](const int32_t* of, bool same, int64_t reach) {
        return same ? min(max(int64_t(of[i]) - of[j] + reach, int64_t(0)), 2 * reach) : 2 * reach + 1;
      };
      const bool chain = chains[i] == chains[j], entity = entities[i] == entities[j];
      for (int64_t f = 0; f < width; ++f) store(out, pair * width + f, 0);
      store(out, pair * width + bin(residues, chain, near), 1);
      store(out, pair * width + 2 * near + 2 + bin(numbers, chain && residues[i] == residues[j], near), 1);
      store(out, pair * width + 4 * near + 4, entity);
      store(out, pair * width + 4 * near + 5 + bin(copies, entity, most), 1);
    });
  }
};
FK_OP(relative_positions, RelativePositions);

struct AtomPairFeatures : Plain<fk::atom_pair_features> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float* positions = fk::data<float>(a.positions);
    const int32_t *spaces = fk::data<int32_t>(a.spaces), *q_rows = fk::data<int32_t>(a.q_rows), *k_rows = fk::data<int32_t>(a.k_rows);
    const Ref offsets = ref(a.offsets), nearness = ref(a.nearness), one = ref(a.same);
    const int64_t queries = a.q_rows->shape[1], keys = a.k_rows->shape[1];
    for_each(a.q_rows->shape[0] * queries * keys, ctx, [=] __device__(int64_t pair) {
      const int64_t q = q_rows[pair / keys], k = k_rows[pair / keys / queries * keys + pair % keys];
      const double same = spaces[q] == spaces[k];
      double squares = 0;
      for (int c = 0; c < 3; ++c) {
        const double d = double(positions[3 * q + c]) - double(positions[3 * k + c]);
        squares += d * d;
        store(offsets, 3 * pair + c, same > 0 ? d : 0);
      }
      store(nearness, pair, same > 0 ? 1 / (1 + squares) : 0);
      store(one, pair, same);
    });
  }
};
FK_OP(atom_pair_features, AtomPairFeatures);

struct PairWindows : Plain<fk::pair_windows> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int32_t *tokens = fk::data<int32_t>(a.tokens), *q_rows = fk::data<int32_t>(a.q_rows), *k_rows = fk::data<int32_t>(a.k_rows);
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t all = a.x->shape[0], width = init.size, queries = a.q_rows->shape[1], keys = a.k_rows->shape[1];
    for_each(a.q_rows->shape[0] * queries * keys * width, ctx, [=] __device__(int64_t at) {
      const int64_t pair = at / width, q = tokens[q_rows[pair / keys]], k = tokens[k_rows[pair / keys / queries * keys + pair % keys]];
      store(out, at, load(x, (q * all + k) * width + at % width));
    });
  }
};
FK_OP(pair_windows, PairWindows);

struct DistanceBins : Plain<fk::distance_bins> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float* positions = fk::data<float>(a.positions);
    const int32_t* rows = fk::data<int32_t>(a.rows);
    const Ref out = ref(a.out);
    const int64_t tokens = a.rows->shape[0], bins = init.num_bins;
    const double first = init.min_bin, last = init.max_bin;
    for_each(tokens * tokens * bins, ctx, [=] __device__(int64_t at) {
      const int64_t b = at % bins, i = rows[at / bins / tokens], j = rows[at / bins % tokens];
      double squares = 0;
      for (int c = 0; c < 3; ++c) {
        const double d = double(positions[3 * i + c]) - double(positions[3 * j + c]);
        squares += d * d;
      }
      const auto square_of_edge = [=](int64_t n) {
        const double edge = first + (last - first) * double(n) / double(bins - 1);
        return edge * edge;
      };
      store(out, at, squares > square_of_edge(b) && (b + 1 == bins || squares < square_of_edge(b + 1)));
    });
  }
};
FK_OP(distance_bins, DistanceBins);

struct RigidAugmentation : Plain<fk::rigid_augmentation> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float *x = fk::data<float>(a.x), *rotations = fk::data<float>(a.rotations), *translations = fk::data<float>(a.translations);
    float* out = fk::data<float>(a.out);
    const int64_t atoms = a.x->shape[1];
    for_rows(a.x->shape[0], ctx, [=] __device__(int64_t b) {
      const float *own = x + 3 * b * atoms, *q = rotations + 4 * b;
      double mean[3] = {0, 0, 0};
      for (int64_t t = threadIdx.x; t < atoms; t += blockDim.x)
        for (int c = 0; c < 3; ++c) mean[c] += own[3 * t + c];
      for (int c = 0; c < 3; ++c) mean[c] = block_sum(mean[c]) / double(atoms);
      const double w = q[0], i = q[1], j = q[2], k = q[3], norm = w * w + i * i + j * j + k * k;
      const double turn[3][3] = {{w * w + i * i - j * j - k * k, 2 * (i * j - w * k), 2 * (i * k + w * j)},
                                 {2 * (i * j + w * k), w * w - i * i + j * j - k * k, 2 * (j * k - w * i)},
                                 {2 * (i * k - w * j), 2 * (j * k + w * i), w * w - i * i - j * j + k * k}};
      for (int64_t t = threadIdx.x; t < atoms; t += blockDim.x) {
        for (int r = 0; r < 3; ++r) {
          double sum = translations[3 * b + r];
          for (int c = 0; c < 3; ++c) sum += turn[r][c] / norm * (own[3 * t + c] - mean[c]);
          out[3 * (b * atoms + t) + r] = float(sum);
        }
      }
    });
  }
};
FK_OP(rigid_augmentation, RigidAugmentation);

struct FourierEmbedding : Plain<fk::fourier_embedding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const float *t = fk::data<float>(a.t), *w = fk::data<float>(weights.w), *b = fk::data<float>(weights.b);
    const Ref out = ref(a.out);
    const int64_t width = init.size;
    for_each(a.t->shape[0] * width, ctx, [=] __device__(int64_t i) {
      store(out, i, cos(6.283185307179586 * (double(t[i / width]) * double(w[i % width]) + double(b[i % width]))));
    });
  }
};
FK_OP(fourier_embedding, FourierEmbedding);

}  // namespace
