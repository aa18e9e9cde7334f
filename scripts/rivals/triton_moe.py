#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fused mixture of experts in Triton, to compare fused_moe with: prints a JSON line per number of tokens.

Assignments are sorted by expert into blocks that hold rows of one expert, as production engines do it; the first product has
SwiGLU in its epilogue, the second writes a row per assignment, and a third kernel adds up the choices of a token. Block sizes,
warps and stages are tuned per number of tokens. A sample is a graph replay after the last cache was read over; weights and
tokens are random, and the result is compared with float32. Needs torch and triton on a CUDA device.

With --plugins, fused_moe of a provider there is measured in the same way on the same tensors, in turn with Triton's.

  scripts/rivals/triton_moe.py [--tokens 1 2 4 ...] [--repeats 30] [--hidden 4096] [--intermediate 14336] [--experts 8] [--top-k 2]
                        [--plugins FOLDER] [--provider cuda]
"""
import argparse
import json
import pathlib
import statistics
import sys

import torch
import triton
import triton.language as tl

from torch_race import captured, seconds


@triton.jit
def grouped(x, w, out, rows, experts, used, count, n, k, step_e, top_k: tl.constexpr, gated: tl.constexpr, M: tl.constexpr,
            N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    """out[row] = w[expert] @ x[row // top_k]; gated: silu of the first n rows of w times the next n."""
    pid = tl.program_id(0)
    high, wide = tl.cdiv(tl.load(used), M), tl.cdiv(n, N)
    if pid >= high * wide:
        return
    band = GROUP * wide
    first = pid // band * GROUP
    size = min(high - first, GROUP)
    block, column = first + pid % band % size, pid % band // size
    row = tl.load(rows + block * M + tl.arange(0, M))
    there = row < count
    expert = tl.load(experts + block).to(tl.int64)
    depth, cols = tl.arange(0, K), column * N + tl.arange(0, N)
    x_at = x + (row // top_k).to(tl.int64)[:, None] * k + depth[None, :]
    w_at = w + expert * step_e + (cols % n).to(tl.int64)[None, :] * k + depth[:, None]
    acc = tl.zeros((M, N), tl.float32)
    up = tl.zeros((M, N), tl.float32)
    for _ in range(0, tl.cdiv(k, K)):
        a = tl.load(x_at, mask=there[:, None], other=0.0)
        acc = tl.dot(a, tl.load(w_at), acc)
        if gated:
            up = tl.dot(a, tl.load(w_at + n * k), up)
        x_at += K
        w_at += K
    if gated:
        acc = acc * tl.sigmoid(acc) * up
    to = out + row.to(tl.int64)[:, None] * n + cols[None, :]
    tl.store(to, acc.to(out.dtype.element_ty), mask=there[:, None] & (cols < n)[None, :])


@triton.jit
def combine(x, weights, out, n, top_k: tl.constexpr, N: tl.constexpr):
    token, cols = tl.program_id(0).to(tl.int64), tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for j in tl.static_range(top_k):
        total += tl.load(weights + token * top_k + j) * tl.load(x + (token * top_k + j) * n + cols, mask=cols < n).to(tl.float32)
    tl.store(out + token * n + cols, total.to(out.dtype.element_ty), mask=cols < n)


@triton.jit
def count_experts(ids, rows, experts, used, count, E: tl.constexpr, M: tl.constexpr, S: tl.constexpr, P: tl.constexpr):
    """One program per expert: where its blocks start, and its assignments in order."""
    e, s, p = tl.program_id(0), tl.arange(0, S), tl.arange(0, P)
    histogram = tl.zeros((P,), tl.int32)
    for from_ in range(0, count, S):
        id_ = tl.load(ids + from_ + s, mask=from_ + s < count, other=P)
        histogram += tl.sum((id_[:, None] == p[None, :]).to(tl.int32), 0)
    padded = (histogram + M - 1) // M * M
    begin = tl.sum(tl.where(p < e, padded, 0))
    mine = tl.sum(tl.where(p == e, padded, 0))
    tl.store(used, tl.sum(padded), mask=e == 0)
    for i in range(0, mine // M):
        tl.store(experts + begin // M + i, e)
    at = begin
    for from_ in range(0, count, S):
        hit = (tl.load(ids + from_ + s, mask=from_ + s < count, other=P) == e).to(tl.int32)
        tl.store(rows + at + tl.cumsum(hit, 0) - 1, from_ + s, mask=hit > 0)
        at += tl.sum(hit)
    for from_ in range(0, M, 16):
        pad = at + from_ + tl.arange(0, 16)
        tl.store(rows + pad, count, mask=pad < begin + mine)


def configs(per_expert):
    """Block sizes (M, N, K, group), warps and stages worth trying, of both products."""
    if per_expert < 16:
        tall = [16]
    elif per_expert <= 64:
        tall = [16, 32, 64]
    else:
        tall = [64, 128]
    for m in tall:
        for n, k, warps, stages in ((32, 128, 4, 4), (32, 256, 4, 4), (64, 64, 4, 5), (64, 128, 4, 3), (64, 128, 4, 4), (128, 64, 4, 4),
                                    (128, 64, 8, 4), (128, 128, 8, 3), (256, 64, 8, 3), (256, 64, 8, 4)):
            if m < 64 and n > 128 or m >= 64 and n < 64:
                continue
            yield m, n, k, 1 if m < 64 else 16, warps, stages


def time_of(graph, flush, count):
    return [seconds(graph, flush, 1) for _ in range(count)]


class Moe:
    def __init__(self, a, tokens):
        self.a, self.tokens, self.count = a, tokens, tokens * a.top_k
        new = lambda *shape, dtype=torch.bfloat16: torch.empty(shape, dtype=dtype, device="cuda")
        self.x = torch.randn(tokens, a.hidden, device="cuda").bfloat16()
        self.ids = torch.rand(tokens, a.experts, device="cuda").argsort(1)[:, : a.top_k].to(torch.int32).contiguous()
        self.weights = torch.rand(tokens, a.top_k, device="cuda")
        self.middle, self.results = new(self.count, a.intermediate), new(self.count, a.hidden)
        self.out = new(tokens, a.hidden)
        most = self.count + a.experts * 128
        self.rows, self.experts, self.used = (new(s, dtype=torch.int32) for s in (most, most, 1))

    def align(self, m):
        a = self.a
        wide = max(triton.next_power_of_2(a.experts), 2)
        count_experts[(a.experts,)](self.ids, self.rows, self.experts, self.used, self.count, a.experts, m, min(1024, max(16, triton.next_power_of_2(self.count))), wide)

    def product(self, x, w, out, n, k, top_k, gated, config):
        m, wide, deep, group, warps, stages = config
        blocks = min(triton.cdiv(self.count, m) + self.a.experts, self.count)
        grouped[(blocks * triton.cdiv(n, wide),)](x, w, out, self.rows, self.experts, self.used, self.count, n, k, w.stride(0), top_k, gated, m, wide, deep,
                                                  group, num_warps=warps, num_stages=stages)

    def first(self, w13, config):
        self.product(self.x, w13, self.middle, self.a.intermediate, self.a.hidden, self.a.top_k, True, config)

    def second(self, w2, config):
        self.product(self.middle, w2, self.results, self.a.hidden, self.a.intermediate, 1, False, config)

    def whole(self, w13, w2, one, two):
        self.align(one[0])
        self.first(w13, one)
        self.second(w2, two)
        combine[(self.tokens, triton.cdiv(self.a.hidden, 1024))](self.results, self.weights, self.out, self.a.hidden, self.a.top_k, 1024)

    def expected(self, w13, w2):
        out = torch.zeros(self.tokens, self.a.hidden, device="cuda")
        for e in range(self.a.experts):
            token, choice = (self.ids == e).nonzero(as_tuple=True)
            both = self.x[token].float() @ w13[e].float().T
            gate, up = both.chunk(2, 1)
            out.index_add_(0, token, self.weights[token, choice][:, None] * ((torch.nn.functional.silu(gate) * up) @ w2[e].float().T))
        return out


def tune(moe, w13, w2, flush):
    """The best configuration of each product; both share M, which the table of blocks has."""
    best = None
    by_height = {}
    for config in configs(moe.count / moe.a.experts):
        by_height.setdefault(config[0], []).append(config)
    for m, some in by_height.items():
        moe.align(m)
        found = []
        for call in (lambda c: moe.first(w13, c), lambda c: moe.second(w2, c)):
            times = []
            for config in some:
                try:
                    times.append((statistics.median(time_of(captured([lambda: call(config)]), flush, 3)), config))
                except triton.runtime.errors.OutOfResources:
                    torch.cuda.synchronize()
            found.append(min(times))
        total = found[0][0] + found[1][0]
        if best is None or total < best[0]:
            best = total, found[0][1], found[1][1]
    return best[1:]


def summary(samples):
    samples = sorted(samples)
    return {"seconds": statistics.median(samples), "p10": samples[len(samples) // 10], "p90": samples[len(samples) * 9 // 10]}


class Plugin:
    """fused_moe of a provider, on the tensors of a Moe."""

    def __init__(self, a, w13, w2):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/torch"))
        import fk_plugin
        from fk_torch import Op
        self.op = Op(fk_plugin.Plugin(a.plugins / f"{a.provider}.so")["fused_moe"], {"w13": w13, "w2": w2}, hidden_size=a.hidden,
                     intermediate_size=a.intermediate, num_experts=a.experts, top_k=a.top_k)

    def graph(self, moe):
        self.out = torch.full_like(moe.out, float("nan"))
        return captured([lambda: self.op(x=moe.x, topk_weights=moe.weights, topk_ids=moe.ids, out=self.out)])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tokens", type=int, nargs="+", default=[1 << i for i in range(13)])
    p.add_argument("--repeats", type=int, default=30)
    p.add_argument("--plugins", type=pathlib.Path)
    p.add_argument("--provider", default="cuda")
    for name, value in (("hidden", 4096), ("intermediate", 14336), ("experts", 8), ("top-k", 2)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    w13 = torch.empty(a.experts, 2 * a.intermediate, a.hidden, device="cuda", dtype=torch.bfloat16).normal_(0, a.hidden**-0.5)
    w2 = torch.empty(a.experts, a.hidden, a.intermediate, device="cuda", dtype=torch.bfloat16).normal_(0, a.intermediate**-0.5)
    flush = torch.ones(32 << 20, device="cuda")
    plugin = Plugin(a, w13, w2) if a.plugins else None
    for tokens in a.tokens:
        moe = Moe(a, tokens)
        one, two = tune(moe, w13, w2, flush)
        graph = captured([lambda: moe.whole(w13, w2, one, two)])
        moe.out.fill_(float("nan"))
        ours = plugin.graph(moe) if plugin else None
        samples, own = [], []
        for _ in range(a.repeats):
            samples += time_of(graph, flush, 1)
            own += time_of(ours, flush, 1) if ours else []
        want = moe.expected(w13, w2)
        error = lambda out: ((out.float() - want).norm() / want.norm()).item()
        row = {"tokens": tokens, **summary(samples), "active_experts": int(moe.ids.unique().numel()), "error": error(moe.out), "first": one, "second": two}
        if plugin:
            row |= {"plugin": {"provider": a.provider, **summary(own), "error": error(plugin.out)}}
        print(json.dumps(row), flush=True)
        if not max(row["error"], row.get("plugin", row)["error"]) < 1e-2:
            raise SystemExit(f"wrong at {tokens} tokens: {row}")


if __name__ == "__main__":
    main()
