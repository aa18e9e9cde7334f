#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vendors.py FK_HOST SOURCE_DIR GOOD_PLUGIN BAD_DIR: plugins of FK_PLUGIN_PATH. The host says why it refuses one, and a baseline races another one."""
import json, pathlib, sys

from host import Host

good, bad = pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
host = Host(sys.argv[1])
run = host.run
built = good.parent  # the folders of the plugins of test/cli

# The name of the host's own provider: the host keeps its own, and every list says so.
run(["list", "plugins"], 0, "the host's own provider has the name `reference` too", "give FK_PLUGIN another name", FK_PLUGIN_PATH=built / "impostor")
race = ["bench", "silu_and_mul", "--size", "smoke", "--seconds", "0.01"]
run(race, 0, "not usable: ", "the host's own provider has the name `reference` too", FK_PLUGIN_PATH=built / "impostor")

# A contract that does not match is shown before anything is loaded.
run(["list", "plugins"], 0, "refused: contract: ", "revision 77", FK_PLUGIN_PATH=bad / "bad_revision.so")

# A library that only a baseline may link: the finding names the way.
run(["check", built / "needy/needy.so"], 1, "needs `libfk_absent.so", "FK_PLUGIN_PATH")

# Every distinct refusal has its line, also beside a PASS.
run(["check", good], 0, "silu_and_mul refused ", "cases: x: float32 only", "PASS")

# A baseline as the candidate races the best of the others, and never its own file.
told = json.loads(run(["bench", "cpu", "--op", "silu_and_mul", "--case", "smoke0", "--size", "smoke", "--seconds", "0.05", "--no-store", "--json"], 0,
                      FK_PLUGIN_PATH=built / "slow"))
assert [case["baseline"] for case in told["cases"]] == ["a_slow"], told["cases"]

host.end()
