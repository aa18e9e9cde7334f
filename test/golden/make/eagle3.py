#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Llama target with an EAGLE-3 draft in numpy, float64, from the papers (arXiv 2407.21783, 2503.01840) and the layout
of published drafts: writes reference cases.

Usage: eagle3.py OUT_DIR [--seed N] [--wide]
The greedy tokens are the target's alone, without a cache and without a draft. Of the draft there are its hidden states
over the prompts (position i has the target's hidden states of token i and the embedding of token i+1) and the logarithms of
the probabilities of its best guesses after the last of them. Its head is fitted to what the target writes, so that
guesses are often right and paths of all lengths are accepted.
"""
import argparse

import numpy as np
from safetensors_file import write_case

DRAFT = dict(architectures=["LlamaForCausalLM"], model_type="llama", num_hidden_layers=1, rms_norm_eps=1e-5,
             hidden_act="silu", tie_word_embeddings=False)
BASE = dict(architectures=["LlamaEagle3ForCausalLM"], model_type="llama_eagle3", rms_norm_eps=1e-5, hidden_act="silu",
            tie_word_embeddings=False, attention_bias=False, mlp_bias=False, bos_token_id=1, eos_token_id=2)
SMALL = dict(BASE, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, vocab_size=160, max_position_embeddings=128, rope_theta=500000.0,
             speculation=dict(depth=4, top_k=3, tokens=9),
             draft=dict(DRAFT, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
                        head_dim=32, vocab_size=160, draft_vocab_size=120, max_position_embeddings=64,
                        eagle_aux_hidden_state_layer_ids=[0, 1, 2]))
WIDE = dict(BASE, hidden_size=48, intermediate_size=72, num_hidden_layers=6, num_attention_heads=6,
            num_key_value_heads=3, head_dim=10, vocab_size=131, max_position_embeddings=96, rope_theta=10000.0,
            speculation=dict(depth=3, top_k=5, tokens=14),
            draft=dict(DRAFT, hidden_size=48, intermediate_size=60, num_attention_heads=4, num_key_value_heads=4,
                       head_dim=12, vocab_size=131, draft_vocab_size=77, max_position_embeddings=96,
                       rope_theta=20000.0))


def rounded(x):
    return x.astype(np.float32).astype(np.float64)


def norm(x, weight, eps=1e-5):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def turn(heads, theta):
    """Rotary positions as complex numbers: channel j is the real part, j + D/2 the imaginary one."""
    tokens, _, width = heads.shape
    steps = theta ** (-np.arange(width // 2) * 2.0 / width)
    turns = np.exp(1j * np.arange(tokens)[:, None] * steps)[:, None, :]
    turned = (heads[..., : width // 2] + 1j * heads[..., width // 2:]) * turns
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attention(x, w, path, c):
    tokens, heads, kv_heads, width = len(x), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    theta = c.get("rope_theta", 10000.0)
    q, k, v = ((x @ w[f"{path}{name}_proj.weight"].T).reshape(tokens, count, width)
               for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
    k, v = (np.repeat(y, heads // kv_heads, axis=1) for y in (turn(k, theta), v))
    scores = np.einsum("thd,shd->hts", turn(q, theta), k) / np.sqrt(width)
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.einsum("hts,shd->thd", shares, v).reshape(tokens, -1) @ w[path + "o_proj.weight"].T


def mlp(x, w, path):
    gate = x @ w[path + "gate_proj.weight"].T
    return gate / (1 + np.exp(-gate)) * (x @ w[path + "up_proj.weight"].T) @ w[path + "down_proj.weight"].T


def make_weights(c, rng):
    d, draft = c["hidden_size"], c["draft"]

    def layer(path, c, wide):
        q, kv = (c["head_dim"] * c[k] for k in ("num_attention_heads", "num_key_value_heads"))
        f = c["intermediate_size"]
        return {f"{path}self_attn.q_proj": (q, wide), f"{path}self_attn.k_proj": (kv, wide),
                f"{path}self_attn.v_proj": (kv, wide), f"{path}self_attn.o_proj": (d, q),
                f"{path}mlp.gate_proj": (f, d), f"{path}mlp.up_proj": (f, d), f"{path}mlp.down_proj": (d, f),
                f"{path}input_layernorm": (d,), f"{path}post_attention_layernorm": (d,)}

    shapes = {"model.embed_tokens": (c["vocab_size"], d), "model.norm": (d,), "lm_head": (c["vocab_size"], d),
              "draft.fc": (d, 3 * d), "draft.norm": (d,), "draft.midlayer.hidden_norm": (d,)}
    for i in range(c["num_hidden_layers"]):
        shapes.update(layer(f"model.layers.{i}.", c, d))
    shapes.update(layer("draft.midlayer.", draft, 2 * d))
    weights = {}
    for name, shape in shapes.items():
        gain = 0.2 if name.startswith("model.layers") and name.endswith(("o_proj", "down_proj")) else 1.5
        scale = 1 if len(shape) == 1 or name == "model.embed_tokens" else gain / np.sqrt(shape[1])
        value = rng.standard_normal(shape)
        weights[name + ".weight"] = rounded(1 + 0.2 * value if len(shape) == 1 else value * scale)
    # Queries that are much like the keys: the draft looks at the newest tokens most.
    path = "draft.midlayer.self_attn."
    group = draft["num_attention_heads"] // draft["num_key_value_heads"]
    keys = weights[path + "k_proj.weight"].reshape(-1, draft["head_dim"], 2 * d)
    own = weights[path + "q_proj.weight"]
    weights[path + "q_proj.weight"] = rounded(np.repeat(keys, group, axis=0).reshape(own.shape) + 0.2 * own)
    kept = np.sort(rng.permutation(c["vocab_size"])[: draft["draft_vocab_size"]])
    weights["draft.d2t"] = kept - np.arange(len(kept))
    return weights


class Pair:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        layers = config["num_hidden_layers"]
        wanted = config["draft"].get("eagle_aux_hidden_state_layer_ids", [2, layers // 2, layers - 3])
        self.aux_layers = sorted(wanted)

    def target(self, ids):
        """Logits of every token, the input of every layer with what is behind the last norm."""
        x, hidden = self.w["model.embed_tokens.weight"][ids], []
        for i in range(self.c["num_hidden_layers"]):
            path = f"model.layers.{i}."
            hidden.append(x)
            x = x + attention(norm(x, self.w[path + "input_layernorm.weight"]), self.w, path + "self_attn.", self.c)
            x = x + mlp(norm(x, self.w[path + "post_attention_layernorm.weight"]), self.w, path + "mlp.")
        hidden.append(norm(x, self.w["model.norm.weight"]))
        return hidden[-1] @ self.w["lm_head.weight"].T, hidden

    def draft(self, ids, hidden):
        """The draft's hidden states of all positions but the last, whose next token is not known."""
        aux = np.concatenate([hidden[i] for i in self.aux_layers], axis=-1)[:-1]
        h, path = aux @ self.w["draft.fc.weight"].T, "draft.midlayer."
        embeds = norm(self.w["model.embed_tokens.weight"][ids[1:]], self.w[path + "input_layernorm.weight"])
        both = np.concatenate([embeds, norm(h, self.w[path + "hidden_norm.weight"])], axis=-1)
        h = h + attention(both, self.w, path + "self_attn.", self.c["draft"])
        return h + mlp(norm(h, self.w[path + "post_attention_layernorm.weight"]), self.w, path + "mlp.")

    def greedy(self, prompt, count):
        ids, gap = list(prompt), np.inf
        for _ in range(count):
            logits = self.target(np.array(ids))[0][-1]
            first, second = np.sort(logits)[[-1, -2]]
            gap = min(gap, first - second)
            ids.append(int(logits.argmax()))
        return ids[len(prompt):], gap

    def fit_head(self, rng, texts=160, length=32):
        """The head that comes closest to the target's logits of the reduced vocabulary, by least squares."""
        kept = np.arange(len(self.w["draft.d2t"])) + self.w["draft.d2t"]
        inputs, wanted = [], []
        for text in range(texts):
            ids = rng.integers(0, self.c["vocab_size"], 4 if text % 4 == 0 else length)
            if text % 4 == 0:
                ids = np.concatenate([ids, self.greedy(ids, length)[0]])
            logits, hidden = self.target(ids)
            inputs.append(norm(self.draft(ids, hidden), self.w["draft.norm.weight"]))
            wanted.append(logits[1:, kept])
        x, y = np.concatenate(inputs), np.concatenate(wanted)
        head = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y).T
        self.w["draft.lm_head.weight"] = rounded(head)
        guessed = (x @ head.T).argmax(axis=1) == y.argmax(axis=1)
        return guessed.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wide", action="store_true")
    args = parser.parse_args()
    config = WIDE if args.wide else SMALL
    rng = np.random.default_rng(args.seed)
    pair = Pair(config, make_weights(config, rng))
    right = pair.fit_head(rng)
    ids = rng.integers(0, config["vocab_size"], (3, 20))
    runs = [pair.target(row) for row in ids]
    answers = [pair.greedy(row, 24) for row in ids]
    gap = min(gap for _, gap in answers)
    assert gap > 2e-3, f"two tokens are only {gap:.2g} apart: take another seed"
    drafts = [pair.draft(row, hidden) for row, (_, hidden) in zip(ids, runs)]
    guesses = []
    for hidden in drafts:
        logits = norm(hidden[-1], pair.w["draft.norm.weight"]) @ pair.w["draft.lm_head.weight"].T
        sure = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        guesses.append(np.sort(sure)[::-1][: config["speculation"]["top_k"]])
    tensors = {"in.input_ids": ids, "out.logits": np.stack([logits for logits, _ in runs]),
               "out.greedy": np.array([answer for answer, _ in answers]), "out.draft_hidden": np.stack(drafts),
               "out.draft_logprobs": np.stack(guesses)}
    for i in range(config["num_hidden_layers"] + 1):
        tensors[f"mid.hidden.{i}"] = np.stack([hidden[i] for _, hidden in runs])
    name = "llama_eagle3_wide" if args.wide else "llama_eagle3"
    note = ("numpy in float64 (test/golden/make/eagle3.py): logits, hidden states and greedy tokens of the target "
            "alone; draft_hidden and draft_logprobs of the draft over the prompts, whose first guess is right in "
            f"{100 * right:.0f} of 100 places that its head was fitted to")
    write_case(f"{args.out}/{name}", config, pair.w, tensors, args.seed, note)
    print(f"{name}: the closest tokens are {gap:.3g} apart; first guesses right: {100 * right:.0f} %")


if __name__ == "__main__":
    main()
