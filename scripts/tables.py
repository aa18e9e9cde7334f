#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Redraws tables of documents. docs/measuring.md: between `<!-- table -->` and `<!-- end -->` from the newest docs/results/*-cpu.json,
between `<!-- gpu -->` and `<!-- end gpu -->` from every docs/results/*-h200-<scenario>.json that holds the report of a run.
docs/verdict.md: between `<!-- verdicts -->` and `<!-- end verdicts -->` from the newest docs/results/*-verdicts.json
(scripts/verdict_latency.py) and *-judges.json (scripts/compare_judges.py)."""
import json, pathlib

root = pathlib.Path(__file__).resolve().parent.parent
source = sorted((root / "docs/results").glob("*-cpu.json"))[-1]
d = json.loads(source.read_text())
read = d["read_bytes_per_s"]["median"]
lines = [f"From `{source.relative_to(root)}`: {d['machine']['cpu']}, {d['machine']['cores']} cores (load {d['machine']['load']:.1f}), "
         f"commit {d['commit']}, {d['date']}, `{d['command']}`. Medians, quartiles in brackets.", "",
         "| what | measured | aim |", "|---|---|---|"]


def span(v, unit, digits=1):
    return f"{v['median']:.{digits}f} {unit} ({v['low']:.{digits}f}-{v['high']:.{digits}f})"


lines.append(f"| a null forward through the frame | {span(d['null_call_ns'], 'ns')} | < 100 ns |")
lines.append(f"| host time per node and step, {d['host_per_node_ns']['nodes']} nodes | {span(d['host_per_node_ns'], 'ns')} | < 500 ns |")
lines.append(f"| plain read of memory, {d['threads']} threads | {read / 1e9:.1f} GB/s | |")
lines += ["", "| model | provider | dtype | batch | prefill tok/s | decode tok/s | decode step | weights per step of a plain read |", "|---|---|---|---|---|---|---|---|"]
for m in d["models"]:
    share = f"{m['weight_bytes_per_s'] / m['read_bytes_per_s'] * 100:.0f} %" if m["model"] != "tiny" else ""
    lines.append(f"| {m['model']} | {m['provider']} | {m['dtype']} | {m['batch']} | {m['prefill_tokens_per_s']:.0f} | {m['decode_tokens_per_s']:.1f} | {span(m['decode_step_ms'], 'ms', 2)} | {share} |")
page = root / "docs/measuring.md"
text = page.read_text()
head, tail = text.split("<!-- table -->")[0], text.split("<!-- end -->")[1]
text = head + "<!-- table -->\n" + "\n".join(lines) + "\n<!-- end -->" + tail

lines = ["| run | workload | prefill tok/s | decode tok/s | first token | per token |", "|---|---|---|---|---|---|"]
for source in sorted((root / "docs/results").glob("*-h200-*.json")):
    d = json.loads(source.read_text())
    if "report" not in d:
        continue
    r = d["report"]
    for w in r["baseline"]["workloads"]:
        def figure(key, unit, scale, digits):
            v = w[key]
            return f"{v['median'] * scale:.{digits}f}{unit} ({v['p10'] * scale:.{digits}f}-{v['p90'] * scale:.{digits}f})"
        lines.append(f"| {r['scenario']} {r['dtype']}, {r['device']}, driver {d['driver']}, commit {d['commit']}, {d['date']} | {w['workload']} | "
                     f"{figure('prefill_tokens_per_s', '', 1, 0)} | {figure('decode_tokens_per_s', '', 1, 0)} | "
                     f"{figure('first_token_s', ' ms', 1e3, 1)} | {figure('token_s', ' ms', 1e3, 2)} |")
head, tail = text.split("<!-- gpu -->")[0], text.split("<!-- end gpu -->")[1]
page.write_text(head + "<!-- gpu -->\n" + "\n".join(lines) + "\n<!-- end gpu -->" + tail)

page = root / "docs/verdict.md"
lines = []
for source in sorted((root / "docs/results").glob("*-verdicts.json"))[-1:]:
    d = json.loads(source.read_text())
    lines += [f"From `{source.relative_to(root)}`: {d['device']}, load {d['load'][0]:.1f} to {d['load'][1]:.1f}, commit {d['commit']}, {d['date']}, "
              f"`{d['command']}`; {d['verdicts_per_hour']:.0f} verdicts in an hour for {d['clients']} clients at once.", "",
              "| plugin | cases | server | verdict | clock, median | clock, p95 | processor, median | runs |", "|---|---|---|---|---|---|---|---|"]
    for r in d["rows"]:
        lines.append(f"| {r['what']} | {r['cases']} | {'yes' if r['server'] else 'no'} | {', '.join(r['statuses'])} | {1e3 * r['wall_s']['median']:.0f} ms | "
                     f"{1e3 * r['wall_s']['p95']:.0f} ms | {1e3 * r['processor_s']['median']:.0f} ms | {r['runs']} |")
for source in sorted((root / "docs/results").glob("*-judges.json"))[-1:]:
    d = json.loads(source.read_text())
    lines += ["", f"From `{source.relative_to(root)}`: {d['device']}, load {d['load']:.1f}, commit {d['commit']}, {d['date']}, `{d['command']}`.", "",
              "| judge | attacks believed | honest ones refused | a verdict, median |", "|---|---|---|---|"]
    for judge, name in (("naive", "as commonly written (`test/attacks/naive_judge.cpp`)"), ("host", "`fk-host bench`, with a server")):
        s = d["summary"][judge]
        lines.append(f"| {name} | {s['attacks_believed']} of {s['attacks']} | {s['honest_refused']} of {s['honest']} | {1e3 * s['wall_s']:.0f} ms |")
text = page.read_text()
head, tail = text.split("<!-- verdicts -->")[0], text.split("<!-- end verdicts -->")[1]
page.write_text(head + "<!-- verdicts -->\n" + "\n".join(lines) + "\n<!-- end verdicts -->" + tail)
