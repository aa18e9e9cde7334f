#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whisper in numpy, float64, from the paper (arXiv 2212.04356): writes a reference case with unusual sizes.

Usage: whisper.py OUT_DIR [--seed N]
       whisper.py --against DIR      computes the answers of a case that another library made, and compares
Every convolution is a sum over its taps, every decoder step sees the whole text: there is no cache and no chunk in here.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
from safetensors_file import load, write_case

# Stacks of different depths, heads and widths, odd numbers of places and words, a head of its own.
CONFIG = dict(architectures=["WhisperForConditionalGeneration"], model_type="whisper", is_encoder_decoder=True, d_model=15,
              num_hidden_layers=3, encoder_layers=3, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=5,
              encoder_ffn_dim=28, decoder_ffn_dim=40, num_mel_bins=11, max_source_positions=15, max_target_positions=31,
              vocab_size=61, activation_function="gelu", scale_embedding=False, tie_word_embeddings=False,
              bos_token_id=1, decoder_start_token_id=1, eos_token_id=60, pad_token_id=0)
erf = np.vectorize(math.erf, otypes=[float])


def make_weights(c, rng):
    d, weights = c["d_model"], {}

    def matrix(name, *shape):
        weights[name + ".weight"] = 1.4 / np.sqrt(np.prod(shape[1:])) * rng.standard_normal(shape)
        if not name.endswith("k_proj"):
            weights[name + ".bias"] = 0.1 * rng.standard_normal(shape[0])

    def norm(name):
        weights[name + ".weight"] = 1 + 0.2 * rng.standard_normal(d)
        weights[name + ".bias"] = 0.1 * rng.standard_normal(d)

    matrix("encoder.conv1", d, c["num_mel_bins"], 3)
    matrix("encoder.conv2", d, d, 3)
    weights["encoder.embed_positions.weight"] = rng.standard_normal((c["max_source_positions"], d))
    weights["decoder.embed_positions.weight"] = rng.standard_normal((c["max_target_positions"], d))
    weights["decoder.embed_tokens.weight"] = rng.standard_normal((c["vocab_size"], d))
    for stack in ("encoder", "decoder"):
        for i in range(c[stack + "_layers"]):
            at = f"{stack}.layers.{i}."
            for attention in ("self_attn", "encoder_attn")[:1 if stack == "encoder" else 2]:
                norm(at + attention + "_layer_norm")
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    matrix(f"{at}{attention}.{part}", d, d)
            norm(at + "final_layer_norm")
            matrix(at + "fc1", c[stack + "_ffn_dim"], d)
            matrix(at + "fc2", d, c[stack + "_ffn_dim"])
        norm(stack + ".layer_norm")
    weights = {"model." + name: value for name, value in weights.items()}
    weights["proj_out.weight"] = 1 / np.sqrt(d) * rng.standard_normal((c["vocab_size"], d))
    return {name: value.astype(np.float32).astype(np.float64) for name, value in weights.items()}


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


class Whisper:
    def __init__(self, config, weights):
        self.c = config
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}

    def norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        x = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
        return x * self.weights[f"model.{name}.weight"] + self.weights[f"model.{name}.bias"]

    def project(self, x, name):
        return x @ self.weights[f"model.{name}.weight"].T + self.weights.get(f"model.{name}.bias", 0)

    def convolve(self, x, name, stride):
        """gelu of a convolution over time, three taps, x [frames, in]."""
        kernel, frames = self.weights[f"model.{name}.weight"], len(x)
        padded = np.concatenate([np.zeros((1, x.shape[1])), x, np.zeros((1, x.shape[1]))])
        taps = [padded[u:u + frames:stride] @ kernel[:, :, u].T for u in range(3)]
        return gelu(sum(taps) + self.weights[f"model.{name}.bias"])

    def attend(self, x, seen, at, heads, causal):
        width = x.shape[1] // heads
        q, k, v = (self.project(y, at + part).reshape(len(y), heads, width)
                   for y, part in ((x, "q_proj"), (seen, "k_proj"), (seen, "v_proj")))
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(width)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        return self.project(np.einsum("hqk,khd->qhd", scores, v).reshape(x.shape), at + "out_proj")

    def layers(self, x, stack, sound=None):
        """The inputs of all layers, and the output after the last norm."""
        heads, hidden = self.c[stack + "_attention_heads"], []
        for i in range(self.c[stack + "_layers"]):
            hidden.append(x)
            at = f"{stack}.layers.{i}."
            y = self.norm(x, at + "self_attn_layer_norm")
            x = x + self.attend(y, y, at + "self_attn.", heads, sound is not None)
            if sound is not None:
                y = self.norm(x, at + "encoder_attn_layer_norm")
                x = x + self.attend(y, sound, at + "encoder_attn.", heads, False)
            y = gelu(self.project(self.norm(x, at + "final_layer_norm"), at + "fc1"))
            x = x + self.project(y, at + "fc2")
        return hidden + [self.norm(x, stack + ".layer_norm")]

    def encode(self, features):
        x = self.convolve(self.convolve(features.T, "encoder.conv1", 1), "encoder.conv2", 2)
        return self.layers(x + self.weights["model.encoder.embed_positions.weight"], "encoder")

    def decode(self, ids, sound):
        table = self.weights["model.decoder.embed_tokens.weight"]
        x = table[ids] + self.weights["model.decoder.embed_positions.weight"][:len(ids)]
        hidden = self.layers(x, "decoder", sound)
        return hidden[-1] @ self.weights.get("proj_out.weight", table).T, hidden

    def generate(self, prompt, sound, count):
        """Greedy tokens, and how close the two best candidates came."""
        ids, gap = list(prompt), np.inf
        for _ in range(count):
            row = self.decode(np.array(ids), sound)[0][-1]
            second, first = np.sort(row)[-2:]
            gap = min(gap, first - second)
            ids.append(int(row.argmax()))
        return ids[len(prompt):], gap


def answers(model, features, ids):
    sounds = [model.encode(row) for row in features.astype(np.float64)]
    texts = [model.decode(row, sound[-1]) for row, sound in zip(ids, sounds)]
    tensors = {"in.input_features": features, "in.decoder_input_ids": ids,
               "out.logits": np.stack([logits for logits, _ in texts]),
               "out.encoder_last_hidden_state": np.stack([sound[-1] for sound in sounds])}
    for i in range(len(sounds[0])):
        tensors[f"out.encoder_hidden_states.{i}"] = np.stack([sound[i] for sound in sounds])
    for i in range(len(texts[0][1])):
        tensors[f"out.decoder_hidden_states.{i}"] = np.stack([hidden[i] for _, hidden in texts])
    return tensors, sounds


def compare(folder):
    """The exit status: 0 when every answer of the case is within 1e-5 of its spread."""
    folder = pathlib.Path(folder)
    case = load(folder / "golden.safetensors")
    model = Whisper(json.loads((folder / "config.json").read_text()), load(folder / "model.safetensors"))
    mine, _ = answers(model, case["in.input_features"], case["in.decoder_input_ids"])
    worst = 0
    for name, theirs in case.items():
        if name.startswith("in.") or name == "out.greedy":
            continue
        error = np.abs(mine[name] - theirs).max() / theirs.std()
        worst = max(worst, error)
        print(f"{name:32} {error:.2e}")
    return 0 if worst < 1e-5 else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--against", metavar="DIR")
    args = parser.parse_args()
    if args.against:
        return compare(args.against)
    if not args.out:
        parser.error("OUT_DIR or --against DIR is needed")
    rng = np.random.default_rng(args.seed)
    model = Whisper(CONFIG, make_weights(CONFIG, rng))
    features = rng.standard_normal((2, CONFIG["num_mel_bins"], 2 * CONFIG["max_source_positions"])).astype(np.float32)
    tensors, sounds = answers(model, features, rng.integers(2, CONFIG["vocab_size"] - 1, (2, 13)))
    answer, gap = model.generate(tensors["in.decoder_input_ids"][0], sounds[0][-1], 12)
    assert gap > 1e-2, f"candidates are only {gap:.2g} apart: take another seed"
    tensors["out.greedy"] = np.array([answer])
    note = "numpy in float64 (test/golden/make/whisper.py): logits of a prefill; greedy continuation of row 0"
    write_case(f"{args.out}/whisper_wide", CONFIG, model.weights, tensors, args.seed, note)
    print(f"whisper_wide: the closest candidates are {gap:.3g} apart")
    return 0


if __name__ == "__main__":
    sys.exit(main())
