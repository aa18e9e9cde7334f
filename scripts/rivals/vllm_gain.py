# SPDX-License-Identifier: Apache-2.0
"""The gain of a packaged plugin inside vLLM by groups of ops, and its logits: `vllm.py gain`."""
import pathlib, statistics, tempfile, time

from vllm_engines import Packaged, Timed, config_folder, make_engine, prompts_of
from vllm_logits import check_logits, precise_logits

GROUPS = {  # ops of fk-host by group
    "attention": ["paged_attention", "rotary_embedding"],
    "mlp": ["linear", "silu_and_mul"],
    "norms": ["rms_norm"],
    "moe": ["fused_moe"],
}


def spread(values):
    v = sorted(values)
    return {"median": statistics.median(v), "low": v[len(v) // 10], "high": v[-1 - len(v) // 10], "number": len(v)}


def gain(args, out, save):
    groups = ["before", *args.groups, "all"] if args.all else ["before", *args.groups]
    ops_of = {"before": [], "all": [op for g in args.groups for op in GROUPS[g]], **GROUPS}
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        folder, config = config_folder(args, temporary / "model")
        packaged = Packaged(args.host, args.plugin, args.wheel, temporary / "package")
        mode = "graph" if args.graph else "eager"
        result = out.setdefault("gain", {}).setdefault(mode, {"layers": config["num_hidden_layers"], "groups": {}, "failed": {}})
        engines, precise = {}, precise_logits(args, packaged, folder, config, result)
        save()
        for group in groups:
            try:
                began = time.time()
                packaged.use(ops_of[group])
                from vllm.model_executor.layers import rotary_embedding
                rotary_embedding._ROPE_DICT.clear()  # vLLM shares modules between engines
                engines[group] = Timed(make_engine(folder, args.graph, args.cache, **packaged.options(ops_of[group])))
                result["groups"][group] = {"ops": ops_of[group], "start_s": round(time.time() - began, 1), "steps": {}, "logits": {}}
            except Exception as error:
                result["failed"][group] = f"start: {type(error).__name__}: {str(error)[-1500:]}"
                print(f"FAILED {group} at its start: {str(error)[-1500:]}", flush=True)
            save()
        check_logits(args, packaged, engines, ops_of, config, result, precise, save)
        time_engines(args, packaged, engines, ops_of, config, result, save)
        wrong = [g for g, of in result["groups"].items() if not all(row.get("agrees", True) for row in of["logits"].values())]
        if wrong or result["failed"]:
            raise SystemExit(f"vllm.py: logits disagree: {wrong or 'none'}; failed: {sorted(result['failed']) or 'none'}")


def time_engines(args, packaged, engines, ops_of, config, result, save):
    for batch in args.batches:
        prompts = prompts_of(config, batch, args.prompt, 100 + batch)
        rounds = {group: [] for group in engines}
        for turn in range(args.rounds + 1):
            order = list(engines) if turn % 2 else list(engines)[::-1]
            for group in order:
                packaged.use(ops_of[group], engines[group].llm)
                found = statistics.median(engines[group].steps(prompts, args.tokens)), engines[group].prefill(prompts)
                if turn:  # the first round warms up
                    rounds[group].append(found)
        base = [step for step, _ in rounds.get("before", [])]
        for group, pairs in rounds.items():
            steps = [step for step, _ in pairs]
            row = {"step_ms": spread(steps), "prefill_tokens_per_s": spread([batch * args.prompt / first for _, first in pairs])}
            if base:
                row["change_ms"] = spread([step - b for step, b in zip(steps, base)])
            result["groups"][group]["steps"][str(batch)] = row
            print(f"{group:10} batch {batch:2}: step {row['step_ms']['median']:.3f} ms ({row['step_ms']['low']:.3f}-{row['step_ms']['high']:.3f}), change "
                  f"{row.get('change_ms', {}).get('median', 0):+.3f} ms", flush=True)
        save()
    for group, engine in engines.items() if args.kernels else ():
        for batch in (args.batches[0], args.batches[-1]):
            packaged.use(ops_of[group], engine.llm)
            result["groups"][group].setdefault("kernels", {})[str(batch)] = engine.kernels(prompts_of(config, batch, args.prompt, 100 + batch))
        save()
