#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The linear of this project's providers against torch's, in bfloat16: prints a JSON line per shape and number of rows.

The first of --provider that takes a case runs it, as in a model. A sample is one replay of a graph that calls the op on a few
weights, each its own, after the last cache was read over; sides take turns A B B A. The ratio (torch's time over ours) is a mean
over these blocks without the largest and smallest tenth, with its 99 % interval. `slower`: the interval lies below 1, and not
within 1 % of it. Exit 1 when a case is slower, or wrong against float32. Needs torch on a CUDA device.

  scripts/rivals/torch_linear.py PLUGINS [--provider cuda cublas] [--rows 1 2 4 ...] [--shape qkv o ...] [--blocks 12]
"""
import argparse
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/torch"))
import fk_plugin
from fk_torch import Op
from torch_race import captured, race, run, seconds

SHAPES = {"qkv": (4096, 6144), "o": (4096, 4096), "gate_up": (4096, 28672), "down": (14336, 4096), "lm_head": (4096, 128256)}
ENOUGH = 96 << 20  # bytes of weights per graph, so that a sample of small cases lasts


def ours(plugins, x, weights, k, n):
    """Calls of the first provider that takes the case, and its name."""
    why = []
    for name, plugin in plugins:
        try:
            ops = [Op(plugin["linear"], {"weight": w}, in_features=k, out_features=n) for w in weights]
            outs = [op(x=x) for op in ops]
            return name, [lambda op=op, out=out: op(x=x, out=out) for op, out in zip(ops, outs)], outs
        except fk_plugin.Refused as refused:
            why.append(f"{name}: {refused}")
    raise SystemExit("no provider takes it: " + "; ".join(why))


@torch.no_grad()
def measure(a, plugins, shape, m, flush):
    k, n = SHAPES[shape]
    count = max(1, min(8, ENOUGH // (2 * n * k)))
    weights = [torch.empty(n, k, device="cuda", dtype=torch.bfloat16).normal_(0, k**-0.5) for _ in range(count)]
    x = torch.randn(m, k, device="cuda").bfloat16()
    provider, calls, outs = ours(plugins, x, weights, k, n)
    theirs = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in weights]
    graphs = captured([lambda w=w, out=out: torch.mm(x, w.T, out=out) for w, out in zip(weights, theirs)]), captured(calls)
    for out in outs:
        out.fill_(float("nan"))
    for graph in graphs:
        seconds(graph, flush, count)
    rows = slice(0, min(m, 64))
    want = x[rows].float() @ weights[0].float().T
    error, torchs = (((o[0][rows].float() - want).norm() / want.norm()).item() for o in (outs, theirs))
    samples, ratio, half, verdict = race(graphs, flush, count, a.blocks)
    return {"case": f"{shape}_{m}", "provider": provider, "torch_us": round(statistics.median(samples[0]) * 1e6, 2),
            "us": round(statistics.median(samples[1]) * 1e6, 2), "GB/s": round(2 * (n * k + m * (n + k)) / statistics.median(samples[1]) * 1e-9),
            "ratio": round(ratio, 4), "half": round(half, 4), "verdict": verdict, "error": error, "torch_error": torchs}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plugins", type=pathlib.Path)
    p.add_argument("--provider", nargs="+", default=["cuda", "cublas"])
    p.add_argument("--rows", type=int, nargs="+", default=[1 << i for i in range(14)])
    p.add_argument("--shape", nargs="+", default=list(SHAPES), choices=SHAPES)
    p.add_argument("--blocks", type=int, default=12)
    a = p.parse_args()
    plugins = [(name, fk_plugin.Plugin(a.plugins / f"{name}.so")) for name in a.provider]
    sys.exit(run([(shape, m) for m in a.rows for shape in a.shape], lambda case, flush: measure(a, plugins, *case, flush)))


if __name__ == "__main__":
    main()
