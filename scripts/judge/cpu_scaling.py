#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every tiny scenario on one core and on all of them: cpu_scaling.py [--host FILE] [--rounds N] [--budget S] [--only REGEX] [--json FILE].

Runs `fk-host run SCENARIO --device cpu --json` as a user does, alternately bound to one core (taskset) and free, --rounds times each.
Prints tokens a second of prefill and decode by workload, and how many times as fast all cores are. The figure is the median of the
ratios of neighbouring runs, so that other load, which comes and goes, meets both. Exit 1 when a ratio is below --floor, or prefill of
long_context below --long times one core. A model without tokens has one figure: requests a second."""
import argparse, json, os, pathlib, re, statistics, subprocess, sys, time

from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--host", type=pathlib.Path, default=root / "build/fk-host")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--budget", type=float, default=1e9, help="seconds, after which no further scenario is begun")
parser.add_argument("--only", default="", help="scenarios that match this expression")
parser.add_argument("--floor", type=float, default=0.95, help="how much slower all cores may be: the measurement's own error")
parser.add_argument("--long", type=float, default=1.4)
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
cores, begin = sorted(os.sched_getaffinity(0)), time.monotonic()
if len(cores) < 2:
    sys.exit("there is one core here, so there is nothing to compare")
FIGURES = {"prefill_tokens_per_s": "prefill", "decode_tokens_per_s": "decode"}


def scenarios():
    for file in sorted([*root.glob("scenarios/*.yaml"), *root.glob("registry/models/*/*.yaml")]):
        if re.search(r"^scenario:", file.read_text(), flags=re.M) and re.search(options.only, file.stem):
            yield file


def run(file, mask):
    """Figures by workload; the host inherits the mask."""
    os.sched_setaffinity(0, mask)
    done = subprocess.run([options.host, "run", file, "--device", "cpu", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.sched_setaffinity(0, cores)
    if not done.stdout.startswith("{"):
        sys.exit(f"{file.stem}: {done.stderr}")
    workloads = json.loads(done.stdout)["baseline"]["workloads"]
    return {(w["workload"], name): w[key]["median"] for w in workloads for key, name in FIGURES.items() if w[key] and w[key]["median"]}


rows = []
print(f"{'scenario':14} {'workload':16} {'what':8} {'one core':>10} {len(cores):>4} cores  ratio", flush=True)
for file in scenarios():
    if time.monotonic() - begin > options.budget:
        print(f"{file.stem} and those after it: no time")
        break
    pairs = [(run(file, cores[:1]), run(file, cores)) for _ in range(options.rounds)]
    for workload, what in pairs[0][0]:
        seen = [(one[workload, what], all_[workload, what]) for one, all_ in pairs]
        row = {"scenario": file.stem, "workload": workload, "what": what, "one": statistics.median(one for one, _ in seen),
               "all": statistics.median(all_ for _, all_ in seen), "ratios": [all_ / one for one, all_ in seen]}
        row["ratio"] = statistics.median(row["ratios"])
        least = options.long if (workload, what) == ("long_context", "prefill") else options.floor
        row["fell_short"] = row["ratio"] < least
        rows.append(row)
        print(f"{file.stem:14} {workload:16} {what:8} {row['one']:10.0f} {row['all']:10.0f}  {row['ratio']:5.2f}" + ("  <- below" + f" {least}" if row["fell_short"] else ""), flush=True)
if options.json:
    options.json.write_text(json.dumps({"what": "all cores beside one", **seen_on("cpu", options.json), "cores": len(cores), "load": os.getloadavg()[0], "rows": rows}, indent=1) + "\n")
sys.exit(1 if any(row["fell_short"] for row in rows) else 0)
