// SPDX-License-Identifier: Apache-2.0
// Continues videos frame by frame. A new frame begins as noise and becomes an image in the steps of
// a sampler, under the frames before it. Requests of a batch make the same steps together. All
// phases share tensors as states of the model.
//
//   phase    axes     inputs                       work
//   prompt   B        the request's tensors        the first frames, the noise of the others
//   frame    B, T, E  time [B]                     lets later frames see one frame
//   step     B, T, E  time [B], coefficients [2]   one step of one frame, which sees those before
//   decode   B, E     none                         the results of one frame
//
// E is the number of frames up to this one, so it has the index E - 1. A frame sees T - 1 frames
// before it, and has the place T - 1 among them. The next latent is coefficients[0] * latent +
// coefficients[1] * prediction. A step may write the tensors which `frame` writes for later frames:
// the phase `frame` of the same E and T writes them again.
//
// Where more frames exist than a frame may see, the oldest ones leave. All others get new places,
// so the phase `frame` runs again for each of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/engines/denoise/engine.hpp"

namespace fk {

struct RolloutOptions {
  std::vector<RequestTensor> inputs;  // of the phase prompt
  int64_t prompt_frames = 1, frames = 2;
  int64_t window = 1;  // frames which a frame sees, itself included
  DiffusionSampler sampler;
  double seen_time = 0;  // of a frame which others see, as the model sees it
  // Outputs of the phase decode, each [B, ...]. A result has the frames as its first axis.
  std::vector<std::string> outputs;
};
std::unique_ptr<Engine> rollout_engine(RolloutOptions options);

}  // namespace fk
