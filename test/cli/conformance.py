#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""conformance.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: `check --report` writes what was found, also of a plugin that fails;
`check --verify` refuses a changed report, a report about another file, and a file that is no report."""
import json, os, pathlib, shutil, subprocess, sys, tempfile

host, good, bad = sys.argv[1], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "none"), FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"))
env.pop("XDG_DATA_HOME", None)
file, plugin = work / "report.json", pathlib.Path(shutil.copy(good, work / "mine.so"))


def run(code, expected, *words):
    done = subprocess.run([host, "check", *map(str, words)], env=env, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    assert done.returncode == code and expected in said, f"{words}: exit {done.returncode}, expected {code} and `{expected}` in\n{said}"


run(0, "PASS", plugin, "--report", file)
report = json.loads(file.read_text())
assert report["verdict"] == "PASS" and report["check"]["passed"] and report["check"]["judged"]["status"] == "correct", report["verdict"]
assert report["ops"][0]["op"] == "silu_and_mul" and len(report["ops"][0]["contract"].split()) == 4, report["ops"]
assert report["sha256"] == __import__("hashlib").sha256(plugin.read_bytes()).hexdigest()
signed = bool(report["signature"])
assert signed or report["unsigned"], "neither signed nor a reason"
run(0, "and unchanged" if signed else "not signed", plugin, "--verify", file)
run(0, "PASS", plugin, "--quick", "--report", work / "quick.json")
run(0, "smoke cases (not all of them), at ", plugin, "--verify", work / "quick.json")
# Any changed field, also deep inside.
for change in (lambda r: r.update(version="9"), lambda r: r["check"]["rows"][0].update(status="wrong"), lambda r: r.update(signed_by="0" * 64)):
    changed = json.loads(file.read_text())
    change(changed)
    (work / "changed.json").write_text(json.dumps(changed))
    if signed:
        run(2, "signature", plugin, "--verify", work / "changed.json")
plugin.write_bytes(plugin.read_bytes() + b"\0")
run(2, "is about another file of plugin `good`: its SHA-256 is ", plugin, "--verify", file)
(work / "other.json").write_text('{"schema": "fk-host.check/1"}')
run(2, "is no report of a check (its schema should be fk-host.conformance/1)", plugin, "--verify", work / "other.json")
run(2, "none.json", plugin, "--verify", work / "none.json")
# A failure is reported and signed, too.
wrong = bad / "bad_unwritten.so"
run(1, "FAIL", wrong, "--report", file)
report = json.loads(file.read_text())
assert not report["check"]["passed"] and report["verdict"].startswith("FAIL"), report["verdict"]
run(0, "FAIL", wrong, "--verify", file)
shutil.rmtree(work)
print("conformance: reports are signed and compared")
