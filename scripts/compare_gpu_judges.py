#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same plugins, judged on a GPU by this host and by Python judges: compare_gpu_judges.py [--build DIR] [--json FILE].

The Python judges are scripts/torch_judge.py with events around a copy and the call, and with triton's do_bench. All judge, in turns on
the same GPU: a kernel of test/known against itself, known speedups at [4096, 8192] and [16, 8192] in bfloat16, and the attacks of
test/attacks/cuda* against their plain control. Told are the seconds of a verdict, the scatter of a kernel against itself, the error on
known speedups, and who was believed; --only names one half of that. The host judges through `fk-host serve`. What has to be built: fk-host, fk_known and fk_attacks.
With --device cpu all of it is tried on the CPU, with small cases and without do_bench; the figures say nothing of a GPU."""
import argparse, concurrent.futures, datetime, json, math, os, pathlib, statistics, subprocess, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(root / "test/attacks"), str(root / "scripts")]
from suite import head  # noqa: E402
from known_kernels import CPU_SHAPES, SHAPES, Bench, kind_of, known  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=6, help="of a kernel against itself")
parser.add_argument("--jobs", type=int, default=3, help="attacks that Python judges look at together; nothing is timed then")
parser.add_argument("--budget", type=float, default=1e9, help="seconds, after which nothing more is asked; what was asked may take half a minute")
parser.add_argument("--only", choices=("ratios", "attacks"), help="known speedups and a kernel against itself, or who is believed")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
    sys.exit(f"{sys.executable} has no torch, which the Python judges need")
build, begin = options.build.resolve(), time.monotonic()
SPEEDUPS = [(20, 21), (20, 30), (1, 2), (1, 10)]
on_cpu = kind_of(options.device) == "cpu"
SHAPES, PYTHON = (CPU_SHAPES, ("events",)) if on_cpu else (SHAPES, ("events", "do_bench"))
ATTACKS, PLAIN = ("math/*.cpp", "honest/plain.so") if on_cpu else ("cuda*/*.cu", "cuda_honest/cuda_plain.so")


def late():
    return time.monotonic() - begin > options.budget


def python(timing, candidate, baseline, rows, width, dtype="bfloat16"):
    start = time.perf_counter()
    try:
        done = subprocess.run([sys.executable, str(root / "scripts/torch_judge.py"), str(candidate), str(baseline), "--timing", timing, "--rows", str(rows), "--width", str(width),
                               "--dtype", dtype, "--device", kind_of(options.device)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    except subprocess.TimeoutExpired:
        lines = []
    said = json.loads(lines[-1]) if lines else {"correct": False, "none": True}
    return dict(said, wall_s=time.perf_counter() - start)


def judged(folder):
    """Verdicts of all three by pair of kernels and shape."""
    rows, pairs = [], SPEEDUPS + [(1, 1)] * options.runs
    for baseline in sorted({b for _, b in pairs}):
        with Bench(build, options.device, baseline, folder) as bench:
            for candidate, other in pairs:
                for case in SHAPES if other == baseline and not late() else ():
                    verdict = bench.verdict(candidate, case)
                    timings = verdict["cases"][0]["timings"]
                    rows.append({"judge": "host", "case": case, "launches": [candidate, baseline], "ratio": timings[0]["ratio"]["value"] if timings else None, "wall_s": verdict["wall_s"]})
    for candidate, baseline in pairs:
        for case, (t, width) in SHAPES.items():
            for timing in PYTHON:
                if late():
                    return rows
                said = python(timing, known(build, candidate, options.device), known(build, baseline, options.device), t, width)
                rows.append({"judge": timing, "case": case, "launches": [candidate, baseline], "ratio": said.get("ratio"), "wall_s": said["wall_s"]})
    return rows


def believed(folder):
    """Who believes which attack: a right answer, and where the work is done, one that is told to be faster than the plain control."""
    plugins, env = build / "test/attacks/plugins", dict(os.environ, FK_DATA=str(pathlib.Path(folder) / "attacks"))
    file = lambda item: plugins / item["folder"] / (item["name"] + ".so")
    plain, rows = plugins / PLAIN, []
    items = [item for item in map(head, sorted((root / "test/attacks").glob(ATTACKS))) if item["class"] != "honest" and item["op"] == "silu_and_mul" and file(item).exists()]

    def by_python(item):
        if late():
            return None
        said = python("events", file(item), plain, 64, 1024, "float32")
        return bool(said["correct"] and (not item["works"] or said["ratio"] > 1.05))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(by_python, items))
    server = subprocess.Popen([build / "fk-host", "serve", "--device", options.device], env=env, stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    try:
        for item, fooled in zip(items, found):
            if fooled is None or late():
                continue
            done = subprocess.run([build / "fk-host", "bench", file(item), "--op", "silu_and_mul", "--device", options.device, "--size", "smoke",
                                   "--seconds", "0.05", "--patience", "5", "--no-store", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            status = json.loads(done.stdout)["status"] if done.stdout.startswith("{") else "none"
            gained = ("faster", "correct") if item["works"] else ("faster", "same", "cannot_tell", "correct")
            rows.append({"name": item["name"], "class": item["class"], "python": fooled, "host": status, "host_believes": status in gained})
    finally:
        server.terminate()
        server.communicate()
    return rows


def told(rows, attacks):
    """A line per judge; --json gets all that is known by now."""
    summary = []
    for judge in (*PYTHON, "host"):
        of = [r for r in rows if r["judge"] == judge and r["ratio"]]
        if not of and not (attacks and judge != "do_bench"):
            continue
        line = {"judge": judge, "wall_s": statistics.median(r["wall_s"] for r in of) if of else None}
        for case in SHAPES:
            itself = [math.log(r["ratio"]) for r in of if r["case"] == case and r["launches"] == [1, 1]]
            line[f"sd_{case}"] = statistics.stdev(itself) if len(itself) > 1 else None
            errors = [r["ratio"] * r["launches"][0] / r["launches"][1] - 1 for r in of if r["case"] == case and r["launches"] != [1, 1]]
            line[f"error_{case}"] = max(errors, key=abs, default=None)
        if judge != "do_bench" and attacks:
            line["attacks"], line["believed"] = len(attacks), sum(a["python" if judge == "events" else "host_believes"] for a in attacks)
        summary.append(line)
    if options.json:
        named = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout if not on_cpu else ""
        device = ", driver ".join(named.splitlines()[0].split(", ")) if named else options.device
        commit = os.environ.get("FK_COMMIT") or subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        options.json.write_text(json.dumps({"what": "judges on a GPU", "date": str(datetime.date.today()), "commit": commit, "device": device,
                                            "command": " ".join(["scripts/compare_gpu_judges.py", *sys.argv[1:]]), "summary": summary, "rows": rows, "attacks": attacks}, indent=1) + "\n")
    return summary


with tempfile.TemporaryDirectory(dir="/tmp") as folder:
    rows = judged(folder) if options.only != "attacks" else []
    told(rows, [])
    summary = told(rows, believed(folder) if options.only != "ratios" else [])
for line in summary:
    print(json.dumps(line))
for judge in {*PYTHON, "host"} - {line["judge"] for line in summary}:
    print(f"{judge}: nothing asked")
