#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fla_models.py FILE: GLA 2.7B, RetNet 2.7B and RWKV7 2.9B of flash-linear-attention beside `fk-host run`, by turns on one GPU, with
random weights in bfloat16.

A request has 512 tokens. `step_ms` of FLA is a call of its model with its cache, the greedy choice, and no more of `generate`;
`graph_ms` is the same call as a CUDA graph, which FLA does not offer: it says what the GPU alone needs. fk-host runs the same
configurations. FILE gets JSON after each row.

    scripts/rivals/fla_models.py fla.json --host build/fk-host [--only gla retnet] [--batch 1 32]

Needs torch, transformers, and flash-linear-attention 0.6 on PYTHONPATH."""
import argparse, json, pathlib, statistics, sys, tempfile, time

from about import ROOT, about
from fk_runs import fk_run, scenario_of, show, step_ms

MODELS = {"gla": "gla-2.7b", "retnet": "retnet-2.7b", "rwkv7": "rwkv7-2.9b"}
PROMPT = 512


def spread(values):
    values = sorted(values)
    return {"median": statistics.median(values), "low": values[len(values) // 10], "high": values[len(values) * 9 // 10], "number": len(values)}


class Fla:
    def __init__(self, name):
        import torch
        import fla.models  # registers its classes
        from transformers import AutoConfig, AutoModelForCausalLM
        self.torch, config = torch, json.loads((ROOT / f"registry/configs/{name}.json").read_text())
        config.pop("architectures"), config.pop("torch_dtype")
        if config["model_type"] == "rwkv7":
            config["fuse_norm"] = True  # faster than the checkpoint's choice
        torch.manual_seed(1)
        with torch.device("cuda"):
            torch.set_default_dtype(torch.bfloat16)
            self.model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).to(torch.bfloat16).eval()
            torch.set_default_dtype(torch.float32)
        self.vocabulary = config["vocab_size"]

    def prefill(self, batch):
        """The cache behind a prompt, the first token, and the seconds."""
        ids = self.torch.randint(3, self.vocabulary, (batch, PROMPT), device="cuda")
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
        self.torch.cuda.synchronize()
        return out.past_key_values, token, time.perf_counter() - begin

    def step(self, past, token):
        out = self.model(input_ids=token, past_key_values=past, use_cache=True)
        return out.past_key_values, out.logits[:, -1:].argmax(-1)

    def steps(self, batch, number):
        """Milliseconds of a step, over `number` steps after a prompt, and of the prompt."""
        past, token, seconds = self.prefill(batch)
        for _ in range(3):
            past, token = self.step(past, token)
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(number):
            past, token = self.step(past, token)
        self.torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - begin) / number, seconds

    def graph(self, batch, number=50):
        """Milliseconds of the same step as a graph, or the reason why there is none."""
        torch = self.torch
        past, token, _ = self.prefill(batch)
        past, token = self.step(past, token)
        try:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(2):
                    past, token = self.step(past, token)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.step(past, token)
        except Exception as why:
            torch.cuda.synchronize()
            return f"no graph: {str(why)[:200]}"
        events = [torch.cuda.Event(enable_timing=True) for _ in range(number + 1)]
        graph.replay()
        for event in events[:-1]:
            event.record()
            graph.replay()
        events[-1].record()
        torch.cuda.synchronize()
        return spread([a.elapsed_time(b) for a, b in zip(events, events[1:])])


def measure(arch, out, save, args):
    row = out.setdefault("rows", {}).setdefault(arch, {"config": MODELS[arch]})
    with tempfile.TemporaryDirectory() as folder:
        args.scenario = str(scenario_of(arch, MODELS[arch], folder, max_batch=max(args.batch), max_context=2048))
        rival, steps, prompts = Fla(MODELS[arch]), {b: [] for b in args.batch}, {b: [] for b in args.batch}
        with rival.torch.inference_mode():
            for batch in args.batch:  # Triton compiles and tunes
                rival.steps(batch, 8)
            for turn in range(args.turns):
                for batch in args.batch:
                    for _ in range(args.rounds):
                        ms, seconds = rival.steps(batch, args.tokens)
                        steps[batch].append(ms), prompts[batch].append(batch * PROMPT / seconds)
                row.setdefault("fk_host", []).append(fk_run(args, [], [f"in512_batch_{b}" for b in args.batch]))
                show(row["fk_host"][-1])
                save()
            for batch in args.batch:
                name = f"in512_batch_{batch}"
                at = row[f"batch {batch}"] = {"step_ms": spread(steps[batch]), "prefill_tokens_per_s": spread(prompts[batch]), "graph_ms": rival.graph(batch)}
                own = statistics.median(step_ms(name, r["workloads"][name]) for r in row["fk_host"])
                at["speedup"] = at["step_ms"]["median"] / own
                at["speedup_prefill"] = statistics.median(r["workloads"][name]["prefill_tokens_per_s"]["median"] for r in row["fk_host"]) / at["prefill_tokens_per_s"]["median"]
                if isinstance(at["graph_ms"], dict):
                    at["speedup_to_graph"] = at["graph_ms"]["median"] / own
                print(f"{arch}, batch {batch}: {json.dumps(at)}", flush=True)
                save()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--host", default=str(ROOT / "build/fk-host"))
    p.add_argument("--device", default="cuda:0", help="of fk-host")
    p.add_argument("--profile", default="full", help="of fk-host")
    p.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--batch", nargs="+", type=int, choices=(1, 8, 32), default=[1, 32])
    p.add_argument("--turns", type=int, default=2)
    p.add_argument("--rounds", type=int, default=2, help="of FLA in a turn")
    p.add_argument("--tokens", type=int, default=32, help="steps of a round")
    p.add_argument("--limit", type=float, default=200, help="seconds of one fk-host run")
    args = p.parse_args()
    args.host = str(pathlib.Path(args.host).resolve())
    import torch, transformers, triton, fla
    out = json.loads(args.file.read_text()) if args.file.exists() else {}
    out |= about("fla_models.py", torch=torch.__version__, transformers=transformers.__version__, triton=triton.__version__, fla=fla.__version__)
    save = lambda: args.file.write_text(json.dumps(out, indent=1) + "\n")
    failed = out.setdefault("failed", {})
    for arch in args.only:
        failed.pop(arch, None)
        try:
            measure(arch, out, save, args)
        except Exception as error:
            failed[arch] = f"{type(error).__name__}: {str(error)[-800:]}"
            print(f"FAILED {arch}: {failed[arch]}", flush=True)
        save()
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
