#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpt-oss in numpy, float64, from the model card (arXiv 2508.10925), YaRN (arXiv 2309.00071) and the microscaling formats
(OCP MX 1.0): writes the reference case gpt_oss_mxfp4, whose experts are stored in mxfp4.

Usage: gpt_oss.py OUT_DIR [--seed N]
"""
import argparse

import numpy as np
from safetensors_file import write_case

CONFIG = dict(architectures=["GptOssForCausalLM"], model_type="gpt_oss", hidden_act="silu", hidden_size=64,
              intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
              num_local_experts=6, num_experts_per_tok=3, vocab_size=200, max_position_embeddings=512,
              layer_types=["sliding_attention", "full_attention", "sliding_attention"], sliding_window=6,
              attention_bias=True, rms_norm_eps=1e-5, tie_word_embeddings=False, eos_token_id=199,
              rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=64,
                                   beta_fast=32.0, beta_slow=1.0, truncate=True),
              quantization_config=dict(quant_method="mxfp4"))
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def quantize(matrix):
    """Rows of e2m1 codes with a power of two for 32 columns: blocks [.., K/32, 16], scales [.., K/32], and the values."""
    groups = matrix.reshape(*matrix.shape[:-1], -1, 32)
    powers = np.floor(np.log2(np.abs(groups).max(axis=-1))) - 2
    scaled = groups / 2.0 ** powers[..., None]
    codes = np.abs(np.abs(scaled)[..., None] - E2M1).argmin(axis=-1)
    values = np.sign(scaled) * E2M1[codes] * 2.0 ** powers[..., None]
    codes = codes + 8 * (scaled < 0)
    blocks = (codes[..., 0::2] + 16 * codes[..., 1::2]).astype(np.uint8)
    return blocks, (powers + 127).astype(np.uint8), values.reshape(matrix.shape)


def make_weights(c, rng):
    """The checkpoint, and the same with the experts' values in place of their codes."""
    d, f, e, h, g, w = (c[k] for k in ("hidden_size", "intermediate_size", "num_local_experts", "num_attention_heads",
                                       "num_key_value_heads", "head_dim"))
    stored, plain = {}, {}

    def add(name, shape, gain, mean=0.0):
        stored[name] = plain[name] = (mean + gain * rng.standard_normal(shape)).astype(np.float32).astype(np.float64)

    add("model.embed_tokens.weight", (c["vocab_size"], d), 1)
    add("lm_head.weight", (c["vocab_size"], d), 1 / np.sqrt(d))
    add("model.norm.weight", (d,), 0.2, 1)
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            add(layer + norm + ".weight", (d,), 0.2, 1)
        for name, rows, columns in (("q", h * w, d), ("k", g * w, d), ("v", g * w, d), ("o", d, h * w)):
            add(layer + f"self_attn.{name}_proj.weight", (rows, columns), 1 / np.sqrt(columns))
            add(layer + f"self_attn.{name}_proj.bias", (rows,), 0.2)
        add(layer + "self_attn.sinks", (h,), 1)
        add(layer + "mlp.router.weight", (e, d), 1 / np.sqrt(d))
        add(layer + "mlp.router.bias", (e,), 0.2)
        for name, rows, columns in (("gate_up_proj", 2 * f, d), ("down_proj", d, f)):
            experts = layer + "mlp.experts." + name
            add(experts + "_bias", (e, rows), 0.2)
            blocks, scales, values = quantize(rng.standard_normal((e, rows, columns)) / np.sqrt(columns))
            stored[experts + "_blocks"], stored[experts + "_scales"], plain[experts] = blocks, scales, values
    return stored, plain


class GptOss:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        r, width = config["rope_parameters"], config["head_dim"]
        pair = np.arange(width // 2)
        steps = r["rope_theta"] ** (-2.0 * pair / width)
        turns = [width * np.log(r["original_max_position_embeddings"] / (beta * 2 * np.pi)) / (2 * np.log(r["rope_theta"]))
                 for beta in (r["beta_fast"], r["beta_slow"])]
        low, high = max(np.floor(turns[0]), 0), min(np.ceil(turns[1]), width - 1)
        slow = np.clip((pair - low) / (high - low), 0, 1)
        self.steps = steps * (slow / r["factor"] + 1 - slow)
        self.length = 0.1 * np.log(r["factor"]) + 1

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def turn(self, heads):
        half = heads.shape[2] // 2
        turned = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * np.arange(len(heads))[:, None] * self.steps)[:, None]
        return self.length * np.concatenate([turned.real, turned.imag], axis=-1)

    def attention(self, x, i):
        name, tokens, width = f"model.layers.{i}.self_attn.", len(x), self.c["head_dim"]
        q, k, v = (self.linear(x, f"{name}{part}_proj").reshape(tokens, -1, width) for part in "qkv")
        q, k = self.turn(q), self.turn(k)
        k, v = (np.repeat(y, q.shape[1] // y.shape[1], axis=1) for y in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(width)
        past = np.arange(tokens)[:, None] - np.arange(tokens)
        window = self.c["sliding_window"] if self.c["layer_types"][i] == "sliding_attention" else tokens
        scores = np.where((past >= 0) & (past < window), scores, -np.inf)
        sinks = np.broadcast_to(self.w[name + "sinks"][:, None, None], (scores.shape[0], tokens, 1))
        scores = np.concatenate([scores, sinks], axis=2)
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        shares = (shares / shares.sum(axis=2, keepdims=True))[..., :-1]
        return self.linear(np.einsum("hts,shd->thd", shares, v).reshape(tokens, -1), name + "o_proj")

    def experts(self, x, i):
        name, out = f"model.layers.{i}.mlp.", np.zeros_like(x)
        logits = self.linear(x, name + "router")
        for t, row in enumerate(logits):
            chosen = np.argsort(-row)[: self.c["num_experts_per_tok"]]
            shares = np.exp(row[chosen] - row[chosen].max())
            for e, share in zip(chosen, shares / shares.sum()):
                both = self.w[name + "experts.gate_up_proj"][e] @ x[t] + self.w[name + "experts.gate_up_proj_bias"][e]
                gate, up = np.minimum(both[0::2], 7), np.clip(both[1::2], -7, 7)
                middle = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
                out[t] += share * (self.w[name + "experts.down_proj"][e] @ middle + self.w[name + "experts.down_proj_bias"][e])
        return out

    def forward(self, ids):
        x, hidden = self.w["model.embed_tokens.weight"][ids], []
        for i in range(self.c["num_hidden_layers"]):
            hidden.append(x)
            x = x + self.attention(self.norm(x, f"model.layers.{i}.input_layernorm"), i)
            x = x + self.experts(self.norm(x, f"model.layers.{i}.post_attention_layernorm"), i)
        hidden.append(self.norm(x, "model.norm"))
        return hidden[-1] @ self.w["lm_head.weight"].T, hidden


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    stored, plain = make_weights(CONFIG, rng)
    model = GptOss(CONFIG, plain)
    ids = rng.integers(0, CONFIG["vocab_size"], (2, 24))
    runs = [model.forward(row) for row in ids]
    answer, gap = list(ids[0]), np.inf
    for _ in range(10):
        row = model.forward(np.array(answer))[0][-1]
        first, second = np.sort(row)[[-1, -2]]
        gap = min(gap, first - second)
        answer.append(int(row.argmax()))
    assert gap > 1e-3, f"candidates are only {gap:.2g} apart: take another seed"
    tensors = {"in.input_ids": ids, "out.logits": np.stack([logits for logits, _ in runs]),
               "out.greedy": np.array([answer[24:]])}
    for i in range(CONFIG["num_hidden_layers"] + 1):
        tensors[f"mid.hidden.{i}"] = np.stack([hidden[i] for _, hidden in runs])
    note = ("numpy in float64 (test/golden/make/gpt_oss.py) with the values that the mxfp4 codes stand for; mid.hidden.i is "
            "the input of layer i, the last one is after the final norm")
    write_case(f"{args.out}/gpt_oss_mxfp4", CONFIG, stored, tensors, args.seed, note)
    print(f"gpt_oss_mxfp4: the closest candidates are {gap:.3g} apart")


if __name__ == "__main__":
    main()
