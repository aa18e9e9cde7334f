// SPDX-License-Identifier: Apache-2.0
// An engine that computes a state over and over: x becomes f(x). Phase "step": the input x [B,C]
// f32 and the output `next` [B,C] f32. A request brings `start` [C] and `steps` [1]. Its result is
// `path` [steps,C].
#pragma once
#include <memory>

#include "core/exec/engine.hpp"

namespace toy {

std::unique_ptr<fk::Engine> toy_engine(int64_t width);

}  // namespace toy
