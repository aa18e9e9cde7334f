#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has every baseline judged like a candidate, with new seeds in every round: what is honest must be right. Exit 1 when one is not.
baselines.py [--host FK_HOST] [--rounds N] [--size smoke] [--device cpu] [--baseline NAME] [-- options of `fk-host bench`]"""
import argparse, collections, json, os, pathlib, subprocess, sys, tempfile

root = pathlib.Path(__file__).resolve().parents[2]
own, rest = sys.argv[1:], []
if "--" in own:
    own, rest = own[:own.index("--")], own[own.index("--") + 1:]
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--host", default=str(root / "build/fk-host"))
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--size", default="smoke")
parser.add_argument("--device", default="cpu")
parser.add_argument("--baseline", action="append", help="only this one")
options = parser.parse_args(own)

fine = {"correct", "faster", "same", "slower", "cannot_tell", "refused", "unjudged"}
counts, bad = collections.Counter(), 0
with tempfile.TemporaryDirectory() as folder:
    env = dict(os.environ, FK_DATA=folder)
    listed = json.loads(subprocess.run([options.host, "list", "plugins", "--json"], env=env, capture_output=True, text=True, check=True).stdout)
    names = [row["plugin"] for row in listed["rows"] if row["kind"] == "baseline"]
    for name in options.baseline or names:
        for _ in range(options.rounds):
            command = [options.host, "bench", name, "--size", options.size, "--device", options.device, "--seconds", "0", "--no-store", "--json", *rest]
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            if not done.stdout.startswith("{"):
                sys.exit(f"no verdict on {name}: {done.stderr}")
            verdict = json.loads(done.stdout)
            if not verdict["cases"]:
                bad += verdict["status"] != "unused"
                print(f"{name}: {verdict['status']}: {verdict['why']}", flush=True)
            for case in verdict["cases"]:
                counts[case["status"]] += 1
                if case["status"] not in fine:
                    bad += 1
                    print(f"{name}: {case['op']}, case {case['case']}: {case['status']}: {case['why']} (--secret {verdict['secret']})", flush=True)
print(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
sys.exit(1 if bad else 0)
