# SPDX-License-Identifier: Apache-2.0
"""The head of a results file: device, driver, clocks, commit, date. FK_COMMIT names the commit where there is no .git."""
import datetime, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def said(*command):
    """The first line of a command's output; empty if the command is missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip().split("\n")[0]
    except FileNotFoundError:
        return ""


def about(script, **more):
    asked = lambda what: said("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader")
    place = "scripts" if "/" in script else "scripts/rivals"
    return {"command": f"{place}/{script} " + " ".join("FILE" if word.endswith(".json") else word for word in sys.argv[1:]), "device": asked("name"), "driver": asked("driver_version"),
            "clocks": asked("clocks.max.sm,clocks.max.mem"), **more,
            "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": datetime.date.today().isoformat()}
