#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rwkv7.py OUT: a reference case of RWKV-7 in torch, float64, from the paper (arXiv 2503.14456), in the names of fla's checkpoints.

Each text is computed whole, without a cache. The recurrence multiplies whole transition matrices; it shares no code with the C++ sources.
Needs torch and safetensors.
"""
import argparse, json, pathlib, zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BASE = dict(architectures=["RWKV7ForCausalLM"], model_type="rwkv7", vocab_size=97, hidden_size=48, num_hidden_layers=3, head_dim=16, hidden_ratio=2, intermediate_size=None,
            decay_low_rank_dim=6, gate_low_rank_dim=10, a_low_rank_dim=5, v_low_rank_dim=4, hidden_act="sqrelu", norm_first=True, norm_bias=True, norm_eps=1e-5,
            tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, max_position_embeddings=128)
CASES = {"rwkv7": BASE, "rwkv7_wide": dict(BASE, hidden_size=40, num_hidden_layers=4, head_dim=8, intermediate_size=56, tie_word_embeddings=True, norm_eps=1e-3)}


def make_weights(c, seed):
    random = torch.Generator().manual_seed(seed)
    d, wide = c["hidden_size"], c["intermediate_size"] or (c["hidden_size"] * c["hidden_ratio"] + 31) // 32 * 32
    shapes = {"model.embeddings.weight": (c["vocab_size"], d), "model.norm.weight": (d,), "model.norm.bias": (d,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for name in ["attn_norm", "ffn_norm", "attn.g_norm"] + ["pre_norm"] * (i == 0):
            shapes |= {at + name + ".weight": (d,), at + name + ".bias": (d,)}
        shapes |= {at + f"attn.x_{x}": (1, 1, d) for x in "rwkvag"} | {at + f"attn.{x}_proj.weight": (d, d) for x in "rkvo"}
        shapes |= {at + "attn.k_k": (d,), at + "attn.k_a": (d,), at + "attn.r_k": (d // c["head_dim"], c["head_dim"]), at + "ffn.x_k": (d,)}
        shapes |= {at + "ffn.key.weight": (wide, d), at + "ffn.value.weight": (d, wide)}
        for x, rank in (("w", "decay"), ("a", "a"), ("g", "gate")) + ((("v", "v"),) if i else ()):
            shapes |= {at + f"attn.{x}_lora.lora.0.weight": (c[rank + "_low_rank_dim"], d), at + f"attn.{x}_lora.lora.2.weight": (d, c[rank + "_low_rank_dim"])}
            if x != "g":
                shapes[at + f"attn.{x}_lora.lora.2.bias"] = (d,)
    weights = {}
    for name, shape in shapes.items():
        noise, leaf = torch.randn(shape, generator=random), name.rsplit(".", 1)[-1]
        if leaf.startswith("x_"):
            value = torch.rand(shape, generator=random)
        elif leaf in ("k_k", "k_a"):
            value = 0.8 + 0.3 * noise
        elif leaf == "r_k":
            value = 0.3 * noise
        elif "lora.2.bias" in name:
            value = noise - (2 if "w_lora" in name else 0)  # fast and slow decays
        elif len(shape) == 1:
            value = 0.1 * noise if leaf == "bias" else 1 + 0.2 * noise
        else:
            value = noise * (1 if "embeddings" in name and not c["tie_word_embeddings"] else 1.5 / shape[-1] ** 0.5)
        weights[name] = value.to(torch.bfloat16)
    return weights


class Model:
    def __init__(self, config, weights):
        self.c, self.w = config, {name: value.double() for name, value in weights.items()}

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], self.c["norm_eps"])

    def shift(self, x, mu):
        before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
        return x + (before - x) * self.w[mu].flatten()

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T

    def low_rank(self, x, name, function=lambda y: y):
        return function(x @ self.w[name + ".lora.0.weight"].T) @ self.w[name + ".lora.2.weight"].T + self.w.get(name + ".lora.2.bias", 0)

    def time_mix(self, x, at, first):
        heads = lambda y: y.unflatten(-1, (-1, self.c["head_dim"]))
        r, k, v = (self.linear(self.shift(x, at + "x_" + name), at + name + "_proj") for name in "rkv")
        decay = torch.exp(-torch.exp(torch.tensor(-0.5, dtype=x.dtype)) * torch.sigmoid(self.low_rank(self.shift(x, at + "x_w"), at + "w_lora", torch.tanh)))
        a = torch.sigmoid(self.low_rank(self.shift(x, at + "x_a"), at + "a_lora"))
        g = self.low_rank(self.shift(x, at + "x_g"), at + "g_lora", torch.sigmoid)
        if first is None:
            first = v
        else:
            v = v + (first - v) * torch.sigmoid(self.low_rank(self.shift(x, at + "x_v"), at + "v_lora"))
        kk = F.normalize(heads(k * self.w[at + "k_k"]), dim=-1)
        k = k * (1 + (a - 1) * self.w[at + "k_a"])
        r, k, v, a, decay = map(heads, (r, k, v, a, decay))
        # The paper's form: a row of the state for each value, times a transition matrix.
        state, out = torch.zeros(r.shape[1], v.shape[-1], r.shape[-1], dtype=x.dtype), []
        for t in range(len(x)):
            transition = torch.diag_embed(decay[t]) - kk[t][:, :, None] * (a[t] * kk[t])[:, None, :]
            state = state @ transition + v[t][:, :, None] * k[t][:, None, :]
            out.append((state @ r[t][:, :, None])[..., 0])
        o = torch.stack(out)
        o = (o - o.mean(-1, keepdim=True)) / torch.sqrt(o.var(-1, unbiased=False, keepdim=True) + self.c["norm_eps"] * self.c["head_dim"])
        o = o * heads(self.w[at + "g_norm.weight"]) + heads(self.w[at + "g_norm.bias"])
        o = o + (r * k * self.w[at + "r_k"]).sum(-1, keepdim=True) * v
        return self.linear(o.flatten(-2) * g, at + "o_proj"), first

    def channel_mix(self, x, at):
        return self.linear(F.relu(self.linear(self.shift(x, at + "x_k"), at + "key")) ** 2, at + "value")

    @torch.no_grad()
    def forward(self, ids):
        """Logits of one text; the input of every layer, and the final norm."""
        x, hidden, first = self.w["model.embeddings.weight"][ids], [], None
        for i in range(self.c["num_hidden_layers"]):
            hidden.append(x)
            at = f"model.layers.{i}."
            if i == 0:
                x = self.norm(x, at + "pre_norm")
            mixed, first = self.time_mix(self.norm(x, at + "attn_norm"), at + "attn.", first)
            x = x + mixed
            x = x + self.channel_mix(self.norm(x, at + "ffn_norm"), at + "ffn.")
        hidden.append(self.norm(x, "model.norm"))
        return hidden[-1] @ self.w.get("lm_head.weight", self.w["model.embeddings.weight"]).T, hidden


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    for name, c in CASES.items():
        seed = zlib.crc32(name.encode())
        weights = make_weights(c, seed)
        model = Model(c, weights)
        ids = torch.randint(3, c["vocab_size"], (2, 24), generator=torch.Generator().manual_seed(seed + 1))
        runs, row, gap = [model.forward(text) for text in ids], ids[0], float("inf")
        for _ in range(12):
            best = model.forward(row)[0][-1].topk(2)
            gap = min(gap, float(best.values[0] - best.values[1]))
            row = torch.cat([row, best.indices[:1]])
        assert gap > 1e-2, f"{name}: candidates are only {gap:.2g} apart: take another seed"
        tensors = {"in.input_ids": ids, "out.logits": torch.stack([run[0] for run in runs]), "out.greedy": row[None, 24:]}
        tensors |= {f"mid.hidden.{i}": torch.stack([run[1][i] for run in runs]) for i in range(c["num_hidden_layers"] + 1)}
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1, sort_keys=True) + "\n")
        save_file(weights, folder / "model.safetensors")
        save_file({k: (v.float() if v.is_floating_point() else v).contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")
        note = "torch in float64 (test/golden/make/rwkv7.py): logits of a prefill; greedy continuation of row 0; mid.hidden.i is the input of layer i, the last one is after the final norm"
        (folder / "case.json").write_text(json.dumps(dict(arch="rwkv7", seed=seed, note=note, torch=torch.__version__, tensors={k: list(v.shape) for k, v in tensors.items()}), indent=1) + "\n")
        print(f"{name}: the closest candidates are {gap:.3g} apart")


if __name__ == "__main__":
    main()
