// SPDX-License-Identifier: Apache-2.0
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
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/exec/engine.hpp"

namespace fk {

// An encoder of ragged tensors (RequestTensor::ragged) has two axes beside B. S are the rows of
// the tensors of all requests, and R the rows which the encoder leaves (S / multiple). Its further
// inputs are
//   cu_seqlens [B+1] i32 (first rows of the requests), positions [S] i64 (numbers of rows in their
//   requests), state_rows [R] i32 (the left rows' places in a state [N*L,..]).
// L are the rows of all encoders, one after the other: two encoders may fill one state, as their
// rows take different placeholders. In the other phases `source_lens` has the numbers of these
// rows. They may replace placeholder tokens of the prompt. Then "prefill" has the axis M, the
// placeholders of the step, which may be 0. Its inputs are
//   source_rows [M] i32 (rows of that state), source_tokens [M] i32 (indices into T).
//
// With a tensor of images' shapes (RequestTensor::square) requests may have images, or text alone.
// Attention of the encoder sees one frame. Its axis B are the frames of all requests, and its
// inputs are
//   frame_starts [B+1] i32 (first patches of the frames),
//   patch_rows [2S] i64 (for each patch its row in the image, and its column plus `length` *
//   square), and with `position_side`, for a table of side * side positions which is spread over
//   each image: corner_rows [4S] i64 and corner_weights [4S] f32 (the four nearest positions of a
//   patch). With `window`, attention may see windows of so many by so many left rows. The axis G
//   are the windows of all requests, and the inputs are
//   window_rows [S] i32 (patches in the order of windows), window_starts [G+1] i32 (first patches
//   of the windows in this order). All other inputs follow this order too.
// Tokens have positions on three axes: frames, rows and columns. A token of text has one number on
// all of them. Text behind an image goes on behind the image's largest position. The inputs of
// "prefill" and "decode" may have
//   axis_rows [3T] i64 (the positions of a token, plus 0, 1 and 2 times the longest context).
//
// With a tensor of sounds' lengths (RequestTensor::chunk) S are frames, and the axis B are chunks of
// sounds. E are the rows of two frames within a chunk; its last row may have one frame. Two such
// rows of a sound side by side become one left row. The inputs are
//   frame_places [S] i32 (places of the frames in [B,chunk]), kept_places [E] i32 (places of the
//   rows in [B,chunk/2]), positions [E] i64 (of the rows in their chunks), chunk_starts [B+1] i32
//   (first rows of the chunks), pair_rows [2R] i32 (the two rows of each left one).
// Placeholders of sounds have the positions of text.
struct GenerateEncoder {
  // A phase that runs once per request before its prompt. Axis B; inputs `state_slots` [B] i32 and
  // the request's tensors. Fills states with the axis N.
  std::string phase = {};
  // Most rows that the encoder leaves per request. Without ragged tensors it leaves all of them, S.
  // The encoder may then declare the inputs `positions` [B*S] i64 (0 to S-1 for each request) and
  // `cu_seqlens` [B+1] i32 (each S). The other phases may declare `source_lens` [B] i32 (each S).
  int64_t length = 0;
  std::vector<RequestTensor> tensors = {};  // its inputs
  int64_t placeholder = -1;                 // RequestForm's
  int64_t position_side = 0;
  int64_t window = 0;      // of left rows; 0: no windows
  int64_t frame_step = 1;  // of positions from one frame of an image to the next
};
struct GenerateOptions {
  int64_t vocabulary = 0, positions = 0;  // RequestForm's
  std::vector<int64_t> eos = {};
  std::vector<GenerateEncoder> encoders = {};
};
// The most rows of ragged tensors in one step of an encoder for any limits, if a request has at
// most `of_request`.
int64_t encoder_rows_most(int64_t of_request);
std::unique_ptr<Engine> generate_engine(GenerateOptions options);

// Rows with logits in one prefill step. Prompts may be scored, but not a whole chunk at once.
inline constexpr int64_t kPrefillRows = 64;
// Engine::axis_limit of this engine without an encoder, for models that need a limit as a size.
int64_t generate_axis_limit(const std::string& phase, const std::string& axis,
                            const Limits& limits);

}  // namespace fk
