#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How exact the judge's clock is: precision.py [--build DIR] [--runs N] [--json FILE].

Kernels of known speed (test/known: `ninja fk_known`) are judged on a GPU, at [4096, 8192] and [16, 8192] of silu_and_mul in bfloat16:
a kernel against itself --runs times, then k launches on k cold sets of buffers against one of fewer, --speedups times each. Beside
the ratios stand the same graphs under a plain pair of events behind a read flush (fk_plain_clock): the ratio that they give, with and
without the time of as many empty kernels, the bandwidth of one launch, and what its time depends on: the kind of memory, the values
in it, a division in the kernel that is slow for zeros. The contracts are copied with these cases in them and with the slower plugin
ranked first, so that it is the baseline; the data folder is the script's own. With --device cpu the same is done with smaller cases
on the CPU, where a launch is a loop and the figures say nothing of a GPU."""
import argparse, json, math, pathlib, statistics, subprocess, tempfile, time

from known_kernels import CPU_SHAPES, SHAPES, Bench, kind_of
from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=100, help="of a kernel against itself")
parser.add_argument("--speedups", type=int, default=3, help="verdicts on each known speedup")
parser.add_argument("--budget", type=float, default=1e9, help="seconds, after which no further verdict is asked for")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
build, begin = options.build.resolve(), time.monotonic()
on_cpu = kind_of(options.device) == "cpu"
SHAPES = CPU_SHAPES if on_cpu else SHAPES
# Of one launch: what of the tensors or the kernel is otherwise than in the judge.
DEPENDS = [[], ["malloc"], ["zeros"]] if on_cpu else [[], ["malloc"], ["zeros"], ["divides"], ["zeros", "divides"], ["malloc", "zeros", "divides"]]
# Launches of the candidate and of the baseline. A short launch behind others is not the same as one alone, so that few rows have pairs in which both
# sides are many.
KNOWN = {pair: list(SHAPES) for pair in [(20, 21), (20, 22), (20, 30), (1, 2), (1, 3), (1, 10)]}
KNOWN |= {} if on_cpu else {pair: ["rows_16"] for pair in [(20, 40), (20, 60), (20, 200)]}


def timings(verdicts, case):
    rows = [c for v in verdicts for c in v["cases"] if c["case"] == case and not c["beside"]]
    bad = [c for c in rows if not c["timings"]]
    if bad:
        print(f"  {case}: {len(bad)} without a time: {bad[0]['status']}: {bad[0]['why']}")
    return [(c["status"], c["timings"][0]) for c in rows if c["timings"]]


def race(candidate, baseline, count, folder, cases=tuple(SHAPES)):
    """Of the named cases and inputs of one kind alone: what else a verdict tries is not timed, and takes most of its time."""
    ask = lambda bench: bench.verdict(candidate, *cases, words=("--family", "ordinary"))
    with Bench(build, options.device, baseline, folder) as bench:
        verdicts = [ask(bench)]
        while len(verdicts) < count and time.monotonic() - begin < options.budget:
            verdicts.append(ask(bench))
    return verdicts


def plain(case, launches, *words):
    rows, width = SHAPES[case]
    clock = build / "test/known" / ("fk_plain_clock_cpu" if on_cpu else "fk_plain_clock")
    return json.loads(subprocess.run([clock, str(rows), str(width), str(launches), *words], capture_output=True, text=True, check=True).stdout)


itself, speedups, clocks, depends = [], [], {}, []
with tempfile.TemporaryDirectory(dir="/tmp") as folder:
    for case in SHAPES:
        for launches in sorted({k for pair, cases in KNOWN.items() for k in pair if case in cases}):
            clocks[case, launches] = plain(case, launches)
        for words in DEPENDS:
            depends.append(dict(plain(case, 1, *words), case=case, words=words))
            print(f"{case:10} one launch, plain events, {' and '.join(words) or 'as the judge has it'}: {1e6 * depends[-1]['seconds']:.2f} us", flush=True)
    for (candidate, baseline), cases in KNOWN.items():
        verdicts = race(candidate, baseline, options.speedups, folder, cases)
        for case in cases:
            found = timings(verdicts, case)
            if not found:
                continue
            true, ratios = baseline / candidate, [t["ratio"]["value"] for _, t in found]
            a, b = clocks[case, candidate], clocks[case, baseline]
            held = sum(t["ratio"]["low"] <= true <= t["ratio"]["high"] for _, t in found)
            row = {"case": case, "launches": [candidate, baseline], "true": true, "ratios": ratios, "ratio": statistics.median(ratios), "intervals_hold": held,
                   "error": statistics.median(ratios) / true - 1, "candidate_s": statistics.median(t["candidate"]["cold"]["median_s"] for _, t in found),
                   "baseline_s": statistics.median(t["baseline"]["cold"]["median_s"] for _, t in found), "calls_per_sample": found[0][1]["calls_per_sample"], "statuses": sorted({s for s, _ in found}),
                   "plain_ratio": b["seconds"] / a["seconds"],
                   "plain_ratio_less_null": (b["seconds"] - b["null_seconds"]) / (a["seconds"] - a["null_seconds"])}
            null = lambda clock, launches: statistics.median(t[clock]["cold"]["median_s"] for _, t in found) - launches * (clocks[case, 21]["null_seconds"] - clocks[case, 1]["null_seconds"]) / 20
            row["ratio_less_null"] = null("baseline", baseline) / null("candidate", candidate)
            speedups.append(row)
            print(f"{case:10} {candidate:2} of {baseline:2} launches: true {true:6.3f}  ratio {row['ratio']:7.4f} ({100 * row['error']:+5.2f} %, in {held} of {len(found)} intervals)  less null {row['ratio_less_null']:7.4f}  "
                  f"plain events {row['plain_ratio']:7.4f}, less null {row['plain_ratio_less_null']:7.4f}  {'/'.join(row['statuses'])}", flush=True)
    verdicts = race(1, 1, options.runs, folder)
    for case, (rows, width) in SHAPES.items():
        found = timings(verdicts, case)
        if len(found) < 2:
            continue
        logs = [math.log(t["ratio"]["value"]) for _, t in found]
        seconds = [t["candidate"]["cold"]["median_s"] for _, t in found]
        plain_s = clocks[case, 1]["seconds"]
        malloc_s = next(d["seconds"] for d in depends if d["case"] == case and d["words"] == ["malloc"])
        moved = 3 * 2 * rows * width
        # What a sample of the judge holds, between one pair of events.
        calls = found[0][1]["calls_per_sample"]
        as_many_s = plain(case, calls)["seconds"] / calls
        row = {"case": case, "verdicts": len(found), "seconds": statistics.median(seconds), "sd_of_ratio": statistics.stdev(logs), "sd_of_seconds": statistics.stdev(map(math.log, seconds)),
               "mean_of_ratio": math.exp(statistics.fmean(logs)), "statuses": {s: sum(1 for t, _ in found if t == s) for s in sorted({s for s, _ in found})},
               "bytes_per_s": moved / statistics.median(seconds), "plain_bytes_per_s": moved / plain_s, "plain_malloc_bytes_per_s": moved / malloc_s,
               "calls_per_sample": calls, "plain_as_many_bytes_per_s": moved / as_many_s, "wall_s": statistics.median(v["wall_s"] for v in verdicts)}
        itself.append(row)
        print(f"{case:10} against itself, {row['verdicts']} verdicts: {1e6 * row['seconds']:.2f} us, ratio {row['mean_of_ratio']:.4f}, standard deviation {100 * row['sd_of_ratio']:.3f} %, "
              f"{row['statuses']}; {row['bytes_per_s'] / 1e12:.3f} TB/s, plain events {row['plain_bytes_per_s'] / 1e12:.3f}, {calls} launches of them {row['plain_as_many_bytes_per_s'] / 1e12:.3f}, one on memory of cudaMalloc {row['plain_malloc_bytes_per_s'] / 1e12:.3f}; {row['wall_s']:.2f} s a verdict", flush=True)
if options.json:
    options.json.write_text(json.dumps({"what": "precision of the judge", **seen_on(verdicts[0]["device"], options.json), "itself": itself, "speedups": speedups, "depends": depends,
                                        "plain": [dict(row, case=case) for (case, _), row in clocks.items()]}, indent=1) + "\n")
