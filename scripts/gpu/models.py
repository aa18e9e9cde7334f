#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times whole models on one GPU by fk_gpu_bench, into one JSON file (docs/results/*-<gpu>-models.json, which scripts/docs/tables.py draws):
decoding and prefill of Llama 3.1 8B and Mixtral 8x7B at several batches, 1000 requests of 512 and 1024 tokens, and where the time of the
kernels goes. What the GPU has no room for is left out and named. FK_COMMIT names the commit where there is no .git.

  scripts/gpu/models.py FILE [--bench build-gpu/test/bench/fk_gpu_bench] [--only llama wide requests mixtral profile] [--limit SECONDS]
"""
import argparse, datetime, json, os, pathlib, subprocess, sys

root = pathlib.Path(__file__).resolve().parents[2]
MIXTRAL = ["--config", "mixtral-8x7b-v0.1"]
RUNS = {
    "llama": ["--batch", "1", "--batch", "8", "--batch", "32"],
    "wide": ["--batch", "256", "--context", "1024", "--output", "33"],
    "requests": ["--batch", "1000", "--output", "1024", "--max-batch", "500"],
    "mixtral": [*MIXTRAL, "--batch", "1", "--batch", "32"],
    # Layers are alike: eight of them say where the time goes.
    "profile": ["--layers", "8", "--batch", "1", "--batch", "32", "--batch", "256", "--context", "1024", "--output", "33", "--profile"],
}


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=root).stdout.strip().split("\n")[0]


def asked(what):
    return said("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--bench", type=pathlib.Path, default=root / "build-gpu/test/bench/fk_gpu_bench")
    p.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    p.add_argument("--limit", type=float, default=300, help="seconds for a run")
    a = p.parse_args()
    plugins = a.bench.resolve().parents[2] / "plugins"
    out = {"command": "scripts/gpu/models.py " + " ".join(sys.argv[1:]), "device": asked("name"), "driver": asked("driver_version"),
           "clocks": asked("clocks.max.sm,clocks.max.mem"), "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"),
           "date": datetime.date.today().isoformat(), "models": {}, "failed": [], "left_out": []}
    for name in a.only:
        command = [str(a.bench.resolve()), str(plugins), *RUNS[name]]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=a.limit)
            report = json.loads(done.stdout)
            if report.get("too_large"):
                out["left_out"].append(f"{name}: {report['too_large']['what']}")
            else:
                out["models"][name] = report
        except subprocess.TimeoutExpired:
            out["failed"].append(f"{name}: more than {a.limit:.0f} s")
        except ValueError:
            out["failed"].append(f"{name}: exit {done.returncode}: {done.stderr[-300:]}")
        a.file.write_text(json.dumps(out, indent=1) + "\n")
        for row in out["models"].get(name, {}).get("rows", []):
            step, gap = row["decode_step_ms"], row.get("launch_gap_us", {}).get("median", 0)
            print(f"{name}: batch {row['batch']}, {row['prompt']} tokens: prefill {row['prefill_tokens_per_s']:.0f} tok/s, step {step['median']:.2f} ms "
                  f"({step['low']:.2f}-{step['high']:.2f}), gap {gap:.0f} us, {row['output_tokens_per_s']:.0f} tok/s of output", flush=True)
    print("\n".join([*(f"left out: {row}" for row in out["left_out"]), *out["failed"]]) or str(a.file))
    return 1 if out["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
