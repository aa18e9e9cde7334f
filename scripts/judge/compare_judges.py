#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same plugins, judged by this host and by a judge as they are commonly written: compare_judges.py [--only RE] [--json FILE].

The common one is test/attacks/naive_judge.cpp: one process, a fixed seed, a loose tolerance on one small call, a clock around calls that
nobody looks at. Both judge every attack and every honest control of test/attacks on the CPU whose first comment has words for it; the
host through `fk-host serve`, with the cases of --size. Told are who was believed and how long a verdict took, in seconds by the clock
and of the processor (of both sides of the host). What has to be built: fk-host and fk_attacks."""
import argparse, datetime, json, os, pathlib, re, subprocess, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "test/attacks"))
from suite import head  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", type=pathlib.Path, default=root / "build")
parser.add_argument("--only", default="", help="names that match this expression")
parser.add_argument("--size", default="smoke")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
build = options.build.resolve()
RIGHT = ("faster", "same", "cannot_tell", "correct", "slower")
GAIN = RIGHT[:4]  # who does the work, and is judged slower, has gained nothing


def timed(command, folder, env=None):
    """Seconds by the clock, of the processor, and what it said."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([str(word) for word in command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
    took, after = time.perf_counter() - start, os.times()
    return took, after.children_user + after.children_system - before.children_user - before.children_system, done.stdout


def naive(item, file, folder):
    words = [word for word in item["naive"] or [] if word.startswith("--")]
    wall, processor, said = timed(["timeout", "60", build / "test/attacks/fk_naive_judge", file, item["op"], *words], folder)
    found = re.search(r"naive: correct, speedup ([0-9.]+)", said)
    return {"wall_s": wall, "processor_s": processor, "believed": bool(found), "speedup": float(found[1]) if found else None}


def ours(item, file, folder, env):
    wall, processor, said = timed([build / "fk-host", "bench", file, "--no-store", "--op", item["op"], "--size", item["size"] or options.size,
                                   "--patience", "5", "--json"], folder, env)
    status = json.loads(said)["status"] if said.startswith("{") else "none"
    believed = status in (RIGHT if item["class"] == "honest" or not item["works"] else GAIN)
    return {"wall_s": wall, "processor_s": processor, "believed": believed and not (item["class"] != "honest" and status == "slower"), "status": status}


rows = []
with tempfile.TemporaryDirectory() as folder:
    env = dict(os.environ, FK_DATA=str(pathlib.Path(folder) / "data"))
    server = subprocess.Popen([str(build / "fk-host"), "serve"], env=env, stdout=subprocess.DEVNULL)
    try:
        time.sleep(2)
        for path in sorted((root / "test/attacks").glob("*/*.c*")):
            file = build / "test/attacks/plugins" / path.parent.name / (path.stem + ".so")
            item = head(path) if path.suffix in (".c", ".cpp") and path.parent.name != "ranks" and re.search(options.only, path.stem) else None
            if not item or not file.exists() or item["op"] not in ("silu_and_mul", "rms_norm", "linear", "topk_softmax"):
                continue
            if item["class"] != "honest" and not item["naive"]:
                continue
            rows.append({"name": item["name"], "class": item["class"], "naive": naive(item, file, folder), "host": ours(item, file, folder, env)})
            print(f"{item['class']:7}{item['name']:20} naive {'believes' if rows[-1]['naive']['believed'] else 'refuses'} {rows[-1]['naive']['wall_s']:6.2f} s   "
                  f"host {rows[-1]['host']['status']:12} {rows[-1]['host']['wall_s']:6.2f} s", flush=True)
    finally:
        server.terminate()
        server.wait()
for left in pathlib.Path("/tmp").glob("fk-attack-*"):
    left.unlink()
middle = lambda values: sorted(values)[len(values) // 2] if values else 0.0
summary = {}
for judge in ("naive", "host"):
    attacks, honest = [r for r in rows if r["class"] != "honest"], [r for r in rows if r["class"] == "honest"]
    summary[judge] = {"attacks": len(attacks), "attacks_believed": sum(r[judge]["believed"] for r in attacks), "honest": len(honest),
                      "honest_refused": sum(not r[judge]["believed"] for r in honest), "wall_s": middle([r[judge]["wall_s"] for r in rows])}
    print(f"{judge}: {summary[judge]}")
if options.json:
    commit = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    options.json.write_text(json.dumps({"what": "two judges", "date": str(datetime.date.today()), "commit": commit, "device": f"cpu {cpu}, {os.cpu_count()} threads",
                                        "load": os.getloadavg()[0], "command": " ".join(["scripts/judge/compare_judges.py", *sys.argv[1:]]),
                                        "summary": summary, "rows": rows}, indent=1) + "\n")
