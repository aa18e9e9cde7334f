#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long an answer takes, from the start of the process to its end: verdict_latency.py CANDIDATE [--runs N] [--host
FK_HOST] [-- options of `fk-host bench`]. The candidate is judged with --fresh (a few times: --fresh-runs), then asked about
again, so that the answer comes from the store; median, 95th percentile and the largest of both are printed. A store of its
own is used, so nothing is left behind."""
import argparse, json, os, pathlib, platform, subprocess, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("candidate")
parser.add_argument("--runs", type=int, default=200)
parser.add_argument("--fresh-runs", type=int, default=5)
parser.add_argument("--host", default=str(root / "build/fk-host"))
own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
options = parser.parse_args(own)
rest = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []


def ask(env, *words):
    """Milliseconds, and the verdict."""
    start = time.perf_counter()
    done = subprocess.run([options.host, "bench", options.candidate, "--json", *rest, *words], env=env, capture_output=True,
                          text=True)
    took = 1e3 * (time.perf_counter() - start)
    if not done.stdout.startswith("{"):
        sys.exit(f"no verdict: {done.stderr}")
    return took, json.loads(done.stdout)


def say(name, times):
    times = sorted(times)
    at = lambda q: times[min(len(times) - 1, int(q * len(times)))]
    print(f"{name:<22}{len(times):>6} runs   median {at(0.5):8.2f} ms   p95 {at(0.95):8.2f} ms   most {times[-1]:8.2f} ms")


with tempfile.TemporaryDirectory() as folder:
    env = dict(os.environ, FK_DATA=folder)
    fresh = [ask(env, "--fresh") for _ in range(max(1, options.fresh_runs))]
    verdict = fresh[-1][1]
    time.sleep(2.1)  # hashes of files are remembered once these are older than their clocks' grain
    ask(env)
    again = [ask(env) for _ in range(options.runs)]
    if not all(v["stored"] for _, v in again):
        sys.exit("a question that was asked before was not answered from the store")
print(f"{pathlib.Path(options.candidate).name}: {verdict['status']}, {len(verdict['cases'])} cases, on {verdict['device']}; "
      f"{platform.machine()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}")
say("fresh: " + verdict["status"], [t for t, _ in fresh])
say("duplicate", [t for t, _ in again])
