#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_report.py PARTS SUMMARY WORDS: what scripts/gpu_check.sh has seen, as JSON: the machine, the lines of SUMMARY, and every report in
the folder PARTS under its name. WORDS are the script's own options."""
import json, os, pathlib, shutil, subprocess, sys


def said(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() if shutil.which(command[0]) else ""


report = {"command": f"scripts/gpu_check.sh OUT{sys.argv[3]}",
          "device": said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
          "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
          "clocks": said("nvidia-smi", "--query-gpu=clocks.max.sm,clocks.max.mem", "--format=csv,noheader"),
          "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": said("date", "-u", "+%F"),
          "summary": pathlib.Path(sys.argv[2]).read_text().splitlines()}
for part in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    try:
        report[part.stem] = json.loads(part.read_text())
    except ValueError:  # who wrote it was stopped
        report[part.stem] = None
json.dump(report, sys.stdout, indent=1)
