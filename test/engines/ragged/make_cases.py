#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_cases.py: writes the reference cases of the model of images in texts (model.cpp), computed in float64 by numpy.

Requests have unequal numbers of patches: in.patches is padded, in.patches.rows counts."""
import json, pathlib, sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "golden/make"))
from safetensors_file import save  # noqa: E402

VOCABULARY, WIDTH, PATCH, ROWS, PLACEHOLDER = 40, 8, 3, 6, 7


def logits_of(weights, ids, rows):
    """All logits of a text whose placeholders stand for rows."""
    x = weights["words.weight"][ids]
    x[np.flatnonzero(ids == PLACEHOLDER)[: len(rows)]] = rows
    scores = x @ x.T / np.sqrt(WIDTH)
    scores[np.triu_indices(len(ids), 1)] = -np.inf
    shares = np.exp(scores - scores.max(1, keepdims=True))
    x = x + shares / shares.sum(1, keepdims=True) @ x
    return x @ weights["head.weight"].T


def write(name, multiple, counts, lengths, new=5):
    random = np.random.default_rng(len(name))
    weights = {"vision.weight": random.normal(size=(WIDTH, multiple * PATCH)), "words.weight": random.normal(size=(VOCABULARY, WIDTH)),
               "head.weight": random.normal(size=(VOCABULARY, WIDTH))}
    weights = {key: value.astype(np.float32).astype(np.float64) for key, value in weights.items()}
    count, most, longest = len(counts), max(counts), max(lengths)
    patches = np.zeros((count, most, PATCH))
    ids, mask = np.zeros((count, longest), int), np.zeros((count, longest), int)
    hidden = np.zeros((count, most // multiple, WIDTH))
    logits, greedy = np.zeros((count, longest, VOCABULARY)), np.zeros((count, new), int)
    for b, (rows, length) in enumerate(zip(counts, lengths)):
        patches[b, :rows] = random.normal(size=(rows, PATCH)).astype(np.float32)
        text = random.integers(PLACEHOLDER + 1, VOCABULARY, length)
        text[1 : 1 + rows // multiple] = PLACEHOLDER
        ids[b, :length], mask[b, :length] = text, 1
        seen = patches[b, :rows].reshape(-1, multiple * PATCH) @ weights["vision.weight"].T
        hidden[b, : len(seen)] = seen
        logits[b, :length] = logits_of(weights, text, seen)
        for t in range(new):
            greedy[b, t] = logits_of(weights, text, seen)[-1].argmax()
            text = np.append(text, greedy[b, t])
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["ToySeeing"], "multiple": multiple}) + "\n")
    save(folder / "model.safetensors", weights)
    save(folder / "golden.safetensors", {"in.input_ids": ids, "in.attention_mask": mask, "in.patches": patches, "in.patches.rows": np.array(counts),
                                         "mid.encoder_hidden.0": hidden, "out.logits": logits, "out.greedy": greedy})


write("patches", 1, [6, 1, 3, 4], [13, 5, 9, 11])
write("joined", 2, [4, 12, 2], [7, 12, 6])
