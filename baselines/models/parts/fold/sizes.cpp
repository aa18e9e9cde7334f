// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/fold/sizes.hpp"

#include <cmath>

#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

AtomSizes read_atoms(const Config& c, bool encoder) {
  AtomSizes a;
  a.atom = read_count(c, "c_atom");
  a.pair = read_count(c, "c_atom_pair");
  a.token = read_count(c, "c_token");
  a.heads = read_count(c, "no_heads");
  a.head_dim = read_count(c, "c_hidden");
  a.blocks = read_count(c, "no_blocks");
  a.transition = bounded(c, "n_transition", c.integer("n_transition"), 64);
  a.queries = read_count(c, "n_query");
  a.keys = read_count(c, "n_key");
  if (a.queries % 2 != 0 || a.keys % 2 != 0)
    c.fail_at("n_query", "it and n_key must be even: a window has keys on both sides");
  if (!encoder) return a;
  const Config features = c.child("c_atom_ref");
  a.elements = read_count(features, "element");
  a.letters = read_count(features, "name_chars");
  return a;
}

PairformerSizes read_pairs(const Config& c, bool tokens) {
  PairformerSizes p;
  need_text(c, "transition_type", "swiglu");
  need_boolean(c, {"fuse_projection_weights"}, false);
  p.blocks = read_count(c, "no_blocks");
  p.mul = read_count(c, "c_hidden_mul");
  p.heads = read_count(c, "no_heads_pair");
  p.head_dim = read_count(c, "c_hidden_pair_att");
  p.transition = bounded(c, "transition_n", c.integer("transition_n"), 64);
  if (!tokens) return p;
  p.token_heads = read_count(c, "no_heads_pair_bias");
  p.token_head_dim = read_count(c, "c_hidden_pair_bias");
  return p;
}

double positive(const Config& c, const char* key) {
  const double value = c.number(key);
  if (!(value > 0)) c.fail_at(key, "it must be above 0");
  return value;
}

// Algorithm 18 of AlphaFold 3: a step adds noise up to the level t, and then goes to the next
// level.
DiffusionSampler read_steps(const Config& config, int64_t steps) {
  const Config schedule = config.child("noise_schedule"), sample = config.child("sample_diffusion");
  const double data = positive(schedule, "sigma_data"), p = positive(schedule, "p");
  const double most = std::pow(positive(schedule, "s_max"), 1 / p);
  const double least = std::pow(positive(schedule, "s_min"), 1 / p);
  const double gamma = sample.number("gamma_0"), from = sample.number("gamma_min");
  if (!(gamma >= 0)) sample.fail_at("gamma_0", "it is not negative");
  const double noise = positive(sample, "noise_scale"), stride = positive(sample, "step_scale");
  const auto level = [&](int64_t i) {
    const double share = static_cast<double>(i) / static_cast<double>(steps);
    return data * std::pow(most + share * (least - most), p);
  };
  DiffusionSampler sampler;
  sampler.noise = level(0);
  for (int64_t i = 0; i < steps; ++i) {
    const double now = level(i), next = level(i + 1);
    const double t = now * (1 + (next > from ? gamma : 0)), root = std::sqrt(t * t + data * data);
    const double rate = stride * (next - t) / t;
    sampler.steps.push_back({.time = 0.25 * std::log(t / data),
                             .scale = 1 / root,
                             .latent = 1 + rate * t * t / (root * root),
                             .prediction = -rate * data * t / root,
                             .noise = noise * std::sqrt(t * t - now * now)});
  }
  return sampler;
}

void read_diffusion_module(const Config& c, FoldSizes& f) {
  const Config module = c.child("diffusion_module");
  f.wide = read_count(module, "c_token");
  const Config conditioning = c.child("diffusion_conditioning");
  f.fourier = read_count(conditioning, "c_fourier_emb");
  f.encoder = read_atoms(c.child("atom_attn_enc"), true);
  f.decoder = read_atoms(c.child("atom_attn_dec"), false);
  if (f.encoder.token != f.wide || f.decoder.token != f.wide)
    module.fail_at("c_token", "atom_attn_enc and atom_attn_dec must have the same");
  if (f.encoder.queries != f.decoder.queries || f.encoder.keys != f.decoder.keys ||
      f.encoder.atom != f.decoder.atom || f.encoder.pair != f.decoder.pair)
    c.fail_at("atom_attn_dec", "it must have the windows and channels of atom_attn_enc");
  const Config tokens = c.child("diffusion_transformer");
  f.diffusion_blocks = read_count(tokens, "no_blocks");
  f.diffusion_heads = read_count(tokens, "no_heads");
  f.diffusion_head_dim = read_count(tokens, "c_hidden");
  f.diffusion_transition = bounded(tokens, "n_transition", tokens.integer("n_transition"), 64);
}

}  // namespace

FoldSizes read_fold(const Config& config) {
  FoldSizes f;
  f.tokens = read_count(config, "num_tokens");
  f.atoms = read_size(config, "num_atoms");
  f.sequences = read_count(config, "num_sequences");
  const Config shared = config.child("shared");
  f.input = read_count(shared, "c_s_input");
  f.token = read_count(shared, "c_s");
  f.pair = read_count(shared, "c_z");
  f.cycles = 1 + bounded(shared, "num_recycles", shared.integer("num_recycles"), 64);
  const Config diffusion = shared.child("diffusion");
  need_number(diffusion, "no_full_rollout_samples", 1);
  f.sampler = read_steps(config, read_count(diffusion, "no_full_rollout_steps"));

  const Config input = config.child("input_embedder");
  f.near = read_count(input, "max_relative_idx");
  f.copies = read_count(input, "max_relative_chain");
  f.input_atoms = read_atoms(input.child("atom_attn_enc"), true);
  constexpr int64_t kOthers = 65;  // residue type, profile, mean of deletions
  if (f.input != f.input_atoms.token + kOthers)
    shared.fail_at("c_s_input",
                   fmt::format("it must be c_token of the atom encoder and {}", kOthers));

  const Config msa = config.child("msa"), embedder = msa.child("msa_module_embedder");
  const Config module = msa.child("msa_module");
  f.msa = read_count(embedder, "c_m");
  f.msa_features = read_count(embedder, "c_m_feats");
  if (f.msa_features < 3) embedder.fail_at("c_m_feats", "it must be at least 3");
  need_boolean(module, {"opm_first"}, true);
  f.msa_pairs = read_pairs(module, false);
  f.msa_heads = read_count(module, "no_heads_msa");
  f.msa_head_dim = read_count(module, "c_hidden_msa_att");
  f.outer = read_count(module, "c_hidden_opm");
  f.trunk = read_pairs(config.child("pairformer"), true);
  read_diffusion_module(config.child("diffusion_module"), f);

  const Config heads = config.child("heads"), embedding = heads.child("pairformer_embedding");
  f.head = read_pairs(embedding.child("pairformer"), true);
  f.bins = bounded(embedding, "no_bin", embedding.integer("no_bin"), kCountMax);
  if (f.bins < 2) embedding.fail_at("no_bin", "it must be at least 2");
  f.min_bin = embedding.number("min_bin");
  f.max_bin = embedding.number("max_bin");
  f.most_atoms = read_count(heads, "max_atoms_per_token");
  f.plddt_bins = read_count(heads.child("lddt"), "c_out");
  for (const AtomSizes& a : {f.input_atoms, f.encoder})
    if (f.atoms < a.keys)
      config.fail_at("num_atoms", fmt::format("it must be at least n_key, {}", a.keys));
  return f;
}

}  // namespace fk::parts
