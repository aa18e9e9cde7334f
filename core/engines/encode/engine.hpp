// SPDX-License-Identifier: Apache-2.0
// One pass per batch over the phase "encode". Inputs: ids, positions, types [T] i64, cu_seqlens
// [B+1] i32; the phase may leave out types. It may declare first_rows [B] i32, the index of each
// text's first token, and one_each [B+1] i32, the numbers from 0 on. The output `output` is
// reported per request as a tensor of that name: rows of [T,channels], or one row of [B,channels].
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/exec/engine.hpp"

namespace fk {

struct EncodeOptions {
  int64_t vocabulary = 0, positions = 0;  // RequestForm's
  std::string output = "last_hidden_state";
  bool of_texts = false;        // the output has a row of each text
  int64_t position_offset = 0;  // XLM-R counts from pad_token_id + 1
  int64_t pad_token = -1;       // XLM-R: position of a pad token inside a text; -1: none
};
std::unique_ptr<Engine> encode_engine(EncodeOptions options);

}  // namespace fk
