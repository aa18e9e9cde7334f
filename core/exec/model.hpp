// SPDX-License-Identifier: Apache-2.0
// What a model file needs from the runtime: the model interface, its registration, and the engines
// that `drive` calls. A model says what it computes (forward) and how it is used (drive);
// everything else - providers, memory, processes, clocks - belongs to the host.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/graph/builder.hpp"
#include "core/tensor/quantization.hpp"

namespace fk {

// How the next token is chosen. temperature 0 is greedy.
struct Sampling {
  float temperature = 0;
  int32_t top_k = 0;  // 0: off
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
  std::vector<NamedTensor> tensors;  // what else comes with it: an image, the features of a sound
  // How many to generate; 0 for encoders, and to only score a prompt (prompt_logits): such a
  // request ends with the logits of its last prompt position.
  int64_t new_tokens = 0;
  Sampling sampling;
  std::vector<int64_t> forced;  // teacher forcing: these are taken instead of what was sampled
  // With `forced`, for models that choose tokens in any order: their indices in the order in which
  // they are to be taken. Empty: from the first to the last.
  std::vector<int64_t> order;
  bool logits = false;         // report the logits of every position that is sampled from
  bool prompt_logits = false;  // and those of every prompt position, from this one on:
  int64_t first_logits = 0;
  bool ignore_eos = true;
};

// Where requests come from and results go to. The engines call it from one thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // The next request that has arrived; false if there is none now. With `wait`, blocks until one
  // arrives and returns false only when no more will come.
  virtual bool next(Request& request, bool wait) = 0;
  // Token number `index` of a request (0 is the first after the prompt), in the order in which they
  // are chosen; `last`: all are.
  virtual void token(uint64_t id, int64_t index, int64_t token, bool last) = 0;
  // Logits of position `position` (0 is the first prompt token), float32, `count` of them.
  virtual void logits(uint64_t id, int64_t position, const float* values, int64_t count) = 0;
  // A named result, float32 row-major.
  virtual void tensor(uint64_t id, const std::string& name, const std::vector<int64_t>& shape,
                      const float* values) = 0;
  virtual void failed(uint64_t id, const std::string& why) = 0;
  // After every step; `what` is "prefill 512 tokens" or "decode 8 requests".
  virtual void progress(const std::string& what) = 0;
};

// How a model is divided between ranks, each a process with a device of its own. Every degree is 1
// or the number of ranks: tp divides attention and whatever is dense by heads and columns, ep the
// experts of a mixture. Ranks with the same work do it all.
struct Parallel {
  int64_t tp = 1, ep = 1, rank = 0;
  // With tp: steps of many tokens sum up a product's shares while it is computed.
  bool overlap = false;
  int64_t ranks() const { return tp > ep ? tp : ep; }
};

// Limits of one session, chosen by the scenario.
struct Limits {
  int64_t max_batch = 8;       // requests that run at the same time
  int64_t max_context = 1024;  // tokens of one request, prompt and answer
  int64_t chunk_tokens = 512;  // tokens of one prefill step
  int64_t page_size = 16;
  int64_t pages = 0;         // 0: enough for max_batch requests of max_context
  DType dtype = DType::f32;  // of activations, and of weights unless weight_dtype says otherwise
  DType cache_dtype = DType::f32;
  // An oracle computes in float32 with the very weights that others compute with in bfloat16.
  std::optional<DType> weight_dtype = {};
  Parallel parallel = {};
  DType weights() const { return weight_dtype.value_or(dtype); }
};

class Session;  // core/exec/session.hpp

// One architecture with one configuration. Made from a HuggingFace config.json; holds no memory.
class Model {
 public:
  virtual ~Model() = default;
  // The phases that drive() runs, e.g. {"prefill", "decode"}.
  virtual std::vector<std::string> phases() const = 0;
  // Records one phase.
  virtual void forward(Builder& builder, const std::string& phase, const Limits& limits) const = 0;
  // Host code over the phases: reads requests from the session's exchange until none is left.
  virtual void drive(Session& session) const = 0;
  // The largest value of a phase's axis under these limits (T, B, P, W ...). Error for an unknown
  // axis.
  virtual int64_t axis_limit(const std::string& phase, const std::string& axis,
                             const Limits& limits) const = 0;
  virtual int64_t vocab_size() const { return 0; }  // 0 for models without tokens
  virtual int64_t max_positions() const { return 0; }
  // Whether requests end with tokens that the model chose.
  virtual bool generates() const { return phases().size() > 1; }
  // Whether a token is chosen from the logits of the position before it, or (denoising) from those
  // of its own.
  virtual bool predicts_next() const { return true; }
  // Why it cannot be divided like this; empty when it can. forward() then records one rank's part.
  virtual std::string refusal(const Parallel& parallel) const;
  // The tensors that every request brings, each the input of that name without its first axis B.
  struct RequestTensor {
    std::string name;
    std::vector<int64_t> shape;
  };
  virtual std::vector<RequestTensor> request_tensors() const { return {}; }
  // Tensors that its checkpoints may have and that no weight of it is.
  struct Unread {
    std::string prefix;  // of their names
    std::string what;    // for the note to the user: "a pooler"
    // The tensor that the one of the name `prefix` has to be equal to (a tied head); empty: none.
    std::string same_as = {};
  };
  virtual std::vector<Unread> unread() const { return {}; }
  // The quantization method whose matrices it multiplies by as they are; those of other methods
  // become floats where weights are read.
  virtual std::string quantization() const { return {}; }
};

using MakeModel = std::unique_ptr<Model> (*)(const Config& config);
// At file scope in baselines/models/<domain>/<arch>.cpp:
//   FK_MODEL(llama, make_llama, {"LlamaForCausalLM"}, {"llama"});
// with the class names of config.json's `architectures`, the values of its `model_type`, and the
// keys without effect on answers that this model's configurations have beyond those of all models.
struct ModelRegistration {
  ModelRegistration(const char* arch, MakeModel make, std::vector<std::string> architectures,
                    std::vector<std::string> model_types, std::vector<std::string> harmless = {});
};
#define FK_MODEL(arch, make, ...) \
  static const ::fk::ModelRegistration fk_model_##arch(#arch, make, __VA_ARGS__)

// baselines/models/<domain>/<arch>.json, registered by the build.
struct DefaultsRegistration {
  DefaultsRegistration(const char* arch, const char* json);
};

std::vector<std::string> model_names();
// The model that `architectures` names, or where that is absent `model_type`. Error with the
// nearest known name.
std::string arch_of(const Config& config);
// The configuration with the values of absent keys that the library of this model has for them.
Config with_defaults(const std::string& arch, const Config& config);
// Error for a configuration of another model, and for a key that the model neither reads nor lists
// as harmless.
std::unique_ptr<Model> make_model(const std::string& arch, const Config& config);

// ---- engines ----

// Continuous batching over the phases "prefill" (chunked, ragged) and "decode" (one token per
// request) with a paged cache. The axes are T (query tokens), B (requests), Q (rows that get
// logits) and W (block-table width), the inputs
//   ids [T] i64, positions [T] i64, slot_mapping [T] i64, block_tables [B,W] i32, cu_seqlens [B+1]
//   i32, seq_lens [B] i32, state_slots [B] i32, has_initial_state [B] i32, rows [Q] i32 (indices
//   into T), temperature [Q] f32, top_k [Q] i32, top_p [Q] f32, uniform [Q] f32
// of which a phase declares those that it needs (always ids and the sampling), and the outputs
// logits [Q,V] f32 and tokens [Q] i64. In "decode" T = B = Q, so a model may record them as the one
// axis B and leave `rows` out. In "prefill" Q may be 0 (no request's last token is in the step) and
// larger than B (prompt_logits).
//
// Two kinds of state last from step to step. Paged caches have the axis P (pages) first and are
// reached through block_tables and slot_mapping. States of a fixed size for each request (recurrent
// states, the keys of an encoder) have the axis N (max_batch slots) first; `state_slots` says where
// a request's is, for as long as it runs. Slots are used again: where `has_initial_state` is 0, the
// step begins the request and what the slot holds is to be taken as zeros.
struct GenerateOptions {
  std::vector<int64_t> eos;
  // A phase that is run once for every request before its prompt: axis B, inputs `state_slots` [B]
  // i32 and the request's tensors. It fills states with the axis N.
  std::string encoder = {};
  // S, the positions that it leaves for each request. It may declare the inputs `positions` [B*S]
  // i64 (0 to S-1 of each request) and `cu_seqlens` [B+1] i32 (every S), the other phases
  // `source_lens` [B] i32 (S for each request).
  int64_t encoder_length = 0;
};
void generate(Session& session, const GenerateOptions& options);

// Speculation with a draft that guesses a tree of tokens and a target that checks it (EAGLE-3).
// What comes out, sampled or greedy, is what generate() would give with the target alone. Phases:
//   prefill  the target over prompts: generate()'s inputs and outputs; leaves the hidden states
//   that
//            the draft reads in a state [T,..], row by row
//   verify   the target over all trees of a step: the same, with tree_lens [B] i32 and tree_mask
//            [T,TW] i32 (see the op tree_attention); every node is a row, Q = T
//   accept   moves keys and values of the target's caches: from_slots, to_slots [M] i64
//   extend   the draft over what the target has computed: ids (of the token after each position),
//            positions, slot_mapping, block_tables, cu_seqlens, seq_lens as in prefill, aux_rows
//            [T] i32 (rows of that state), rows [Q] i32 (tokens that are guessed from), state_rows
//            [Q] i32 (where their hidden states are kept); outputs tokens [Q,K] i64, logprobs [Q,K]
//            f32
//   draft    the draft over a level of all trees: the same inputs with tree_lens, tree_mask and
//            hidden_rows [T] i32 (the parents' hidden states) instead of aux_rows, state_rows [T];
//            outputs tokens [T,K], logprobs [T,K]
// The caches of target and draft have the same pages. A request's nodes lie behind its context, so
// the caches need slots() more for each request.
struct SpeculateOptions {
  std::vector<int64_t> eos;
  int64_t depth = 6;    // levels below the root
  int64_t top_k = 10;   // guesses below a node, and nodes of a level that are expanded
  int64_t tokens = 60;  // nodes that the target checks, the root among them
  // Nodes of a request that the draft expands at most, each with a hidden state that is kept.
  int64_t expansions() const { return top_k * (depth - 1); }
  // Slots behind a request's context that one round may write.
  int64_t slots() const { return tokens > expansions() ? tokens : expansions(); }
};
void speculate(Session& session, const SpeculateOptions& options);

// One pass per batch over the phase "encode": ids, positions, types [T] i64, cu_seqlens [B+1] i32;
// the output `output` [T,channels] is reported per request as a tensor of that name.
struct EncodeOptions {
  std::string output = "last_hidden_state";
  int64_t position_offset = 0;  // XLM-R counts from pad_token_id + 1
  int64_t pad_token = -1;       // XLM-R: a pad token inside a text has this position; -1: none
};
void encode(Session& session, const EncodeOptions& options);

// Masked diffusion (LLaDA) over the phase "denoise": no cache, every step computes whole sequences,
// of which all tokens see each other. The answer begins as masks and is filled block by block; in
// each of a block's steps the model proposes a token for every mask of the block, and those that it
// is surest of stay. Axes T (tokens), B (requests), Q (rows), inputs ids, positions [T] i64,
// cu_seqlens [B+1] i32, rows [Q] i32 (indices into T), temperature [Q] f32, top_k [Q] i32, top_p
// [Q] f32, uniform [Q] f32; outputs logits [Q,V] f32, tokens [Q] i64 and logprob [Q] f32, the
// logarithm of the token's probability at temperature 1.
//
// Logits are those of a token's own position (Model::predicts_next is false) in the step in which
// it was fixed; with prompt_logits the prompt is scored alone, before there are masks. Under
// teacher forcing the tokens are fixed in Request::order, or from the first to the last, as many in
// a step as without it: what a position sees then depends on nothing that was computed. An answer
// always has new_tokens tokens.
struct MaskedDiffusionOptions {
  int64_t mask_token = 0;
  int64_t block_length = 32;  // tokens; the last block of an answer may be shorter
  int64_t block_steps = 32;  // a block's tokens are spread evenly over them, the first get the rest
};
void diffuse(Session& session, const MaskedDiffusionOptions& options);

// One pass per batch over one phase for models without tokens: axis B, the request's tensors as
// inputs, outputs whose first axis is B. Every output is reported as a tensor of its name, without
// that axis.
struct FeedforwardOptions {
  std::string phase;
  std::vector<std::string> outputs;
};
void pass(Session& session, const FeedforwardOptions& options);

}  // namespace fk
