#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speaks as scripts/judge/torch_judge.py does, for machines without torch: a launch takes 10 us, and whatever is no known kernel is right and
twice as fast. What the script around it makes of that is known, so it can be tested; of a judge it says nothing."""
import argparse, json, pathlib, re

parser = argparse.ArgumentParser()
for name in ("candidate", "baseline"):
    parser.add_argument(name, type=pathlib.Path)
for name in ("--rows", "--width", "--dtype", "--timing", "--device"):
    parser.add_argument(name)
options = parser.parse_args()
launches = [re.fullmatch(r"known_(\d+)", file.stem) for file in (options.candidate, options.baseline)]
mine, theirs = (1e-5 * int(found[1]) for found in launches) if all(launches) else (1e-5, 2e-5)
print(json.dumps({"correct": True, "candidate_s": mine, "baseline_s": theirs, "ratio": theirs / mine}))
