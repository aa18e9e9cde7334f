#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Redraws the tables of docs/results/*.md, each between `<!-- name -->` and `<!-- end name -->`, from the newest files beside them:
models.md: `cpu` from *-cpu.json (scripts/bench.sh), `gpu` from every *-<gpu>-*.json with reports of runs of real size, those of gpu_check.sh too (the
newest of every GPU and workload), `models` from *-<gpu>-models.json (scripts/gpu/models.py), `vllm` from *-<gpu>-vllm-gain.json (scripts/rivals/vllm.py). ops.md: `ops` from *-<gpu>-ops.json and *-<gpu>-kernels.json (scripts/gpu/ops.py).
ranks.md: `ranks` from *-ranks.json (scripts/gpu/ranks.py) and *-step.json. verdicts.md: `verdicts` from *-latency.json (scripts/judge/verdict_latency.py), *-verdicts.json (five small cases, by an earlier form of it),
*-precision.json (scripts/judge/precision.py) and *-judges.json (scripts/judge/compare_judges.py, scripts/judge/compare_gpu_judges.py)."""
import json
import re
import sys

from results import GPUS, of_each_gpu, root

sys.path.insert(0, str(root / "scripts/gpu"))
from kernel_names import plain  # noqa: E402


def redraw(name, mark, lines):
    """Puts lines between the marks of docs/results/<name>.md."""
    page = root / f"docs/results/{name}.md"
    head, rest = page.read_text().split(f"<!-- {mark} -->")
    page.write_text(head + f"<!-- {mark} -->\n" + "\n".join(lines) + f"\n<!-- end {mark} -->" + rest.split(f"<!-- end {mark} -->")[1])


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
redraw("models", "cpu", lines)

lines = ["| run | workload | prefill tok/s | decode tok/s | first token | per token |", "|---|---|---|---|---|---|"]
runs = {}  # the newest of every scenario, device and workload
for source in (root / "docs/results").glob(f"*-{GPUS}-*.json"):
    d = json.loads(source.read_text())
    for r in [d[key] for key in d if key == "report" or re.fullmatch(r"run-.*-full", key)]:
        for w in r["baseline"]["workloads"]:
            at = r["scenario"], r["device"], w["workload"]
            runs[at] = max(runs.get(at, (d["date"], d, r, w)), (d["date"], d, r, w), key=lambda run: run[0])
for (scenario, _, workload), (date, d, r, w) in sorted(runs.items(), key=lambda run: run[0]):
    def figure(key, unit, scale, digits):
        v = w[key]
        return f"{v['median'] * scale:.{digits}f}{unit} ({v['p10'] * scale:.{digits}f}-{v['p90'] * scale:.{digits}f})" if v else ""
    lines.append(f"| {scenario} {r['dtype']}, {r['device']}, driver {d['driver']}, commit {d['commit']}, {date} | {workload} | "
                 f"{figure('prefill_tokens_per_s', '', 1, 0)} | {figure('decode_tokens_per_s', '', 1, 0)} | "
                 f"{figure('first_token_s', ' ms', 1e3, 1)} | {figure('token_s', ' ms', 1e3, 2)} |")
redraw("models", "gpu", lines)

lines = []
for source in of_each_gpu("ops"):
    d = json.loads(source.read_text())
    lines += [""] if lines else []
    lines += [f"From `{source.relative_to(root)}`: {d['device']}, driver {d['driver']}, commit {d['commit']}, {d['date']}, `{d['command']}`. Medians, of "
              f"those that move bytes with quartiles{'; ' + d['note'] if 'note' in d else ''}.", "", "| op | case | time | GB/s | of a copy |", "|---|---|---|---|---|"]
    timed = [r for r in d["ops"] if r.get("cold_s")]
    for r in timed:
        if r["op"] != "linear" or r["provider"] == "cuda":
            lines.append(f"| {r['op']} | {r['case']} | {1e6 * r['cold_s']:.1f} us ({1e6 * r['cold_low_s']:.1f}-{1e6 * r['cold_high_s']:.1f}) | "
                         f"{r['bytes'] / r['cold_s'] / 1e9:.0f} | {100 * r['of_copy']:.0f} % |")
    moe = [r for r in d.get("triton_moe", []) if "plugin" in r]
    if moe:
        lines += ["", "| fused_moe, Mixtral, tokens | time | GB/s | TFLOP/s | Triton | times as fast |", "|---|---|---|---|---|---|"]
    for r in moe:  # bytes: of the weights of the experts that were chosen; operations: those of the assignments
        time, weights = r["plugin"]["seconds"], 3 * 4096 * 14336
        lines.append(f"| {r['tokens']} | {1e3 * time:.3f} ms | {2 * r['active_experts'] * weights / time / 1e9:.0f} | {4 * r['tokens'] * weights / time / 1e12:.0f} | "
                     f"{1e3 * r['seconds']:.3f} ms | {r['seconds'] / time:.2f} |")
    linear = {r["case"]: r for r in d.get("torch_linear", []) if "case" in r}
    shapes = list(dict.fromkeys(case.rsplit("_", 1)[0] for case in linear))
    if shapes:
        lines += ["", f"| linear, rows | {' | '.join(shapes)} |", "|" + "---|" * (len(shapes) + 1)]
    for rows in dict.fromkeys(int(case.rsplit("_", 1)[1]) for case in linear):
        cells = [linear.get(f"{shape}_{rows}") for shape in shapes]
        lines.append(f"| {rows} | " + " | ".join(f"{c['us']:.1f} us, {c['provider']}, {c['ratio']:.3f} {c['verdict']}" if c else "" for c in cells) + " |")
# What few models have: each case by all who take it, the oracle last.
for source in of_each_gpu("kernels"):
    d = json.loads(source.read_text())
    lines += ["", f"From `{source.relative_to(root)}`: {d['device']}, driver {d['driver']}, commit {d['commit']}, {d['date']}, `{d['command']}`. Cold medians, quartiles in "
              "brackets.", "", "| op | case | provider | time | GB/s | of a copy | TFLOP/s | `cuda_reference` |", "|---|---|---|---|---|---|---|---|"]
    oracle = {(r["op"], r["case"], r.get("routing")): r["cold_s"] for r in d["ops"] if r["provider"] == "cuda_reference" and r.get("cold_s")}
    for r in d["ops"]:
        if r["provider"] == "cuda_reference" or not r.get("cold_s"):
            continue
        flops = f"{r['flops'] / r['cold_s'] * 1e-12:.3g}" if r.get("flops") else ""
        of_copy = f"{100 * r['of_copy']:.0f} %" if r.get("of_copy") else ""
        slow = oracle.get((r["op"], r["case"], r.get("routing")))
        routing = f", {r['routing']}" if r.get("routing") else ""
        lines.append(f"| {r['op']} | {r['case']}{routing} | {r['provider']} | {1e6 * r['cold_s']:.1f} us ({1e6 * r['cold_low_s']:.1f}-{1e6 * r['cold_high_s']:.1f}) | "
                     f"{r['bytes'] / r['cold_s'] / 1e9:.0f} | {of_copy} | {flops} | {f'{1e6 * slow:.0f} us' if slow else ''} |")
redraw("ops", "ops", lines)

lines = []
newest = lambda *names: [found[-1] for found in (sorted((root / "docs/results").glob(name)) for name in names) if found]
for source in of_each_gpu("latency"):
    d = json.loads(source.read_text())
    lines += [""] if lines else []
    lines += [f"From `{source.relative_to(root)}`: {d['device']}, load {d['load']:.1f}, commit {d['commit']}, {d['date']}, `{d['command']}`.", "",
              "| plugin | op | server | verdict | clock, median | the longest | aim | runs |", "|---|---|---|---|---|---|---|---|"]
    for r in d["rows"]:
        lines.append(f"| {r['what']} | {r['op']} | {'yes' if r['server'] else 'no'} | {', '.join(r['statuses'])} | {r['wall_s']['median']:.2f} s | {r['wall_s']['most']:.2f} s | "
                     f"{r['aim_s']:g} s | {r['runs']} |")
for source in [*newest("*-cpu-verdicts.json"), *of_each_gpu("verdicts")]:
    d = json.loads(source.read_text())
    lines += [""] if lines else []
    lines += [f"From `{source.relative_to(root)}`: {d['device']}, load {d['load'][0]:.1f} to {d['load'][1]:.1f}, commit {d['commit']}, {d['date']}, "
              f"`{d['command']}`" + (f"; {d['verdicts_per_hour']:.0f} verdicts in an hour for {d['clients']} clients at once." if d["verdicts_per_hour"] else "."), "",
              "| plugin | cases | server | verdict | clock, median | clock, p95 | processor, median | runs |", "|---|---|---|---|---|---|---|---|"]
    for r in d["rows"]:
        lines.append(f"| {r['what']} | {r['cases']} | {'yes' if r['server'] else 'no'} | {', '.join(r['statuses'])} | {1e3 * r['wall_s']['median']:.0f} ms | "
                     f"{1e3 * r['wall_s']['p95']:.0f} ms | {1e3 * r['processor_s']['median']:.0f} ms | {r['runs']} |")
for source in of_each_gpu("precision"):
    d = json.loads(source.read_text())
    lines += ["", f"From `{source.relative_to(root)}`: {d['device']}, commit {d['commit']}, {d['date']}, `{d['command']}`: `silu_and_mul` in bfloat16, ratios of "
              "k launches to fewer on as many cold sets of buffers.", "", "| output | launches | true ratio | ratio | error | less the null kernel | plain events, less the null kernel |", "|---|---|---|---|---|---|---|"]
    for r in d["speedups"]:
        lines.append(f"| {r['case']} x 8192 | {' of '.join(map(str, r['launches']))} | {r['true']:.3g} | {r['ratio']:.4f} | {100 * r['error']:+.2f} % | {r['ratio_less_null']:.4f} | {r['plain_ratio_less_null']:.4f} |")
    lines += ["", "| output | a kernel against itself | time | standard deviation of the ratio | told | bandwidth | plain events around as many launches as a sample has | around one | around one, on memory of cudaMalloc |",
              "|---|---|---|---|---|---|---|---|---|"]
    for r in d["itself"]:
        said = ", ".join(f"{n} {status}" for status, n in r["statuses"].items())
        lines.append(f"| {r['case']} x 8192 | {r['verdicts']} verdicts | {1e6 * r['seconds']:.2f} us | {100 * r['sd_of_ratio']:.2f} % | {said} | {r['bytes_per_s'] / 1e12:.2f} TB/s | "
                     + (f"{r['plain_as_many_bytes_per_s'] / 1e12:.2f} TB/s, of {r['calls_per_sample']} | " if "plain_as_many_bytes_per_s" in r else "not asked | ") +
                     f"{r['plain_bytes_per_s'] / 1e12:.2f} TB/s | {r['plain_malloc_bytes_per_s'] / 1e12:.2f} TB/s |")
for source in of_each_gpu("judges"):
    d = json.loads(source.read_text())
    percent = lambda value: "" if value is None else f"{100 * value:.2f} %"
    lines += ["", f"From `{source.relative_to(root)}`: {d['device']}, commit {d['commit']}, {d['date']}, `{d['command']}`.", "",
              "| judge | a verdict, median; on an attack | right, wrong, crashed, asked before | in an hour, asked at once | scatter of a kernel against itself, 4096 and 16 rows | largest error on a known speedup | a copy's bandwidth | "
              "after one that takes all memory | attacks believed | honest ones refused |", "|---|---|---|---|---|---|---|---|---|---|"]
    kinds_run = d.get("kinds_run")
    if kinds_run:
        lines[-4] += f" Kinds of verdicts, how many in an hour and what is left after one: commit {kinds_run['commit']}, {kinds_run['date']}, `{kinds_run['command']}`."
    names = {"events": "Python, events around a copy and the call", "do_bench": "Python, `triton.testing.do_bench`", "host": "`fk-host bench`, with a server"}
    seconds = lambda value: "" if value is None else f"{value:.2f} s"
    speed = lambda value: "not asked" if value is None else f"{value / 1e12:.2f} TB/s"
    for r in d["summary"]:
        wrong = seconds(r.get("attack_wall_s"))
        kinds = ", ".join(seconds(r.get(f"{kind}_wall_s")) or "none" for kind in ("right", "wrong", "crashed", "again")) if "right_wall_s" in r else "not asked"
        hour = f"{r['per_hour']:.0f}" if "per_hour" in r else "not asked"
        after = f"{r['neighbour_ratio']:.4f}" if r.get("neighbour_ratio") else "none" if "neighbour_ratio" in r else "not asked"
        lines.append(f"| {names[r['judge']]} | {seconds(r['wall_s'])}{'; ' + wrong if wrong else ''} | {kinds} | {hour} | {percent(r['sd_rows_4096'])}, {percent(r['sd_rows_16'])} | "
                     f"{percent(r['error_rows_4096'])}, {percent(r['error_rows_16'])} | {speed(r.get('bytes_per_s_rows_4096'))} | {after} | "
                     + (f"{r['believed']} of {r['attacks']} | " if "believed" in r else "not asked | ")
                     + (f"{r['honest_refused']} of {r['honest']} |" if "honest" in r else "not asked |"))
for source in newest("*-cpu-judges.json"):
    d = json.loads(source.read_text())
    lines += ["", f"From `{source.relative_to(root)}`: {d['device']}, load {d['load']:.1f}, commit {d['commit']}, {d['date']}, `{d['command']}`.", "",
              "| judge | attacks believed | honest ones refused | a verdict, median |", "|---|---|---|---|"]
    for judge, name in (("naive", "as commonly written (`test/attacks/naive_judge.cpp`)"), ("host", "`fk-host bench`, with a server")):
        s = d["summary"][judge]
        lines.append(f"| {name} | {s['attacks_believed']} of {s['attacks']} | {s['honest_refused']} of {s['honest']} | {1e3 * s['wall_s']:.0f} ms |")
redraw("verdicts", "verdicts", lines)

lines = []
for source in of_each_gpu("models"):
    d = json.loads(source.read_text())
    lines += [""] if lines else []
    lines += [f"From `{source.relative_to(root)}`: {d['device']}, driver {d['driver']}, commit {d['commit']}, {d['date']}, `{d['command']}`. Medians, "
              "quartiles in brackets; the gap is the time in which the device waits for the host between two steps.", "",
              "| model | requests | tokens of a prompt | prefill tok/s | a step of decode | gap | output tok/s |", "|---|---|---|---|---|---|---|"]
    for name, run in d["models"].items():
        for r in run["rows"] if name != "profile" else []:
            together = name != "requests"  # else prefill and steps of several batches are mixed
            prefill = f"{r['prefill_tokens_per_s']:.0f}" if together else ""
            lines.append(f"| {run['config']} | {r['batch']} | {r['prompt']} | {prefill} | "
                         f"{span(r['decode_step_ms'], 'ms', 2) if together else ''} | {span(r['launch_gap_us'], 'us', 0)} | {r['output_tokens_per_s']:.0f} |")
    profile = d["models"].get("profile")
    if profile:
        lines += ["", f"Where a step's time goes, of {profile['layers']} layers at {profile['context']} tokens of context (a kernel that starts before the one before "
                  "it ends waits inside its time, so the sum may exceed the step; what runs in prefill as well is the difference of two runs):", "", "| requests | kernels, ms a step |", "|---|---|"]
        for p in profile["profiles"]:
            steps, before = p["with_decode"]["tokens"] - 1, {k["name"]: k for k in p["prefill"]["kernels"]}
            sums = {}
            for k in p["with_decode"]["kernels"]:
                key, prefill = plain(k["name"]), before.get(k["name"], {"count": 0, "ms": 0})
                if k["count"] > prefill["count"]:
                    sums[key] = sums.get(key, 0) + (k["ms"] - prefill["ms"]) / steps
            top = sorted(sums.items(), key=lambda item: -item[1])[:10]
            lines.append(f"| {p['with_decode']['batch']} | " + ", ".join(f"`{key}` {ms:.3f}" for key, ms in top) + " |")
ranks = []
# The newest of each kind of machine: what comes behind the date.
for source in sorted({p.name[10:]: p for p in sorted((root / "docs/results").glob("*-ranks.json"))}.values()):
    d = json.loads(source.read_text())
    if ranks:
        ranks.append("")
    # The file is from scripts/gpu/ranks.py, or has rows alone.
    found = d.get("rows") or [dict(r, commit=step.get("commit", d["commit"])) for step in d["steps"].values() for r in (step["report"] or {}).get("rows", [])]
    ranks += [f"From `{source.relative_to(root)}`: {d['device']}, driver {d['driver']}, {d['date']}, `{d['command']}`, NCCL {d.get('nccl', 'without NVLink multicast')}. Cold medians, quartiles in brackets, "
              "captured where no `eager` stands behind the case; bus bandwidth is 2 (n - 1) / n times the bytes over the time.", "",
              "| op | case | ranks | commit | `nccl` | `cuda` | times as fast | bus bandwidth of `cuda` |", "|---|---|---|---|---|---|---|---|"]
    times = {}
    for r in found:
        if r.get("cold_s") and r.get("ranks"):
            times.setdefault((r["op"], r["case"] + ("" if r.get("captured", True) else ", eager"), r["ranks"], r.get("commit", d["commit"])), {})[r["provider"]] = r
    for (op, case, count, commit), by in sorted(times.items(), key=lambda item: (item[0][0], item[0][2], max(r["bytes"] for r in item[1].values()))):
        def took(r):
            return f"{1e6 * r['cold_s']:.2f} us ({1e6 * r['cold_low_s']:.2f}-{1e6 * r['cold_high_s']:.2f})" if r else ""
        own = by.get("cuda")
        ratio = f"{own['speedup']:.2f} ({own['speedup_low']:.2f}-{own['speedup_high']:.2f})" if own and "speedup" in own else ""
        bus = f"{(count - 1) / count * own['bytes'] / own['cold_s'] / 1e9:.0f} GB/s" if own and op == "all_reduce" else ""
        ranks.append(f"| {op} | {case} | {count} | {commit} | {took(by.get('nccl'))} | {took(own)} | {ratio} | {bus} |")
    if d.get("aims"):
        ranks += ["", "| what | measured | aim | |", "|---|---|---|---|"]
        ranks += [f"| {a['what']} | {a['measured']} | {a['aim']} | {'reached' if a['reached'] else 'missed'} |" for a in d["aims"]]
for source in sorted((root / "docs/results").glob("*-step.json"))[-1:]:
    d = json.loads(source.read_text())
    ranks += ["", f"From `{source.relative_to(root)}`: {d['device']}, driver {d['driver']}, commit {d['commit']}, {d['date']}, `{d['command']}`; {d['note']}. "
              f"It is {d['what'][0].lower() + d['what'][1:]}; the part of a kernel is from the end of what ended before it to its own end.", "",
              "| rank | step | kernels, ms of a step |", "|---|---|---|"]
    for r in d["ranks"]:
        parts = ", ".join(f"`{plain(k['name'])}` {k['part_ms']:.2f}" for k in r["kernels"][:10])
        ranks.append(f"| {r['rank']} | {r['step_ms']:.1f} ms | {parts} |")
redraw("ranks", "ranks", ranks)


def gain_rows(gain, host):
    """A row for each group of ops and batch: vLLM's step and its change, fk-host's change of the same ops, the error of vLLM's logits."""
    lines = []
    change_of = lambda row, base: [f"{row['change_ms']['median']:+.3f} ms ({row['change_ms']['low']:+.3f} to {row['change_ms']['high']:+.3f})",
                                   f"{100 * row['change_ms']['median'] / base['step_ms']['median']:+.1f} %"]
    for name, group in gain["groups"].items():
        for batch, row in group["steps"].items():
            step, packaged = row["step_ms"], group["ops"]
            ours = host["groups"].get(name, {}).get("steps", {}).get(batch) if host else None
            cells = [", ".join(packaged) or "none", batch, f"{step['median']:.3f} ms ({step['low']:.3f}-{step['high']:.3f})"]
            cells += change_of(row, gain["groups"]["before"]["steps"][batch]) if packaged else ["", ""]
            if host:
                cells.append(f"{ours['step_ms']['median']:.3f} ms" if ours else "")
                cells += change_of(ours, host["groups"]["before"]["steps"][batch]) if ours and packaged else ["", ""]
            error = group["logits"].get(batch, {})
            if "error" in error:
                cells.append(f"{error['error']['decode']['rms']:.4f}{'' if error['agrees'] else ', too large'}")
            else:
                cells.append(f"{error['decode']['rms']:.4f} from the first rows" if error and packaged else "")
            lines.append("| " + " | ".join(cells) + " |")
    return lines


lines_vllm = []
for source in of_each_gpu("vllm-gain"):
    d = json.loads(source.read_text())
    for mode, g in d["gain"].items():
        if not all("steps" in group for group in g["groups"].values()):
            continue  # a run that compared logits alone
        host = d.get("fk_host", {}).get(mode)
        heads = ["packaged ops", "batch", "vLLM's step", "change", "share", *(["fk-host's step", "change", "share"] if host else []), "error of vLLM's logits, rms"]
        lines_vllm += [""] if lines_vllm else []
        lines_vllm += [f"From `{source.relative_to(root)}`, {mode}: {d['device']}, driver {d['driver']}, commit {d['commit']}, {d['date']}, vLLM {d['vllm']}, "
                       f"{d.get('config', 'llama-3.1-8b')}, {g['layers']} layers. Medians, in brackets the lowest and the highest.", "",
                       "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *gain_rows(g, host)]
redraw("models", "vllm", lines_vllm)
redraw("models", "models", lines)
