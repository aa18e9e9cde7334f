#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_check_test.py SCRIPTS: what scripts/gpu_check.sh does with a scenario that one GPU is too small for, by a host that only
pretends: it is left out, or run on two where there are, and is no failure; anything else that fails is one."""
import pathlib, subprocess, sys, tempfile

scripts = pathlib.Path(sys.argv[1]).resolve()
HOST = '''#!/usr/bin/env python3
import json, os, sys
a = sys.argv[1:]
report = {"scenario": a[1], "profile": a[3], "tp": int(a[a.index("--tp") + 1]) if "--tp" in a else 1, "dtype": "bf16", "device": "a GPU", "seconds": 1.0,
          "error": "", "room": "", "too_large": None, "baseline": {"verdict": "correct", "why": "", "correctness": None, "workloads": []}}
code = 0
if report["tp"] < int(os.environ["NEEDS"]):
    code, report["error"] = 3, "the device: it needs 91.0 GiB"
    report["too_large"] = {"what": "it needs 91.0 GiB, and a GPU has 79.0 GiB", "needs_bytes": 91, "device_bytes": 79}
if os.environ.get("BROKEN"):
    code, report["error"] = 3, "the baseline: it crashed"
json.dump(report, open(a[a.index("--json") + 1], "w"))
sys.exit(code)
'''


def function(name):
    text = (scripts / "gpu_check.sh").read_text()
    start = text.index(f"{name}() {{")
    line = text[start:text.index("\n", start)]
    return line if line.endswith("}") else text[start:text.index("\n}\n", start) + 3]


def run(gpus, needs, broken=""):
    with tempfile.TemporaryDirectory() as folder:
        host = pathlib.Path(folder) / "host"
        host.write_text(HOST)
        host.chmod(0o755)
        code = f"set -uo pipefail\nhost={host} parts={folder} out={folder} gpus={gpus}\n{function('summarize')}\n{function('scenario')}\nscenario mixtral full single_request"
        done = subprocess.run(["bash", "-c", code], cwd=scripts.parent, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "NEEDS": str(needs), "BROKEN": broken})
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout.strip().splitlines()


code, said = run(gpus=1, needs=1)
assert code == 0 and said[0].startswith("run mixtral, profile full"), (code, said)
code, said = run(gpus=1, needs=2)
assert code == 0 and said == ["left out: run mixtral, profile full, tp 1: it needs 91.0 GiB, and a GPU has 79.0 GiB"], (code, said)
code, said = run(gpus=2, needs=2)
assert code == 0 and len(said) == 2 and said[1].startswith("run mixtral, profile full"), (code, said)
code, said = run(gpus=2, needs=4)
assert code == 0 and [line.split(":")[0] for line in said] == ["left out"] * 2 and "tp 2" in said[1], (code, said)
code, said = run(gpus=2, needs=1, broken="yes")
assert code == 3 and "it crashed" in said[1] and said[-1].startswith("run-mixtral-full: exit 3"), (code, said)
