#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""linear_attention.py OUT [NAME...]: reference cases of GLA and RetNet, by flash-linear-attention's naive functions.

The recurrence is `naive_recurrent_gla` or `naive_retention` of fla-core, which are plain torch. fla's own models need a GPU, so the
layers around the functions are written here, in the names of fla's checkpoints. Each text is computed whole, without a cache.
Needs torch, safetensors and fla-core (`pip install --no-deps fla-core`: no other part of it is imported).
"""
import argparse, importlib.util, json, pathlib, zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

BASE = dict(vocab_size=97, hidden_size=48, num_hidden_layers=3, num_heads=3, intermediate_size=None, norm_eps=1e-6, hidden_act="swish",
            tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, max_position_embeddings=128, use_short_conv=False, use_output_gate=True,
            elementwise_affine=True, fuse_norm=True)
CASES = {
    "gla": dict(BASE, architectures=["GLAForCausalLM"], model_type="gla", expand_k=0.5, expand_v=1.0, hidden_ratio=4),
    # Wider values than keys, four heads, a tied head, the norm under its other name.
    "gla_wide": dict(BASE, architectures=["GLAForCausalLM"], model_type="gla", hidden_size=40, num_heads=4, num_hidden_layers=2, expand_k=0.8, expand_v=1.5,
                     intermediate_size=56, tie_word_embeddings=True, fuse_norm=False, norm_eps=1e-3),
    "retnet": dict(BASE, architectures=["RetNetForCausalLM"], model_type="retnet", expand_k=1.0, expand_v=2.0, hidden_ratio=2, num_heads=4),
}


def naive(module, name):
    """A function of fla/ops/MODULE/naive.py, loaded alone: the package itself imports Triton."""
    root = pathlib.Path(importlib.util.find_spec("fla").origin).parent
    spec = importlib.util.spec_from_file_location("naive_" + module, root / "ops" / module / "naive.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def widths(c):
    return round(c["hidden_size"] * c["expand_k"]), round(c["hidden_size"] * c["expand_v"])


def mlp_width(c):
    return c["intermediate_size"] or (int(c["hidden_size"] * c["hidden_ratio"] * 2 / 3) + 255) // 256 * 256


def make_weights(c, seed):
    random = torch.Generator().manual_seed(seed)
    d, (keys, values), wide = c["hidden_size"], widths(c), mlp_width(c)
    shapes = {"model.embeddings.weight": (c["vocab_size"], d), "model.norm.weight": (d,)}
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], d)
    for i in range(c["num_hidden_layers"]):
        at, norm = f"model.layers.{i}.", "g_norm_swish_gate" if c["fuse_norm"] else "g_norm"
        shapes |= {at + "attn_norm.weight": (d,), at + "mlp_norm.weight": (d,), at + f"attn.{norm}.weight": (values // c["num_heads"],),
                   at + "attn.q_proj.weight": (keys, d), at + "attn.k_proj.weight": (keys, d), at + "attn.v_proj.weight": (values, d),
                   at + "attn.g_proj.weight": (values, d), at + "attn.o_proj.weight": (d, values),
                   at + "mlp.gate_proj.weight": (wide, d), at + "mlp.up_proj.weight": (wide, d), at + "mlp.down_proj.weight": (d, wide)}
        if c["model_type"] == "gla":
            shapes |= {at + "attn.gk_proj.0.weight": (16, d), at + "attn.gk_proj.1.weight": (keys, 16), at + "attn.gk_proj.1.bias": (keys,)}
    weights = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=random)
        if len(shape) > 1:
            value = noise * (1 if "embeddings" in name and not c["tie_word_embeddings"] else 1.5 / shape[-1] ** 0.5)
        else:
            # Slow and fast decays: the logarithm of a sigmoid is divided by 16.
            value = 4 * noise - 2 if name.endswith("bias") else 1 + 0.2 * noise
        weights[name] = value.to(torch.bfloat16).float()
    return weights


class Model:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        self.gla = naive("gla", "naive_recurrent_gla")
        self.retention = naive("retention", "naive_retention")

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.c["norm_eps"]) * self.w[name + ".weight"]

    def rotate(self, x):
        """x [B,T,H,D]: halves of a head turn."""
        half = x.shape[-1] // 2
        angle = torch.outer(torch.arange(x.shape[1], dtype=torch.float64), 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half))
        cos, sin = angle.cos().float()[None, :, None], angle.sin().float()[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x, at):
        heads = lambda name: F.linear(x, self.w[at + name + ".weight"]).unflatten(-1, (self.c["num_heads"], -1))
        q, k, v, z = heads("q_proj"), heads("k_proj"), heads("v_proj"), heads("g_proj")
        if self.c["model_type"] == "gla":
            gk = F.linear(F.linear(x, self.w[at + "gk_proj.0.weight"]), self.w[at + "gk_proj.1.weight"], self.w[at + "gk_proj.1.bias"])
            y, _ = self.gla(q, k, v, F.logsigmoid(gk).unflatten(-1, (self.c["num_heads"], -1)) / 16)
        else:
            y = self.retention(*(t.transpose(1, 2) for t in (self.rotate(q), self.rotate(k), v))).transpose(1, 2)
        y = self.norm(y, at + ("g_norm_swish_gate" if self.c["fuse_norm"] else "g_norm")) * F.silu(z)
        return F.linear(y.flatten(-2), self.w[at + "o_proj.weight"])

    def mlp(self, x, at):
        return F.linear(F.silu(F.linear(x, self.w[at + "gate_proj.weight"])) * F.linear(x, self.w[at + "up_proj.weight"]), self.w[at + "down_proj.weight"])

    @torch.no_grad()
    def forward(self, ids):
        """Logits; the input of every layer, and the final norm."""
        x, hidden = self.w["model.embeddings.weight"][ids], []
        for i in range(self.c["num_hidden_layers"]):
            hidden.append(x)
            at = f"model.layers.{i}."
            x = x + self.attention(self.norm(x, at + "attn_norm"), at + "attn.")
            x = x + self.mlp(self.norm(x, at + "mlp_norm"), at + "mlp.")
        hidden.append(self.norm(x, "model.norm"))
        return F.linear(hidden[-1], self.w.get("lm_head.weight", self.w["model.embeddings.weight"])), hidden

    def generate(self, ids, count):
        """Greedy tokens, and how close the two best candidates came."""
        gap, prompt = float("inf"), ids.shape[1]
        for _ in range(count):
            row = self.forward(ids)[0][0, -1]
            best = row.topk(2)
            gap = min(gap, float(best.values[0] - best.values[1]))
            ids = torch.cat([ids, best.indices[:1][None]], 1)
        return ids[:, prompt:], gap


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=list(CASES))
    args = parser.parse_args()
    for name in args.names:
        c, seed = CASES[name], zlib.crc32(name.encode())
        model = Model(c, make_weights(c, seed))
        ids = torch.randint(3, c["vocab_size"], (2, 24), generator=torch.Generator().manual_seed(seed + 1))
        logits, hidden = model.forward(ids)
        greedy, gap = model.generate(ids[:1], 12)
        assert gap > 1e-2, f"{name}: candidates are only {gap:.2g} apart: take another seed"
        tensors = {"in.input_ids": ids, "out.logits": logits, "out.greedy": greedy} | {f"mid.hidden.{i}": h for i, h in enumerate(hidden)}
        folder = args.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1, sort_keys=True) + "\n")
        save_file({k: v.to(torch.bfloat16) for k, v in model.w.items()}, folder / "model.safetensors")
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")
        note = ("naive functions of fla-core (test/golden/make/linear_attention.py): logits of a prefill; greedy continuation of row 0; mid.hidden.i is the input of layer i, "
                "the last one is after the final norm")
        (folder / "case.json").write_text(json.dumps(dict(arch=name, seed=seed, note=note, torch=torch.__version__, tensors={k: list(v.shape) for k, v in tensors.items()}), indent=1) + "\n")
        print(f"{name}: the closest candidates are {gap:.3g} apart")


if __name__ == "__main__":
    main()
