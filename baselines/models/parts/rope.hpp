// SPDX-License-Identifier: Apache-2.0
// Rotary position tables as configurations describe them: plain, or with linear, llama3, YaRN or
// longrope scaling. The keys have the new style (`rope_parameters`) or the old one (`rope_theta`,
// `rope_scaling`).
#pragma once
#include <cstdint>
#include <vector>

#include "core/base/json.hpp"

namespace fk::parts {

struct Rope {
  int64_t rotary_dim = 0;  // even; the first channels of a head that are rotated
  double theta = 10000;
  double linear_factor = 1;  // `linear`: positions are divided by it
  // `llama3`: wave lengths above original / low_freq_factor are stretched by `factor`. Wave lengths
  // below original / high_freq_factor stay. Wave lengths between the two are blended.
  bool llama3 = false;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4, original_max_position = 8192;
  // `yarn`: counts the turns of each pair of channels within the original positions. Pairs with
  // fewer turns than beta_slow are stretched by `factor`. Pairs with more than beta_fast stay.
  // Pairs between the two are blended by the index of the pair. `truncate`: the ends of the blend
  // are whole indices.
  bool yarn = false, truncate = true;
  double beta_fast = 32, beta_slow = 1;
  // `longrope`: the angular step of each pair is divided by a factor of its own. Tables up to the
  // original positions use the first list, longer tables the second. Empty: no longrope.
  std::vector<double> short_factors, long_factors;
  // `proportional`: only so many channels turn, by the steps of all; 0: all of them do.
  int64_t turning = 0;
  double table_scale = 1;  // cosines and sines are multiplied by it
  double score_scale = 1;  // latent attention multiplies its scores by it (mscale_all_dim)
  bool reversed = false;   // turns the other way round: sines are negative
  // Numbers of pairs of channels which turn by a token's frame, row and column; empty: a token has
  // one position. `interleaved_sections`: the three take turns, and frames have the pairs that are
  // left.
  std::vector<int64_t> sections;
  bool interleaved_sections = false;
  // Queries at position p are multiplied by 1 + beta ln(1 + floor(p / original positions)).
  double query_beta = 0;
};

// The keys of a rope in a configuration, and its default share.
struct RopeKeys {
  std::string theta = "rope_theta";
  // The rotated share of a head: its key (empty: the model has none) and its default.
  std::string share;
  double share_default = 1;
  // The kind of layer to read, in configurations with one rope for each kind. Older files have the
  // keys above for full layers. For sliding layers they have `sliding_theta` and no scaling.
  std::string layer_type, sliding_theta;
  std::string query_beta;  // among the parameters; empty: there is none
  std::vector<int64_t>
      sections;  // Rope::sections without `mrope_section`; empty: the model has none
  bool interleaved_sections = false;
};
// Reads the rope of a decoder. Error for a kind of scaling that is not supported.
Rope read_rope(const Config& config, int64_t head_dim, const RopeKeys& keys = {});

// Angular step of each pair of channels, rotary_dim / 2 of them.
std::vector<double> rope_frequencies(const Rope& rope);

// The axis by which a pair of channels turns: 0 frames, 1 rows, 2 columns.
int64_t axis_of(const Rope& rope, int64_t pair);

// Slopes of ALiBi: powers of 2^(-8 / n). n is `heads`, rounded up to a power of two. If `heads` is
// no power of two, the even powers come first.
std::vector<double> alibi_slopes(int64_t heads);
// [positions, head_dim] row-major: a rotary table without rotation, which multiplies by the factor
// of `query_beta`.
std::vector<double> query_scale_table(const Rope& rope, int64_t positions, int64_t head_dim);
// [positions, width] row-major: sines, then cosines. Row 0 has the position `first`. Position
// `zero` has zeros.
std::vector<double> sinusoidal_table(int64_t positions, int64_t width, int64_t first, int64_t zero);

// [positions, rotary_dim] row-major: cosines of the rotary_dim / 2 angles, then their sines.
std::vector<double> rope_table(const Rope& rope, int64_t positions);

}  // namespace fk::parts
