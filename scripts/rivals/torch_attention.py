#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Causal attention of a prefill by this project's providers against torch's scaled_dot_product_attention on cuDNN, in bfloat16:
prints a JSON line per number of tokens. One request, 32 query and 8 key/value heads of 128, dense rows on both sides.

The first of --provider that takes a case runs it, as in a model (attention_varlen in registry/devices). Samples and ratio are those of
torch_race.py, of --calls calls in a graph. Exit 1 when a case is slower, or wrong against float32. Needs torch on a CUDA device.

  scripts/rivals/torch_attention.py PLUGINS [--provider cuda cudnn flashinfer] [--tokens 1024 4096 16384] [--blocks 12] [--calls 1]
"""
import argparse
import pathlib
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/torch"))
import fk_plugin
from fk_torch import Op
from torch_race import captured, race, run, seconds

HEADS, KV, DIM = 32, 8, 128
SCALE = DIM**-0.5


def torchs(q, k, v):
    """Rows [tokens, heads, width], as those of ours."""
    heads = [t.transpose(0, 1).unsqueeze(0) for t in (q, k, v)]
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True, scale=SCALE, enable_gqa=True)


def ours(plugins, fields):
    """A call of the first provider that takes the case, its name and where its answer is."""
    why = []
    for name, plugin in plugins:
        try:
            op = Op(plugin["attention_varlen"], num_heads=HEADS, num_kv_heads=KV, head_dim=DIM, scale=SCALE, causal=True)
            out = op(**fields)
            return name, lambda: op(**fields, out=out), out
        except fk_plugin.Refused as refused:
            why.append(f"{name}: {refused}")
    raise SystemExit("no provider takes it: " + "; ".join(why))


def exact(q, k, v, rows):
    """The last `rows` rows in float32."""
    tokens = q.shape[0]
    k, v = (t.float().repeat_interleave(HEADS // KV, dim=1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q[-rows:].float(), k) * SCALE
    last = torch.arange(tokens - rows, tokens, device=q.device)
    scores.masked_fill_(torch.arange(tokens, device=q.device)[None, None, :] > last[None, :, None], float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


@torch.no_grad()
def measure(a, plugins, tokens, flush):
    q, k, v = (torch.randn(tokens, heads, DIM, device="cuda").bfloat16() for heads in (HEADS, KV, KV))
    starts = torch.tensor([0, tokens], device="cuda", dtype=torch.int32)
    fields = dict(q=q, k=k, v=v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_query_len=tokens, max_key_len=tokens)
    provider, call, out = ours(plugins, fields)
    theirs = torchs(q, k, v)
    graphs = captured([lambda: torchs(q, k, v)] * a.calls), captured([call] * a.calls)
    out.fill_(float("nan"))
    for graph in graphs:
        seconds(graph, flush, a.calls)
    want = exact(q, k, v, min(64, tokens))
    error, torch_error = (((t[-want.shape[0]:].float() - want).norm() / want.norm()).item() for t in (out, theirs[0].transpose(0, 1)))
    samples, ratio, half, verdict = race(graphs, flush, a.calls, a.blocks)
    flops = 2 * tokens * tokens * HEADS * DIM  # half of 4 T^2 H D
    us = [statistics.median(s) * 1e6 for s in samples]
    return {"case": f"causal_{tokens}", "provider": provider, "torch_us": round(us[0], 2), "us": round(us[1], 2), "torch_TFLOP/s": round(flops / us[0] * 1e-6),
            "TFLOP/s": round(flops / us[1] * 1e-6), "ratio": round(ratio, 4), "half": round(half, 4), "verdict": verdict, "error": error, "torch_error": torch_error}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plugins", type=pathlib.Path)
    p.add_argument("--provider", nargs="+", default=["cuda", "cudnn", "flashinfer"])
    p.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 16384])
    p.add_argument("--blocks", type=int, default=12)
    p.add_argument("--calls", type=int, default=1)
    a = p.parse_args()
    plugins = [(name, fk_plugin.Plugin(a.plugins / f"{name}.so")) for name in a.provider if (a.plugins / f"{name}.so").exists()]
    sys.exit(run(a.tokens, lambda tokens, flush: measure(a, plugins, tokens, flush)))


if __name__ == "__main__":
    main()
