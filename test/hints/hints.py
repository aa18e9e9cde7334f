#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hints.py FK_HOST SOURCE_DIR SOURCE PLUGIN: a verdict on a wrong plugin names its mistake. The first comment of the source has `wrong`,
the mistake; `hint`, the pattern's name; `says`, a part of its sentence; `bench`, more options; and last `next`, the whole next step."""
import json, os, pathlib, re, subprocess, sys, tempfile

host, source_dir, source, plugin = sys.argv[1:5]
sys.path.insert(0, str(pathlib.Path(source_dir) / "test/cli"))
from schema import validate

# A long line goes on in the next one.
comment = "\n".join(line[3:] for line in pathlib.Path(source).read_text().splitlines() if line.startswith("//"))
told = {key: " ".join(text.split()) for key, text in re.findall(r"^(wrong|hint|says|bench|next): ((?:.|\n)*?)(?=\n(?:wrong|hint|says|bench|next): |\Z)", comment, re.M)}
options = told.get("bench", "--size smoke").split()
with tempfile.TemporaryDirectory() as work:
    env = dict(os.environ, FK_DATA=work, FK_CACHE=work, FK_CANDIDATES=work)
    done = subprocess.run([host, "bench", plugin, *options, "--seconds", "0", "--no-store", "--json"], env=env, capture_output=True, text=True, timeout=100)
assert done.stdout.startswith("{"), done.stderr
verdict = json.loads(done.stdout)
problem = validate(verdict, json.loads((pathlib.Path(source_dir) / "docs/schema/verdict.json").read_text()))
assert problem is None, problem
print(json.dumps({"why": verdict["why"], "next": verdict["next"]}, indent=1))
assert verdict["status"] == "wrong" and done.returncode == 1, (verdict["status"], verdict["why"])

# Among cases of one pattern, the one with the largest error speaks; null is no number, and more than any.
size = lambda case: float("inf") if case["errors"]["worst"] is None else case["errors"]["worst"]
wrong = [case for case in verdict["cases"] if case["status"] == "wrong" and case["errors"]["name"] == told["hint"]]
assert wrong, [case["errors"]["name"] for case in verdict["cases"] if case.get("errors")]
speaker = max(wrong, key=size)
assert f"case {speaker['case']}" in verdict["why"], (speaker["case"], verdict["why"])
errors = speaker["errors"]
print(json.dumps({key: errors[key] for key in ("name", "pattern", "axes", "figures", "worst")}))
assert errors["name"] == told["hint"], (errors["name"], told["hint"], errors["pattern"])
assert told["says"] in errors["pattern"] and errors["pattern"] in verdict["why"], (told["says"], errors["pattern"], verdict["why"])
assert verdict["next"] == speaker["next"] == told["next"], (verdict["next"], told["next"])
assert all(axis["size"] > 0 and axis["indices"] for axis in errors["axes"]), errors["axes"]
