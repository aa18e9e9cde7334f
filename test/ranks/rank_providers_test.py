#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rank_providers_test.py SCRIPTS: what scripts/rank_providers.py makes of times."""
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
# Phases stand apart where their order differs, and only there.
times = {("prefill_1k", "x"): 1.0, ("prefill_1k", "y"): 2.0, ("decode", "x"): 2.0, ("decode", "y"): 1.0}
entry, lost = ranking_of("paged_attention", rows(times))
assert entry == {"prefill": ["x", "y"], "decode": ["y", "x"]} and not lost, (entry, lost)
assert text_of("paged_attention", entry) == "  paged_attention: {prefill: [x, y], decode: [y, x]}"
assert ranking_of("paged_attention", rows({**times, ("decode", "y"): 3.0}))[0] == ["x", "y"]
print("ranked")
