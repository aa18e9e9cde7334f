#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rank_providers_test.py FOLDER: what scripts/gpu/rank_providers.py makes of times."""
import sys

sys.path.insert(0, sys.argv[1])
from rank_providers import ranking_of, text_of

rows = lambda times: [{"case": case, "provider": provider, "cold_s": s, "why": ""} for (case, provider), s in times.items()]
# By the geometric mean of the times over the best one's; who takes fewer cases stands behind.
entry, lost = ranking_of("linear", rows({("a", "x"): 1.0, ("a", "y"): 2.0, ("b", "x"): 1.1, ("b", "y"): 1.0, ("a", "quick"): 0.9}))
assert entry == ["x", "y", "quick"], entry
assert [(case, best) for case, best, _ in lost] == [("a", "quick"), ("b", "y")] and abs(lost[1][2] - 1.1) < 1e-9, lost
# Oracles, what is refused and what has no time are not ranked.
assert ranking_of("linear", [{"case": "a", "provider": "cuda_reference", "cold_s": 1.0}, {"case": "a", "provider": "x", "why": "refused: no", "cold_s": 0}]) == (None, [])
# Sizes stand apart where the best one differs and that saves something, and only there.
axes = {"prefill_1k": {"T": 1024, "B": 1}, "prefill_4k": {"T": 4096, "B": 1}, "decode": {"T": 64, "B": 1}}
sized = lambda times: [dict(r, axes=axes[r["case"]]) for r in rows(times)]
times = {("prefill_1k", "x"): 1.0, ("prefill_1k", "y"): 2.0, ("prefill_4k", "x"): 1.0, ("prefill_4k", "y"): 2.0, ("decode", "x"): 2.0, ("decode", "y"): 1.0}
entry, lost = ranking_of("paged_attention", sized(times))
assert not lost and text_of("paged_attention", entry) == '  paged_attention:\n    - {where: {"T": {at_least: 256}}, providers: [x, y]}\n    - [y, x]', (entry, lost)
entry, lost = ranking_of("paged_attention", sized({**times, ("decode", "y"): 1.99}))
assert entry == ["x", "y"] and [case for case, _, _ in lost] == ["decode"], (entry, lost)
assert ranking_of("paged_attention", sized({**times, ("decode", "y"): 3.0})) == (["x", "y"], [])
# Requests of one token apart from those of many, though there are as many tokens.
axes["decode"] = {"T": 2048, "B": 2048}
entry, lost = ranking_of("paged_attention", sized(times))
assert not lost and entry[0][0].startswith('{where: {"B": {at_least:') and entry[0][1] == ["y", "x"], entry
print("ranked")
