#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_summary.py FILE: one line for a report of `fk-host check --json`, and one for each op with a bad row."""
import collections, json, sys

try:
    report = json.load(open(sys.argv[1]))
except (OSError, ValueError) as error:
    sys.exit(f"check: no report: {error}")
rows = report["rows"]
counts = collections.Counter(row["status"] for row in rows)
words = ", ".join(f"{counts[status]} {status}" for status in ("ok", "unsupported", "unjudged", "wrong", "violation") if counts[status])
print(f"check {report['plugin']} on {report['device']}, {len({row['op'] for row in rows})} ops: {words}")
first = {}
for row in rows:
    if row["status"] in ("wrong", "violation"):
        first.setdefault(row["op"], []).append(row)
for op, bad in first.items():
    row = bad[0]
    print(f"  {op}, {len(bad)} rows, the first: case {row['case']}, {row['variant']}: {row['rule'] or row['status']}: {row['text'][:300]}")
