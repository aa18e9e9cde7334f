#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refusals.py FK_HOST SOURCE_DIR: what is refused before any work begins: files that cannot be written, errors as JSON, scenarios and contracts with
mistakes, runs that this machine cannot do."""
import json, pathlib, shutil, sys

from host import Host

source = pathlib.Path(sys.argv[2])
host = Host(sys.argv[1])
work, run = host.work, host.run

# With a file, the report for people is there as well. The file is looked at before the work begins: nothing is made for it.
assert "cpu" in run(["list", "devices", "--json", work / "new"], 0) and json.loads((work / "new").read_text())["schema"] == "fk-host.list/1"
for target, part in ((work / "nowhere/x.json", f"mkdir -p {work}/nowhere"), (work, "it is a folder"), ("/proc/none", "cannot be written"),
                     (work / "nowhere/deep/x.json", "its folder does not exist"), (work / ("n" * 300), "cannot be written")):
    for words in (["list", "devices"], ["check", "cpu"], ["bench", "add"], ["run", "smoke"], ["verify", source / "test/golden/llama"], ["receipts"],
                  ["record", "smoke"], ["replay", "0"], ["show", "add"], ["compare", "cpu", "reference"]):
        if (words[0], target) != ("bench", work):  # which is a candidate's folder there
            run([*words, "--json", target], 2, part, absent=["PASS", "correct"])
assert not (work / "nowhere").exists()
run(["bench", "cpu", "--receipt", work / "nowhere/r"], 2, "mkdir -p", absent=["correct"])
# An error is in the file too, once it is open; else on the standard output.
run(["list", "opps", "--json", work / "error.json"], 2, "did you mean `ops`")
assert json.loads((work / "error.json").read_text())["schema"] == "fk-host.error/1"
error = json.loads(run(["list", "ops", "--json", "--no-such-option"], 2))
assert error["verb"] == "list" and "--no-such-option" in error["what"], error
assert run(["list", "opps"], 2) == "", "an error without --json has no document"

text = (source / "scenarios/smoke.yaml").read_text().replace("scenario: smoke", "scenario: mine")
shutil.copytree(source / "scenarios/workloads", work / "workloads")
# A provider that is not there, at its line; a cache that holds no request; no time.
pinned = work / "mine.yaml"
pinned.write_text(text.replace("seed: 1", "seed: 1\nproviders: {linear: cpuu}", 1))
line = pinned.read_text().split("providers:")[0].count("\n") + 1
run(["run", pinned], 2, f"mine.yaml:{line}", "there is no baseline `cpuu`", "did you mean `cpu`")
run(["record", pinned, "--out", work / "recorded"], 2, f"mine.yaml:{line}", "did you mean `cpu`")
run(["run", "smoke", "--device", "cpu", "--pages", "1"], 2, "--pages: 1 pages of 16 tokens cannot hold the longest request", "or more")
small = (source / "scenarios/smoke.yaml").read_text().replace("scenario: smoke", "scenario: small")
(work / "small.yaml").write_text(small.replace("limits: {", "limits: {pages: 1, "))
run(["run", work / "small.yaml", "--device", "cpu"], 2, "small.yaml: limits: pages", "cannot hold the longest request")
run(["run", "smoke", "--time-limit", "0"], 2, "--time-limit: 0 is not above 0")
# The real sizes on a CPU: what they would need, before a weight is made.
run(["run", "mixtral", "--profile", "full", "--device", "cpu"], 3, "the profile full needs ", " for weights and ", " for caches", " of memory are free",
    "It would take about ", "--profile tiny")

# A mistake in a contract is the contract's: file and line, and no plugin is blamed.
registry = work / "registry/ops/l1/activation"
registry.mkdir(parents=True)
sound = next((source / "registry").rglob("silu_and_mul.yaml")).read_text().replace("op: silu_and_mul", "op: own_activation")
own = registry / "own_activation.yaml"
first = next(line for line in sound.splitlines() if line.strip().startswith("- {") and "T:" in line)
for old, new, part in (("numerics:", "nmerics:", "nmerics"), (first, first.replace("T:", "name: odd, values: {x: 'normul(0,1)'}, T:"), "did you mean `normal`?"),
                       (first, first.replace("T:", "name: odd, values: {x: normal(0)}, T:"), "normal takes 2 arguments"),
                       (first, first.replace("T: ", "T: -"), "")):
    assert old in sound, old
    own.write_text(sound.replace(old, new, 1))
    line = own.read_text()[:own.read_text().index(new)].count("\n") + 1
    run(["bench", "own_activation", "--size", "smoke"], 2, f"own_activation.yaml:{line}", part, absent=["violation"], FK_REGISTRY_PATH=work / "registry")

host.end()
