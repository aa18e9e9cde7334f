#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes scenarios/workloads/lengths_*.csv: synthetic request lengths.

No prompts of users are part of this project, and none were measured for it: the numbers are drawn
from log-normal distributions (clipped) whose medians and spreads are stated in each file. Running
this again writes the same files.
"""
import math
import pathlib
import random

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "scenarios" / "workloads"

# name: (what it stands for, rows, seed, prompt, output), each (median, sigma, least, most) or None.
SETS = {
    "mixed": ("chat requests of all lengths", 1000, 1, (180, 1.3, 4, 8192), (300, 0.9, 4, 2048)),
    "long_context": ("questions about long documents", 64, 2, (24000, 0.8, 8192, 130000),
                     (128, 0.8, 16, 1024)),
    "passages": ("passages of a web search", 1000, 3, (72, 0.4, 16, 300), None),
    "documents": ("long documents", 1000, 4, (3500, 0.8, 200, 8192), None),
}


def draw(rng, shape):
    if shape is None:
        return 0
    median, sigma, least, most = shape
    return min(most, max(least, round(math.exp(rng.normalvariate(math.log(median), sigma)))))


def words(shape):
    if shape is None:
        return "0"
    median, sigma, least, most = shape
    return f"log-normal, median {median}, sigma {sigma}, clipped to {least}..{most}"


def main():
    for name, (meaning, rows, seed, prompt, output) in SETS.items():
        rng = random.Random(seed)
        lines = [f"# Synthetic lengths: {meaning}. Written by scripts/data/make_lengths.py, seed {seed}.",
                 f"# prompt_tokens: {words(prompt)}",
                 f"# output_tokens: {words(output)}",
                 "prompt_tokens,output_tokens"]
        lines += [f"{draw(rng, prompt)},{draw(rng, output)}" for _ in range(rows)]
        (FOLDER / f"lengths_{name}.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
