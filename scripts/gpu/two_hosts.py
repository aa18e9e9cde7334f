#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""two_hosts.py OLD NEW: the steps of whole models by two builds of fk-host, in turn on one device.

For a change of the host itself. Each build runs `fk-host run SCENARIO` with its own providers, in blocks of old, new, new, old. The ratio
is the old step's time over the new one's, with its 99 % interval over blocks: above 1 the new host is faster. A step is measured
while all requests of a batch decode. Exit 1: the interval lies below 1 / (1 + --most).

    scripts/gpu/two_hosts.py build-old/fk-host build-gpu/fk-host --scenario llama3.1 --json hosts.json"""
import argparse, json, pathlib, statistics, sys, types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rivals"))
from about import about
from fk_runs import fk_run, step_ms
from torch_race import interval


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old"), p.add_argument("new")
    p.add_argument("--scenario", default="llama3.1")
    p.add_argument("--profile", default="full")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--workload", nargs="+", default=["in512_batch_1"], help="with a batch in their names")
    p.add_argument("--blocks", type=int, default=5)
    p.add_argument("--most", type=float, default=0.01, help="a share by which a step may be slower")
    p.add_argument("--limit", type=float, default=300, help="seconds for one run")
    p.add_argument("--json", type=pathlib.Path)
    args = p.parse_args()
    steps = {name: ([], []) for name in args.workload}
    for block in range(args.blocks):
        for side in (0, 1, 1, 0):
            host = (args.old, args.new)[side]
            one = types.SimpleNamespace(host=host, scenario=args.scenario, profile=args.profile, device=args.device, limit=args.limit)
            for name, workload in fk_run(one, [], args.workload)["workloads"].items():
                steps[name][side].append(step_ms(name, workload))
                print(f"block {block} {'old new'.split()[side]} {name}: {steps[name][side][-1]:.4f} ms", flush=True)
    rows, slower = {}, False
    for name, (old, new) in steps.items():
        pairs = lambda values: [values[i] + values[i + 1] for i in range(0, len(values), 2)]
        ratio, half = interval([a / b for a, b in zip(pairs(old), pairs(new))])
        slower |= ratio + half < 1 / (1 + args.most)
        rows[name] = {"old_ms": old, "new_ms": new, "ratio": ratio, "low": ratio - half, "high": ratio + half}
        print(f"{name}: old {statistics.median(old):.4f} ms, new {statistics.median(new):.4f} ms, ratio {ratio:.4f} ({ratio - half:.4f}-{ratio + half:.4f})")
    if args.json:
        args.json.write_text(json.dumps(about("gpu/two_hosts.py") | {"scenario": args.scenario, "rows": rows}, indent=1) + "\n")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
