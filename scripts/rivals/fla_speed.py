#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrences of a provider here in turn with the Triton kernels of FLA and Mamba, on the same tensors: prints a JSON line per case.

Cases are chunked scans of one request of 8k and 64k tokens, and fused steps of 1, 32 and 256 requests, at the sizes of GLA 2.7B,
RetNet 2.7B, Qwen3-Next, Kimi Linear, RWKV7 2.9B, Mamba 2.8B and Mamba2 2.7B. Sides take turns A B B A by graphs of torch_race.py. A rival
which is not installed, or fails, is named in the row. FLA writes a new state, and a provider updates it in place. Errors are against the
provider's cuda_reference, if it is in the folder. Needs torch and triton on a CUDA device. FLA and mamba_ssm or vLLM come from --sources
or PYTHONPATH.

  scripts/rivals/fla_speed.py PLUGINS [--provider cuda] [--sources FOLDER ...] [--case gla_8192 ...] [--blocks 12] [--json FILE]
"""
import argparse
import importlib
import json
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/torch"))
import fk_plugin
from fk_torch import Op
from about import about
from torch_race import captured, race, seconds

TOKENS, REQUESTS = (8192, 65536), (1, 32, 256)
# name: op without _update, heads, key heads, width of keys, of values, width of a decay (0: none)
MATRICES = {"gla": ("gated_linear_attention", 5, 5, 256, 512, 256), "retnet": ("gated_linear_attention", 10, 10, 256, 512, 0),
            "gdn": ("gated_delta_rule", 32, 16, 128, 128, 1), "kda": ("gated_delta_rule", 32, 32, 128, 128, 128),
            "rwkv7": ("dplr_recurrence", 40, 40, 64, 64, 64)}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def random(*shape, scale=1.0, dtype=torch.bfloat16):
    return (torch.randn(shape, device="cuda") * scale).to(dtype)


def decays(*shape, dtype=torch.float32):
    return (-0.01 - 0.5 * torch.rand(shape, device="cuda")).to(dtype)


def sequences(count, scan):
    """Fields of both kinds of op: slots, and of a scan of one request its bounds."""
    integers = lambda *values: torch.tensor(values, dtype=torch.int32, device="cuda")
    if not scan:
        return {"state_slots": torch.arange(count, dtype=torch.int32, device="cuda")}
    return {"state_slots": integers(0), "cu_seqlens": integers(0, count), "has_initial_state": integers(1), "max_query_len": count}


def of(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


class Matrix:
    """A case with a matrix as state: fields of the op, its constructor and weights, and the rival's call."""

    def __init__(self, name, count, scan):
        kind, h, g, d, dv, dg = MATRICES[name]
        self.kind, self.scan, self.count = kind, scan, count
        self.op = kind if scan else kind + "_update"
        state = random(1 if scan else count, h, d, dv, scale=0.1, dtype=torch.float32)
        key = lambda scale=1.0: random(count, g, d, scale=scale)
        self.init, self.weights = {"num_heads": h, "head_dim": d, "v_head_dim": dv, "scale": d**-0.5}, {}
        self.fields = {"k": key(), "v": random(count, h, dv), "recurrent_state": state, **sequences(count, scan)}
        if kind == "dplr_recurrence":
            unit = torch.nn.functional.normalize(torch.randn(count, h, d, device="cuda"), dim=-1)
            self.fields |= {"r": key(), "w": decays(count, h, d), "a": (-unit).bfloat16(), "b": (unit * torch.rand_like(unit)).bfloat16()}
            self.init["scale"] = 1.0
        elif kind == "gated_delta_rule":
            self.init |= {"num_k_heads": g, "gate_dim": dg, "qk_l2_norm": True}
            self.fields |= {"q": key(), "g": decays(count, h, dg), "beta": torch.rand(count, h, device="cuda")}
        else:
            self.fields |= {"q": key(), **({"g": decays(count, h, dg, dtype=torch.bfloat16)} if dg else {})}
            if not dg:
                self.weights["decay"] = torch.log1p(-(2.0 ** (-5 - torch.arange(h, device="cuda", dtype=torch.float32))))
        self.bytes = 2 * state.nbytes + sum(self.fields[n].nbytes for n in ("k", "v", "v", "q", "r", "w", "a", "b", "g") if n in self.fields)

    def rival(self):
        f, first = self.fields, 0 if self.scan else 1  # a batch of one sequence, or a token of each sequence
        x = {n: v.unsqueeze(first) for n, v in f.items() if n in ("q", "k", "v", "g", "beta", "r", "w", "a", "b")}
        common = {"scale": self.init["scale"], "initial_state": f["recurrent_state"], "output_final_state": True}
        way = "chunk" if self.scan else "fused_recurrent"
        if self.kind == "dplr_recurrence":
            call = of(f"fla.ops.rwkv7.{way}_rwkv7")
            return lambda: call(r=x["r"], w=x["w"], k=x["k"], v=x["v"], a=x["a"], b=x["b"], **common)
        if self.kind == "gated_delta_rule":
            wide = x["g"].shape[-1] > 1
            call = of(f"fla.ops.{'kda' if wide else 'gated_delta_rule'}.{way}_{'kda' if wide else 'gated_delta_rule'}")
            ratio = x["v"].shape[2] // x["q"].shape[2]  # FLA's kernels take heads of keys and values one by one where they are as many
            repeat = (lambda t: t.repeat_interleave(ratio, 2).contiguous()) if ratio > 1 else (lambda t: t)
            q, k, g = repeat(x["q"]), repeat(x["k"]), x["g"] if wide else x["g"].squeeze(-1)
            return lambda: call(q=q, k=k, v=x["v"], g=g, beta=x["beta"], use_qk_l2norm_in_kernel=True, **common)
        if "g" in x:
            call, name = of(f"fla.ops.gla.{way}_gla"), "g" if self.scan else "gk"
            return lambda: call(q=x["q"], k=x["k"], v=x["v"], **{name: x["g"]}, **common)
        call = of(f"fla.ops.retention.{way}_retention")
        return lambda: call(q=x["q"], k=x["k"], v=x["v"], **common)


class Mamba:
    """mamba: channels with a state of 16. mamba2: heads of 64 with a state of 128."""

    def __init__(self, name, count, scan):
        self.scan, self.count, self.two = scan, count, name == "mamba2"
        self.op = ("ssd_chunk_scan" if scan else "selective_state_update") if self.two else ("selective_scan" if scan else "selective_scan_update")
        slots = 1 if scan else count
        if self.two:
            h, d, n = 80, 64, 128
            self.init = {"num_heads": h, "head_dim": d, "num_groups": 1, "state_size": n, **({"chunk_size": 256} if scan else {})}
            x, dt, b, state = random(count, h, d), random(count, h), (count, 1, n), random(slots, h, d, n, scale=0.1, dtype=torch.float32)
            a, d_, bias = -torch.rand(h, device="cuda") - 0.5, random(h), random(h)
        else:
            c, n = 5120, 16
            self.init = {"channels": c, "state_size": n}
            x, dt, b, state = random(count, c), random(count, c), (count, n), random(slots, c, n, scale=0.1, dtype=torch.float32)
            a, d_, bias = -torch.rand(c, n, device="cuda") * 8 - 0.5, random(c), random(c)
        self.weights = {"a": a, "d": d_, "dt_bias": bias}
        self.fields = {"x": x, "dt": dt, "b": random(*b), "c": random(*b), "ssm_state": state, **sequences(count, scan)}
        if not self.two:
            self.fields["z"] = random(count, c)
        self.bytes = 2 * state.nbytes + sum(self.fields[n].nbytes for n in ("x", "x", "dt", "b", "c", "z") if n in self.fields)

    def rival(self):
        f, w = self.fields, self.weights
        if self.scan and self.two:
            call = first_of("mamba_ssm.ops.triton.ssd_combined.mamba_chunk_scan_combined")
            x = {n: f[n].unsqueeze(0) for n in ("x", "dt", "b", "c")}
            return lambda: call(x["x"], x["dt"], w["a"], x["b"], x["c"], 256, D=w["d"].float(), dt_bias=w["dt_bias"].float(), dt_softplus=True,
                                initial_states=f["ssm_state"], return_final_states=True)
        if self.scan:
            call = first_of("mamba_ssm.ops.selective_scan_interface.selective_scan_fn")
            x = {n: f[n].t().unsqueeze(0).contiguous() for n in ("x", "dt", "b", "c", "z")}
            return lambda: call(x["x"], x["dt"], w["a"], x["b"], x["c"], D=w["d"].float(), z=x["z"], delta_bias=w["dt_bias"].float(),
                                delta_softplus=True, return_last_state=True)
        call = first_of("mamba_ssm.ops.triton.selective_state_update.selective_state_update",
                        "vllm.model_executor.layers.mamba.ops.mamba_ssm.selective_state_update")
        state = f["ssm_state"].clone()
        x, dt, z, a, d, bias = f["x"], f["dt"], f.get("z"), w["a"], w["d"], w["dt_bias"]
        if self.two:  # one decay of a head, seen by all elements of its state
            h, p, n = state.shape[1:]
            dt, a = dt[..., None].expand(-1, -1, p), a[:, None, None].expand(-1, p, n)
            d, bias = d[:, None].expand(-1, p), bias[:, None].expand(-1, p)
        return lambda: call(state, x, dt, a, f["b"], f["c"], D=d, z=z, dt_bias=bias, dt_softplus=True)


def first_of(*paths):
    missing = []
    for path in paths:
        try:
            return of(path)
        except (ImportError, AttributeError) as why:
            missing.append(str(why))
    raise ImportError("; ".join(missing))


def cases():
    for name in [*MATRICES, "mamba", "mamba2"]:
        for count in TOKENS:
            yield f"{name}_{count}", name, count, True
        for count in REQUESTS:
            yield f"{name}_step_{count}", name, count, False


def ours(plugin, case):
    op = Op(plugin[case.op], case.weights, **case.init)
    fields = {n: v.clone() if n.endswith("_state") and isinstance(v, torch.Tensor) and v.is_floating_point() else v for n, v in case.fields.items()}
    out = op(**fields)
    return op, fields, out


def right(plugin, case, out):
    """The relative error against cuda_reference, of the first call."""
    want = ours(plugin, case)[2]
    return ((out.float() - want.float()).norm() / want.float().norm()).item()


@torch.no_grad()
def measure(a, plugin, reference, name, case, flush):
    op, fields, out = ours(plugin, case)
    row = {"case": name, "op": case.op, "error": right(reference, case, out) if reference and case.count <= a.checked else None}
    mine = captured([lambda: op(**fields, out=out)])
    try:
        theirs = captured([case.rival()])
    except Exception as why:  # a rival without wheels, or a version with other arguments
        torch.cuda.synchronize()
        samples = [seconds(mine, flush, 1) for _ in range(2 * a.blocks)]
        row |= {"rival": f"{type(why).__name__}: {why}"[:300], **spread("", samples)}
    else:
        both, ratio, half, verdict = race((theirs, mine), flush, 1, a.blocks)
        row |= {**spread("rival_", both[0]), **spread("", both[1]), "ratio": round(ratio, 4), "half": round(half, 4), "verdict": verdict}
    row["GB/s"] = round(case.bytes / row["us"] * 1e-3)
    return row


def spread(prefix, samples):
    samples = sorted(samples)
    us = lambda v: round(v * 1e6, 2)
    return {prefix + "us": us(statistics.median(samples)), prefix + "p10": us(samples[len(samples) // 10]),
            prefix + "p90": us(samples[len(samples) * 9 // 10])}


def machine():
    import triton
    found = about("fla_speed.py", torch=torch.__version__, triton=triton.__version__)
    for package in ("fla", "mamba_ssm", "vllm"):
        try:
            found[package] = getattr(importlib.import_module(package), "__version__", "without a version")
        except Exception as why:
            found[package] = f"absent: {why}"[:200]
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("plugins", type=pathlib.Path)
    p.add_argument("--provider", default="cuda")
    p.add_argument("--sources", type=pathlib.Path, nargs="+", default=[])
    p.add_argument("--case", nargs="+", help="begin with one of these")
    p.add_argument("--blocks", type=int, default=12)
    p.add_argument("--checked", type=int, default=8192, help="check up to so many tokens or requests")
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    sys.path[:0] = [str(s) for s in a.sources]
    torch.manual_seed(0)
    plugin = fk_plugin.Plugin(a.plugins / f"{a.provider}.so")
    path = a.plugins / "cuda_reference.so"
    reference = fk_plugin.Plugin(path) if path.exists() else None
    flush = torch.ones(32 << 20, device="cuda")
    found = {"machine": machine(), "provider": a.provider, "rows": []}
    print(json.dumps(found["machine"]), flush=True)
    for name, kind, count, scan in cases():
        if a.case and not name.startswith(tuple(a.case)):
            continue
        case = (Mamba if kind.startswith("mamba") else Matrix)(kind, count, scan)
        found["rows"].append(measure(a, plugin, reference, name, case, flush))
        print(json.dumps(found["rows"][-1]), flush=True)
        if a.json:
            a.json.write_text(json.dumps(found, indent=1) + "\n")
        del case
        torch.cuda.empty_cache()
    ratios = [row["ratio"] for row in found["rows"] if "ratio" in row]
    slower = [row["case"] for row in found["rows"] if row.get("verdict") == "slower"]
    print(json.dumps({"cases": len(found["rows"]), "raced": len(ratios), "median_ratio": statistics.median(ratios) if ratios else None, "slower": slower}))
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
