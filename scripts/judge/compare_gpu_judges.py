#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same plugins, judged on a GPU by this host and by Python judges: compare_gpu_judges.py [--build DIR] [--json FILE].

The Python judges are scripts/judge/torch_judge.py with events around a copy and the call, and with triton's do_bench. All of them are asked the
same questions in one run on the same GPU, and take turns with each: a kernel of test/known against itself, known speedups at [4096, 8192]
and [16, 8192] in bfloat16, the attacks of test/attacks/cuda* and the honest controls of test/attacks/cuda_honest before their plain
control. Told of each judge are the seconds of a verdict (on known kernels, on attacks, on a right, a wrong and a crashing plugin and on one
that it was asked about before), how many it gives in an hour where --clients ask at once, the scatter of a kernel against itself, also
right after a plugin that takes all memory, the error on known speedups, the bandwidth that it reports of the kernel that moves as many
bytes as a copy, which attacks it believed and which honest kernels it refused; --only names one part of that. The host judges through `fk-host serve`. What has to be built: fk-host,
fk_known and fk_attacks. With --device cpu all of it is tried on the CPU, with small cases and without do_bench, and with --python-judge
another program is asked like torch_judge.py: the figures say nothing of a GPU then."""
import argparse, concurrent.futures, contextlib, datetime, json, math, os, pathlib, random, statistics, subprocess, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "test/attacks"))
from suite import head  # noqa: E402
from known_kernels import CPU_SHAPES, SHAPES, Bench, kind_of, known  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=6, help="of a kernel against itself")
parser.add_argument("--budget", type=float, default=1e9, help="seconds, after which nothing more is asked; what was asked may take half a minute")
parser.add_argument("--only", choices=("ratios", "attacks", "kinds"),
                    help="known speedups and a kernel against itself, who is believed, or how long which verdict takes")
parser.add_argument("--clients", type=int, default=16, help="that ask at once")
parser.add_argument("--limit", type=int, default=10**6, help="of attacks and of controls, the first so many")
parser.add_argument("--python-judge", type=pathlib.Path, default=root / "scripts/judge/torch_judge.py")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
if options.python_judge.name == "torch_judge.py" and subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
    sys.exit(f"{sys.executable} has no torch, which the Python judges need")
build, begin = options.build.resolve(), time.monotonic()
SPEEDUPS = [(20, 21), (20, 22), (20, 30), (1, 2), (1, 3), (1, 10)]
on_cpu = kind_of(options.device) == "cpu"
SHAPES, PYTHON = (CPU_SHAPES, ("events",)) if on_cpu else (SHAPES, ("events", "do_bench"))
JUDGES = (*PYTHON, "host")
ATTACKS, PLAIN = ("math/*.cpp", "honest/plain.so") if on_cpu else ("cuda*/*.cu", "cuda_honest/cuda_plain.so")
KINDS = {"right": "honest/plain", "wrong": "math/c1_zeros"} if on_cpu else {"right": "cuda_honest/cuda_plain", "wrong": "cuda_values/cuda_c3_half", "crashed": "cuda/cuda_g1_trap"}
TAKES_ALL = None if on_cpu else "cuda/cuda_g1_memory"  # after which a kernel is judged against itself
CONTROLS = "honest/*.cpp" if on_cpu else "cuda_honest/*.cu"
RIGHT = ("faster", "same", "cannot_tell", "correct", "slower")
turns = random.Random(1)  # in which judges are asked the same question: none is always first


def late():
    return time.monotonic() - begin > options.budget


def in_turns():
    return turns.sample(JUDGES, len(JUDGES))


def python(timing, candidate, baseline, rows, width, dtype="bfloat16"):
    start = time.perf_counter()
    try:
        done = subprocess.run([sys.executable, str(options.python_judge), str(candidate), str(baseline), "--timing", timing, "--rows", str(rows), "--width", str(width),
                               "--dtype", dtype, "--device", kind_of(options.device)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=30)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    except subprocess.TimeoutExpired:
        lines = []
    said = json.loads(lines[-1]) if lines else {"correct": False, "none": True}
    return dict(said, wall_s=time.perf_counter() - start)


def judged(folder):
    """Verdicts of all by pair of kernels and shape. What is asked every judge is asked before anything else."""
    rows, pairs = [], []
    for run in range(max(options.runs, 1)):
        pairs += [(1, 1)] + (SPEEDUPS if run == 0 else [])
    with contextlib.ExitStack() as stack:
        servers = {b: stack.enter_context(Bench(build, options.device, b, folder)) for b in sorted({b for _, b in pairs})}
        for candidate, baseline in pairs:
            for case, (t, width) in SHAPES.items():
                if late():
                    return rows
                for judge in in_turns():
                    row = {"judge": judge, "case": case, "launches": [candidate, baseline]}
                    if judge == "host":
                        verdict = servers[baseline].verdict(candidate, case)
                        timings = verdict["cases"][0]["timings"]
                        row.update(ratio=timings[0]["ratio"]["value"] if timings else None, seconds=timings[0]["candidate"]["cold"]["median_s"] if timings else None,
                                   wall_s=verdict["wall_s"], status=verdict["status"], host_build=verdict["host_build"])
                    else:
                        said = python(judge, known(build, candidate, options.device), known(build, baseline, options.device), t, width)
                        row.update(ratio=said.get("ratio"), seconds=said.get("candidate_s"), wall_s=said["wall_s"])
                    # Every element is read twice and written once, whatever the number of launches.
                    if row["seconds"] and candidate == 1:
                        row["bytes_per_s"] = 3 * 2 * t * width / row["seconds"]
                    rows.append(row)
    return rows


def by_host(item, file, env, words=("--no-store",)):
    start = time.perf_counter()
    done = subprocess.run([build / "fk-host", "bench", file, "--op", "silu_and_mul", "--device", options.device, "--size", "smoke", "--seconds", "0.05", "--patience", "5",
                           *words, "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    status = json.loads(done.stdout)["status"] if done.stdout.startswith("{") else "none"
    gained = RIGHT if item["class"] == "honest" or item["broken"] else ("faster", "correct") if item["works"] else RIGHT[:4]
    return {"status": status, "believed": status in gained, "wall_s": time.perf_counter() - start}


def by_python(judge, item, file, plain):
    said = python(judge, file, plain, 64, 1024, "float32")
    gained = said["correct"] and (item["class"] == "honest" or not item["works"] or said.get("ratio", 0) > 1.05)
    return {"believed": bool(gained), "wall_s": said["wall_s"]}


def believed(folder):
    """Who believes which attack (a right answer, and where the work is done, one that is told to be faster than the plain control) and which honest control."""
    plugins, env = build / "test/attacks/plugins", dict(os.environ, FK_DATA=str(pathlib.Path(folder) / "attacks"))
    file = lambda item: plugins / item["folder"] / (item["name"] + ".so")
    of = lambda pattern, honest: [item for item in map(head, sorted((root / "test/attacks").glob(pattern)))
                                  if (item["class"] == "honest") == honest and item["op"] == "silu_and_mul" and file(item).exists()][:options.limit]
    rows, items = [], of(ATTACKS, False) + of(CONTROLS, True)
    server = subprocess.Popen([build / "fk-host", "serve", "--device", options.device], env=env, stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    try:
        for item in items:
            if late():
                break
            row = {"name": item["name"], "class": item["class"]}
            for judge in in_turns():
                row[judge] = by_host(item, file(item), env) if judge == "host" else by_python(judge, item, file(item), plugins / PLAIN)
            rows.append(row)
    finally:
        server.terminate()
        server.communicate()
    return rows


def kinds(folder):
    """How long each judge takes for which kind of plugin, the same one again, and as many as there are clients at once; and what it says of a kernel
    against itself after one that takes all memory. A Python judge keeps nothing and asks of one shape; the host of all smoke cases."""
    plugins, env = build / "test/attacks/plugins", dict(os.environ, FK_DATA=str(pathlib.Path(folder) / "kinds"))
    honest, rows = {"class": "honest", "broken": False, "works": True}, []

    def ask(judge, kind, words=("--no-store",)):
        """Seconds; of a judge that says the opposite of what is so there are none."""
        file = plugins / (KINDS[kind] + ".so")
        said = by_host(honest, file, env, words) if judge == "host" else by_python(judge, honest, file, plugins / PLAIN)
        return said["wall_s"] if said["believed"] == (kind == "right") else None

    with subprocess.Popen([build / "fk-host", "serve", "--device", options.device], env=env, stdout=subprocess.PIPE, text=True) as server:
        server.stdout.readline()
        for kind in KINDS:
            for judge in JUDGES * 3:
                rows.append({"judge": judge, "kind": kind, "wall_s": ask(judge, kind)})
        for judge in JUDGES:
            ask(judge, "right", ("--fresh",))
            for _ in range(3):
                rows.append({"judge": judge, "kind": "again", "wall_s": ask(judge, "right", ())})
        for judge in JUDGES if not late() else ():
            start = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
                done = sum(seconds is not None for seconds in pool.map(lambda _: ask(judge, "right"), range(options.clients)))
            rows.append({"judge": judge, "kind": "per_hour", "done": done, "per_hour": 3600 * done / (time.perf_counter() - start)})
        server.terminate()
    case, (t, width) = next(iter(SHAPES.items()))
    for judge in JUDGES if TAKES_ALL and not late() else ():
        file = plugins / (TAKES_ALL + ".so")
        if judge == "host":
            with Bench(build, options.device, 1, folder) as bench:
                bench.judge(file, "--case", case)
                timings = bench.verdict(1, case)["cases"][0]["timings"]
                ratio = timings[0]["ratio"]["value"] if timings else None
        else:
            python(judge, file, known(build, 1, options.device), t, width)
            ratio = python(judge, known(build, 1, options.device), known(build, 1, options.device), t, width).get("ratio")
        rows.append({"judge": judge, "kind": "neighbour", "ratio": ratio})
    return rows


def told(rows, attacks, of_kinds=()):
    """A line per judge; --json gets all that is known by now."""
    middle = lambda values: statistics.median(values) if values else None
    summary = []
    for judge in JUDGES:
        of = [r for r in rows if r["judge"] == judge and r["ratio"]]
        if not of and not attacks and not of_kinds:
            continue
        line = {"judge": judge, "verdicts": len(of), "wall_s": middle([r["wall_s"] for r in of])}
        for case in SHAPES:
            mine = [r for r in of if r["case"] == case]
            itself = [math.log(r["ratio"]) for r in mine if r["launches"] == [1, 1]]
            line[f"sd_{case}"] = statistics.stdev(itself) if len(itself) > 1 else None
            errors = [r["ratio"] * r["launches"][0] / r["launches"][1] - 1 for r in mine if r["launches"] != [1, 1]]
            line[f"error_{case}"] = max(errors, key=abs, default=None)
            line[f"bytes_per_s_{case}"] = middle([r["bytes_per_s"] for r in mine if "bytes_per_s" in r])
        wrong, honest = ([a for a in attacks if (a["class"] == "honest") == is_honest] for is_honest in (False, True))
        if attacks:
            line.update(attacks=len(wrong), believed=sum(a[judge]["believed"] for a in wrong), honest=len(honest), honest_refused=sum(not a[judge]["believed"] for a in honest),
                        attack_wall_s=middle([a[judge]["wall_s"] for a in wrong]))
        for kind in sorted({r["kind"] for r in of_kinds}):
            mine = [r for r in of_kinds if r["judge"] == judge and r["kind"] == kind]
            figure = {"per_hour": "per_hour", "neighbour": "ratio"}.get(kind, "wall_s")
            line[f"{kind}_{figure}" if figure != kind else kind] = middle([r[figure] for r in mine if r[figure] is not None])
        summary.append(line)
    if options.json:
        git = lambda *words: subprocess.run(["git", "-C", root, *words], capture_output=True, text=True).stdout.strip()
        named = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout if not on_cpu else ""
        device = ", driver ".join(named.splitlines()[0].split(", ")) if named else options.device
        # One run, one commit: what was not built from it is told.
        commit = os.environ.get("FK_COMMIT") or git("rev-parse", "--short", "HEAD") + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
        options.json.write_text(json.dumps({"what": "judges on a GPU", "date": str(datetime.date.today()), "commit": commit, "device": device,
                                            "host_builds": sorted({r["host_build"] for r in rows if "host_build" in r}), "python_judge": options.python_judge.name,
                                            "command": " ".join(["scripts/judge/compare_gpu_judges.py", *sys.argv[1:]]), "summary": summary, "rows": rows, "attacks": attacks, "kinds": list(of_kinds)}, indent=1) + "\n")
    return summary


with tempfile.TemporaryDirectory(dir="/tmp") as folder:
    wanted = lambda part: options.only in (None, part)
    rows = judged(folder) if wanted("ratios") else []
    told(rows, [])
    of_kinds = kinds(folder) if wanted("kinds") else []
    told(rows, [], of_kinds)
    summary = told(rows, believed(folder) if wanted("attacks") else [], of_kinds)
for line in summary:
    print(json.dumps(line))
for judge in set(JUDGES) - {line["judge"] for line in summary}:
    print(f"{judge}: nothing asked")
