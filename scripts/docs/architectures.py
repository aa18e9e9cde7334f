#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Redraws docs/architectures.md: the 47 architectures of FastKernels (arXiv 2605.23215) by its names, with what this repository has of each.
Facts come from registry/models, test/golden and the runs of real size in docs/results."""
import json
import re

import yaml

from results import GPUS, root

# A name there: the model here, where it differs, and what is missing.
FAMILIES = {
    "llm": ["llama", "deepseek", "glm", "mixtral", "bitnet", "gpt_oss", "llama_eagle3", "gemma4"],
    "linear_attn": ["mamba", "mamba2", "rwkv7", "gla", "retnet", "qwen3_next", "kimi_linear", "ttt_e2e", "jamba"],
    "vision": ["flux", "hunyuan_video", "sdxl", "sam3", "whisper", "cosyvoice3"],
    "multimodal": ["qwen2_vl", "qwen3_vl", "qwen2_5_omni", "siglip2", "dinov3", "swinv2"],
    "edge": ["mobilenetv4", "convnextv2", "efficientnetv2", "yolov10", "rtdetrv2"],
    "3d_robotics": ["gaussian_splatting", "instant_ngp", "pointtransformerv3", "openfold3", "pi0", "dp3"],
    "recsys": ["dlrmv2", "lightgcn", "bge_m3", "colbertv2", "llada"],
    "world_models": ["oasis", "vjepa2"],
}
MODELS = {"deepseek": "deepseek_v32", "glm": "glm_moe_dsa", "gemma4": "gemma4_text", "qwen2_5_omni": "qwen2_5_omni_thinker"}
MISSING = {
    "cosyvoice3": "the language model in front: it begins with speech tokens",
    "openfold3": "templates, masks, and heads other than pLDDT",
    "pointtransformerv3": "shuffled orders",
    "qwen2_5_omni": "the talker, and sound inside films",
    "gemma4": "towers for images and sounds",
    "glm": "weights in NVFP4",
    "ttt_e2e": "new tokens: it scores texts",
}
# Measured by a script which has a rival beside the run: the parts of *-rivals.json.
BESIDE = {"gla": "fla", "rwkv7": "fla", "mamba": "mamba_vllm"}


def cases_of(model, entry):
    """Folders of test/golden with this model."""
    for file in sorted((root / "test/golden").glob("*/case.json")):
        config = json.loads((file.parent / "config.json").read_text())
        if json.loads(file.read_text()).get("arch") == model or set(config.get("architectures") or []) & set(entry.get("architectures") or []):
            yield file.parent.name


def runs():
    """The newest run of real size of a model on a GPU, by model."""
    found = {}
    for source in sorted((root / "docs/results").glob(f"*-{GPUS}-*.json")):
        data = json.loads(source.read_text())
        for report in [data[key] for key in data if key == "report" or re.fullmatch(r"run-.*-full", key)]:
            at = found.get(report["arch"])
            if report["baseline"]["verdict"] == "correct" and (not at or at[0] <= data["date"]):
                found[report["arch"]] = data["date"], report, data["commit"]
    return found


def figure(run):
    date, report, commit = run
    w = min(report["baseline"]["workloads"], key=lambda w: "single" not in w["workload"])
    token, first = w.get("token_s"), w.get("first_token_s")
    what = f"{1e3 * token['median']:.2f} ms a token" if token else f"{1e3 * (first or w['round_s'])['median']:.1f} ms an answer"
    return f"{what}, {report['dtype']}, {report['device'].split(' ', 1)[1]}, {commit}, {date}"


def rival_figure(data, arch):
    rows = data["rows"][arch]["fk_host"][-1] if "rows" in data else data["fk_host_rows"]
    token = rows["workloads"]["in512_batch_1"]["token_s"]
    return f"{1e3 * token['median']:.2f} ms a token, bf16, {data['device']}, {data['commit']}, {data['date']}"


def page():
    on_gpu = runs()
    rivals = json.loads(sorted((root / "docs/results").glob("*-rivals.json"))[-1].read_text())
    names = sum(FAMILIES.values(), [])
    lines = ["# Architectures", "",
             "FastKernels (arXiv 2605.23215) has 47 architectures in eight families. This page has its names, and",
             "what is here of each. `scripts/docs/architectures.py` redraws it.", "",
             "* **Cases**: folders of `test/golden`. Each has weights and results of an independent implementation.",
             "  `fk-host verify` compares whole models with it, in float32 and in 16 bits.",
             "* **On a GPU**: the newest run at real size with random weights, alone and with one request or image.",
             "  The judge called it correct. A dash: it ran at small sizes and on a CPU alone.", ""]
    partly = sum(name in MISSING for name in names)
    measured = 0
    table = []
    for family, members in FAMILIES.items():
        for name in members:
            model = MODELS.get(name, name)
            file = next((root / "registry/models").glob(f"*/{model}.yaml"))
            entry = yaml.safe_load(file.read_text())
            scenario = (entry.get("scenario") or {}).get("name", model)
            gpu = rival_figure(rivals[BESIDE[name]], name) if name in BESIDE else figure(on_gpu[model]) if model in on_gpu else "–"
            measured += gpu != "–"
            table.append(f"| {family} | `{name}` | `{scenario}` | {', '.join(entry.get('configs') or ['–'])} | {len(list(cases_of(model, entry)))} | {gpu} | {MISSING.get(name, '')} |")
    lines += [f"{len(names)} of 47 run here; {partly} of them are without a part. {measured} have a figure of a GPU at real size.", "",
              "| family | name there | `fk-host run` | configurations | cases | on a GPU | missing |", "|---|---|---|---|---|---|---|", *table]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (root / "docs/architectures.md").write_text(page())
