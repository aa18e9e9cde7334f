// SPDX-License-Identifier: Apache-2.0
// OpenFold3, a predictor of structures of molecules after AlphaFold 3. The phase begin computes the
// trunk: atoms become tokens, sequences and pairs go through blocks, several times. The phase step
// moves atoms under this condition. The phase end says how sure the model is (pLDDT). Names are
// OpenFold3's. Structures have exactly the sizes of the configuration, so nothing is masked.
// Templates have no part in it.
#include <fmt/format.h>

#include "baselines/models/parts/fold/parts.hpp"
#include "core/exec/model.hpp"

namespace fk::parts::folding {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kResidues = 32;  // types of residues

class OpenFold3 : public Model {
 public:
  explicit OpenFold3(const Config& config) : f_(read_fold(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const int64_t tokens = f_.tokens, atoms = f_.atoms, sequences = f_.sequences;
    const auto steps = static_cast<int64_t>(f_.sampler.steps.size());
    std::vector<RequestTensor> inputs = {{"ref_pos", {atoms, 3}},
                                         {"ref_charge", {atoms, 1}},
                                         {"ref_mask", {atoms, 1}},
                                         {"ref_element", {atoms, f_.input_atoms.elements}},
                                         {"ref_atom_name_chars", {atoms, f_.input_atoms.letters}},
                                         {"restype", {tokens, kResidues}},
                                         {"profile", {tokens, kResidues}},
                                         {"deletion_mean", {tokens, 1}},
                                         {"token_bonds", {tokens, tokens}},
                                         {"msa", {sequences, tokens, f_.msa_features - 2}},
                                         {"has_deletion", {sequences, tokens, 1}},
                                         {"deletion_value", {sequences, tokens, 1}},
                                         {"noise", {steps + 1, atoms, 3}},
                                         {"rotations", {steps, 4}},
                                         {"translations", {steps, 3}}};
    const auto whole = [&](const char* name, int64_t count, int64_t below) {
      inputs.push_back({.name = name, .shape = {count}, .below = below, .dtype = DType::i32});
    };
    whole("ref_space_uid", atoms, atoms);
    whole("atom_to_token_index", atoms, tokens);
    for (const char* name : {"residue_index", "token_index", "asym_id", "entity_id", "sym_id"})
      whole(name, tokens, tokens);
    whole("representative_atom_index", tokens, atoms);
    whole("plddt_index", atoms, tokens * f_.most_atoms);
    return denoise_engine({.inputs = std::move(inputs),
                           .sampler = f_.sampler,
                           .outputs = {"atom_positions", "plddt_logits"},
                           .ends = true,
                           .noisy = true,
                           .batch = 1});
  }

  void forward(Net& n, const std::string& phase) const override {
    n.common({{"eps", 1e-5}});
    n.rename({{"gate_proj", "swiglu.linear_a"},
              {"up_proj", "swiglu.linear_b"},
              {"down_proj", "linear_out"}});
    if (phase == "begin")
      begin(n);
    else if (phase == "step")
      step(n);
    else
      end(n);
  }

  std::vector<Unread> unread() const override {
    return {{"template_embedder", "templates"},
            {"aux_heads.pde", "a head of errors of distances"},
            {"aux_heads.pae", "a head of aligned errors"},
            {"aux_heads.distogram", "a head of distances"},
            {"aux_heads.experimentally_resolved", "a head of resolved atoms"},
            {"version_tensor", "a number"}};
  }

 private:
  Value relative_positions(Net& n) const {
    const auto token = [&](const char* name) { return whole(n, name, f_.tokens); };
    const int64_t width = 4 * f_.near + 2 * f_.copies + 7;
    const Value out = n("relative_positions", "relative_positions",
                        {{"max_relative_idx", f_.near},
                         {"max_relative_chain", f_.copies},
                         {"residue_index", token("residue_index")},
                         {"token_index", token("token_index")},
                         {"asym_id", token("asym_id")},
                         {"entity_id", token("entity_id")},
                         {"sym_id", token("sym_id")},
                         {"out", n.empty(n.limits().dtype, {f_.tokens, f_.tokens, width})}});
    return rows_of(n, out);
  }
  Value pairs(Net& n, Value rows) const {
    return n.reshape(rows, {f_.tokens, f_.tokens, n.shape(rows)[1]});
  }

  // Features of tokens: their atoms, residues and profiles.
  Value input_tokens(Net& n) const {
    const std::string path = "input_embedder.atom_attn_enc";
    const AtomSizes& a = f_.input_atoms;
    const Windows w = windows(n, f_, a);
    const Value c = atom_features(n, f_, path + ".ref_atom_feature_embedder", a);
    const Value p = atom_pairs_of(n, f_, path, a, w,
                                  atom_pairs(n, f_, path + ".ref_atom_feature_embedder", a, w), c);
    const Value x =
        atom_blocks(n, path, a, w, c, c, normed_pairs(n, path + ".atom_transformer", p));
    n.tap("atom_hidden.0", {x});
    const auto given = [&](const char* name, int64_t width) {
      return cast(n, name, floats(n, name, {f_.tokens, width}));
    };
    return joined(n, "input_embedder.tokens",
                  {tokens_of(n, f_, path, a, x), given("restype", kResidues),
                   given("profile", kResidues), given("deletion_mean", 1)});
  }
  Value msa_rows(Net& n, Value input) const {
    const auto given = [&](const char* name, int64_t width) {
      return rows_of(n, cast(n, name, floats(n, name, {f_.sequences, f_.tokens, width})));
    };
    const Value features = joined(
        n, "msa_module_embedder.features",
        {given("msa", f_.msa_features - 2), given("has_deletion", 1), given("deletion_value", 1)});
    const Value m = product(n, "msa_module_embedder.linear_m", features, f_.msa);
    return columns_sum(n, "msa_module_embedder.sum",
                       n.reshape(m, {f_.sequences, f_.tokens, f_.msa}),
                       product(n, "msa_module_embedder.linear_s_input", input, f_.msa));
  }
  static Args pair_args(const PairformerSizes& p, int64_t width) {
    return {{"mul_size", p.mul},
            {"num_heads", p.heads},
            {"head_dim", p.head_dim},
            {"intermediate_size", width * p.transition}};
  }
  Value msa_module(Net& n, const std::string& cycle, Value m, Value z) const {
    for (int64_t i = 0; i < f_.msa_pairs.blocks; ++i) {
      const std::string path = fmt::format("{}msa_module.blocks.{}", cycle, i);
      const Value outer = n("outer_product_mean", path + ".outer_product_mean",
                            {{"pair_size", f_.pair}, {"intermediate_size", f_.outer}, {"m", m}});
      z = pairs(n, sum(n, path + ".outer_product_mean.sum", z, outer));
      if (i + 1 < f_.msa_pairs.blocks) {
        const Value mean =
            n("pair_weighted_average", path + ".msa_att_row",
              {{"num_heads", f_.msa_heads}, {"head_dim", f_.msa_head_dim}, {"m", m}, {"z", z}});
        m = n.reshape(sum(n, path + ".msa_att_row.sum", m, mean), n.shape(m));
        m = transition(n, path + ".msa_transition", m, f_.msa_pairs.transition);
      }
      Args args = pair_args(f_.msa_pairs, f_.pair);
      args.emplace_back("z", z);
      z = n("pair_block", path + ".pair_stack", args);
    }
    return z;
  }
  struct Trunk {
    Value s, z;
  };
  Trunk pairformer(Net& n, const std::string& path, const PairformerSizes& p, Trunk x) const {
    for (int64_t i = 0; i < p.blocks; ++i) {
      Args args = pair_args(p, f_.pair);
      for (const Arg& more : Args{{"single_heads", p.token_heads},
                                  {"single_head_dim", p.token_head_dim},
                                  {"single_intermediate_size", f_.token * p.transition},
                                  {"s", x.s},
                                  {"z", x.z}})
        args.push_back(more);
      const Outputs out = n("pairformer_block", fmt::format("{}.blocks.{}", path, i), args);
      x = {out["out_s"], out["out_z"]};
    }
    return x;
  }
  Trunk trunk(Net& n, Value input, Value relative) const {
    const DType dtype = n.limits().dtype;
    Value z = product(n, "input_embedder.linear_relpos", relative, f_.pair);
    const Value bonds = floats(n, "token_bonds", {f_.tokens, f_.tokens});
    z = sum(n, "input_embedder.bonds.sum", z,
            product(n, "input_embedder.linear_token_bonds",
                    n.reshape(bonds, {f_.tokens * f_.tokens, 1}), f_.pair));
    const Value first = pair_sum(n, "input_embedder.pairs", pairs(n, z),
                                 product(n, "input_embedder.linear_z_i", input, f_.pair),
                                 product(n, "input_embedder.linear_z_j", input, f_.pair));
    const Value single = product(n, "input_embedder.linear_s", input, f_.token);
    const Value m = msa_rows(n, input);
    Trunk x = {n.zeros(dtype, n.shape(single)), n.zeros(dtype, n.shape(first))};
    for (int64_t i = 0; i < f_.cycles; ++i) {
      // The same weights in each cycle.
      const std::string cycle = fmt::format("cycle{}.", i);
      n.rename({{fmt::format("cycle{}", i), ""}});
      const auto again = [&](const std::string& what, Value to, Value from, int64_t width) {
        return sum(n, cycle + what + ".sum", to,
                   product(n, cycle + "linear_" + what,
                           norm(n, cycle + "layer_norm_" + what, from, true), width));
      };
      const Value pair = pairs(n, again("z", first, x.z, f_.pair));
      const Value seen = msa_module(n, cycle, m, pair);
      x = pairformer(n, cycle + "pairformer_stack", f_.trunk,
                     {again("s", single, x.s, f_.token), seen});
      n.tap(fmt::format("token_hidden.{}", i), {x.s});
      n.tap(fmt::format("pair_hidden.{}", i), {rows_of(n, x.z)});
    }
    return x;
  }

  Value kept(Net& n, const std::string& name, Dims shape) const {
    return n.state(name, n.limits().dtype, std::move(shape));
  }
  Value kept_input(Net& n) const { return kept(n, "input", {f_.tokens, f_.input}); }
  Value kept_s(Net& n) const { return kept(n, "s", {f_.tokens, f_.token}); }
  Value kept_z(Net& n) const { return kept(n, "z", {f_.tokens, f_.tokens, f_.pair}); }
  Value condition(Net& n) const { return kept(n, "condition", {f_.tokens, f_.token}); }
  Value token_pairs(Net& n) const { return kept(n, "pairs", {f_.tokens, f_.tokens, f_.pair}); }
  Value atom_condition(Net& n) const { return kept(n, "atoms", {f_.atoms, f_.encoder.atom}); }
  Value window_pairs(Net& n, const std::string& part) const {
    const AtomSizes& a = f_.encoder;
    return kept(n, part + ".pairs", {f_.windows(a), a.queries, a.keys, a.pair});
  }
  Value latent(Net& n) const { return n.state("latent", DType::f32, {1, f_.atoms, 3}); }
  static void keep(Net& n, Value to, Value from) {
    n("scaled_add", "kept", {{"scale", 1.0}, {"y", rows_of(n, from)}, {"out", rows_of(n, to)}});
  }

  void begin(Net& n) const {
    const Value input = input_tokens(n), relative = relative_positions(n);
    n.tap("input_hidden.0", {input});
    const Trunk x = trunk(n, input, relative);
    keep(n, kept_input(n), input);
    keep(n, kept_s(n), x.s);
    keep(n, kept_z(n), x.z);
    conditions(n, input, relative, x);
    const auto steps = static_cast<int64_t>(f_.sampler.steps.size());
    const Value noise = floats(n, "noise", {steps + 1, f_.atoms, 3});
    // This phase has all tensors of a request as inputs.
    floats(n, "rotations", {steps, 4});
    floats(n, "translations", {steps, 3});
    whole(n, "representative_atom_index", f_.tokens);
    whole(n, "plddt_index", f_.atoms);
    n("scaled_add", "noise",
      {{"scale", f_.sampler.noise},
       {"y", n.reshape(n.slice(noise, 0, 0, 1), {f_.atoms, 3})},
       {"out", rows_of(n, latent(n))}});
  }
  // All which no step changes.
  void conditions(Net& n, Value input, Value relative, const Trunk& x) const {
    const std::string module = "diffusion_module.", own = module + "diffusion_conditioning.";
    Value z = joined(n, own + "pairs", {rows_of(n, x.z), relative});
    z = pairs(n, product(n, own + "linear_z", norm(n, own + "layer_norm_z", z), f_.pair));
    for (const char* i : {"0", "1"}) z = transition(n, own + "transition_z." + i, z, 2);
    n.tap("condition_hidden.0", {rows_of(n, z)});
    const Value s = joined(n, own + "tokens", {x.s, input});
    keep(n, condition(n), product(n, own + "linear_s", norm(n, own + "layer_norm_s", s), f_.token));
    keep(n, token_pairs(n), norm(n, module + "diffusion_transformer.layer_norm_z", z));

    const AtomSizes& a = f_.encoder;
    const Windows w = windows(n, f_, a);
    const std::string path = module + "atom_attn_enc", noisy = path + ".noisy_position_embedder";
    const std::string features = path + ".ref_atom_feature_embedder";
    const Value of = whole(n, "atom_to_token_index", f_.atoms);
    const Value tokens =
        product(n, noisy + ".linear_s", norm(n, noisy + ".layer_norm_s", x.s), a.atom);
    const Value c = sum(n, noisy + ".sum", atom_features(n, f_, features, a),
                        gathered(n, noisy + ".atoms", tokens, of));
    const Value of_tokens =
        pairs(n, product(n, noisy + ".linear_z", norm(n, noisy + ".layer_norm_z", z), a.pair));
    const Value windowed =
        n("pair_windows", noisy + ".windows",
          {{"x", of_tokens}, {"tokens", of}, {"q_rows", w.q_rows}, {"k_rows", w.k_rows}});
    const Value p =
        atom_pairs_of(n, f_, path, a, w,
                      sum(n, noisy + ".pairs", atom_pairs(n, f_, features, a, w), windowed), c);
    keep(n, atom_condition(n), c);
    keep(n, window_pairs(n, "encoder"), normed_pairs(n, path + ".atom_transformer", p));
    keep(n, window_pairs(n, "decoder"),
         normed_pairs(n, module + "atom_attn_dec.atom_transformer", p));
  }

  // Turns and moves the atoms, and adds this step's noise.
  void disturb(Net& n) const {
    const auto steps = static_cast<int64_t>(f_.sampler.steps.size());
    const Value number = n.input("step", DType::i32, {1});
    const auto own = [&](const std::string& what, Value all) {
      return gathered(n, "sampler." + what, all, number);
    };
    const Value noise = floats(n, "noise", {steps + 1, f_.atoms, 3});
    const Value turned =
        n("rigid_augmentation", "sampler.augmentation",
          {{"x", latent(n)},
           {"rotations", own("rotation", floats(n, "rotations", {steps, 4}))},
           {"translations", own("translation", floats(n, "translations", {steps, 3}))}});
    keep(n, latent(n), turned);
    n("linear_combination", "sampler.noise",
      {{"num_terms", 1},
       {"coefficients", n.input("noise_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{own(
                 "noise_row", n.reshape(n.slice(noise, 0, 1, steps), {steps, f_.atoms * 3}))}},
       {"out", n.reshape(latent(n), {1, f_.atoms * 3})}});
  }
  // The tokens' condition with the time.
  Value timed_condition(Net& n) const {
    const std::string own = "diffusion_module.diffusion_conditioning.";
    const Value time = n("fourier_embedding", own + "fourier_emb",
                         {{"size", f_.fourier},
                          {"t", n.input("time", DType::f32, {n.axis("B")})},
                          {"out", own_dtype(n)}});
    const Value row = product(n, own + "linear_n", norm(n, own + "layer_norm_n", time), f_.token);
    Value s = n("modulate", own + "time",
                {{"x", n.reshape(condition(n), {1, f_.tokens, f_.token})},
                 {"shift", n.slice(row, 0, 0, 1)}});
    s = n.reshape(s, {f_.tokens, f_.token});
    for (const char* i : {"0", "1"}) s = transition(n, own + "transition_s." + i, s, 2);
    return s;
  }
  void step(Net& n) const {
    const std::string module = "diffusion_module.";
    disturb(n);
    const Value s = timed_condition(n);
    const Value lowered = n.zeros(n.limits().dtype, {f_.atoms, 3});
    n("linear_combination", "sampler.input",
      {{"num_terms", 1},
       {"coefficients", n.input("input_coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{rows_of(n, latent(n))}},
       {"out", lowered}});
    const AtomSizes& a = f_.encoder;
    const Windows w = windows(n, f_, a);
    const std::string path = module + "atom_attn_enc";
    const Value c = atom_condition(n);
    Value q = sum(n, path + ".noisy_position_embedder.positions", c,
                  product(n, path + ".noisy_position_embedder.linear_r", lowered, a.atom));
    q = atom_blocks(n, path, a, w, q, c, window_pairs(n, "encoder"));
    n.tap("moving_hidden.0", {q});
    Value x = sum(n, module + "tokens.sum", tokens_of(n, f_, path, a, q),
                  product(n, module + "linear_s", norm(n, module + "layer_norm_s", s), f_.wide));
    for (int64_t i = 0; i < f_.diffusion_blocks; ++i) {
      x = n("diffusion_transformer_block",
            fmt::format("{}diffusion_transformer.blocks.{}", module, i),
            {{"num_heads", f_.diffusion_heads},
             {"head_dim", f_.diffusion_head_dim},
             {"intermediate_size", f_.wide * f_.diffusion_transition},
             {"x", x},
             {"s", s},
             {"z", token_pairs(n)}});
      n.tap(fmt::format("hidden.{}", i), {x});
    }
    x = norm(n, module + "layer_norm_a", x);
    const std::string decoder = module + "atom_attn_dec";
    const Value of = whole(n, "atom_to_token_index", f_.atoms);
    q = sum(n, decoder + ".sum", q,
            gathered(n, decoder + ".atoms", product(n, decoder + ".linear_q_in", x, a.atom), of));
    q = atom_blocks(n, decoder, f_.decoder, w, q, c, window_pairs(n, "decoder"));
    const Value moved =
        n("linear", decoder + ".linear_q_out",
          {{"out_features", 3}, {"x", norm(n, decoder + ".layer_norm", q)}, {"out", "f32"}});
    n("linear_combination", "sampler.step",
      {{"num_terms", 1},
       {"coefficients", n.input("coefficients", DType::f32, {2})},
       {"x", std::vector<Value>{moved}},
       {"out", rows_of(n, latent(n))}});
    n.tap("latents", {latent(n)});
  }

  void end(Net& n) const {
    const std::string path = "aux_heads.pairformer_embedding";
    const Value bins = n("distance_bins", path + ".bins",
                         {{"num_bins", f_.bins},
                          {"min_bin", f_.min_bin},
                          {"max_bin", f_.max_bin},
                          {"positions", rows_of(n, latent(n))},
                          {"rows", whole(n, "representative_atom_index", f_.tokens)},
                          {"out", n.empty(n.limits().dtype, {f_.tokens, f_.tokens, f_.bins})}});
    const Value near = sum(n, path + ".distances", kept_z(n),
                           product(n, path + ".linear_distance", bins, f_.pair));
    const Value z = pair_sum(n, path + ".pairs", pairs(n, near),
                             product(n, path + ".linear_i", kept_input(n), f_.pair),
                             product(n, path + ".linear_j", kept_input(n), f_.pair));
    const Trunk x = pairformer(n, path + ".pairformer_stack", f_.head, {kept_s(n), z});
    const std::string head = "aux_heads.plddt";
    const Value logits = n("linear", head + ".linear",
                           {{"out_features", f_.most_atoms * f_.plddt_bins},
                            {"x", norm(n, head + ".layer_norm", x.s, true)},
                            {"out", "f32"}});
    const Value of_atoms =
        gathered(n, head + ".atoms", n.reshape(logits, {f_.tokens * f_.most_atoms, f_.plddt_bins}),
                 whole(n, "plddt_index", f_.atoms));
    n.output("plddt_logits", n.reshape(of_atoms, {1, f_.atoms, f_.plddt_bins}));
    n.output("atom_positions", latent(n));
  }

  FoldSizes f_;
};

std::unique_ptr<Model> make_openfold3(const Config& config) {
  return std::make_unique<OpenFold3>(config);
}

FK_MODEL(openfold3, make_openfold3, {"OpenFold3"}, {"openfold3"});

}  // namespace
}  // namespace fk::parts::folding
