#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LLaDA in numpy, float64, from the paper (arXiv 2502.09992) and the model card: writes reference cases.

Usage: llada.py OUT_DIR [--seed N] [--wide | --long]
The transformer is Llama's with attention in both directions. Generation starts with the prompt and as many masks as
tokens are wanted, divided into blocks. A block's tokens are fixed over a number of steps, the same number in each and
one more in the first ones if it does not divide; in a step every mask of the block gets its most probable token, and
the tokens with the largest probabilities are fixed (low-confidence remasking).
"""
import argparse

import numpy as np
from safetensors_file import write_case

BASE = dict(architectures=["LLaDAModelLM"], model_type="llada", activation_type="silu", block_type="llama",
            layer_norm_type="rms", rope=True, alibi=False, include_bias=False, include_qkv_bias=False,
            weight_tying=False, rope_theta=500000.0, rms_norm_eps=1e-5)
SMALL = dict(BASE, d_model=64, mlp_hidden_size=128, n_layers=2, n_heads=4, n_kv_heads=4, vocab_size=200,
             embedding_size=200, mask_token_id=197, eos_token_id=196, pad_token_id=196, max_sequence_length=128,
             block_length=8, block_steps=3)
WIDE = dict(BASE, d_model=72, mlp_hidden_size=88, n_layers=3, n_heads=6, n_kv_heads=2, vocab_size=150,
            embedding_size=157, mask_token_id=151, eos_token_id=149, pad_token_id=149, max_sequence_length=64,
            block_length=5, block_steps=5, rope_theta=10000.0)
# More tokens than a step gives logits of: the whole text is computed again for the rest.
LONG = dict(SMALL, d_model=32, mlp_hidden_size=48, n_heads=2, n_kv_heads=2, vocab_size=80, embedding_size=80, mask_token_id=79,
            eos_token_id=78, pad_token_id=78, max_sequence_length=256)
CASES = {"llada": (SMALL, 24), "llada_wide": (WIDE, 24), "llada_long": (LONG, 130)}
PREFIX = "model.transformer."


def make_weights(c, rng):
    d, f = c["d_model"], c["mlp_hidden_size"]
    kv = d // c["n_heads"] * c["n_kv_heads"]
    shapes = {"wte": (c["embedding_size"], d), "ln_f": (d,), "ff_out": (c["embedding_size"], d)}
    for i in range(c["n_layers"]):
        block = dict(attn_norm=(d,), q_proj=(d, d), k_proj=(kv, d), v_proj=(kv, d), attn_out=(d, d), ff_norm=(d,),
                     ff_proj=(f, d), up_proj=(f, d), ff_out=(d, f))
        shapes.update({f"blocks.{i}.{name}": shape for name, shape in block.items()})
    weights = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            value = 1 + 0.2 * rng.standard_normal(shape)
        else:
            value = rng.standard_normal(shape) * (1 if name == "wte" else 1.5 / np.sqrt(shape[1]))
        weights[f"{PREFIX}{name}.weight"] = value.astype(np.float32).astype(np.float64)
    return weights


class Llada:
    def __init__(self, config, weights):
        self.c, self.weights = config, weights

    def matrix(self, name):
        return self.weights[f"{PREFIX}{name}.weight"].T

    def norm(self, x, name):
        scale = np.sqrt((x * x).mean(axis=1, keepdims=True) + self.c["rms_norm_eps"])
        return x / scale * self.weights[f"{PREFIX}{name}.weight"]

    def turn(self, heads):
        """Rotary positions as complex numbers: channel j is the real part, j + D/2 the imaginary one."""
        tokens, _, width = heads.shape
        steps = self.c["rope_theta"] ** (-np.arange(width // 2) * 2.0 / width)
        turns = np.exp(1j * np.arange(tokens)[:, None] * steps)[:, None, :]
        turned = (heads[..., : width // 2] + 1j * heads[..., width // 2:]) * turns
        return np.concatenate([turned.real, turned.imag], axis=-1)

    def attention(self, x, block):
        tokens, heads, kv_heads = len(x), self.c["n_heads"], self.c["n_kv_heads"]
        width = self.c["d_model"] // heads
        q = self.turn((x @ self.matrix(block + "q_proj")).reshape(tokens, heads, width))
        k = self.turn((x @ self.matrix(block + "k_proj")).reshape(tokens, kv_heads, width))
        v = (x @ self.matrix(block + "v_proj")).reshape(tokens, kv_heads, width)
        k, v = (np.repeat(y, heads // kv_heads, axis=1) for y in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(width)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return np.einsum("hts,shd->thd", shares, v).reshape(tokens, -1) @ self.matrix(block + "attn_out")

    def forward(self, ids):
        """Logits of every token, and the input of every layer with what is behind the last norm."""
        x, hidden = self.weights[PREFIX + "wte.weight"][ids], []
        for i in range(self.c["n_layers"]):
            block = f"blocks.{i}."
            hidden.append(x)
            x = x + self.attention(self.norm(x, block + "attn_norm"), block)
            y = self.norm(x, block + "ff_norm")
            gate = y @ self.matrix(block + "ff_proj")
            gated = gate / (1 + np.exp(-gate)) * (y @ self.matrix(block + "up_proj"))
            x = x + gated @ self.matrix(block + "ff_out")
        hidden.append(self.norm(x, "ln_f"))
        return hidden[-1] @ self.matrix("ff_out"), hidden

    def generate(self, prompt, count):
        """The answer, and how far apart the closest two candidates were, in logits and in probabilities."""
        mask, length, steps = (self.c[k] for k in ("mask_token_id", "block_length", "block_steps"))
        ids, gap = list(prompt) + [mask] * count, np.inf
        for start in range(len(prompt), len(ids), length):
            block = range(start, min(start + length, len(ids)))
            quotas = [len(block) // steps + (s < len(block) % steps) for s in range(steps)]
            for quota in quotas:
                logits, _ = self.forward(np.array(ids))
                open_positions = [p for p in block if ids[p] == mask]
                sure = {}
                for p in open_positions:
                    row = np.exp(logits[p] - logits[p].max())
                    sure[p] = row.max() / row.sum()
                    first, second = np.sort(logits[p])[[-1, -2]]
                    gap = min(gap, first - second)
                ranked = sorted(open_positions, key=lambda p: -sure[p])
                if 0 < quota < len(ranked):
                    gap = min(gap, np.log(sure[ranked[quota - 1]] / sure[ranked[quota]]))
                for p in ranked[:quota]:
                    ids[p] = int(logits[p].argmax())
        assert mask not in ids, "a mask was chosen: take another seed"
        return ids[len(prompt):], gap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wide", action="store_const", dest="name", const="llada_wide", default="llada")
    parser.add_argument("--long", action="store_const", dest="name", const="llada_long")
    args = parser.parse_args()
    config, tokens = CASES[args.name]
    rng = np.random.default_rng(args.seed)
    model = Llada(config, make_weights(config, rng))
    ids = rng.integers(0, config["mask_token_id"], (2, tokens))
    ids[1, 15:21] = config["mask_token_id"]  # a text with holes
    runs = [model.forward(row) for row in ids]
    answer, gap = model.generate(ids[0], 16)
    assert gap > 1e-3, f"candidates are only {gap:.2g} apart: take another seed"
    tensors = {"in.input_ids": ids, "out.logits": np.stack([logits for logits, _ in runs]),
               "out.greedy": np.array([answer])}
    for i in range(config["n_layers"] + 1):
        tensors[f"mid.hidden.{i}"] = np.stack([hidden[i] for _, hidden in runs])
    note = ("numpy in float64 (test/golden/make/llada.py): logits of texts of which the second has masks; 16 tokens "
            "after row 0 by diffusion; mid.hidden.i is the input of layer i, the last one is after the final norm")
    write_case(f"{args.out}/{args.name}", config, model.weights, tensors, args.seed, note)
    print(f"{args.name}: the closest candidates are {gap:.3g} apart")


if __name__ == "__main__":
    main()
