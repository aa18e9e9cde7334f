// SPDX-License-Identifier: Apache-2.0
// Turns noise into a result, step by step: actions, latents of images. Requests of a batch make the
// same steps together. All phases have the axis B, and share tensors as states of the model.
//
//   phase    inputs                                               work
//   begin    the request's tensors                                conditions, first latent
//   step     time [B], input_coefficients [2], coefficients [K]   one step; once for each time
//   end      none                                                 the result; only with `ends`
//
// All three inputs of a step are float32. The model's input is the latent times
// input_coefficients[1]; input_coefficients[0] is 0, as for linear_combination. The next latent is
// coefficients[0] * latent + coefficients[1] * prediction. With guidance, the coefficients 1 and 2
// belong to the predictions with and without the condition. With a range, one more coefficient
// belongs to the prediction cut to this range. The phases step and end may have inputs with names
// of the request's tensors, too.
//
// Steps which add noise have two more inputs. `step` [1] in i32 is the number of the step.
// `noise_coefficients` [2] are 1 and the factor of the step's noise, which the model adds to the
// latent first, from a tensor of the request.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/engine.hpp"

namespace fk {

struct DenoiseStep {
  double time = 0;                    // as the model sees it
  double scale = 1;                   // of the latent, for the model's input
  double latent = 0, prediction = 0;  // factors
  double clipped = 0;                 // factor of the prediction, cut to the sampler's range
  double noise = 0;                   // factor of the noise of this step
};

struct DiffusionSampler {
  std::vector<DenoiseStep> steps;
  double noise = 1;  // factor of the request's noise, which makes the first latent
  double range = 0;  // predictions are cut to [-range, range]; 0: they are not
};

// The steps of a scheduler of diffusers, by its `_class_name` (DDIMScheduler without noise between
// steps, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler). Absent keys have the library's
// defaults. `tokens`: of a latent, where a pipeline gives the times of flow matching, as FLUX's
// does. Error for a value that is not implemented.
DiffusionSampler read_sampler(const Config& scheduler, int64_t steps, int64_t tokens = 0);

struct DenoiseOptions {
  std::vector<RequestTensor> inputs;  // of the phase begin
  DiffusionSampler sampler;
  double guidance = 1;  // 1: none
  // Names, each [B, ...]: outputs of the phase end, or of the last step.
  std::vector<std::string> outputs;
  bool ends = false;   // there is a phase end
  bool noisy = false;  // steps add noise
  int64_t batch = 0;   // requests of a batch at most; 0: as many as the session takes
};
std::unique_ptr<Engine> denoise_engine(DenoiseOptions options);

}  // namespace fk
