#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast weights come from a checkpoint: checkpoint_speed.py [--model llama] [--device D] [--host PATH] [--work DIR] [--json FILE].

A checkpoint of random weights is written (compare_hf.py's), then by turns its files are read plainly, by --threads that read 16 MiB at a
time and keep nothing, and `fk-host run SCENARIO --weights` is started, whose report says how long it made weights. Before each the
files leave the page cache ("cold"); a last turn of both finds them there ("warm"). What a cache outside this machine keeps cannot be
taken away, and serves both. Needs torch and safetensors."""
import argparse, concurrent.futures, datetime, json, os, pathlib, subprocess, sys, tempfile, time

from compare_hf import Weights, config_of

root = pathlib.Path(__file__).resolve().parents[2]

SCENARIOS = {"llama": "llama3.1", "mixtral": "mixtral"}
PIECE = 16 << 20


def forget(files):
    for file in files:
        with open(file, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_plainly(files, threads):
    """Seconds to read all of the files."""
    def one(piece):
        file, at = piece
        with open(file, "rb", buffering=0) as f:
            f.seek(at)
            return f.readinto(bytearray(PIECE))
    pieces = [(file, at) for file in files for at in range(0, file.stat().st_size, PIECE)]
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        total = sum(pool.map(one, pieces))
    assert total == sum(file.stat().st_size for file in files)
    return time.perf_counter() - start


def load(options, folder):
    """Seconds in which fk-host made the weights, and its whole report."""
    report = folder / "run.json"
    command = [options.host, "run", SCENARIOS[options.model], "--profile", "full", "--device", options.device, "--workload", "single_request",
               "--weights", folder, "--json", report]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if not report.exists():
        sys.exit(f"fk-host run: exit {done.returncode}: {done.stderr[-500:]}")
    said = json.loads(report.read_text())
    if done.returncode or "making the weights" not in said["spent"]:
        sys.exit(f"fk-host run: exit {done.returncode}: {said['error'] or said['baseline']['why']}")
    return said["spent"]["making the weights"], said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SCENARIOS, default="llama")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--host", default=str(root / "build/fk-host"))
    parser.add_argument("--work", help="where the checkpoint is written; default: the folder for temporary files")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--turns", type=int, default=2, help="cold ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        folder = pathlib.Path(work)
        # What makes the numbers; the checkpoint itself is the same from wherever.
        making = argparse.Namespace(device="cuda" if options.device.startswith("cuda") else "cpu", seed=options.seed, tiny=False, layers=0)
        weights = Weights(folder, config_of(options.model, making), making)
        weights.write(False)
        files = sorted(folder.glob("*.safetensors"))
        rows, report = [], {}
        for turn in ["cold"] * options.turns + ["warm"]:
            for what in ("plain", "fk-host"):
                if turn == "cold":
                    forget(files)
                seconds = read_plainly(files, options.threads) if what == "plain" else 0
                if what == "fk-host":
                    seconds, report = load(options, folder)
                rows.append({"what": what, "cache": turn, "seconds": seconds, "gb_per_s": weights.bytes / seconds / 1e9})
                print(f"{what:8s} {turn}: {weights.bytes / 1e9:.2f} GB in {seconds:.2f} s, {rows[-1]['gb_per_s']:.2f} GB/s", flush=True)
    if options.json:
        commit = os.environ.get("FK_COMMIT") or subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        driver = subprocess.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1", shell=True, capture_output=True, text=True).stdout.strip()
        options.json.write_text(json.dumps({
            "command": " ".join(["scripts/rivals/checkpoint_speed.py", *sys.argv[1:]]), "date": str(datetime.date.today()), "commit": commit, "device": report["device"],
            "driver": driver, "host": report["host"], "threads": os.cpu_count(), "bytes": weights.bytes, "rows": rows, "verdict": report["baseline"]["verdict"]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
