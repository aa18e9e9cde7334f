#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""study_eager.py FILE SUBMISSION...: kernels of the study beside eager PyTorch, by turns on one GPU.

Each op has one case (study_ops.py). Both sides are CUDA graphs, so PyTorch pays for its kernels and not for Python. A sample is one replay
after the last cache was read over; sides take turns A B B A. The ratio is PyTorch's time over the kernel's, with its 99 % interval.
`difference` is the norm of the difference of the outputs, over PyTorch's. Kernels run in this process, without the judge's sandbox and
checks: `fk-host` says beforehand which are right. FILE gets JSON after each op. docs/study.md has the protocol.

    scripts/judge/study_eager.py eager.json candidates/a candidates/b [--op rms_norm ...] [--blocks 6]"""
import argparse, json, pathlib, statistics, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "plugin_api/adapters/torch"), str(ROOT / "scripts/rivals")]
import torch
from about import about
import fk_plugin
from fk_torch import Op
from study_ops import CASES
from torch_race import captured, race


def floats(value):
    """All floating outputs as one vector in float64."""
    found = [t for t in (value if isinstance(value, (tuple, list)) else [value]) if torch.is_tensor(t) and t.is_floating_point()]
    return torch.cat([t.double().flatten() for t in found])


def fresh(fields):
    return {name: v.clone() if torch.is_tensor(v) and v.is_contiguous() else v for name, v in fields.items()}


@torch.no_grad()
def measure(name, plugin, blocks, flush):
    torch.manual_seed(1)
    init, weights, fields, eager = CASES[name]()
    op = Op(plugin[name], weights, **init)
    out = op(**fields)  # takes the case, or says why not; without outputs of its own it returns nothing
    graphs = captured([lambda: eager(weights, fields)]), captured([lambda: op(**fields)])
    row = {}
    if out is not None:  # fields in place grow from call to call, so both sides begin with equal ones
        own, theirs = op(**fresh(fields)), floats(eager(weights, fresh(fields)))
        row["difference"] = ((floats(list(own.values()) if isinstance(own, dict) else own) - theirs).norm() / theirs.norm()).item()
    samples, ratio, half, verdict = race(graphs, flush, 1, blocks)
    op.close()
    return row | {"torch_us": 1e6 * statistics.median(samples[0]), "us": 1e6 * statistics.median(samples[1]), "ratio": ratio, "half": half, "verdict": verdict}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("submission", nargs="+", type=pathlib.Path)
    p.add_argument("--op", nargs="+", choices=CASES, default=list(CASES))
    p.add_argument("--blocks", type=int, default=6)
    args = p.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    flush = torch.ones(32 << 20, device="cuda")
    out = about("judge/study_eager.py", torch=torch.__version__) | {"rows": {}}
    for folder in args.submission:
        rows = out["rows"].setdefault(folder.name, {})
        for file in sorted(folder.glob("**/*.so")):
            plugin = fk_plugin.Plugin(str(file))
            for name in args.op:
                if name not in plugin.ops:
                    continue
                try:
                    rows[name] = measure(name, plugin, args.blocks, flush)
                except Exception as error:
                    rows[name] = {"none": f"{type(error).__name__}: {str(error)[-300:]}"}
                print(folder.name, name, json.dumps(rows[name]), flush=True)
                args.file.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
