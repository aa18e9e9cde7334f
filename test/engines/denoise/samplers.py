#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""samplers.py: writes samplers.json, the steps of diffusers' schedulers, in float64.

Each case has a scheduler's configuration, the number of steps, the first latent's factor, and for each step the time, the model's prediction, and the next
latent. Needs torch and diffusers.
"""
import json, pathlib

import diffusers, numpy, torch

CASES = {
    "dp3": ("DDIMScheduler", dict(num_train_timesteps=100, beta_start=0.0001, beta_end=0.02, beta_schedule="squaredcos_cap_v2", clip_sample=True, prediction_type="sample"), 10, 0),
    "ddim_epsilon": ("DDIMScheduler", dict(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012, clip_sample=False, set_alpha_to_one=False, steps_offset=1), 7, 0),
    "ddim_velocity": ("DDIMScheduler", dict(clip_sample=False, prediction_type="v_prediction", timestep_spacing="trailing"), 6, 0),
    "ddim_range": ("DDIMScheduler", dict(clip_sample_range=0.7, prediction_type="sample", timestep_spacing="linspace"), 5, 0),
    "sdxl": ("EulerDiscreteScheduler", dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", interpolation_type="linear", prediction_type="epsilon", steps_offset=1,
                                            timestep_spacing="leading"), 50, 0),
    "euler_velocity": ("EulerDiscreteScheduler", dict(prediction_type="v_prediction", final_sigmas_type="sigma_min"), 8, 0),
    "flux": ("FlowMatchEulerDiscreteScheduler", dict(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=4096, max_shift=1.15, shift=3.0, use_dynamic_shifting=True), 28, 1024),
    "flow_match": ("FlowMatchEulerDiscreteScheduler", dict(shift=3.0), 9, 0),
    "flux_schnell": ("FlowMatchEulerDiscreteScheduler", dict(shift=1.0), 4, 4096),
    "flux_shift": ("FlowMatchEulerDiscreteScheduler", dict(shift=3.0), 7, 64),
}


def main():
    cases = {}
    for name, (kind, config, steps, tokens) in CASES.items():
        scheduler = getattr(diffusers, kind)(**config)
        more = {}
        if tokens:  # as in FluxPipeline
            more = dict(sigmas=numpy.linspace(1.0, 1 / steps, steps))
            if config.get("use_dynamic_shifting"):
                slope = (config["max_shift"] - config["base_shift"]) / (config["max_image_seq_len"] - config["base_image_seq_len"])
                more["mu"] = config["base_shift"] + (tokens - config["base_image_seq_len"]) * slope
            scheduler.set_timesteps(**more)
        else:
            scheduler.set_timesteps(steps)
        g = torch.Generator().manual_seed(len(cases))
        x = torch.randn(6, generator=g, dtype=torch.float64)
        first, rows, noise = x.clone(), [], float(getattr(scheduler, "init_noise_sigma", 1))
        for time in scheduler.timesteps:
            scaled = scheduler.scale_model_input(x, time) if hasattr(scheduler, "scale_model_input") else x
            prediction = torch.randn(6, generator=g, dtype=torch.float64)
            x = scheduler.step(prediction, time, x).prev_sample.double()
            rows.append(dict(time=float(time), scaled=scaled.tolist(), prediction=prediction.tolist(), next=x.tolist()))
        cases[name] = dict(scheduler=dict(_class_name=kind, **config), steps=steps, tokens=tokens, noise=noise, first=first.tolist(), rows=rows)
    file = pathlib.Path(__file__).with_name("samplers.json")
    file.write_text(json.dumps(dict(diffusers=diffusers.__version__, cases=cases)) + "\n")
    print(f"{file.name}: {len(cases)} cases, {file.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
