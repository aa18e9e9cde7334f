# SPDX-License-Identifier: Apache-2.0
"""Runs of `fk-host run` for scripts which measure it beside a rival."""
import json, pathlib, subprocess, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = "prefill_tokens_per_s", "decode_tokens_per_s", "token_s", "first_token_s"


def scenario_of(model, config, folder, max_batch=0, max_context=0):
    """Writes the scenario of a language model with another configuration and the workloads of `compare`, and returns its file."""
    import yaml
    registry = next((ROOT / "registry/models").glob(f"*/{model}.yaml"))
    profiles = yaml.safe_load(registry.read_text())["scenario"]["profiles"]
    limits = profiles["full"]["limits"]
    limits["max_batch"], limits["max_context"] = max_batch or limits["max_batch"], max_context or limits["max_context"]
    file = pathlib.Path(folder) / f"{model}_beside.yaml"
    file.write_text(json.dumps({"scenario": file.stem, "summary": f"{config} beside a rival", "model": model, "config": config, "workloads": "llm",
                                "run": ["in512_batch_1", "in512_batch_8", "in512_batch_32", "in512_out1024"], "profiles": profiles}))
    return file


def fk_run(args, providers, workloads, more=()):
    """The baseline of one `fk-host run` with some providers fixed: medians and percentiles by workload. `args` has host, scenario,
    profile, device and limit, the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.json"
        command = [args.host, "run", args.scenario, "--profile", args.profile, "--device", args.device, "--json", str(file), *more]
        for workload in workloads:
            command += ["--workload", workload]
        for pair in providers:
            command += ["--provider", pair]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=args.limit)
        report = json.loads(file.read_text()) if file.exists() else {}
        if not report.get("baseline", {}).get("workloads"):
            raise RuntimeError(f"fk-host {' '.join(map(str, command[1:]))}: exit {done.returncode}: {report.get('error', '')} {done.stderr[-800:]}")
    return {"command": " ".join("FILE" if word == str(file) else str(word) for word in command[1:]), "verdict": report["baseline"]["verdict"],
            "ops": sorted({f"{op['op']}={op['provider']}" for op in report["baseline"]["ops"]}),
            "workloads": {w["workload"]: {k: w[k] for k in KEPT} for w in report["baseline"]["workloads"]}}


def step_ms(name, workload):
    """Milliseconds of a step while all requests of in512_batch_N decode, as rivals are measured. `token_s` is what a request sees: with
    many requests it holds the prompts of later ones."""
    return 1e3 * int(name.rpartition("_")[2]) / workload["decode_tokens_per_s"]["median"]


def show(rows, ways=""):
    for name, w in rows["workloads"].items():
        step = f"step {step_ms(name, w):.3f} ms, " if "_batch_" in name else ""
        print(f"fk-host {ways} {name}: {step}prefill {w['prefill_tokens_per_s']['median']:.0f} tok/s, "
              f"decode {w['decode_tokens_per_s']['median']:.0f} tok/s, {rows['verdict']}", flush=True)
