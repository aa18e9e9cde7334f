#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_ranks_test.py SCRIPT: scripts/gpu/ranks.py with a host and a driver that only pretend: aims are computed from the reports, a step
that hangs is ended with its children and named, the steps behind it are done, and the contracts have the cases that it asks for."""
import json, os, pathlib, re, subprocess, sys, tempfile

HOST = '''#!/usr/bin/env python3
import json, os, subprocess, sys, time
a = sys.argv
out = a[a.index("--json") + 1]
case = a[a.index("--case") + 1] if "--case" in a else ""
if case == "mib_256_2":
    child = subprocess.Popen(["sleep", "1000"])
    print("child", child.pid, flush=True)
    time.sleep(1000)  # longer than any step may take
if a[1] == "bench":
    rows = [{"provider": p, "case": case, "why": "", "cold_s": s} for p, s in (("nccl", 20e-6), ("cuda", 5e-6))]
    if case == "kib_256_2":
        rows[1]["why"] = "wrong: [3]"
    report = {"rows": rows}
else:
    tp = int(a[a.index("--tp") + 1])
    speed = 3e4 if "--overlap" in a else 2e4
    report = {"baseline": {"workloads": [{"workload": "fixed_batch_32", "done": True, "token_s": {"median": 4e-3 / tp}, "output_tokens": 1024,
                                          "round_s": {"median": 0.05}, "prefill_tokens_per_s": {"median": speed}, "first_token_s": {"median": 1e3 / speed}}]}}
if "LITTLE" in os.environ:
    report = {"error": "no room", "too_large": {"what": "it needs 50 GiB", "needs_bytes": 50, "device_bytes": 40}}
json.dump(report, open(out, "w"))
sys.exit(3 if "LITTLE" in os.environ else 0)
'''
SMI = '#!/bin/sh\ncase "$*" in -L) seq "${GPUS:-2}" ;; *name*) echo "A GPU" ;; *) echo "1.2.3" ;; esac\n'

with tempfile.TemporaryDirectory() as folder:
    at = pathlib.Path(folder)
    for name, text in (("host", HOST), ("nvidia-smi", SMI)):
        (at / name).write_text(text)
        (at / name).chmod(0o755)
    def measure(*options, code=1, **more):
        done = subprocess.run([sys.executable, sys.argv[1], str(at / "out.json"), "--host", str(at / "host"), *options],
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "FK_COMMIT": "abc", **more}, capture_output=True, text=True)
        assert done.returncode == code, done
        return done.stdout, json.loads((at / "out.json").read_text())

    # A host that pretends has no words of its own: a report of a real one has the same.
    subprocess.run([str(at / "host"), "run", "--tp", "1", "--json", str(at / "pretended.json")], check=True)
    recorded = pathlib.Path(sys.argv[1]).resolve().parents[2] / "docs/results/2026-11-28-h200-gpu-check.json"
    pretended, real = (report["baseline"]["workloads"][0] for report in (json.loads((at / "pretended.json").read_text()), json.loads(recorded.read_text())["run-llama3.1-full"]))
    assert pretended.keys() <= real.keys(), pretended.keys() - real.keys()

    said, report = measure("--most", "3", "--only", "mib_256", "llama tp 1")
    hung = report["steps"]["all_reduce mib_256_2"]
    assert hung["why"] == "not done after 3 s", hung
    if hung["said"]:  # else it was ended before it had begun
        child = pathlib.Path("/proc") / hung["said"].split()[1]
        assert not child.exists() or "Z" in (child / "stat").read_text().split()[2], "a child is left"
    assert "llama tp 1" in report["steps"], report

    said, report = measure("--only", "kib", "llama", "overlap", "mixtral", "products linear_all_reduce", "experts", "add_rms", "parts")
    steps, aims = report["steps"], {row["what"]: row for row in report["aims"]}
    assert report["device"] == "2 x A GPU" and report["commit"] == "abc", report
    assert steps["all_reduce kib_8_2"]["why"] == "" and "llama tp 4" not in steps, list(steps)
    assert "all_reduce kib_256_2: kib_256_2: wrong: [3]" in said, said
    assert report["command"] == f"scripts/gpu/ranks.py FILE --host {at}/host --only kib llama overlap mixtral 'products linear_all_reduce' experts add_rms parts", report["command"]
    small = aims["all_reduce kib_8, 2 ranks, beside NCCL"]
    assert small["reached"] and small["measured"].startswith("4.00 times"), small
    assert "all_reduce kib_256, 2 ranks, beside NCCL" not in aims, aims
    assert aims["Llama 3.1 8B, tp 2"]["reached"] and "0.500 of tp 1" in aims["Llama 3.1 8B, tp 2"]["measured"], aims
    assert aims["Mixtral 8x7B, tp 2"]["reached"] and aims["Mixtral 8x7B, tp 2"]["measured"] == "20480 tok/s", aims
    assert aims["linear_all_reduce o_prefill_2, beside both one after the other"]["reached"], aims
    prefill = aims["Llama 3.1 8B, tp 2, prefill of fixed_batch_32 with --overlap"]
    assert prefill["reached"] and prefill["measured"] == "30000 tok/s, 1.500 of without; first token after 33.3 ms, without 50.0", prefill
    few = aims["moe_combine, 128 tokens, 2 ranks, beside NCCL's all_to_all of 128 rows from each to each"]
    assert few["reached"] and few["measured"] == "5.0 us of 20.0 us", few
    for what in ("all_reduce_add_rms_norm decode_2, beside both one after the other", "reduce_scatter prefill_2, beside NCCL", "all_gather prefill_2, beside NCCL",
                 "fused_moe_ep decode_2, beside its parts one after the other", "fused_moe_ep prefill_2, beside its parts one after the other"):
        assert aims[what]["reached"] and aims[what]["measured"].startswith("4.00 times"), what
    # As many ranks as there are GPUs, up to eight.
    said, report = measure("--only", "kib_8", "llama tp", "mixtral", code=0, GPUS="8")
    aims = {row["what"]: row for row in report["aims"]}
    for n, aim in ((2, "0.62"), (4, "0.42"), (8, "0.33")):
        row = aims[f"Llama 3.1 8B, tp {n}"]
        assert row["aim"] == aim and row["reached"] and f"{1 / n:.3f} of tp 1" in row["measured"], row
        assert f"all_reduce kib_8, {n} ranks, beside NCCL" in aims, aims
    assert "mixtral tp 4" in report["steps"] and "mixtral tp 8" not in report["steps"], list(report["steps"])
    # What devices have no room for is no failure.
    said, report = measure("--only", "mixtral", code=0, LITTLE="1")
    assert "mixtral tp 2: left out: it needs 50 GiB" in said and not report["aims"], said

root = pathlib.Path(sys.argv[1]).resolve().parents[2]
planned = subprocess.run([sys.executable, sys.argv[1], "none", "--dry-run"], capture_output=True, text=True, check=True).stdout
asked = [(op, case) for op, options in re.findall(r" bench (\w+) (.*)", planned) for case in re.findall(r"--case (\w+)", options)]
assert {case.rsplit("_", 1)[1] for _, case in asked} == {"2", "4", "8"}, asked
for op, case in asked:
    contract, = (root / "registry/ops").rglob(f"{op}.yaml")
    assert re.search(rf"{{name: {case}, NR: {case.rsplit('_', 1)[1]}, ", contract.read_text()), f"{op} has no case {case}"
print("passed")
