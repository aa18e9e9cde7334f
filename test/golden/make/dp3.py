#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dp3.py OUT [NAME...]: reference cases of Simple DP3 in torch, float64, from the paper (arXiv 2403.03954), in the names of its checkpoints.

The steps are those of diffusers' DDIMScheduler. mid.hidden.i is what block i of the U-Net gives in all steps, channels last; out.latents are the
actions after each step. Lines are padded and convolved by their definition. Needs torch, diffusers and safetensors.
"""
import argparse, json, pathlib, zlib

import diffusers, torch
import torch.nn.functional as F
from safetensors.torch import save_file

SCHEDULER = dict(_class_name="DDIMScheduler", num_train_timesteps=100, beta_start=0.0001, beta_end=0.02, beta_schedule="squaredcos_cap_v2", clip_sample=True, set_alpha_to_one=True,
                 steps_offset=0, prediction_type="sample")
BASE = dict(architectures=["SimpleDP3"], model_type="dp3", horizon=8, n_obs_steps=2, n_action_steps=4, num_points=60, agent_pos_dim=7, action_dim=4, encoder_output_dim=20,
            state_mlp_size=[24, 16], pointnet_type="pointnet", use_pc_color=False,
            pointcloud_encoder_cfg=dict(in_channels=3, out_channels=20, use_layernorm=True, final_norm="layernorm", normal_channel=False), condition_type="film", use_down_condition=True,
            use_mid_condition=True, use_up_condition=True, obs_as_global_cond=True, diffusion_step_embed_dim=24, down_dims=[16, 24, 32], kernel_size=5, n_groups=8, num_inference_steps=5,
            noise_scheduler=SCHEDULER)
CASES = {
    "dp3": (BASE, 3),
    # Two levels, other widths and groups, one observation, points without norms, noise as the prediction, other times.
    "dp3_wide": (BASE | dict(horizon=6, n_obs_steps=1, num_points=35, agent_pos_dim=3, action_dim=5, encoder_output_dim=12, state_mlp_size=[9, 10], diffusion_step_embed_dim=18,
                             down_dims=[40, 24], kernel_size=3, n_groups=4, num_inference_steps=4,
                             pointcloud_encoder_cfg=dict(in_channels=3, out_channels=12, use_layernorm=False, final_norm="none"),
                             noise_scheduler=SCHEDULER | dict(num_train_timesteps=50, beta_schedule="linear", clip_sample=False, set_alpha_to_one=False, steps_offset=1, prediction_type="epsilon")), 2),
}
POINT_WIDTHS = (64, 128, 256)


def shapes_of(c):
    """Names and shapes of a checkpoint's tensors; norms have the shapes of vectors."""
    shapes = {}

    def module(name, *shape):
        shapes[name + ".weight"] = shape
        shapes[name + ".bias"] = shape[:1]

    def block(name, width, of, taps):
        module(name + ".block.0", width, of, taps)
        module(name + ".block.1", width)

    def residual(name, width, of, cond):
        block(name + ".blocks.0", width, of, c["kernel_size"])
        block(name + ".blocks.1", width, width, c["kernel_size"])
        module(name + ".cond_encoder.1", 2 * width, cond)
        if width != of:
            module(name + ".residual_conv", width, of, 1)

    encoder = c["pointcloud_encoder_cfg"]
    at, of = 0, encoder["in_channels"]
    for width in POINT_WIDTHS:
        module(f"obs_encoder.extractor.mlp.{at}", width, of)
        if encoder["use_layernorm"]:
            module(f"obs_encoder.extractor.mlp.{at + 1}", width)
        at, of = at + (3 if encoder["use_layernorm"] else 2), width
    module("obs_encoder.extractor.final_projection.0", c["encoder_output_dim"], of)
    if encoder["final_norm"] == "layernorm":
        module("obs_encoder.extractor.final_projection.1", c["encoder_output_dim"])
    module("obs_encoder.state_mlp.0", c["state_mlp_size"][0], c["agent_pos_dim"])
    module("obs_encoder.state_mlp.2", c["state_mlp_size"][1], c["state_mlp_size"][0])
    time, widths = c["diffusion_step_embed_dim"], c["down_dims"]
    module("model.diffusion_step_encoder.1", 4 * time, time)
    module("model.diffusion_step_encoder.3", time, 4 * time)
    cond = time + c["n_obs_steps"] * (c["encoder_output_dim"] + c["state_mlp_size"][1])
    for i, (of, width) in enumerate(zip([c["action_dim"]] + widths, widths)):
        residual(f"model.down_modules.{i}.0", width, of, cond)
        if i + 1 < len(widths):
            module(f"model.down_modules.{i}.1.conv", width, width, 3)
    residual("model.mid_modules.0", widths[-1], widths[-1], cond)
    for i, (width, of) in enumerate(reversed(list(zip(widths, widths[1:])))):
        residual(f"model.up_modules.{i}.0", width, 2 * of, cond)
        module(f"model.up_modules.{i}.1.conv", width, width, 4)
    block("model.final_conv.0", widths[0], widths[0], c["kernel_size"])
    module("model.final_conv.1", c["action_dim"], widths[0], 1)
    return shapes


def make_weights(c, seed):
    random = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes_of(c).items():
        noise = torch.randn(shape, generator=random)
        if len(shape) > 1:
            value = noise * 1.5 / noise[0].numel() ** 0.5
        elif name.endswith("weight"):
            value = 1 + 0.2 * noise
        else:
            value = 0.1 * noise
        weights[name] = value.bfloat16()
    return weights


class Policy:
    def __init__(self, config, weights):
        self.c, self.w = config, {name: value.double() for name, value in weights.items()}
        self.seen = []

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].flatten(1).T + self.w[name + ".bias"]

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"])

    def line(self, x, name, stride=1):
        """A convolution of x [B, T, C] as a product with the windows of the padded line."""
        weight = self.w[name + ".weight"]
        taps = weight.shape[2]
        windows = F.pad(x, (0, 0, taps // 2, taps // 2)).unfold(1, taps, stride)
        return torch.einsum("btck,ock->bto", windows, weight) + self.w[name + ".bias"]

    def spread(self, x, name):
        """Each position of x [B, T, C] gives four positions, two apart from its neighbour's; one is cut at both ends."""
        weight = self.w[name + ".weight"]
        out = x.new_zeros(x.shape[0], 2 * x.shape[1] + 2, weight.shape[1])
        for t in range(x.shape[1]):
            out[:, 2 * t:2 * t + 4] += torch.einsum("bc,cok->bko", x[:, t], weight)
        return out[:, 1:-1] + self.w[name + ".bias"]

    def block(self, x, name, groups):
        x = self.line(x, name + ".block.0")
        parts = x.unflatten(2, (groups, -1))
        mean, variance = parts.mean((1, 3), keepdim=True), parts.var((1, 3), unbiased=False, keepdim=True)
        x = ((parts - mean) / torch.sqrt(variance + 1e-5)).flatten(2)
        x = x * self.w[name + ".block.1.weight"] + self.w[name + ".block.1.bias"]
        return x * torch.tanh(torch.log1p(torch.exp(x)))

    def residual(self, x, name, cond):
        mish = cond * torch.tanh(torch.log1p(torch.exp(cond)))
        scale, shift = self.linear(mish, name + ".cond_encoder.1").chunk(2, -1)
        y = self.block(x, name + ".blocks.0", self.c["n_groups"])
        y = self.block(y * scale[:, None] + shift[:, None], name + ".blocks.1", self.c["n_groups"])
        y = y + (self.linear(x, name + ".residual_conv") if name + ".residual_conv.weight" in self.w else x)
        self.seen.append(y)
        return y

    def condition(self, cloud, state):
        encoder, at = self.c["pointcloud_encoder_cfg"], 0
        for _ in POINT_WIDTHS:
            cloud = self.linear(cloud, f"obs_encoder.extractor.mlp.{at}")
            if encoder["use_layernorm"]:
                at += 1
                cloud = self.norm(cloud, f"obs_encoder.extractor.mlp.{at}")
            cloud, at = cloud.clamp(min=0), at + 2
        x = self.linear(cloud.amax(2), "obs_encoder.extractor.final_projection.0")
        if encoder["final_norm"] == "layernorm":
            x = self.norm(x, "obs_encoder.extractor.final_projection.1")
        state = self.linear(self.linear(state, "obs_encoder.state_mlp.0").clamp(min=0), "obs_encoder.state_mlp.2")
        return torch.cat([x, state], -1).flatten(1)

    def predict(self, x, time, condition):
        c = self.c
        half = c["diffusion_step_embed_dim"] // 2
        angles = time * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / (half - 1))
        embedded = self.linear(torch.cat([angles.sin(), angles.cos()]), "model.diffusion_step_encoder.1")
        embedded = self.linear(embedded * torch.tanh(torch.log1p(torch.exp(embedded))), "model.diffusion_step_encoder.3")
        cond = torch.cat([embedded.expand(len(x), -1), condition], -1)
        skips, levels = [], len(c["down_dims"])
        for i in range(levels):
            x = self.residual(x, f"model.down_modules.{i}.0", cond)
            skips.append(x)
            if i + 1 < levels:
                x = self.line(x, f"model.down_modules.{i}.1.conv", stride=2)
        x = self.residual(x, "model.mid_modules.0", cond)
        for i in range(levels - 1):
            x = self.residual(torch.cat([x, skips.pop()], -1), f"model.up_modules.{i}.0", cond)
            x = self.spread(x, f"model.up_modules.{i}.1.conv")
        x = self.block(x, "model.final_conv.0", 8)
        self.seen.append(x)
        return self.linear(x, "model.final_conv.1")

    @torch.no_grad()
    def act(self, cloud, state, noise):
        """Actions after each step, and for each step the results of all blocks."""
        keys = {key: value for key, value in self.c["noise_scheduler"].items() if not key.startswith("_")}
        scheduler = diffusers.DDIMScheduler(**keys)
        scheduler.alphas_cumprod = scheduler.alphas_cumprod.double()
        scheduler.set_timesteps(self.c["num_inference_steps"])
        condition, x, latents, blocks = self.condition(cloud, state), noise, [], []
        for time in scheduler.timesteps:
            self.seen = []
            x = scheduler.step(self.predict(x, float(time), condition), time, x).prev_sample
            latents.append(x)
            blocks.append(self.seen)
        return condition, latents, blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        c, rows = CASES[name]
        seed = zlib.crc32(name.encode())
        weights = make_weights(c, seed)
        g = torch.Generator().manual_seed(seed + 1)
        inputs = {"point_cloud": torch.randn(rows, c["n_obs_steps"], c["num_points"], 3, generator=g), "agent_pos": torch.randn(rows, c["n_obs_steps"], c["agent_pos_dim"], generator=g),
                  "noise": torch.randn(rows, c["horizon"], c["action_dim"], generator=g)}
        condition, latents, blocks = Policy(c, weights).act(*(value.double() for value in inputs.values()))
        golden = {"in." + key: value for key, value in inputs.items()}
        golden |= {"out.condition": condition, "out.latents": torch.cat(latents, 1), "out.actions": latents[-1]}
        golden |= {f"mid.hidden.{i}": torch.cat(step, 1) for i, step in enumerate(zip(*blocks))}
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="dp3", made_by="test/golden/make/dp3.py", seed=seed, torch=torch.__version__.split("+")[0], diffusers=diffusers.__version__)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        clipped = sum(int((abs(latent) >= 1).sum()) for latent in latents)
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, actions {latents[-1].std():.2f}, {clipped} of all latents at 1 or beyond")


if __name__ == "__main__":
    main()
