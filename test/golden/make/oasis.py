#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oasis.py OUT [NAME...]: reference cases of Oasis in torch, float64, from the description of its release, in the names of its checkpoints.

The transformer sees all frames of the window in each step and keeps nothing. mid.hidden.i is what layer i gives for the new frame, in all steps of all
frames; mid.latents are the new frame's latents behind each step. Patches are cut and put together by their definition. Needs torch and safetensors.
"""
import argparse, json, math, pathlib, zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BASE = dict(architectures=["OasisPipeline"], model_type="oasis", n_prompt_frames=1, num_frames=4, ddim_steps=3, max_noise_level=1000, stabilization_level=15, noise_abs_max=20,
            scaling_factor=0.3,
            model=dict(input_h=4, input_w=6, patch_size=2, in_channels=4, hidden_size=48, depth=2, num_heads=3, mlp_ratio=4.0, external_cond_dim=7, max_frames=8),
            vae=dict(latent_dim=4, input_height=12, input_width=18, patch_size=3, enc_dim=32, enc_depth=1, enc_heads=2, dec_dim=48, dec_depth=2, dec_heads=3, mlp_ratio=2.0,
                     use_variational=True))
CASES = {
    "oasis": (BASE, 2),
    # A window which slides, two first frames, other patches and heads, steps whose times have fractions, noise at its limit, no deviations behind the means.
    "oasis_wide": (BASE | dict(n_prompt_frames=2, num_frames=6, ddim_steps=2, max_noise_level=333, stabilization_level=40, noise_abs_max=1.5, scaling_factor=1.1,
                               model=dict(input_h=6, input_w=3, patch_size=1, in_channels=5, hidden_size=40, depth=3, num_heads=2, mlp_ratio=1.5, external_cond_dim=3, max_frames=3),
                               vae=dict(latent_dim=5, input_height=24, input_width=12, patch_size=4, enc_dim=48, enc_depth=2, enc_heads=2, dec_dim=16, dec_depth=1, dec_heads=1,
                                        mlp_ratio=3.0, use_variational=False)), 1),
}
TIME = 256


def shapes_of(c):
    shapes, m, v = {}, c["model"], c["vae"]

    def linear(name, wide, of, bias=True):
        shapes[name + ".weight"] = (wide, of) if isinstance(of, int) else (wide, *of)
        if bias:
            shapes[name + ".bias"] = (wide,)

    def mlp(name, width, ratio):
        linear(name + ".fc1", int(width * ratio), width)
        linear(name + ".fc2", width, int(width * ratio))

    def norm(name, width):
        shapes[name + ".weight"] = shapes[name + ".bias"] = (width,)

    width = m["hidden_size"]
    linear("dit.x_embedder.proj", width, (m["in_channels"], m["patch_size"], m["patch_size"]))
    linear("dit.t_embedder.mlp.0", width, TIME)
    linear("dit.t_embedder.mlp.2", width, width)
    linear("dit.external_cond", width, m["external_cond_dim"])
    for i in range(m["depth"]):
        for half in "st":
            name = f"dit.blocks.{i}.{half}_"
            linear(name + "attn.to_qkv", 3 * width, width, bias=False)
            linear(name + "attn.to_out", width, width)
            mlp(name + "mlp", width, m["mlp_ratio"])
            linear(name + "adaLN_modulation.1", 6 * width, width)
    linear("dit.final_layer.linear", m["patch_size"] ** 2 * m["in_channels"], width)
    linear("dit.final_layer.adaLN_modulation.1", 2 * width, width)
    linear("vae.patch_embed.proj", v["enc_dim"], (3, v["patch_size"], v["patch_size"]))
    for side, part in (("enc", "encoder"), ("dec", "decoder")):
        wide = v[side + "_dim"]
        for i in range(v[side + "_depth"]):
            name = f"vae.{part}.{i}."
            norm(name + "norm1", wide)
            linear(name + "attn.qkv", 3 * wide, wide)
            linear(name + "attn.proj", wide, wide)
            norm(name + "norm2", wide)
            mlp(name + "mlp", wide, v["mlp_ratio"])
        norm(f"vae.{side}_norm", wide)
    linear("vae.quant_conv", v["latent_dim"] * (2 if v["use_variational"] else 1), v["enc_dim"])
    linear("vae.post_quant_conv", v["dec_dim"], v["latent_dim"])
    linear("vae.predictor", 3 * v["patch_size"] ** 2, v["dec_dim"])
    return shapes


def make_weights(c, seed):
    random = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes_of(c).items():
        noise = torch.randn(shape, generator=random)
        if len(shape) > 1:
            value = noise / noise[0].numel() ** 0.5
        elif name.endswith("weight"):
            value = 1 + 0.2 * noise
        else:
            value = 0.1 * noise
        weights[name] = value.bfloat16()
    return weights


def turned(x, angles):
    """Neighbours of the first channels of x [..., D] turn by angles [..., pairs]."""
    count = 2 * angles.shape[-1]
    pairs = torch.view_as_complex(x[..., :count].unflatten(-1, (-1, 2)).contiguous())
    return torch.cat([torch.view_as_real(pairs * torch.exp(1j * angles)).flatten(-2), x[..., count:]], -1)


def pixel_angles(rows, columns, pairs, most):
    speeds = math.pi * torch.linspace(1, most / 2, pairs, dtype=torch.float64)
    spread = lambda n: torch.linspace(-1, 1, n, dtype=torch.float64)
    down = spread(rows)[:, None, None] * speeds
    along = spread(columns)[None, :, None] * speeds
    return torch.cat([down.expand(rows, columns, pairs), along.expand(rows, columns, pairs)], -1).flatten(0, 1)


def patches(x, size):
    """[..., rows, columns, C] as [..., patches, size, size, C]."""
    *_, rows, columns, _ = x.shape
    return x.unflatten(-2, (columns // size, size)).unflatten(-4, (rows // size, size)).transpose(-4, -3).flatten(-5, -4)


def together(x, columns):
    """The reverse of patches()."""
    size = x.shape[-2]
    return x.unflatten(-4, (-1, columns // size)).transpose(-4, -3).flatten(-5, -4).flatten(-3, -2)


def attend(q, k, v, mask=0):
    """[..., tokens, heads, D]"""
    scores = torch.einsum("...mhd,...shd->...hms", q, k) / q.shape[-1] ** 0.5 + mask
    return torch.einsum("...hms,...shd->...mhd", scores.softmax(-1), v).flatten(-2)


class World:
    def __init__(self, config, weights):
        self.c, self.m, self.v = config, config["model"], config["vae"]
        self.w = {name: value.double() for name, value in weights.items()}
        self.seen = {}
        times = torch.linspace(-1, config["max_noise_level"] - 1, config["ddim_steps"] + 1)
        self.times = [int(t) for t in times]
        self.alphas = self.make_alphas(config["max_noise_level"])

    @staticmethod
    def make_alphas(count):
        """The share of the image after each time; a sigmoid of the time from -3 to 3 in the whole."""
        curve = torch.sigmoid(-(torch.arange(count + 1, dtype=torch.float64) / count * 6 - 3))
        curve = (curve - curve[-1]) / (curve[0] - curve[-1])
        betas = (1 - curve[1:] / curve[:-1]).clip(0, 0.999)
        return (1 - betas.float()).double().cumprod(0)

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].flatten(1).T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def norm(self, x, name=None):
        weight = () if name is None else (self.w[name + ".weight"], self.w[name + ".bias"])
        return F.layer_norm(x, x.shape[-1:], *weight, eps=1e-6)

    def mlp(self, x, name, approximate):
        return self.linear(F.gelu(self.linear(x, name + ".fc1"), approximate=approximate), name + ".fc2")

    def embed(self, x, name, size):
        """A convolution whose windows lie side by side: [..., patches, C]. Weights have the colours first."""
        return self.linear(patches(x, size).movedim(-1, -3).flatten(-3), name)

    def vit(self, x, part, side):
        heads, rows, columns = self.v[side + "_heads"], self.m["input_h"], self.m["input_w"]
        angles = pixel_angles(rows, columns, x.shape[-1] // heads // 8, rows * columns)[:, None]
        for i in range(self.v[side + "_depth"]):
            name = f"vae.{part}.{i}."
            q, k, v = self.linear(self.norm(x, name + "norm1"), name + "attn.qkv").unflatten(-1, (3, heads, -1)).unbind(-3)
            x = x + self.linear(attend(turned(q, angles), turned(k, angles), v), name + "attn.proj")
            x = x + self.mlp(self.norm(x, name + "norm2"), name + "mlp", "none")
            self.seen.setdefault(f"mid.vae.{part}.{i}", []).append(x)
        return self.norm(x, f"vae.{side}_norm")

    def encode(self, frames):
        """[B, frames, 3, height, width] as latents [B, frames, rows, columns, C]."""
        x = self.embed(frames.movedim(2, -1), "vae.patch_embed.proj", self.v["patch_size"])
        x = self.linear(self.vit(x, "encoder", "enc"), "vae.quant_conv")[..., :self.v["latent_dim"]]
        return self.c["scaling_factor"] * x.unflatten(-2, (self.m["input_h"], -1))

    def decode(self, latents):
        x = self.linear(latents.flatten(-3, -2) / self.c["scaling_factor"], "vae.post_quant_conv")
        x = self.linear(self.vit(x, "decoder", "dec"), "vae.predictor")
        size = self.v["patch_size"]
        return together(x.unflatten(-1, (3, size, size)).movedim(-3, -1), self.v["input_width"])

    def half(self, x, cond, name, attention):
        m = self.linear(F.silu(cond), name + "adaLN_modulation.1")[..., None, :].chunk(6, -1)
        y = self.norm(x) * (1 + m[1]) + m[0]
        q, k, v = self.linear(y, name + "attn.to_qkv").unflatten(-1, (3, self.m["num_heads"], -1)).unbind(-3)
        x = x + m[2] * self.linear(attention(q, k, v), name + "attn.to_out")
        return x + m[5] * self.mlp(self.norm(x) * (1 + m[4]) + m[3], name + "mlp", "tanh")

    def predict(self, x, times, actions):
        """The prediction for x [B, frames, rows, columns, C] with times [frames]; and each layer's tokens."""
        m, size, frames = self.m, self.m["patch_size"], x.shape[1]
        speeds = 10000.0 ** (-torch.arange(TIME // 2, dtype=torch.float64) / (TIME // 2))
        angles = torch.tensor(times, dtype=torch.float64)[:, None] * speeds
        cond = self.linear(F.silu(self.linear(torch.cat([angles.cos(), angles.sin()], -1), "dit.t_embedder.mlp.0")), "dit.t_embedder.mlp.2")
        cond = cond + self.linear(actions, "dit.external_cond")
        x = self.embed(x, "dit.x_embedder.proj", size)
        width = m["hidden_size"] // m["num_heads"]
        places = pixel_angles(m["input_h"] // size, m["input_w"] // size, width // 4, 256)[:, None]
        moments = torch.arange(frames, dtype=torch.float64)[:, None, None] * 10000.0 ** (-torch.arange(width // 2, dtype=torch.float64) * 2 / width)
        causal = torch.full((frames, frames), -math.inf, dtype=torch.float64).triu(1)

        def over_frames(q, k, v):
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            return attend(turned(q, moments), turned(k, moments), v, causal).transpose(1, 2)

        layers = []
        for i in range(m["depth"]):
            x = self.half(x, cond, f"dit.blocks.{i}.s_", lambda q, k, v: attend(turned(q, places), turned(k, places), v))
            x = self.half(x, cond, f"dit.blocks.{i}.t_", over_frames)
            layers.append(x)
        shift, scale = self.linear(F.silu(cond), "dit.final_layer.adaLN_modulation.1")[..., None, :].chunk(2, -1)
        x = self.linear(self.norm(x) * (1 + scale) + shift, "dit.final_layer.linear")
        return together(x.unflatten(-1, (size, size, m["in_channels"])), m["input_w"]), layers

    def make_frame(self, before, noise, actions):
        """The frame behind `before` [B, frames, ...]; each step has a clean image and its noise."""
        x, first = noise, max(0, before.shape[1] + 1 - self.m["max_frames"])
        old = before[:, first:]
        for i in range(self.c["ddim_steps"], 0, -1):
            time, later = self.times[i], self.times[i - 1]
            v, layers = self.predict(torch.cat([old, x[:, None]], 1), [self.c["stabilization_level"] - 1] * old.shape[1] + [time],
                                     actions[:, first:before.shape[1] + 1])
            for k, layer in enumerate(layers):
                self.seen.setdefault(f"mid.hidden.{k}", []).append(layer[:, -1])
            v, share = v[:, -1], self.alphas[time]
            image = share.sqrt() * x - (1 - share).sqrt() * v
            rest = (x / share.sqrt() - image) / (1 / share - 1).sqrt()
            kept = torch.tensor(1.0) if i == 1 else self.alphas[later if later >= 0 else time]
            x = kept.sqrt() * image + (1 - kept).sqrt() * rest
            self.seen.setdefault("mid.latents", []).append(x.flatten(1, 2))
        return x

    @torch.no_grad()
    def play(self, frames, noise, actions):
        latents = self.encode(frames)
        noise = noise.clip(-self.c["noise_abs_max"], self.c["noise_abs_max"])
        for i in range(noise.shape[1]):
            latents = torch.cat([latents, self.make_frame(latents, noise[:, i], actions)[:, None]], 1)
        video = torch.stack([self.decode(latents[:, i]) for i in range(latents.shape[1])], 1)
        mid = {name: torch.cat([value.flatten(1, -2) for value in values], 1) for name, values in self.seen.items()}
        return mid | {"out.latents": latents, "out.video": video}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of CASES")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        c, rows = CASES[name]
        seed, m, v = zlib.crc32(name.encode()), c["model"], c["vae"]
        weights = make_weights(c, seed)
        g = torch.Generator().manual_seed(seed + 1)
        inputs = {"frames": torch.rand(rows, c["n_prompt_frames"], 3, v["input_height"], v["input_width"], generator=g) * 2 - 1,
                  "noise": torch.randn(rows, c["num_frames"] - c["n_prompt_frames"], m["input_h"], m["input_w"], m["in_channels"], generator=g),
                  "actions": torch.rand(rows, c["num_frames"], m["external_cond_dim"], generator=g)}
        golden = {"in." + key: value for key, value in inputs.items()} | World(c, weights).play(*(value.double() for value in inputs.values()))
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="oasis", made_by="test/golden/make/oasis.py", seed=seed, torch=torch.__version__.split("+")[0])
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, latents {golden['out.latents'].std():.2f}, video {golden['out.video'].std():.2f}")


if __name__ == "__main__":
    main()
