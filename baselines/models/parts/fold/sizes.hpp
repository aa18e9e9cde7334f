// SPDX-License-Identifier: Apache-2.0
// Sizes of OpenFold3, in the nested keys of its `architecture`, and the steps of its sampler.
#pragma once
#include "core/base/json.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk::parts {

// An encoder of atoms, or the decoder: attention in windows.
struct AtomSizes {
  int64_t atom = 0, pair = 0, token = 0;  // channels
  int64_t heads = 0, head_dim = 0, blocks = 0, transition = 0;
  int64_t queries = 0, keys = 0;      // of a window
  int64_t elements = 0, letters = 0;  // of the features of an atom; not of the decoder
};
// Blocks of pairs, and for a pairformer of tokens.
struct PairformerSizes {
  int64_t blocks = 0, mul = 0, heads = 0, head_dim = 0, transition = 0;
  int64_t token_heads = 0, token_head_dim = 0;
};
struct FoldSizes {
  int64_t tokens = 0, atoms = 0, sequences = 0;  // of a structure
  int64_t input = 0, token = 0, pair = 0;        // channels
  int64_t cycles = 0;
  int64_t near = 0, copies = 0;  // most differences of relative positions
  AtomSizes input_atoms;
  int64_t msa = 0, msa_features = 0;  // channels
  PairformerSizes msa_pairs;
  int64_t msa_heads = 0, msa_head_dim = 0, outer = 0;
  PairformerSizes trunk;
  AtomSizes encoder, decoder;
  int64_t wide = 0, fourier = 0;  // channels of the diffusion's tokens and of its times
  int64_t diffusion_blocks = 0, diffusion_heads = 0, diffusion_head_dim = 0;
  int64_t diffusion_transition = 0;
  PairformerSizes head;
  int64_t bins = 0, plddt_bins = 0, most_atoms = 0;  // of a token
  double min_bin = 0, max_bin = 0;
  DiffusionSampler sampler;

  int64_t windows(const AtomSizes& a) const { return (atoms + a.queries - 1) / a.queries; }
};
FoldSizes read_fold(const Config& config);

}  // namespace fk::parts
