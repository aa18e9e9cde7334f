// SPDX-License-Identifier: Apache-2.0
// One rank's part of a decoder. With tensor parallelism what attention and the MLP add to the
// residual is a share on every rank, and the next norm adds the shares up: that is where ranks
// exchange, and what a provider fuses (all_reduce_add_rms_norm). So layers are recorded as their
// parts; a layer as one call would have to know where the shares of the one before it are. With
// `overlap` the shares of a long step are added up while they are computed (linear_all_reduce).
#pragma once
#include "baselines/models/parts/decoder.hpp"

namespace fk::parts {

struct ParallelStep {
  DecoderStep step;
  bool shares = false;  // the last block's output is a share: the sum over the ranks stands for it
};

ParallelStep begin_parallel(Builder& b, const std::string& phase, const DecoderConfig& config,
                            const Limits& limits);
// A block that ends with a product of this rank's columns; p.shares says what it gives. With
// `overlap` a step of many tokens has it as its parts, and the product as linear_all_reduce.
Value parallel_block(Builder& b, ParallelStep& p, const Limits& limits, const std::string& op,
                     const std::string& path, const Args& args);
// Attention with both norms: the input of the second half, equal on all ranks. `args` are those of
// layer_args(). Taps hidden.<layer>.
Value parallel_attention(Builder& b, ParallelStep& p, const DecoderConfig& config,
                         const Limits& limits, int64_t layer, const Args& args);
// Final norm, this rank's part of the logits, all of them, sampling.
void end_parallel(Builder& b, const ParallelStep& p, const DecoderConfig& config,
                  const Limits& limits);

// The rows of x [T,C] that are this rank's where tokens are divided between the ranks of experts,
// and how many a rank has at most.
Value tokens_of_rank(Builder& b, Value x, const Parallel& parallel);
Expr tokens_per_rank(Builder& b, Value x, const Parallel& parallel);

// The tensor argument of that name; absent when there is none.
Value value_of(const Args& args, const std::string& name);
// The arguments that an op has of those of a layer.
Args args_of(const Builder& b, const std::string& op, const Args& all);

}  // namespace fk::parts
