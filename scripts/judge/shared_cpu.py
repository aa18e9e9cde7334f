#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What other load does to verdicts on the CPU: shared_cpu.py [--build DIR] [--verdicts N] [--intervals N] [--budget S] [--json FILE].

The row ops of the `cpu` baseline (test/known) are judged beside the baseline, with and without a server, on an idle machine and beside as many busy loops
as there are cores: --verdicts cases in all, of which at most 1 in 80 may be `faster`. Then kernels of known speed (test/known:
`ninja fk_known`) are judged --intervals times a ratio in the same four ways: 9 of 10 intervals must hold the true ratio. Exit 1 when
either fails. The data folders are the script's own."""
import argparse, collections, contextlib, itertools, json, multiprocessing, os, pathlib, shutil, subprocess, sys, tempfile, time

from known_kernels import Bench
from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--verdicts", type=int, default=240, help="cases of the identical copy")
parser.add_argument("--intervals", type=int, default=40, help="of each known ratio")
parser.add_argument("--op", action="append", help="ops of the copy; default: rms_norm, silu_and_mul")
parser.add_argument("--size", default="ci", help="cases of the copy")
parser.add_argument("--budget", type=float, default=1e9, help="seconds of either part, after which no further verdict is asked for")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
build = options.build.resolve()
WAYS = list(itertools.product((False, True), (False, True)))  # loaded, served
KNOWN = [(2, 1), (6, 5), (21, 20), (20, 21), (5, 6), (1, 2)]  # launches of the candidate and of the baseline


def burn():
    while True:
        pass


@contextlib.contextmanager
def load(wanted):
    loops = [multiprocessing.Process(target=burn, daemon=True) for _ in range(len(os.sched_getaffinity(0)) if wanted else 0)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.join()


@contextlib.contextmanager
def server(wanted, env):
    if not wanted:
        yield
        return
    process = subprocess.Popen([build / "fk-host", "serve", "--device", "cpu"], env=env, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        process.communicate()


def in_turn(budget, enough, ask):
    """Each way once, again and again, until there is enough; a way's load and server last for one turn."""
    begin = time.monotonic()
    for loaded, served in itertools.cycle(WAYS):
        if enough() or time.monotonic() - begin > budget:
            return
        with load(loaded):
            ask(loaded, served)


copies, known = [], []
with tempfile.TemporaryDirectory(dir="/tmp") as folder:
    mine = pathlib.Path(folder) / "copy"
    mine.mkdir()
    file = shutil.copy(build / "test/known/cpu/known_copy.so", mine)
    env = dict(os.environ, FK_DATA=str(pathlib.Path(folder) / "data"))
    ops = [word for op in options.op or ("rms_norm", "silu_and_mul") for word in ("--op", op)]

    def ask_copy(loaded, served):
        with server(served, env):
            done = subprocess.run([build / "fk-host", "bench", file, "--device", "cpu", "--size", options.size, "--fresh", "--json", *ops], env=env, capture_output=True, text=True)
        if not done.stdout.startswith("{"):
            sys.exit(f"no verdict on the copy: {done.stderr}")
        for case in json.loads(done.stdout)["cases"]:
            if case["timings"]:
                copies.append({"loaded": loaded, "served": served, "op": case["op"], "case": case["case"], "status": case["status"], "ratio": case["timings"][0]["ratio"]})

    in_turn(options.budget, lambda: len(copies) >= options.verdicts, ask_copy)
    for loaded, served in WAYS:
        seen = [c for c in copies if (c["loaded"], c["served"]) == (loaded, served)]
        print(f"identical copy, {'loaded' if loaded else 'idle':6} {'served' if served else 'alone':6} {len(seen):4} cases: {dict(collections.Counter(c['status'] for c in seen))}", flush=True)
    for candidate, baseline in KNOWN:
        true = baseline / candidate

        def ask_known(loaded, served):
            with Bench(build, "cpu", baseline, folder, serves=served) as bench:
                verdict = bench.verdict(candidate, "rows_16", words=("--family", "ordinary"))
            for case in verdict["cases"]:
                if case["timings"] and not case["beside"]:
                    ratio = case["timings"][0]["ratio"]
                    known.append({"loaded": loaded, "served": served, "true": true, "status": case["status"], "ratio": ratio, "holds": ratio["low"] <= true <= ratio["high"]})

        of_ratio = lambda: [k for k in known if k["true"] == true]
        in_turn(options.budget / len(KNOWN), lambda: len(of_ratio()) >= options.intervals, ask_known)
        held = sum(k["holds"] for k in of_ratio())
        print(f"known {true:5.3f}: {held} of {len(of_ratio())} intervals hold it, {dict(collections.Counter(k['status'] for k in of_ratio()))}", flush=True)

faster = sum(c["status"] == "faster" for c in copies)
bad = faster * 80 > len(copies)
for candidate, baseline in KNOWN:
    seen = [k["holds"] for k in known if k["true"] == baseline / candidate]
    bad |= sum(seen) * 10 < len(seen) * 9
print(f"{faster} of {len(copies)} cases of the copy are `faster`")
if options.json:
    options.json.write_text(json.dumps({"what": "verdicts on a shared CPU", **seen_on("cpu", options.json), "cores": len(os.sched_getaffinity(0)), "copies": copies, "known": known}, indent=1) + "\n")
sys.exit(1 if bad else 0)
