#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/plots/*.svg from docs/results, each from the newest results of every GPU that it names; needs matplotlib. What is drawn has its
spread where the results have one (quartiles, deciles, or half of the interval of a ratio), and aims are dashed."""
import json

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "fk-host", "svg.fonttype": "none", "font.size": 9, "axes.titlesize": 9, "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False,
                            "axes.spines.right": False, "legend.frameon": False, "figure.constrained_layout.use": True})
import matplotlib.pyplot as plt

from results import GPUS, of_each_gpu, root

folder = root / "docs/plots"
folder.mkdir(exist_ok=True)


def origin(d):
    device = d["device"].removeprefix("cuda:0 ")
    return f"{device}, driver {d['driver']},\n{d['commit']}, {d['date']}" if d.get("driver") else f"{device},\n{d['commit']}, {d['date']}"


def save(figure, name):
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    print(f"docs/plots/{name}.svg")


def axes_of(found):
    figure, axes = plt.subplots(1, len(found), figsize=(5 * len(found), 3.4), squeeze=False)
    return figure, axes[0]


def aim(axis, value, text):
    axis.axhline(value, color="black", linestyle="--", linewidth=0.8)
    axis.annotate(text, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8)


def rows_axis(axis, ticks, label):
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(t) for t in ticks], rotation=45)
    axis.minorticks_off()
    axis.set_xlabel(label)


ops = [d for d in (json.loads(p.read_text()) for p in of_each_gpu("ops")) if d.get("torch_linear")]
figure, axes = axes_of(ops)
for axis, d in zip(axes, ops):
    cases = [r for r in d["torch_linear"] if "case" in r]
    for shape in dict.fromkeys(r["case"].rsplit("_", 1)[0] for r in cases):
        own = [(int(r["case"].rsplit("_", 1)[1]), r["ratio"], r["half"]) for r in cases if r["case"].rsplit("_", 1)[0] == shape]
        axis.errorbar(*zip(*((n, ratio) for n, ratio, _ in own)), yerr=[half for *_, half in own], label=shape, marker=".", linewidth=1, capsize=2)
    rows_axis(axis, sorted({int(r["case"].rsplit("_", 1)[1]) for r in cases}), "rows")
    aim(axis, 0.99, "aim of the median")
    axis.set(title=origin(d), ylabel="torch's cuBLAS time / time")
    axis.legend(ncol=2)
save(figure, "linear")

figure, axes = axes_of(ops)
for axis, d in zip(axes, ops):
    found = [r for r in d["triton_moe"] if "plugin" in r]
    tokens = [r["tokens"] for r in found]
    ratio = [r["seconds"] / r["plugin"]["seconds"] for r in found]
    low, high = [r["p10"] / r["plugin"]["p90"] for r in found], [r["p90"] / r["plugin"]["p10"] for r in found]
    axis.errorbar(tokens, ratio, yerr=[[m - l for m, l in zip(ratio, low)], [h - m for m, h in zip(ratio, high)]], marker=".", linewidth=1, capsize=2)
    rows_axis(axis, tokens, "tokens")
    aim(axis, 1.1, "aim")
    axis.set(title=origin(d), ylabel="Triton's time / time, with both deciles")
save(figure, "fused_moe")

attention = [json.loads(p.read_text()) for p in of_each_gpu("attention")]
figure, axes = axes_of(attention)
for axis, d in zip(axes, attention):
    cases = [r for r in d["torch_attention"] if "case" in r]
    at = range(len(cases))
    axis.bar([i - 0.2 for i in at], [r["torch_TFLOP/s"] for r in cases], 0.4, label="cuDNN as torch calls it", color="tab:gray")
    axis.bar([i + 0.2 for i in at], [r["TFLOP/s"] for r in cases], 0.4, label="the baseline", color="tab:blue",
             yerr=[r["TFLOP/s"] * r["half"] / r["ratio"] for r in cases], capsize=2)
    axis.set_xticks(list(at), [r["case"] for r in cases], rotation=30)
    axis.set(title=origin(d), ylabel="TFLOP/s, prefill, head_dim 128")
    axis.legend()
save(figure, "attention")

models = [json.loads(p.read_text()) for p in of_each_gpu("models")]
figure, axis = plt.subplots(figsize=(5, 3.4))
for d in models:
    rows = d["models"]["llama"]["rows"]
    step = [r["decode_step_ms"] for r in rows]
    median = [s["median"] for s in step]
    axis.errorbar([r["batch"] for r in rows], median, yerr=[[m - s["low"] for m, s in zip(median, step)], [s["high"] - m for m, s in zip(median, step)]],
                  label=origin(d), marker=".", capsize=2)
for batch, value in ((1, 4.0), (32, 5.0)):
    axis.plot([batch], [value], marker="_", markersize=14, color="black", label="aims on an H200" if batch == 1 else None, linestyle="")
rows_axis(axis, [1, 8, 32], "batch, context 512")
axis.set(title="Llama-3.1-8B, bfloat16", ylabel="ms a decode step, with quartiles", ylim=(0, None))
axis.legend(fontsize=7, loc="lower right")
save(figure, "decode_step")

newest = {}  # of every number and kind of GPUs
for path in sorted((root / "docs/results").glob(f"*-{GPUS}x?-ranks.json")):
    d = json.loads(path.read_text())
    if any(name.startswith("all_reduce ") for name in d.get("steps", {})):
        newest[d["device"]] = d
ranks = [d for _, d in sorted(newest.items())]
figure, axes = axes_of(ranks)
for axis, d in zip(axes, ranks):
    found = {}
    for name, step in d["steps"].items():
        if name.startswith(("all_reduce kib_", "all_reduce mib_")) and step.get("report"):
            for r in step["report"]["rows"]:
                if not r["why"] and r["provider"] in ("nccl", "cuda"):
                    found.setdefault(r["provider"], []).append((r["bytes"] / 2, r["cold_s"], r["cold_low_s"], r["cold_high_s"]))
    for provider, own in sorted(found.items()):
        own.sort()
        axis.errorbar([o[0] for o in own], [1e6 * o[1] for o in own], yerr=[[1e6 * (o[1] - o[2]) for o in own], [1e6 * (o[3] - o[1]) for o in own]], label=provider,
                      marker=".", capsize=2)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    sizes = sorted({o[0] for own in found.values() for o in own})
    axis.set_xticks(sizes, [f"{s / 2**20:.0f} MiB" if s >= 2**20 else f"{s / 1024:.0f} KiB" for s in sizes])
    axis.minorticks_off()
    axis.set(title=origin(d), ylabel="us an all_reduce in a CUDA graph, with quartiles", xlabel="bytes of a rank")
    axis.legend()
save(figure, "all_reduce")

precision = [json.loads(p.read_text()) for p in of_each_gpu("precision")]
figure, axes = axes_of(precision)
for axis, d in zip(axes, precision):
    colours = {"rows_4096": "tab:blue", "rows_16": "tab:orange"}
    for case, allowed in (("rows_4096", 2), ("rows_16", 5)):
        for few in (False, True):  # of few launches what a kernel costs beside its work is a larger share
            own = sorted((r["true"], r["ratio_less_null"]) for r in d["speedups"] if r["case"] == case and (min(r["launches"]) < 5) == few)
            if own:
                axis.plot([n for n, _ in own], [100 * (ratio / n - 1) for n, ratio in own], marker="x" if few else ".", color=colours[case], linewidth=1,
                          label=f"{case.split('_')[1]} x 8192{', few launches' if few else f', aim {allowed} %'}")
        for sign in (-1, 1):
            axis.axhline(sign * allowed, color=colours[case], linestyle="--", linewidth=0.8)
    axis.set_xscale("log")
    ticks = sorted({r["true"] for r in d["speedups"]})
    axis.set_xticks(ticks, [f"{t:g}" for t in ticks], rotation=45)
    axis.minorticks_off()
    axis.set(title=origin(d), xlabel="true speedup", ylabel="error of the judge, %, less the null kernel")
    axis.legend()
save(figure, "known_speedups")
