#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cosyvoice3.py OUT [NAME...]: reference cases of CosyVoice 3's speech tokens to sound, in torch and float64, in the names of its checkpoints.

From the papers (arXiv 2505.17589; HiFTNet, 2309.09493) and the description of the release: tokens and a voice condition a flow of ten Euler steps with guidance, then
a vocoder makes a sound from the spectrogram. Phases follow the release's source module by its own interpolations. mid.hidden.i is what layer i of the
transformer gives with the condition in all steps; mid.latents are the spectrograms behind each step; mid.vocoder_hidden.i is what level i of the vocoder
gives. Weight norms are folded into weights. Needs torch and safetensors.
"""
import json, zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from cases import command_line

BASE = dict(architectures=["CosyVoice3Code2Wav"], model_type="cosyvoice3", sample_rate=24000, spk_embed_dim=12, token_mel_ratio=2, num_tokens=7, num_prompt_tokens=3,
            num_inference_steps=3,
            flow=dict(vocab_size=50, input_size=8, output_size=8, pre_lookahead_len=3, pre_lookahead_channels=20, t_scheduler="cosine", inference_cfg_rate=0.7,
                      dim=32, depth=2, heads=2, dim_head=12, ff_mult=2),
            hift=dict(base_channels=32, nb_harmonics=4, nsf_alpha=0.1, nsf_sigma=0.003, nsf_voiced_threshold=10.0, upsample_rates=[3, 2], upsample_kernel_sizes=[7, 4],
                      istft_params=dict(n_fft=8, hop_len=2), resblock_kernel_sizes=[3, 5], resblock_dilation_sizes=[[1, 3], [1, 2]], source_resblock_kernel_sizes=[3, 5],
                      source_resblock_dilation_sizes=[[1, 3], [1, 2]], lrelu_slope=0.1, audio_limit=0.99, conv_pre_look_right=4, f0_cond_channels=24))
CASES = {
    "cosyvoice3": BASE,
    # Three levels, an even time schedule, no prompt's share of a step, other widths and windows.
    "cosyvoice3_wide": BASE | dict(num_tokens=5, num_prompt_tokens=1, num_inference_steps=2, spk_embed_dim=7, sample_rate=16000,
                                   flow=BASE["flow"] | dict(vocab_size=31, input_size=10, output_size=10, dim=48, depth=1, heads=3, dim_head=16, ff_mult=3, pre_lookahead_len=2,
                                                            t_scheduler="linear", inference_cfg_rate=0.4),
                                   hift=BASE["hift"] | dict(base_channels=48, nb_harmonics=2, upsample_rates=[2, 3, 2], upsample_kernel_sizes=[4, 7, 5], istft_params=dict(n_fft=12, hop_len=3),
                                                            source_resblock_kernel_sizes=[3, 5, 3], source_resblock_dilation_sizes=[[1], [2, 1], [1]], audio_limit=0.5,
                                                            f0_cond_channels=16, conv_pre_look_right=2)),
}
TIME, POSITION_KERNEL, POSITION_GROUPS = 256, 31, 16


class Speech:
    """One request, [rows, channels] without a batch."""

    def __init__(self, c, w):
        self.c, self.f, self.h = c, c["flow"], c["hift"]
        self.w = {key: value.double() for key, value in w.items()}
        self.seen = {}

    def see(self, name, x):
        self.seen.setdefault(name, []).append(x)

    def linear(self, name, x):
        return F.linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def conv(self, name, x, left=0, right=0, **more):
        return F.conv1d(F.pad(x.T[None], (left, right)), self.w[name + ".weight"], self.w[name + ".bias"], **more)[0].T

    def causal(self, name, x, dilation=1, **more):
        taps = self.w[name + ".weight"].shape[2]
        return self.conv(name, x, (taps - 1) * dilation, dilation=dilation, **more)

    def condition(self, tokens):
        path = "flow.pre_lookahead_layer."
        x = self.w["flow.input_embedding.weight"][tokens]
        y = F.leaky_relu(self.conv(path + "conv1", x, right=self.f["pre_lookahead_len"]))
        return (self.causal(path + "conv2", y) + x).repeat_interleave(self.c["token_mel_ratio"], 0)

    def estimate(self, x, t, mu, cond, voice, watch):
        f, path = self.f, "flow.decoder.estimator."
        steps = torch.exp(-torch.log(torch.tensor(10000.0, dtype=torch.float64)) * torch.arange(TIME // 2) / (TIME // 2 - 1)) * 1000 * t
        time = self.linear(path + "time_embed.time_mlp.2", F.silu(self.linear(path + "time_embed.time_mlp.0", torch.cat([steps.sin(), steps.cos()]))))
        x = self.linear(path + "input_embed.proj", torch.cat([x, cond, mu, voice.expand(len(x), -1)], 1))
        y = x
        for name in ("conv1.0", "conv2.0"):
            y = F.mish(self.causal(path + "input_embed.conv_pos_embed." + name, y, groups=POSITION_GROUPS))
        x = x + y
        turns = torch.outer(torch.arange(len(x)), 10000.0 ** (-torch.arange(0, f["dim_head"], 2).double() / f["dim_head"]))
        for i in range(f["depth"]):
            at = f"{path}transformer_blocks.{i}."
            shift, scale, gate, shift_2, scale_2, gate_2 = self.linear(at + "attn_norm.linear", F.silu(time)).chunk(6)
            y = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
            q, k, v = (self.linear(at + "attn.to_" + name, y) for name in "qkv")
            for z in (q, k):  # the first head alone turns, by pairs of neighbours
                even, odd = z[:, 0:f["dim_head"]:2].clone(), z[:, 1:f["dim_head"]:2].clone()
                z[:, 0:f["dim_head"]:2] = even * turns.cos() - odd * turns.sin()
                z[:, 1:f["dim_head"]:2] = odd * turns.cos() + even * turns.sin()
            heads = [z.view(len(x), f["heads"], f["dim_head"]).transpose(0, 1) for z in (q, k, v)]
            shares = (heads[0] @ heads[1].mT / f["dim_head"] ** 0.5).softmax(-1)
            x = x + gate * self.linear(at + "attn.to_out.0", (shares @ heads[2]).transpose(0, 1).flatten(1))
            y = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale_2) + shift_2
            x = x + gate_2 * self.linear(at + "ff.ff.2", F.gelu(self.linear(at + "ff.ff.0.0", y), approximate="tanh"))
            if watch:
                self.see(f"mid.hidden.{i}", x)
        scale, shift = self.linear(path + "norm_out.linear", F.silu(time)).chunk(2)
        return self.linear(path + "proj_out", F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift)

    def mel(self, tokens, prompt, voice, noise):
        mu = self.condition(tokens)
        voice = self.linear("flow.spk_embed_affine_layer", F.normalize(voice, dim=0))
        cond = F.pad(prompt, (0, 0, 0, len(mu) - len(prompt)))
        times = torch.linspace(0, 1, self.c["num_inference_steps"] + 1, dtype=torch.float64)
        if self.f["t_scheduler"] == "cosine":
            times = 1 - torch.cos(times * torch.pi / 2)
        x, rate = noise, self.f["inference_cfg_rate"]
        for t, end in zip(times, times[1:]):
            with_it = self.estimate(x, t, mu, cond, voice, True)
            without = self.estimate(x, t, mu * 0, cond * 0, voice * 0, False)
            x = x + (end - t) * ((1 + rate) * with_it - rate * without)
            self.see("mid.latents", x)
        return x[len(prompt):]

    def pitch(self, x):
        path = "hift.f0_predictor."
        for i in range(0, 10, 2):
            x = F.elu(self.conv(f"{path}condnet.{i}", x, right=3) if i == 0 else self.causal(f"{path}condnet.{i}", x))
        return self.linear(path + "classifier", x)[:, 0].abs()

    def source(self, pitch, noise):
        h = self.h
        samples = len(noise) // len(pitch)
        f0 = F.interpolate(pitch[None, None], scale_factor=samples)[0, 0]
        steps = torch.outer(torch.arange(1, h["nb_harmonics"] + 2), f0) / self.c["sample_rate"] % 1
        steps = F.interpolate(steps[None], scale_factor=1 / samples, mode="linear")
        turns = F.interpolate(steps.cumsum(-1) * samples, scale_factor=samples, mode="nearest")[0].T
        voiced = (f0 > h["nsf_voiced_threshold"]).double()[:, None]
        spread = voiced * h["nsf_sigma"] + (1 - voiced) * h["nsf_alpha"] / 3
        waves = h["nsf_alpha"] * torch.sin(2 * torch.pi * turns) * voiced + spread * noise
        return torch.tanh(self.linear("hift.m_source.l_linear", waves))[:, 0]

    def block(self, path, x, dilations):
        for j, dilation in enumerate(dilations):
            y = x
            for number, step in ((1, dilation), (2, 1)):
                alpha = self.w[f"{path}.activations{number}.{j}.alpha"]
                y = self.causal(f"{path}.convs{number}.{j}", y + torch.sin(alpha * y) ** 2 / (alpha + 1e-9), step)
            x = x + y
        return x

    def sound(self, mel, noise):
        h, n_fft, hop = self.h, self.h["istft_params"]["n_fft"], self.h["istft_params"]["hop_len"]
        window = torch.hann_window(n_fft, dtype=torch.float64)
        pitch = self.pitch(mel)
        source = self.source(pitch, noise)
        waves = torch.stft(source, n_fft, hop, n_fft, window, return_complex=True)
        waves = torch.cat([waves.real, waves.imag]).T
        self.see("out.source", source[:, None])
        x = self.conv("hift.conv_pre", mel, right=h["conv_pre_look_right"])
        levels, kinds = len(h["upsample_rates"]), len(h["resblock_kernel_sizes"])
        for i, rate in enumerate(h["upsample_rates"]):
            x = self.causal(f"hift.ups.{i}", F.leaky_relu(x, h["lrelu_slope"]).repeat_interleave(rate, 0))
            if i == levels - 1:
                x = torch.cat([x[1:2], x])
            down = int(torch.tensor(h["upsample_rates"][i + 1:]).prod())
            y = self.conv(f"hift.source_downs.{i}", waves, left=down - 1, stride=down)
            x = x + self.block(f"hift.source_resblocks.{i}", y, h["source_resblock_dilation_sizes"][i])
            x = sum(self.block(f"hift.resblocks.{i * kinds + k}", x, dilations) for k, dilations in enumerate(h["resblock_dilation_sizes"])) / kinds
            self.see(f"mid.vocoder_hidden.{i}", x)
        x = self.causal("hift.conv_post", F.leaky_relu(x))
        half = n_fft // 2 + 1
        magnitude, phase = x[:, :half].exp().clip(max=100), x[:, half:].sin()
        sound = torch.istft(torch.polar(magnitude, phase).T, n_fft, hop, n_fft, window)
        return sound.clamp(-h["audio_limit"], h["audio_limit"]), pitch


def shapes_of(c):
    f, h = c["flow"], c["hift"]
    dim, mel, inner = f["dim"], f["output_size"], f["heads"] * f["dim_head"]
    all = {"flow.input_embedding.weight": (f["vocab_size"], f["input_size"])}

    def module(name, *shape):
        all[name + ".weight"], all[name + ".bias"] = shape, (shape[0],)

    module("flow.spk_embed_affine_layer", mel, c["spk_embed_dim"])
    module("flow.pre_lookahead_layer.conv1", f["pre_lookahead_channels"], f["input_size"], f["pre_lookahead_len"] + 1)
    module("flow.pre_lookahead_layer.conv2", f["input_size"], f["pre_lookahead_channels"], 3)
    path = "flow.decoder.estimator."
    module(path + "time_embed.time_mlp.0", dim, TIME)
    module(path + "time_embed.time_mlp.2", dim, dim)
    module(path + "input_embed.proj", dim, 4 * mel)
    for name in ("conv1.0", "conv2.0"):
        module(path + "input_embed.conv_pos_embed." + name, dim, dim // POSITION_GROUPS, POSITION_KERNEL)
    for i in range(f["depth"]):
        at = f"{path}transformer_blocks.{i}."
        module(at + "attn_norm.linear", 6 * dim, dim)
        for name in "qkv":
            module(at + "attn.to_" + name, inner, dim)
        module(at + "attn.to_out.0", dim, inner)
        module(at + "ff.ff.0.0", f["ff_mult"] * dim, dim)
        module(at + "ff.ff.2", dim, f["ff_mult"] * dim)
    module(path + "norm_out.linear", 2 * dim, dim)
    module(path + "proj_out", mel, dim)
    module("hift.m_source.l_linear", 1, h["nb_harmonics"] + 1)
    for i in range(5):
        module(f"hift.f0_predictor.condnet.{2 * i}", h["f0_cond_channels"], h["f0_cond_channels"] if i else mel, 3 if i else 4)
    module("hift.f0_predictor.classifier", 1, h["f0_cond_channels"])
    bins, base = h["istft_params"]["n_fft"] + 2, h["base_channels"]
    module("hift.conv_pre", base, mel, h["conv_pre_look_right"] + 1)

    def block(name, width, taps, dilations):
        for j in range(len(dilations)):
            for number in (1, 2):
                module(f"{name}.convs{number}.{j}", width, width, taps)
                all[f"{name}.activations{number}.{j}.alpha"] = (width,)

    kinds = len(h["resblock_kernel_sizes"])
    for i, (rate, taps) in enumerate(zip(h["upsample_rates"], h["upsample_kernel_sizes"])):
        width, down = base // 2 ** (i + 1), int(torch.tensor(h["upsample_rates"][i + 1:]).prod())
        module(f"hift.ups.{i}", width, 2 * width, taps)
        module(f"hift.source_downs.{i}", width, bins, 2 * down if down > 1 else 1)
        block(f"hift.source_resblocks.{i}", width, h["source_resblock_kernel_sizes"][i], h["source_resblock_dilation_sizes"][i])
        for k in range(kinds):
            block(f"hift.resblocks.{i * kinds + k}", width, h["resblock_kernel_sizes"][k], h["resblock_dilation_sizes"][k])
    module("hift.conv_post", bins, width, 7)
    return all


def make_weights(c, seed):
    g = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes_of(c).items():
        noise = torch.randn(shape, generator=g)
        if name.endswith("alpha"):
            value = 1 + 0.2 * noise
        elif len(shape) == 1:
            value = 0.1 * noise
        elif "embedding" in name:
            value = noise
        else:
            gain = 40.0 if "classifier" in name else 1.0 if "conv_post" in name else 0.5 if "resblocks" in name else 1.5 if "hift" in name else 1.0
            value = gain * noise / noise[0].numel() ** 0.5
        weights[name] = value.bfloat16()
    return weights


@torch.no_grad()
def write(folder, name, c, rows=2):
    seed = zlib.crc32(name.encode())
    weights = make_weights(c, seed)
    g = torch.Generator().manual_seed(seed + 1)
    mel, ratio, h = c["flow"]["output_size"], c["token_mel_ratio"], c["hift"]
    frames, prompt = c["num_tokens"] * ratio, c["num_prompt_tokens"] * ratio
    samples = h["istft_params"]["hop_len"] * int(torch.tensor(h["upsample_rates"]).prod())
    inputs = {"speech_tokens": torch.randint(0, c["flow"]["vocab_size"], (rows, c["num_tokens"]), generator=g).float(), "prompt_feat": torch.randn(rows, prompt, mel, generator=g),
              "embedding": torch.randn(rows, c["spk_embed_dim"], generator=g), "noise": torch.randn(rows, frames, mel, generator=g),
              "source_noise": torch.randn(rows, (frames - prompt) * samples, h["nb_harmonics"] + 1, generator=g)}
    golden, voiced = {}, []
    for b in range(rows):
        speech = Speech(c, weights)
        row = {key: value[b].double() for key, value in inputs.items()}
        spectrogram = speech.mel(row["speech_tokens"].long(), row["prompt_feat"], row["embedding"], row["noise"])
        sound, pitch = speech.sound(spectrogram, row["source_noise"])
        voiced.append((pitch > h["nsf_voiced_threshold"]).tolist())
        assert (pitch - h["nsf_voiced_threshold"]).abs().min() > 0.02, "a pitch is at the threshold"
        for key, values in speech.seen.items():
            golden.setdefault(key, []).append(torch.cat(values))
        for key, value in {"out.mel": spectrogram, "out.audio": sound[:, None]}.items():
            golden.setdefault(key, []).append(value)
    golden = {"in." + key: value for key, value in inputs.items()} | {key: torch.stack(values) for key, values in golden.items()}
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
    save_file({key: value.float().contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    case = dict(arch="cosyvoice3", made_by="test/golden/make/cosyvoice3.py", seed=seed, torch=torch.__version__.split("+")[0])
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    at_limit = (golden["out.audio"].abs() >= h["audio_limit"]).double().mean()
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, mel {golden['out.mel'].std():.2f}, sound {golden['out.audio'].std():.2f}, {at_limit:.0%} at the limit, voiced {voiced}")


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        write(arguments.out, name, CASES[name])


if __name__ == "__main__":
    main()
