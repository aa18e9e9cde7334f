#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judged.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_PLUGINS_DIR: what the judge asks beside values and time, in cases of a registry
of its own: a case that a null candidate passes is untestable, wrong or not."""
import json, os, pathlib, shutil, subprocess, sys, tempfile

host = sys.argv[1]
source, good, bad = map(pathlib.Path, sys.argv[2:5])
work = pathlib.Path(tempfile.mkdtemp())
home = work / "home"
shutil.copytree(source / "registry", home / "registry")
(home / "scenarios").symlink_to(source / "scenarios")
env = dict(os.environ, FK_HOME=str(home), FK_CANDIDATES=str(work / "none"), FK_DATA=str(work / "data"))
env.pop("XDG_DATA_HOME", None)


def bench(plugin, *words):
    command = [host, "bench", str(plugin), "--size", "smoke", "--seconds", "0", "--no-store", "--json", *map(str, words)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("{"), done.stderr
    return json.loads(done.stdout), done.returncode


def by_case(verdict):
    return {case["case"]: case for case in verdict["cases"]}


def add_cases(op, *lines):
    """Smoke cases, behind those that are there."""
    (path,) = (home / "registry").rglob(f"{op}.yaml")
    text = path.read_text()
    assert "\n  ci:\n" in text
    path.write_text(text.replace("\n  ci:\n", "\n" + "".join(f"    - {{{line}}}\n" for line in lines) + "  ci:\n", 1))


# silu(0) * x is 0, so that zeros are right: nothing follows from being right here.
add_cases("silu_and_mul", "name: nothing, T: 4, size: 16, values: {x: constant(0)}")
verdict, code = bench(good)
cases = by_case(verdict)
assert cases["nothing"]["status"] == "untestable", cases["nothing"]["status"]
assert "zeros in out" in cases["nothing"]["why"], cases["nothing"]["why"]
assert any(not fake["rejected"] for fake in cases["nothing"]["nulls"])
assert cases["smoke0"]["status"] == "correct", cases["smoke0"]
assert len(cases["smoke0"]["nulls"]) >= 5 and all(fake["rejected"] for fake in cases["smoke0"]["nulls"])
assert verdict["aggregate"]["not_judged"] == 1 and verdict["status"] == "correct" and code == 0
verdict, code = bench(good, "--case", "nothing")
assert verdict["status"] == "untestable" and code == 3 and verdict["aggregate"]["right"] == 0
# One that breaks a rule there is not excused.
verdict, _ = bench(bad / "bad_past_end.so", "--case", "nothing")
assert verdict["status"] in ("violation", "illegal_access"), verdict["status"]

shutil.rmtree(work)
print("the judge asks what it should")
