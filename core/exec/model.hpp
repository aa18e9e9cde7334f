// SPDX-License-Identifier: Apache-2.0
// Interface of model files: the model, its registration, and the engines for `drive`. A model says
// what it computes (forward) and how it is used (drive). Everything else - providers, memory,
// processes, clocks - belongs to the host.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/graph/net.hpp"
#include "core/tensor/quantization.hpp"

namespace fk {

// The choice of the next token. temperature 0 is greedy.
struct Sampling {
  float temperature = 0;
  int32_t top_k = 0;  // 0: the most likely token
  float top_p = 1;    // 1: off
  uint64_t seed = 0;
};

// A float32 tensor with a name, row-major.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// One piece of work for a model.
struct Request {
  uint64_t id = 0;
  std::vector<int64_t> tokens;       // prompt, or the text to encode
  std::vector<NamedTensor> tensors;  // other inputs: an image, the features of a sound
  // Number of tokens to generate. 0 for encoders, and for a prompt that is only scored
  // (prompt_logits): such a request ends with the logits of its last prompt position.
  int64_t new_tokens = 0;
  Sampling sampling;
  std::vector<int64_t> forced;  // teacher forcing: these replace sampled tokens
  // With `forced`, for models that choose tokens in any order: the order of their indices. Empty:
  // from first to last.
  std::vector<int64_t> order;
  bool logits = false;         // report the logits of each position that is sampled from
  bool prompt_logits = false;  // and those of each prompt position, from this one on:
  int64_t first_logits = 0;
  bool ignore_eos = true;
};

// Source of requests and target of results. Engines call it from one thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // Gets the next request that has arrived; false: none now. With `wait`, blocks until one arrives;
  // false then means that no more will come.
  virtual bool next(Request& request, bool wait) = 0;
  // Token number `index` of a request (0 is the first after the prompt), in the order of choice.
  // `last`: the request has all its tokens.
  virtual void token(uint64_t id, int64_t index, int64_t token, bool last) = 0;
  // Logits of position `position` (0 is the first prompt token): `count` values in float32.
  virtual void logits(uint64_t id, int64_t position, const float* values, int64_t count) = 0;
  // A named result, float32 row-major.
  virtual void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
                      const float* values) = 0;
  virtual void failed(uint64_t id, const std::string& why) = 0;
  // Called after each step. `what` is for example "prefill 512 tokens" or "decode 8 requests".
  virtual void progress(const std::string& what) = 0;
};

class Session;  // core/exec/session.hpp

// One architecture with one configuration, made from a HuggingFace config.json. Holds no memory.
class Model {
 public:
  virtual ~Model() = default;
  // The phases that drive() runs, for example {"prefill", "decode"}.
  virtual std::vector<std::string> phases() const = 0;
  // Records one phase: all of it, or one rank's part.
  virtual void forward(Net& n, const std::string& phase) const = 0;
  // Host code over the phases. Serves the session's exchange until no request is left.
  virtual void drive(Session& session) const = 0;
  // The largest value of a phase's axis (T, B, P, W ...) under these limits. Error for an unknown
  // axis.
  virtual int64_t axis_limit(const std::string& phase, const std::string& axis,
                             const Limits& limits) const = 0;
  virtual int64_t vocab_size() const { return 0; }  // 0: no tokens
  virtual int64_t max_positions() const { return 0; }
  // True when requests end with tokens that the model chose.
  virtual bool generates() const { return phases().size() > 1; }
  // True: the logits of the previous position choose a token. False: those of its own do
  // (denoising).
  virtual bool predicts_next() const { return true; }
  // Why this division is impossible; empty: it is possible.
  virtual std::string refusal(const Parallel& parallel) const;
  // The tensors of each request. Each is the input of its name without the first axis B.
  struct RequestTensor {
    std::string name;
    std::vector<int64_t> shape;
  };
  virtual std::vector<RequestTensor> request_tensors() const { return {}; }
  // Tensors that checkpoints may have and no weight uses.
  struct Unread {
    std::string prefix;  // of their names
    std::string what;    // for the note to the user: "a pooler"
    // Tensor that must equal the one named `prefix` (a tied head); empty: none.
    std::string same_as = {};
  };
  virtual std::vector<Unread> unread() const { return {}; }
  // The quantization method whose matrices the model multiplies unchanged. Weights of other methods
  // become floats when they are read.
  virtual std::string quantization() const { return {}; }
};

// One phase of a model as a graph.
Graph record(const Model& model, const Catalog& catalog, const std::string& phase,
             const Limits& limits, std::shared_ptr<WeightTable> weights);

using MakeModel = std::unique_ptr<Model> (*)(const Config& config);
// At file scope in baselines/models/<domain>/<arch>.cpp:
//   FK_MODEL(llama, make_llama, {"LlamaForCausalLM"}, {"llama"});
// Arguments: class names of config.json's `architectures`, values of its `model_type`, and the keys
// without effect on answers that only this model's configurations have.
struct ModelRegistration {
  ModelRegistration(const char* arch, MakeModel make, std::vector<std::string> architectures,
                    std::vector<std::string> model_types, std::vector<std::string> harmless = {});
};
#define FK_MODEL(arch, make, ...) \
  static const ::fk::ModelRegistration fk_model_##arch(#arch, make, __VA_ARGS__)

// A form of models: a key of registry/models/<domain>/<arch>.yaml below which such a file describes
// a model as data, and who makes the model. At file scope: FK_MODEL_FORM(decoder, make_decoder);
using MakeForm = std::unique_ptr<Model> (*)(const Config& description, const Config& config);
struct ModelFormRegistration {
  ModelFormRegistration(const char* key, MakeForm make);
};
#define FK_MODEL_FORM(key, make) static const ::fk::ModelFormRegistration fk_form_##key(#key, make)
std::vector<std::string> model_forms();

// baselines/models/<domain>/<arch>.json, registered by the build.
struct DefaultsRegistration {
  DefaultsRegistration(const char* arch, const char* json);
};

std::vector<std::string> model_names();
// The model of `architectures`, or, without that key, of `model_type`. Error with the nearest known
// name.
std::string arch_of(const Config& config);
// The configuration with this model's library defaults for absent keys.
Config with_defaults(const std::string& arch, const Config& config);
// Error for another model's configuration, and for a key that the model neither reads nor lists as
// harmless.
std::unique_ptr<Model> make_model(const std::string& arch, const Config& config);

// ---- engines ----

// Continuous batching with a paged cache over two phases: "prefill" (chunked, ragged) and "decode"
// (one token per request). The axes are T (query tokens), B (requests), Q (rows with logits) and W
// (block-table width). The inputs are
//   ids [T] i64, positions [T] i64, slot_mapping [T] i64, block_tables [B,W] i32, cu_seqlens [B+1]
//   i32, seq_lens [B] i32, state_slots [B] i32, has_initial_state [B] i32, rows [Q] i32 (indices
//   into T), temperature [Q] f32, top_k [Q] i32, top_p [Q] f32, uniform [Q] f32.
// A phase declares the inputs that it needs; ids and the sampling are always needed. The outputs
// are logits [Q,V] f32 and tokens [Q] i64. In "decode" T = B = Q, so a model may record them as one
// axis B and leave out `rows`. In "prefill" Q may be 0 (the step has no request's last token), or
// larger than B (prompt_logits).
//
// Two kinds of state persist between steps. Paged caches have P (pages) as first axis; block_tables
// and slot_mapping address them. States of a fixed size per request (recurrent states, an encoder's
// keys) have N (max_batch slots) as first axis. `state_slots` has the slot of a running request.
// Slots are reused: where `has_initial_state` is 0, the step begins the request and must treat the
// slot as zeros.
struct GenerateOptions {
  std::vector<int64_t> eos;
  // A phase that runs once per request before its prompt. Axis B; inputs `state_slots` [B] i32 and
  // the request's tensors. Fills states with the axis N.
  std::string encoder = {};
  // S: positions that the encoder leaves per request. The encoder may declare the inputs
  // `positions` [B*S] i64 (0 to S-1 for each request) and `cu_seqlens` [B+1] i32 (each S). The
  // other phases may declare `source_lens` [B] i32 (S for each request).
  int64_t encoder_length = 0;
};
void generate(Session& session, const GenerateOptions& options);

// Speculation (EAGLE-3): a draft guesses a tree of tokens, and a target checks it. Sampled or
// greedy, the result equals generate() with the target alone. Phases:
//   prefill  the target over prompts: generate()'s inputs and outputs. Leaves the hidden states
//            for the draft in a state [T,..], row by row
//   verify   the target over all trees of a step: the same, with tree_lens [B] i32 and tree_mask
//            [T,TW] i32 (see the op tree_attention). Each node is a row, Q = T
//   accept   moves keys and values of the target's caches: from_slots, to_slots [M] i64
//   extend   the draft over the target's results: ids (of the token after each position),
//            positions, slot_mapping, block_tables, cu_seqlens, seq_lens as in prefill, aux_rows
//            [T] i32 (rows of that state), rows [Q] i32 (tokens to guess from), state_rows
//            [Q] i32 (rows for their hidden states); outputs tokens [Q,K] i64, logprobs [Q,K] f32
//   draft    the draft over a level of all trees: the same inputs with tree_lens, tree_mask and
//            hidden_rows [T] i32 (the parents' hidden states) in place of aux_rows, state_rows [T];
//            outputs tokens [T,K], logprobs [T,K]
// Target and draft have the same cache pages. A request's nodes are behind its context, so the
// caches need slots() more per request.
struct SpeculateOptions {
  std::vector<int64_t> eos;
  int64_t depth = 6;    // levels below the root
  int64_t top_k = 10;   // guesses below a node, and expanded nodes of a level
  int64_t tokens = 60;  // nodes that the target checks, with the root
  // Most nodes of a request that the draft expands. The hidden state of each is kept.
  int64_t expansions() const { return top_k * (depth - 1); }
  // Slots behind a request's context that one round may write.
  int64_t slots() const { return tokens > expansions() ? tokens : expansions(); }
};
void speculate(Session& session, const SpeculateOptions& options);

// One pass per batch over the phase "encode". Inputs: ids, positions, types [T] i64, cu_seqlens
// [B+1] i32; the phase may leave out types. It may declare first_rows [B] i32, the index of each
// text's first token, and one_each [B+1] i32, the numbers from 0 on. The output `output` is reported
// per request as a tensor of that name: rows of [T,channels], or one row of [B,channels].
struct EncodeOptions {
  std::string output = "last_hidden_state";
  bool of_texts = false;        // the output has a row of each text
  int64_t position_offset = 0;  // XLM-R counts from pad_token_id + 1
  int64_t pad_token = -1;       // XLM-R: position of a pad token inside a text; -1: none
};
void encode(Session& session, const EncodeOptions& options);

// Masked diffusion (LLaDA) over the phase "denoise", without a cache. Each step computes whole
// sequences, in which each token sees all others. The answer begins as masks and is filled block by
// block. In each of a block's steps, the model proposes a token for each mask of the block, and the
// most certain ones stay. The axes are T (tokens), B (requests) and Q (rows). The inputs are ids,
// positions [T] i64, cu_seqlens [B+1] i32 and rows [Q] i32 (indices into T). For the choice they
// are temperature [Q] f32, top_k [Q] i32, top_p [Q] f32 and uniform [Q] f32. The outputs are logits
// [Q,V] f32, tokens [Q] i64 and logprob [Q] f32, the log probability of the token at temperature 1.
//
// Logits are those of a token's own position (Model::predicts_next is false) in the step that fixed
// it. With prompt_logits the prompt is scored alone, before there are masks. Teacher forcing fixes
// tokens in Request::order, or from first to last, as many per step as otherwise. Then no input of
// a position is a computed result. An answer always has new_tokens tokens.
struct MaskedDiffusionOptions {
  int64_t mask_token = 0;
  int64_t block_length = 32;  // tokens; the last block of an answer may be shorter
  int64_t block_steps = 32;   // a block's tokens are divided evenly; the first steps get the rest
};
void diffuse(Session& session, const MaskedDiffusionOptions& options);

// One pass per batch over one phase, for models without tokens. Axis B; the request's tensors are
// the inputs. The first axis of each output is B. Each output is reported per request as a tensor
// of its name, without that axis.
struct FeedforwardOptions {
  std::string phase;
  std::vector<std::string> outputs;
};
void pass(Session& session, const FeedforwardOptions& options);

}  // namespace fk
