#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mamba 2 in numpy, float64, from the paper (arXiv 2405.21060): writes a reference case with unusual sizes.

Usage: mamba2.py OUT_DIR [--seed N]
The mixer is computed in its dual form, as masked attention over the whole text: token s counts for token t with
c_t . b_s times the decay between them. There is no recurrence, no state and no chunk in here.
"""
import argparse

import numpy as np
from safetensors_file import write_case

# Three groups of two heads, three taps without bias, projections with bias, a tied head, bounded steps.
CONFIG = dict(architectures=["Mamba2ForCausalLM"], model_type="mamba2", hidden_size=48, num_hidden_layers=3, expand=2,
              num_heads=6, head_dim=16, n_groups=3, state_size=10, conv_kernel=3, chunk_size=7, vocab_size=250,
              hidden_act="silu", layer_norm_epsilon=1e-5, use_bias=True, use_conv_bias=False, residual_in_fp32=False,
              tie_word_embeddings=True, time_step_limit=[0.02, 0.5], bos_token_id=0, eos_token_id=249, pad_token_id=0)
PREFIX = "backbone."


def make_weights(c, rng):
    d, inner, heads = c["hidden_size"], c["num_heads"] * c["head_dim"], c["num_heads"]
    conv = inner + 2 * c["n_groups"] * c["state_size"]
    weights = {"embeddings.weight": rng.standard_normal((c["vocab_size"], d)), "norm_f.weight": None}
    for i in range(c["num_hidden_layers"]):
        at = f"layers.{i}."
        weights[at + "norm.weight"] = None
        weights[at + "mixer.in_proj.weight"] = 1.5 / np.sqrt(d) * rng.standard_normal((inner + conv + heads, d))
        weights[at + "mixer.in_proj.bias"] = 0.2 * rng.standard_normal(inner + conv + heads)
        weights[at + "mixer.conv1d.weight"] = 0.7 * rng.standard_normal((conv, 1, c["conv_kernel"]))
        weights[at + "mixer.A_log"] = np.log(rng.uniform(0.5, 8, heads))
        weights[at + "mixer.D"] = 1 + 0.2 * rng.standard_normal(heads)
        weights[at + "mixer.dt_bias"] = rng.uniform(-4, 0, heads)
        weights[at + "mixer.norm.weight"] = np.zeros(inner)
        weights[at + "mixer.out_proj.weight"] = 1.5 / np.sqrt(inner) * rng.standard_normal((d, inner))
        weights[at + "mixer.out_proj.bias"] = 0.2 * rng.standard_normal(d)
    for name, value in weights.items():
        if name.endswith(("norm.weight", "norm_f.weight")):
            value = 1 + 0.2 * rng.standard_normal(d if value is None else value.shape)
        weights[name] = value.astype(np.float32).astype(np.float64)
    return {PREFIX + name: value for name, value in weights.items()}


def silu(x):
    return x / (1 + np.exp(-x))


class Mamba2:
    def __init__(self, config, weights):
        self.c, self.weights = config, weights

    def norm(self, x, name, groups=1):
        """Every group of channels has a mean square of its own."""
        parts = x.reshape(len(x), groups, -1)
        scale = np.sqrt((parts * parts).mean(axis=2, keepdims=True) + self.c["layer_norm_epsilon"])
        return (parts / scale).reshape(x.shape) * self.weights[name + ".weight"]

    def project(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def mixer(self, x, at):
        c, tokens = self.c, len(x)
        heads, width, groups, size = c["num_heads"], c["head_dim"], c["n_groups"], c["state_size"]
        inner, taps = heads * width, c["conv_kernel"]
        z, xbc, dt = np.split(self.project(x, at + "in_proj"), [inner, 2 * inner + 2 * groups * size], axis=1)
        padded = np.concatenate([np.zeros((taps - 1, xbc.shape[1])), xbc])
        kernel = self.weights[at + "conv1d.weight"][:, 0].T
        xbc = silu(sum(padded[u:u + tokens] * kernel[u] for u in range(taps)))
        v, b, k = np.split(xbc, [inner, inner + groups * size], axis=1)
        v = v.reshape(tokens, heads, width)
        b, k = (np.repeat(y.reshape(tokens, groups, size), heads // groups, axis=1) for y in (b, k))
        step = np.clip(np.log1p(np.exp(dt + self.weights[at + "dt_bias"])), *c["time_step_limit"])
        total = np.cumsum(-np.exp(self.weights[at + "A_log"]) * step, axis=0)
        decay = np.exp(np.tril(total.T[:, :, None] - total.T[:, None, :])) * np.tri(tokens)  # [H, t, s]
        scores = np.einsum("thn,shn->hts", k, b) * decay * step.T[:, None, :]
        y = np.einsum("hts,shd->thd", scores, v) + self.weights[at + "D"][:, None] * v
        gated = y.reshape(tokens, inner) * silu(z)
        return self.project(self.norm(gated, at + "norm", groups), at + "out_proj")

    def forward(self, ids):
        """Logits of every token; the output of every layer, the last one after the final norm."""
        table = self.weights[PREFIX + "embeddings.weight"]
        x, hidden = table[ids], []
        for i in range(self.c["num_hidden_layers"]):
            at = f"{PREFIX}layers.{i}."
            x = x + self.mixer(self.norm(x, at + "norm"), at + "mixer.")
            hidden.append(x)
        x = self.norm(x, PREFIX + "norm_f")
        return x @ table.T, hidden + [x]

    def generate(self, prompt, count):
        """Greedy tokens, and how close the two best candidates came."""
        ids, gap = list(prompt), np.inf
        for _ in range(count):
            row = self.forward(np.array(ids))[0][-1]
            second, first = np.sort(row)[-2:]
            gap = min(gap, first - second)
            ids.append(int(row.argmax()))
        return ids[len(prompt):], gap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    model = Mamba2(CONFIG, make_weights(CONFIG, rng))
    ids = rng.integers(1, CONFIG["vocab_size"] - 1, (2, 24))
    runs = [model.forward(row) for row in ids]
    answer, gap = model.generate(ids[0], 12)
    assert gap > 1e-2, f"candidates are only {gap:.2g} apart: take another seed"
    tensors = {"in.input_ids": ids, "out.logits": np.stack([logits for logits, _ in runs]),
               "out.greedy": np.array([answer])}
    for i in range(CONFIG["num_hidden_layers"] + 1):
        tensors[f"mid.hidden.{i}"] = np.stack([hidden[i] for _, hidden in runs])
    note = ("numpy in float64 (test/golden/make/mamba2.py): logits of a prefill; greedy continuation of row 0; mid.hidden.i "
            "is the output of layer i, the last one is after the final norm")
    write_case(f"{args.out}/mamba2_wide", CONFIG, model.weights, tensors, args.seed, note)
    print(f"mamba2_wide: the closest candidates are {gap:.3g} apart")


if __name__ == "__main__":
    main()
