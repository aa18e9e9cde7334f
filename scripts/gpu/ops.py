#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the ops that models spend their time in, at real sizes on one GPU, beside what they are compared with, into one JSON file
(docs/results/*-<gpu>-ops.json, which scripts/docs/tables.py draws): linear against torch's cuBLAS (torch_linear.py), fused_moe against
Triton (triton_moe.py), causal attention against torch's cuDNN (torch_attention.py), paged attention, norms and activations against a
copy of as many bytes. `others`, which has a file of its own (docs/results/*-<gpu>-kernels.json) and is not run unless it is named: the full
cases of ops that few models have, by all who take them. FK_COMMIT names the commit where there is no .git.

  scripts/gpu/ops.py FILE [--host build-gpu/fk-host] [--only linear moe attention rows | others] [--seconds 0.2] [--tokens 1 2 ...] [--rows 1 2 ...]
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
POWERS = [1 << i for i in range(14)]
PARTS = ("rows", "attention", "linear", "moe")
OTHERS = {"conv2d": ["cudnn", "cuda"], "mla_attention": ["flashinfer"], "tree_attention": ["flashinfer"], "ssd_chunk_scan": ["cuda"],
          "moe_grouped_gemm_fp8_block": ["cuda"], "moe_grouped_gemm_mxfp4": ["cuda"], "gaussian_tile_intersection": ["cuda"],
          "sparse_conv_neighbor_map": ["cuda"]}


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=root).stdout.strip()


class Run:
    def __init__(self, a):
        self.a, self.failed = a, []

    def lines(self, *command):
        """The JSON objects that a script prints, one a line."""
        done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, cwd=root)
        if done.returncode:
            self.failed.append(f"{pathlib.Path(command[0]).name}: exit {done.returncode}: {done.stderr[-300:]}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def bench(self, op, providers, cases=None, more=()):
        which = ["--case", *cases] if cases else ["--size", "full"]
        command = [self.a.host, "bench", op, "--device", "cuda:0", "--seconds", str(self.a.seconds), "--provider", *providers, *which, *more, "--json"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=root)
        if not done.stdout.startswith("{"):
            self.failed.append(f"bench {op}: exit {done.returncode}: {done.stderr[-300:]}")
            return []
        return json.loads(done.stdout)["rows"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--host", type=pathlib.Path, default=root / "build-gpu/fk-host")
    p.add_argument("--only", nargs="+", choices=(*PARTS, "others"), default=PARTS)
    p.add_argument("--seconds", type=float, default=0.2)
    p.add_argument("--tokens", type=int, nargs="+", default=POWERS[:13])
    p.add_argument("--rows", type=int, nargs="+", default=POWERS)
    a = p.parse_args()
    a.host = a.host.resolve()
    run, plugins = Run(a), a.host.parent / "plugins"
    out = {"command": "scripts/gpu/ops.py " + " ".join(sys.argv[1:]), "device": said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").split("\n")[0],
           "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0],
           "clocks": said("nvidia-smi", "--query-gpu=clocks.max.sm,clocks.max.mem", "--format=csv,noheader").split("\n")[0],
           "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": datetime.date.today().isoformat(), "ops": []}

    def save():
        out["failed"] = run.failed
        a.file.write_text(json.dumps(out, indent=1) + "\n")

    for part in (*PARTS, "others"):
        if part not in a.only:
            continue
        if part == "others":
            for op, providers in OTHERS.items():
                out["ops"] += run.bench(op, [*providers, "cuda_reference"])
                if "grouped_gemm" in op:  # whose cases are skewed as no model's are
                    out["ops"] += run.bench(op, [*providers, "cuda_reference"], more=["--routing", "uniform"])
        elif part == "rows":
            for op in ("rms_norm", "silu_and_mul", "rotary_embedding"):
                out["ops"] += run.bench(op, ["cuda"], ["rows_8192"])
        elif part == "attention":
            out["ops"] += run.bench("paged_attention", ["cuda"], ["decode", "decode64_4k"])
            save()
            out["torch_attention"] = run.lines(root / "scripts/rivals/torch_attention.py", plugins)
        elif part == "moe":
            out["triton_moe"] = run.lines(root / "scripts/rivals/triton_moe.py", "--repeats", 20, "--plugins", plugins, "--tokens", *a.tokens)
        else:
            out["ops"] += run.bench("linear", ["cublas", "cuda"], [f"{shape}_{m}" for m in a.rows if m <= 32 for shape in ("o", "qkv", "down", "gate_up", "lm_head")])
            save()
            out["torch_linear"] = run.lines(root / "scripts/rivals/torch_linear.py", plugins, "--rows", *a.rows)
        save()
    print("\n".join(run.failed) or f"{a.file}: {len(out['ops'])} rows")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
