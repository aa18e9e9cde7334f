#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_summary.py FILE: a report of `fk-host check --json`, `verify --json` or `bench CANDIDATE --json` in one line, and one more for each
op or case that is not right."""
import collections, json, pathlib, sys


def of_check(report):
    rows = report["rows"]
    counts = collections.Counter(row["status"] for row in rows)
    words = ", ".join(f"{counts[status]} {status}" for status in ("ok", "unsupported", "unjudged", "untestable", "wrong", "violation") if counts[status])
    yield f"check {report['plugin']} on {report['device']}, {len({row['op'] for row in rows})} ops: {words}"
    first = {}
    for row in rows:
        if row["status"] in ("wrong", "violation"):
            first.setdefault(row["op"], []).append(row)
    for op, bad in first.items():
        row = bad[0]
        yield f"  {op}, {len(bad)} rows, the first: case {row['case']}, {row['variant']}: {row['rule'] or row['status']}: {row['text'][:300]}"


def of_verify(report, name):
    cases = report["cases"]
    yield f"{name}: {sum(case['passed'] for case in cases)} of {len(cases)} models pass"
    for case in cases:
        if not case["passed"]:
            yield f"  {case['name']}: {case['error'] or [row['what'] for row in case['rows'] if not row['ok']]}"


def of_verdict(report):
    cases = report["cases"]
    counts = collections.Counter(case["status"] for case in cases)
    yield f"judged {report['candidate']['name']} on {report['device']}: {report['status']}: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    for case in cases:
        if case["status"] not in ("faster", "same", "slower", "cannot_tell", "correct"):
            yield f"  {case['op']}, case {case['case']}, {case['ranks']} ranks: {case['status']}: {(case['evidence'] or case['why'])[:300]}"


path = pathlib.Path(sys.argv[1])
try:
    report = json.loads(path.read_text())
except (OSError, ValueError) as error:
    sys.exit(f"{path.stem}: no report: {error}")
print("\n".join(of_verdict(report) if "candidate" in report else of_verify(report, path.stem) if "cases" in report else of_check(report)))
