#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes reference cases of TTT-E2E (https://arxiv.org/abs/2512.23675): a decoder which learns from the text that it reads.

The model is in torch and float64, from the paper and its release. The layers without a prime MLP see the whole text at once. The last
layers take it chunk by chunk, with the keys and values of a window, which turn by their places in window and chunk as in the release.
Gradients come from autograd, and the step is torch's clip_grad_norm_ and a plain descent. Nothing here shares code with the C++ sources.
"""
import json, math, zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from cases import command_line

CASES = {  # name: (configuration, texts, tokens of a text)
    # windows are shorter than chunks, the last chunk is short, all gradients are cut
    "ttt_e2e": (dict(hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4, suffix_len=2, vocab_size=97, mini_batch_size=16,
                     sliding_window_size=12, inner_lr=0.5, inner_clip_gradient=1.0, rms_norm_eps=1e-6, rope_theta=500000.0, tie_word_embeddings=True), 2, 43),
    # windows reach over several chunks, the last chunk is full, most gradients stay whole, a head of its own
    "ttt_e2e_wide": (dict(hidden_size=42, intermediate_size=28, num_hidden_layers=5, num_attention_heads=3, suffix_len=3, vocab_size=131, mini_batch_size=10,
                          sliding_window_size=25, inner_lr=0.1, inner_clip_gradient=5.0, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False), 2, 40),
}


def make_weights(c, seed):
    """Random weights of unit gain, which are bfloat16 numbers."""
    g = torch.Generator().manual_seed(seed)
    wide, mlp = c["hidden_size"], c["intermediate_size"]
    weights = {}

    def matrix(name, rows, columns, gain=1.0):
        weights[name + ".weight"] = (torch.randn(rows, columns, generator=g) * gain / columns**0.5).bfloat16().float()

    def scale(name, size):
        weights[name + ".weight"] = (1 + 0.2 * torch.randn(size, generator=g)).bfloat16().float()

    def gated(name):
        matrix(name + ".w1", mlp, wide)
        matrix(name + ".w3", mlp, wide)
        matrix(name + ".w2", wide, mlp)

    matrix("model.wte", c["vocab_size"], wide, wide**0.5 / 3)
    for i in range(c["num_hidden_layers"]):
        at = f"model.h.{i}."
        for norm in ("seq_norm", "seq_post_norm", "ffn_norm", "ffn_post_norm"):
            scale(at + norm, wide)
        for w in ("wq", "wk", "wv", "wo"):
            matrix(at + "seq_modeling_block." + w, wide, wide)
        for norm in ("q_norm", "k_norm"):
            scale(at + "seq_modeling_block." + norm, wide // c["num_attention_heads"])
        gated(at + "feed_forward")
        if i >= c["num_hidden_layers"] - c["suffix_len"]:
            scale(at + "ffn_prime_norm", wide)
            scale(at + "ffn_prime_post_norm", wide)
            gated(at + "feed_forward_prime")
    scale("model.ln_f", wide)
    if not c["tie_word_embeddings"]:
        matrix("lm_head", c["vocab_size"], wide, 1.5)
    return weights


class Reader:
    def __init__(self, config, weights):
        self.c = config
        self.w = {name: value.double() for name, value in weights.items()}
        self.heads = config["num_attention_heads"]
        self.first = config["num_hidden_layers"] - config["suffix_len"]

    def norm(self, x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.c["rms_norm_eps"]) * self.w[name + ".weight"]

    def turned(self, x, places):
        """x [tokens, heads, width], whose neighbouring channels turn as complex numbers."""
        width = x.shape[-1]
        angles = places[:, None].double() * self.c["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angles), angles)[:, None]
        return torch.view_as_real(pairs).flatten(-2)

    def project(self, x, at):
        q, k, v = ((x @ self.w[f"{at}.{w}.weight"].T).unflatten(-1, (self.heads, -1)) for w in ("wq", "wk", "wv"))
        return self.norm(q, at + ".q_norm"), self.norm(k, at + ".k_norm"), v

    def attend(self, q, k, v, seen, at):
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1])
        mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -math.inf).softmax(-1), v)
        return mixed.flatten(1) @ self.w[at + ".wo.weight"].T

    def whole_attention(self, x, at):
        places = torch.arange(len(x))
        q, k, v = self.project(x, at)
        far = places[:, None] - places
        return self.attend(self.turned(q, places), self.turned(k, places), v, (far >= 0) & (far < self.c["sliding_window_size"]), at)

    def chunk_attention(self, x, at, memory, first):
        """Attention of tokens [first, ...) over `memory`, which has keys and values of a window; its first ones may be none."""
        window, count = self.c["sliding_window_size"], len(x)
        q, k, v = self.project(x, at)
        k, v = torch.cat([memory[0], k]), torch.cat([memory[1], v])
        places = torch.arange(window + count)
        queries, keys = torch.arange(count)[:, None] + first, places - window + first
        seen = (queries >= keys) & (queries < keys + window) & (keys >= 0)
        out = self.attend(self.turned(q, places[-count:]), self.turned(k, places), v, seen, at)
        return out, (k[-window:].detach(), v[-window:].detach())

    def mlp(self, x, norms, matrices, at):
        x = self.norm(x, f"{at}.{norms}_norm")
        w1, w3, w2 = (matrices[w] for w in ("w1", "w3", "w2"))
        return self.norm((F.silu(x @ w1.T) * (x @ w3.T)) @ w2.T, f"{at}.{norms}_post_norm")

    def matrices(self, at):
        return {w: self.w[f"{at}.{w}.weight"] for w in ("w1", "w3", "w2")}

    def layer(self, x, i, attention, prime=None):
        at = f"model.h.{i}"
        x = x + self.norm(attention(self.norm(x, at + ".seq_norm"), at + ".seq_modeling_block"), at + ".seq_post_norm")
        if prime is not None:
            x = x + self.mlp(x, "ffn_prime", prime, at)
        return x + self.mlp(x, "ffn", self.matrices(at + ".feed_forward"), at)

    def read(self, tokens, learns=True):
        """Results of one text: the values before each layer, gradients of each chunk, log-probabilities."""
        c, seen = self.c, {}
        keep = lambda name, value: seen.setdefault(name, []).append(value.detach().clone())
        x = self.w["model.wte.weight"][tokens]
        for i in range(self.first):
            keep(f"mid.hidden.{i}", x)
            x = self.layer(x, i, self.whole_attention)
        size, head = c["mini_batch_size"], self.w["model.wte.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
        layers = range(self.first, c["num_hidden_layers"])
        primes = {i: self.matrices(f"model.h.{i}.feed_forward_prime") for i in layers}
        nothing = torch.zeros(c["sliding_window_size"], self.heads, c["hidden_size"] // self.heads, dtype=torch.float64)
        memories = {i: (nothing, nothing) for i in layers}
        for first in range(0, len(tokens), size):
            primes = {i: {w: m.detach().clone().requires_grad_() for w, m in p.items()} for i, p in primes.items()}
            y = x[first:first + size]
            for i in layers:
                keep(f"mid.hidden.{i}", y)

                def attention(v, at, i=i):
                    out, memories[i] = self.chunk_attention(v, at, memories[i], first)
                    return out

                y = self.layer(y, i, attention, primes[i])
            y = self.norm(y, "model.ln_f")
            keep(f"mid.hidden.{c['num_hidden_layers']}", y)
            targets = tokens[first + 1:first + size + 1]
            logprobs = (y @ head.T).log_softmax(-1)[:len(targets)].gather(-1, targets[:, None])
            keep("out.logprobs", logprobs)
            if first + size >= len(tokens):
                break
            (-logprobs.mean()).backward()
            for i, p in primes.items():
                keep(f"mid.grad.{i}.gate_up", torch.cat([p["w1"].grad, p["w3"].grad]))
                keep(f"mid.grad.{i}.down", p["w2"].grad)
            all_matrices = [m for p in primes.values() for m in p.values()]
            self.norms.append(float(torch.nn.utils.clip_grad_norm_(all_matrices, c["inner_clip_gradient"])))
            with torch.no_grad():
                for m in all_matrices:
                    m -= c["inner_lr"] * learns * m.grad
        return {name: torch.cat(values) for name, values in seen.items()}

    norms = []


def main():
    arguments = command_line(__doc__, CASES).parse_args()
    for name in arguments.names:
        sizes, texts, count = CASES[name]
        c = dict(architectures=["TTTE2EForCausalLM"], model_type="ttt_e2e", max_position_embeddings=256, prime=True, qk_norm=True, pre_norm=True,
                 post_norm=True, seq_modeling_block="SWA", inner_optimizer="sgd", torch_dtype="float32", **sizes)
        seed = zlib.crc32(name.encode())
        weights = make_weights(c, seed)
        # Texts repeat themselves, so that there is something to learn.
        ids = torch.randint(0, c["vocab_size"], (texts, count), generator=torch.Generator().manual_seed(seed + 1))
        ids[:, c["mini_batch_size"]:] = ids[:, :count - c["mini_batch_size"]].clone()
        reader = Reader(c, weights)
        reader.norms = []
        rows = [reader.read(row) for row in ids]
        norms = list(reader.norms)
        still = [reader.read(row, learns=False) for row in ids]
        golden = {"in.input_ids": ids} | {key: torch.stack([row[key] for row in rows]) for key in rows[0]}
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
        save_file(weights, folder / "model.safetensors", metadata=dict(format="pt"))
        save_file({key: (value.float() if value.is_floating_point() else value).contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
        case = dict(arch="ttt_e2e", made_by="test/golden/make/ttt_e2e.py", seed=seed, torch=torch.__version__.split("+")[0])
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
        learned = sum(float((a["out.logprobs"] - b["out.logprobs"]).abs().mean()) for a, b in zip(rows, still)) / texts
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, norms of gradients {', '.join(f'{v:.2f}' for v in norms)}; "
              f"log-probabilities {float(golden['out.logprobs'].mean()):.2f}, which learning moves by {learned:.3f}")


if __name__ == "__main__":
    main()
