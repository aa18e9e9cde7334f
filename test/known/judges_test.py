#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judges_test.py BUILD SOURCE_DIR: scripts/judge/compare_gpu_judges.py asks all judges the same, in turns, and tells the same of each: on the
CPU, with this host and a stand-in for the Python judges."""
import json, pathlib, subprocess, sys, tempfile

build, source = map(pathlib.Path, sys.argv[1:3])
if not (build / "test/known/cpu/known_1.so").exists() or not (build / "test/attacks/plugins/honest/plain.so").exists():
    sys.exit(print("skipped: ninja fk_known fk_attacks has not been run"))
with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "judges.json"
    done = subprocess.run([sys.executable, source / "scripts/judge/compare_gpu_judges.py", "--build", build, "--device", "cpu", "--runs", "2", "--limit", "2", "--clients", "2",
                           "--python-judge", source / "test/known/stand_in_judge.py", "--json", out], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
judges = {line["judge"]: line for line in found["summary"]}
assert set(judges) == {"events", "host"}, set(judges)
assert set(judges["events"]) == set(judges["host"]), "not the same is told of each"
asked = lambda judge: [(r["case"], r["launches"]) for r in found["rows"] if r["judge"] == judge]
assert len(asked("host")) == 16 and asked("host") == asked("events"), asked("host")
# In turns: the two of a question beside each other, and neither always first.
pairs = list(zip(found["rows"][::2], found["rows"][1::2]))
assert all({a["judge"], b["judge"]} == {"events", "host"} and (a["case"], a["launches"]) == (b["case"], b["launches"]) for a, b in pairs)
assert len({a["judge"] for a, _ in pairs}) == 2
# What follows from the stand-in's words.
events = judges["events"]
assert events["sd_rows_16"] == 0 and abs(events["error_rows_16"]) < 1e-9, events
assert abs(events["bytes_per_s_rows_16"] / (6 * 16 * 8192 / 1e-5) - 1) < 1e-9, events["bytes_per_s_rows_16"]
assert (events["attacks"], events["believed"], events["honest"], events["honest_refused"]) == (2, 2, 2, 0), events
host = judges["host"]
assert host["believed"] == 0 and host["honest_refused"] == 0, host
assert host["wall_s"] > 0 and host["attack_wall_s"] > 0 and host["bytes_per_s_rows_16"] > 1e8, host
assert host["error_rows_16"] is not None and host["sd_rows_16"] is not None, host  # what they are is the machine's
# Of whoever says the opposite of what is so there is no time: to the stand-in all is right.
assert host["right_wall_s"] > host["again_wall_s"] > 0 and host["wrong_wall_s"] > 0 and host["per_hour"] > 0, host
assert events["right_wall_s"] > 0 and events["wrong_wall_s"] is None, events
assert len(found["host_builds"]) == 1 and found["commit"] and not {"other_run", "attacks_run"} & set(found), found.keys()
print("all judges are asked the same")
