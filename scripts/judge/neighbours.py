#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a candidate leaves to the next one: neighbours.py [--build DIR] [--device D] [--rounds N] [--only REGEX] [--json FILE].

With one server (`fk-host serve`) a kernel of test/known is judged against itself just before and just after a candidate that leaks,
hangs, crashes or goes on working; in every round each of these comes once, in another order, and so does an honest kernel, whose own
before and after say what changes where nobody leaves anything. For each the change of the verdict's ratio and of the kernel's own
time is told with its standard deviation. Exit 1 when a ratio has changed by more than 1 % and three standard errors, a verdict after
one of them is not right, or one of them was believed or did nothing of what it is here for.
Needs `ninja fk_known fk_attacks plugin_bad_segfault` (and fk-host) in the build folder; with --device cuda:0 the plugins are those of test/attacks/cuda."""
import argparse, json, math, os, pathlib, random, re, statistics, sys, tempfile, time

from known_kernels import Bench, kind_of
from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--device", default="cpu")
parser.add_argument("--rounds", type=int, default=8)
parser.add_argument("--seconds", type=float, default=0.5, help="of timing in a verdict on the kernel")
parser.add_argument("--only", default="", help="neighbours that match this expression; the honest one is always there")
parser.add_argument("--budget", type=float, default=1e9, help="seconds, after which no further round is begun")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
build, begin = options.build.resolve(), time.monotonic()
RIGHT = ("faster", "same", "cannot_tell", "correct", "slower")
HONEST = "honest"
# What it does, where it is, and the statuses that show that it did.
ATTACKS = "test/attacks/plugins/"
CPU = {HONEST: (ATTACKS + "honest/plain", RIGHT), "leaks": (ATTACKS + "resources/g1_leak", ("memory", "violation")), "hangs": (ATTACKS + "resources/g1_hang", ("hang",)),
       "crashes": ("test/bad_plugins/plugins/bad_segfault", ("crashed", "illegal_access")), "leaves threads that work": (ATTACKS + "clock/a11_spin", ("cheating", "violation"))}
BUSY = ("cheating", "violation", "crashed", "hang", "graph_unsafe")
CUDA = {HONEST: (ATTACKS + "cuda_honest/cuda_plain", RIGHT), "leaks": (ATTACKS + "cuda/cuda_g1_memory", ("memory", "violation", "graph_unsafe")),
        "takes all memory": (ATTACKS + "cuda/cuda_g1_all", ("memory", "violation", "environment", "crashed")), "hangs": (ATTACKS + "cuda/cuda_g1_hang", ("hang", "crashed")),
        "traps": (ATTACKS + "cuda/cuda_g1_trap", ("crashed", "illegal_access")), "leaves a persistent kernel": (ATTACKS + "cuda/cuda_a6_persistent", BUSY),
        "leaves a kernel for a second": (ATTACKS + "cuda/cuda_a11_linger", (*BUSY, "slower", "cannot_tell"))}
on_cpu = kind_of(options.device) == "cpu"
CASE = "rows_16" if on_cpu else "rows_4096"
PATIENCE = "1" if on_cpu else "5"  # to open a device takes a while
chosen = {name: what for name, what in (CPU if on_cpu else CUDA).items() if name == HONEST or re.search(options.only, name)}


def row_of(verdict):
    (case,) = verdict["cases"]
    timing = case["timings"][0] if case["timings"] else None
    return {"status": case["status"], "why": case["why"], "ratio": timing and timing["ratio"]["value"], "seconds": timing and timing["candidate"]["cold"]["median_s"], "wall_s": verdict["wall_s"]}


def spread(before, after):
    """Of the logarithms of after over before: their mean and standard deviation as shares, and the mean's error."""
    logs = [math.log(b / a) for a, b in zip(before, after)]
    deviation = statistics.stdev(logs) if len(logs) > 1 else 0.0
    return {"change": math.exp(statistics.fmean(logs)) - 1, "sd": deviation, "se": deviation / math.sqrt(len(logs))}


seen, device = {name: [] for name in chosen}, options.device
with tempfile.TemporaryDirectory(dir="/tmp") as folder, Bench(build, options.device, 1, folder) as bench:
    ask = lambda: row_of(bench.verdict(1, CASE, words=("--seconds", str(options.seconds))))
    ask()  # the server makes what it will want from now on
    for number in range(options.rounds):
        if number and time.monotonic() - begin > options.budget:
            break
        for name in random.Random(number).sample(sorted(chosen), len(chosen)):
            before = ask()
            other = bench.judge(build / (chosen[name][0] + ".so"), "--size", "smoke", "--seconds", "0.05", "--patience", PATIENCE)
            after, device = ask(), other["device"]
            seen[name].append({"before": before, "after": after, "neighbour": {"status": other["status"], "why": other["why"], "wall_s": other["wall_s"]}})

rows, bad = [], False
for name, rounds in seen.items():
    wrong = [r[side] for r in rounds for side in ("before", "after") if r[side]["status"] not in RIGHT or not r[side]["ratio"]]
    idle = [r["neighbour"] for r in rounds if r["neighbour"]["status"] not in chosen[name][1]]
    row = {"neighbour": name, "plugin": chosen[name][0], "statuses": sorted({r["neighbour"]["status"] for r in rounds}), "rounds": len(rounds), "wrong": wrong, "idle": idle}
    if not wrong:
        side = lambda at, what: [r[at][what] for r in rounds]
        for what in ("ratio", "seconds"):
            row[what] = dict(spread(side("before", what), side("after", what)), before=statistics.median(side("before", what)), after=statistics.median(side("after", what)))
        ratio = row["ratio"]
        row["changed"] = len(rounds) > 1 and abs(ratio["change"]) > max(0.01, 3 * ratio["se"])
        print(f"{name:28} {'/'.join(row['statuses']):12} {len(rounds)} rounds: ratio {ratio['before']:.4f} before, {ratio['after']:.4f} after, change {100 * ratio['change']:+.2f} % (standard deviation {100 * ratio['sd']:.2f} %); "
              f"time {1e6 * row['seconds']['before']:.2f} us, {1e6 * row['seconds']['after']:.2f} us, change {100 * row['seconds']['change']:+.2f} % ({100 * row['seconds']['sd']:.2f} %)" + ("  <- CHANGED" if row["changed"] else ""), flush=True)
    for found in wrong:
        print(f"{name}: a verdict beside it is {found['status']}: {found['why']}")
    for found in idle:
        print(f"{name}: it was {found['status']}: {found['why']}")
    bad |= bool(wrong or idle or row.get("changed"))
    rows.append(dict(row, seen=rounds))
if options.json:
    options.json.write_text(json.dumps({"what": "a kernel against itself before and after its neighbours, one server", **seen_on(device, options.json), "case": CASE, "load": os.getloadavg()[0], "neighbours": rows}, indent=1) + "\n")
sys.exit(1 if bad else 0)
