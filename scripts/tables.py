#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Redraws the tables of docs/measuring.md: between `<!-- table -->` and `<!-- end -->` from the newest docs/results/*-cpu.json,
between `<!-- gpu -->` and `<!-- end gpu -->` from every docs/results/*-h200-<scenario>.json that holds the report of a run."""
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
