#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How sure the speedups of `fk-host run` are on a CPU that others use too: run_precision.py [--build DIR] [--runs N] [--load N] [--budget S] [--json FILE].

A slow rms_norm (test/known/plain_norm.cpp, `ninja fk_known`) runs in a small Llama of profile full (test/known/norm_llama.yaml), --runs times:

  slow   beside the usual baseline: no interval may lie above 1
  copy   beside the same kernel as the baseline: the ratio is 1, and about one interval in twenty may not hold it

Meanwhile --load processes keep a core busy each. A workload's interval counts as one. Before that the slow kernel is judged alone by `fk-host bench`.
The runs end when --budget seconds are over; fewer are said so. Exit 1 when an interval of the slow kernel lies above 1, or there are not as many runs."""
import argparse, collections, json, os, pathlib, subprocess, sys, tempfile, time

from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--runs", type=int, default=20, help="of each kind")
parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that compute all the time; 0: none of ours")
parser.add_argument("--budget", type=float, default=600, help="seconds, after which no further run begins")
parser.add_argument("--processes", type=int, help="of each side; default: what `run` takes")
parser.add_argument("--only", choices=("slow", "copy"))
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
known, begin = options.build.resolve() / "test/known", time.monotonic()
candidate = known / "plain_norm/plain_norm.so"
if not candidate.exists():
    sys.exit(f"{candidate} is not there: ninja -C {options.build} fk_known")


def fk_host(folder, *words, **more):
    env = dict(os.environ, FK_CANDIDATES=str(candidate.parent), FK_DATA=folder, **more)
    done = subprocess.run([options.build.resolve() / "fk-host", *words, "--json"], env=env, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"fk-host {' '.join(words)} says: {done.stderr}")
    return json.loads(done.stdout)


def run(kind, folder):
    words = ["run", str(root / "test/known/norm_llama.yaml"), "--profile", "full", "--device", "cpu", "--candidate", "plain_norm"]
    words += ["--processes", str(options.processes)] if options.processes else []
    if kind == "copy":
        report = fk_host(folder, *words, FK_PLUGIN_PATH=str(known / "a_plain_norm"))
    else:
        report = fk_host(folder, *words)
    (side,) = report["candidates"]
    wanted = "a_plain_norm" if kind == "copy" else "cpu"
    if any(op["provider"] != wanted for op in report["baseline"]["ops"] if op["op"] == "rms_norm"):
        sys.exit(f"{kind}: the baseline's rms_norm is not that of {wanted}")
    if side["verdict"] != "correct" or report["error"]:
        sys.exit(f"{kind}: {side['verdict']}: {side['why']} {report['error']}")
    return {w["workload"]: {**w["speedup"], "verdict": w["verdict"], "baseline_by_process": report["baseline"]["workloads"][i]["round_s_by_process"],
                            "by_process_s": w["round_s_by_process"]} for i, w in enumerate(side["workloads"])}


load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)]
runs = collections.defaultdict(list)
try:
    with tempfile.TemporaryDirectory() as folder:
        alone = fk_host(folder, "bench", str(candidate), "--no-store", "--case", "smoke0", "--size", "smoke", "--seconds", "0.2")
        ratio = alone["aggregate"]["ratio"]["value"]
        print(f"alone: {alone['status']}, {ratio:.2f} times as fast as {alone['cases'][0]['baseline']} in smoke0", flush=True)
        kinds = [options.only] if options.only else ["slow", "copy"]
        while len(runs[kinds[-1]]) < options.runs and time.monotonic() - begin < options.budget:
            for kind in kinds:
                runs[kind].append(run(kind, folder))
finally:
    for process in load:
        process.kill()
        process.wait()

above, count, summary = 0, 0, {}
for kind, all_runs in runs.items():
    for workload in all_runs[0]:
        rows = [r[workload] for r in all_runs]
        verdicts = collections.Counter(row["verdict"] for row in rows)
        held = sum(row["low"] <= 1 <= row["high"] for row in rows)
        higher = sum(row["low"] > 1 for row in rows)
        apart = max(max(row[side]) / min(row[side]) for row in rows for side in ("by_process_s", "baseline_by_process"))
        above += higher if kind == "slow" else 0
        ratios = sorted(row["ratio"] for row in rows)
        single = [ratio for row in rows for ratio in row["by_process"]]
        summary[f"{kind}, {workload}"] = {"runs": len(rows), "above_1": higher, "hold_1": held, "ratio_least": ratios[0], "ratio_median": ratios[len(ratios) // 2],
                                          "ratio_most": ratios[-1], "processes_apart_most": apart, "verdicts": dict(verdicts),
                                          "single_pairs": len(single), "single_above_1": sum(ratio > 1.01 for ratio in single), "single_most": max(single)}
        print(f"{kind}, {workload}: {len(rows)} runs, ratios {ratios[0]:.3f} to {ratios[-1]:.3f}, {higher} intervals above 1, {held} hold 1; "
              f"processes of a side at most {apart:.2f} apart; of {len(single)} single pairs of processes {sum(ratio > 1.01 for ratio in single)} above 1.01, "
              f"the most {max(single):.2f}; " + ", ".join(f"{n} {v}" for v, n in sorted(verdicts.items())))
    count = min(len(all_runs), count or len(all_runs))


def short(value):
    """Four digits of every number are more than are known."""
    if isinstance(value, dict):
        return {key: short(part) for key, part in value.items()}
    return [short(part) for part in value] if isinstance(value, list) else float(f"{value:.4g}") if isinstance(value, float) else value


if options.json:
    options.json.write_text(json.dumps({**seen_on("cpu", options.json), "processor": alone["device"], "cores": os.cpu_count(), "load": options.load,
                                        "load_average": os.getloadavg(), "seconds": round(time.monotonic() - begin), "alone": ratio, "summary": short(summary), "runs": short(dict(runs))}) + "\n")
sys.exit(0 if above == 0 and count >= options.runs else 1)
