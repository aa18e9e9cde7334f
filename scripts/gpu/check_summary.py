#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_summary.py FILE: a report of `fk-host check --json`, `verify --json`, `bench OP|CANDIDATE --json` or `run --json` in one line, and one
more for each op, case or workload; of the first three only for those that are not right. Exit 4 for a run that was left out because its
device is too small for it, whatever it does; the line says `left out`. Exit 1 for a model of `verify` that does not pass."""
import collections, json, pathlib, re, statistics, sys


def of_check(report):
    rows = report["rows"]
    counts = collections.Counter(row["status"] for row in rows)
    words = ", ".join(f"{counts[status]} {status}" for status in ("ok", "unsupported", "left_out", "unjudged", "untestable", "wrong", "violation") if counts[status])
    yield f"check {report['plugin']} on {report['device']}, {len({row['op'] for row in rows})} ops: {words}"
    first = {}
    for row in rows:
        if row["status"] in ("wrong", "violation"):
            first.setdefault(row["op"], []).append(row)
    for op, bad in first.items():
        row = bad[0]
        yield f"  {op}, {len(bad)} rows, the first: case {row['case']}, {row['variant']}: {row['rule'] or row['status']}: {row['text'][:300]}"


DIVIDED = "llama", "mixtral", "qwen3"  # which are wrong where they say otherwise


def undivided(case):
    """The model has no law of division for these ranks, and its error says so."""
    return not case["passed"] and case["name"] not in DIVIDED and bool(re.search(
        r"not divided between ranks|cannot be divided|between \d+ ranks", case["error"]))


def of_verify(report, name):
    cases = report["cases"]
    whole = [case for case in cases if undivided(case)]
    yield f"{name}: {sum(case['passed'] for case in cases)} of {len(cases) - len(whole)} models pass" + (f", {len(whole)} are not divided" if whole else "")
    for case in cases:
        if not case["passed"] and case not in whole:
            yield f"  {case['name']}: {case['error'] or [row['what'] for row in case['rows'] if not row['ok']]}"


def of_verdict(report):
    cases = report["cases"]
    counts = collections.Counter(case["status"] for case in cases)
    yield f"judged {report['candidate']['name']} on {report['device']}: {report['status']}: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    for case in cases:
        if case["status"] not in ("faster", "same", "slower", "cannot_tell", "correct"):
            yield f"  {case['op']}, case {case['case']}, {case['ranks']} ranks: {case['status']}: {(case['evidence'] or case['why'])[:300]}"


def of_bench(report):
    rows = report["rows"]
    yield f"bench {', '.join(sorted({row['op'] for row in rows}))} on {report['device']}: {sum(not row['why'] for row in rows)} of {len(rows)} rows have a time"
    for routing in sorted({row["routing"] for row in rows if row.get("of_uniform")}):
        times = [row["of_uniform"] for row in rows if row["routing"] == routing and row.get("of_uniform")]
        yield f"  {routing} routing takes {statistics.median(times):.3f} times as long as uniform, the median of {len(times)} rows"


def of_run(report):
    if report.get("too_large"):
        yield f"left out: run {report['scenario']}, profile {report['profile']}, tp {report['tp']}: {report['too_large']['what']}"
        return
    base = report["baseline"]
    error = base.get("correctness") or {}
    yield (f"run {report['scenario']}, profile {report['profile']}, {report['dtype']} on {report['device']}: {base['verdict']} {base['why']}".rstrip() +
           f", {report['seconds']:.1f} s, error {error.get('rms_of_spread') or 0:.4f} of the spread, {error.get('rms_limit') or 0:.4f} allowed")
    yield from (f"  {line.strip()}" for line in (report.get("room") or "").splitlines())
    if report["error"]:
        yield f"  {report['error']}"
    for row in base["workloads"]:
        if not row["done"]:
            yield f"  {row['workload']}: {row['why']}"
            continue
        of = {name: row[name]["median"] for name in ("prefill_tokens_per_s", "decode_tokens_per_s", "first_token_s", "token_s", "round_s") if row.get(name)}
        yield (f"  {row['workload']}: {row['requests']} requests, {row['prompt_tokens']} tokens in, {row['output_tokens']} out, {of.get('round_s', 0):.3f} s a round, " +
               f"prefill {of.get('prefill_tokens_per_s', 0):.0f} tok/s, decode {of.get('decode_tokens_per_s', 0):.0f} tok/s, {1e3 * of.get('token_s', 0):.3f} ms a token")


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1])
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"{path.stem}: no report: {error}")
    kinds = {"scenario": of_run, "candidate": of_verdict, "plugin": of_check, "rows": of_bench, "cases": lambda it: of_verify(it, path.stem)}
    print("\n".join(next(of for key, of in kinds.items() if key in report)(report)))
    sys.exit(4 if report.get("too_large") else 1 if any(not case["passed"] and not undivided(case) for case in report.get("cases", []) if "passed" in case) else 0)
