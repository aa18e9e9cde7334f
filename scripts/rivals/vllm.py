#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm.py: vLLM 0.26.0 and fk-host on one GPU, with random weights of the same sizes. scripts/rivals/fetch_wheels.sh brings
vLLM to a machine without network.

    scripts/rivals/vllm.py compare FILE --host build/fk-host    steps, prefill, 1000 requests, beside `fk-host run`
    scripts/rivals/vllm.py gain FILE --host build/fk-host       the provider `cuda`, packaged, inside vLLM: steps and logits

`gain` loads one engine of vLLM as it comes and one for each group of ops, and asks them in turns. So all see the same clocks.
`--graph` asks engines with torch.compile and CUDA graphs, vLLM's default; without it they run eagerly. FK_COMMIT names the
commit where there is no .git. FILE gets JSON after each part."""
import argparse, datetime, json, os, pathlib, statistics, subprocess, sys, tempfile, time, zipfile

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != HERE.parent]  # this file is no `import vllm`
VERSION = "0.26.0"
GROUPS = {  # ops of fk-host by group
    "attention": ["paged_attention", "rotary_embedding"],
    "mlp": ["linear", "silu_and_mul"],
    "norms": ["rms_norm"],
    "moe": ["fused_moe"],
}
BATCHES = 1, 8, 32


def said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip().split("\n")[0]
    except FileNotFoundError:
        return ""


def about():
    asked = lambda what: said("nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader")
    return {"command": "scripts/rivals/vllm.py " + " ".join(sys.argv[1:]), "device": asked("name"), "driver": asked("driver_version"),
            "clocks": asked("clocks.max.sm,clocks.max.mem"), "vllm": VERSION,
            "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": datetime.date.today().isoformat()}


def check_version():
    """Imports vLLM, or ends with a sentence."""
    try:
        import vllm
    except ImportError as missing:
        raise SystemExit(f"vllm.py: vLLM is not there ({missing}); scripts/rivals/fetch_wheels.sh makes an archive of it")
    if vllm.__version__.split("+")[0] != VERSION:
        raise SystemExit(f"vllm.py: it compares with vLLM {VERSION}; this is {vllm.__version__}")


def spread(values):
    v = sorted(values)
    return {"median": statistics.median(v), "low": v[len(v) // 10], "high": v[-1 - len(v) // 10], "number": len(v)}


def fill_weights(model, model_config):
    """Random weights of unit gain, the same in each engine. vLLM's own are so small that layers would add little."""
    import torch
    if getattr(fill_weights, "of", None) and any(m is model for m in fill_weights.of()):
        return  # vLLM asks for each module again
    modules = list(model.modules())
    fill_weights.of = lambda: modules
    generator = torch.Generator("cuda").manual_seed(1)
    for value in model.state_dict().values():
        if not value.is_floating_point():
            continue
        if value.dim() < 2:
            value.normal_(1, 0.1, generator=generator)
            continue
        for part in value if value.dim() > 2 else [value]:  # an expert at a time
            part.normal_(0, part.shape[-1] ** -0.5, generator=generator)
    embedding = [m for m in modules if type(m).__name__ == "VocabParallelEmbedding"]
    for module in embedding:
        module.weight.data.normal_(0, 1, generator=generator)


class Packaged:
    """The plugin's package for vLLM, registered for the ops of one group at a time."""

    def __init__(self, host, plugin, wheel, folder):
        if not wheel:
            subprocess.run([host, "package", plugin, "--for", "vllm", "--out", folder / "out"], check=True, stdout=subprocess.DEVNULL)
            wheel = next((folder / "out").glob("*.whl"))
        zipfile.ZipFile(wheel).extractall(folder)
        sys.path.insert(0, str(folder))
        self.name = next(folder.glob("*/vllm.py")).parent.name
        import importlib
        self.part = importlib.import_module(f"{self.name}.vllm")
        from vllm.model_executor import custom_op
        from vllm.model_executor.layers import linear, vocab_parallel_embedding
        self.classes, self.products = custom_op.op_registry_oot, [linear, vocab_parallel_embedding]
        self.before = dict(self.classes), [m.dispatch_unquantized_gemm for m in self.products]
        self.states, self.made = {}, {}

    def use(self, ops, llm=None):
        """Puts the process into the state that vLLM has with FK_VLLM_OPS=<ops>; `llm` is the engine that runs next."""
        key = tuple(ops)
        if key not in self.states:
            self.put(self.before)
            for op in ops:
                if op in self.part.about["ops"]:
                    self.add(op)
            self.states[key] = dict(self.classes), [m.dispatch_unquantized_gemm for m in self.products]
        self.put(self.states[key])
        if llm:  # also a state of the process
            llm.llm_engine.vllm_config.kernel_config.ir_op_priority.set_default()

    def add(self, op):
        if op in self.made:
            self.classes.update(self.made[op][0])
            for module, function in zip(self.products, self.made[op][1]):
                module.dispatch_unquantized_gemm = function or module.dispatch_unquantized_gemm
            return
        classes, functions = dict(self.classes), [m.dispatch_unquantized_gemm for m in self.products]
        self.part.PARTS[op]()
        self.made[op] = ({k: v for k, v in self.classes.items() if k not in classes},
                         [m.dispatch_unquantized_gemm if m.dispatch_unquantized_gemm is not f else None
                          for m, f in zip(self.products, functions)])

    def put(self, state):
        self.classes.clear()
        self.classes.update(state[0])
        for module, function in zip(self.products, state[1]):
            module.dispatch_unquantized_gemm = function

    def options(self, ops):
        out = {}
        if "rms_norm" in ops:
            out["ir_op_priority"] = {"rms_norm": [self.name], "fused_add_rms_norm": [self.name]}
        if "paged_attention" in ops:
            out["attention_backend"] = "CUSTOM"
        if "fused_moe" in ops:
            out["moe_backend"] = "triton"
        out["custom_ops"] = [f"+{op}" for op in ("silu_and_mul", "rotary_embedding") if op in ops]
        return out


def config_folder(args, folder):
    config = json.loads((ROOT / f"registry/configs/{args.config}.json").read_text())
    if args.layers:
        config["num_hidden_layers"] = args.layers
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder, config


def make_engine(folder, graph, cache_gb, custom_ops=(), **options):
    from vllm import LLM
    from vllm.model_executor.model_loader import dummy_loader
    dummy_loader.initialize_dummy_weights = fill_weights
    compilation = {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}
    if custom_ops:
        compilation["custom_ops"] = list(custom_ops)
    return LLM(model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", seed=1, max_model_len=2048,
               max_num_seqs=32, max_num_batched_tokens=16384, enable_prefix_caching=False, enforce_eager=not graph,
               kv_cache_memory_bytes=int(cache_gb * 2**30), gpu_memory_utilization=0.1, compilation_config=compilation, disable_log_stats=True, **options)


def prompts_of(config, count, length, seed):
    import random
    chosen = random.Random(seed)
    return [{"prompt_token_ids": [chosen.randrange(3, config["vocab_size"] - 3) for _ in range(length)]} for _ in range(count)]


def sampling(tokens):
    from vllm import SamplingParams
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)


class Timed:
    """Seconds of each step of an engine in this process."""

    def __init__(self, llm):
        self.llm, self.seconds = llm, []
        plain = llm.llm_engine.step

        def step():
            begin = time.perf_counter()
            out = plain()
            self.seconds.append((begin, time.perf_counter()))
            return out

        llm.llm_engine.step = step

    def steps(self, prompts, tokens):
        """Milliseconds between ends of steps while all requests decode, and seconds of the first step."""
        self.seconds.clear()
        self.llm.generate(prompts, sampling(tokens), use_tqdm=False)
        ends = [end for _, end in self.seconds]
        first = ends[0] - self.seconds[0][0]
        gaps = [1e3 * (b - a) for a, b in zip(ends, ends[1:])]
        return gaps[4:-2], first


def model_of(llm):
    found = llm.llm_engine.model_executor.driver_worker
    runner = getattr(found, "worker", found).model_runner
    return runner.model


def forced_logits(llm, prompts, tokens):
    """Logits of each step with the given tokens: the sampler sees a logit of 1e9 at the token to come."""
    import torch
    model, kept = model_of(llm), []
    plain = model.compute_logits

    def compute_logits(hidden, *more):
        logits = plain(hidden, *more)
        if len(kept) < len(tokens):
            kept.append(logits.float().cpu())
            logits = logits.clone()
            logits[:, tokens[len(kept) - 1]] = 1e9
        return logits

    model.compute_logits = compute_logits
    try:
        llm.generate(prompts, sampling(len(tokens)), use_tqdm=False)
    finally:
        del model.compute_logits
    return torch.stack(kept[:len(tokens)], 1)


def difference(ours, theirs):
    """rms and 99th percentile of the difference, as shares of the spread of logits."""
    error, spread_of = (ours - theirs).abs().flatten(), theirs.std().item()
    worst = error.kthvalue(max(1, round(error.numel() * 0.99))).values.item()
    return {"rms": error.square().mean().sqrt().item() / spread_of, "worst1": worst / spread_of,
            "same_choice": (ours.argmax(-1) == theirs.argmax(-1)).float().mean().item()}


def gain(args, out, save):
    groups = ["before", *args.groups, "all"] if args.all else ["before", *args.groups]
    ops_of = {"before": [], "all": [op for g in args.groups for op in GROUPS[g]], **GROUPS}
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        folder, config = config_folder(args, temporary / "model")
        packaged = Packaged(args.host, args.plugin, args.wheel, temporary / "package")
        mode = "graph" if args.graph else "eager"
        result = out.setdefault("gain", {}).setdefault(mode, {"layers": config["num_hidden_layers"], "groups": {}, "failed": {}})
        engines = {}
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
        check_logits(args, packaged, engines, ops_of, config, result, save)
        time_engines(args, packaged, engines, ops_of, config, result, save)


def check_logits(args, packaged, engines, ops_of, config, result, save):
    for batch in (1, 3, 8):  # 3: a graph of 4 with a padded row
        prompts, tokens = prompts_of(config, batch, 200 + batch, batch), [7 + 13 * i for i in range(9)]
        theirs = None
        for group, engine in list(engines.items()):
            try:
                packaged.use(ops_of[group], engine.llm)
                ours = forced_logits(engine.llm, prompts, tokens)
                if group == "before":
                    theirs = ours
                again = forced_logits(engine.llm, prompts, tokens) if group == "before" else theirs
                found = {"prefill": difference(ours[:, :1], again[:, :1]), "decode": difference(ours[:, 1:], again[:, 1:])}
                result["groups"][group]["logits"][str(batch)] = found
                print(f"{group:10} batch {batch}: logits against before: prefill rms {found['prefill']['rms']:.4f}, decode rms "
                      f"{found['decode']['rms']:.4f} worst1 {found['decode']['worst1']:.4f}", flush=True)
            except Exception as error:
                result["failed"][group] = f"logits, batch {batch}: {type(error).__name__}: {str(error)[-1500:]}"
                print(f"FAILED {group}: {result['failed'][group]}", flush=True)
                del engines[group]
            save()


def time_engines(args, packaged, engines, ops_of, config, result, save):
    for batch in args.batches:
        prompts = prompts_of(config, batch, args.prompt, 100 + batch)
        rounds = {group: [] for group in engines}
        for turn in range(args.rounds + 1):
            order = list(engines) if turn % 2 else list(engines)[::-1]
            for group in order:
                packaged.use(ops_of[group], engines[group].llm)
                steps, first = engines[group].steps(prompts, args.tokens)
                if turn:  # the first round warms up
                    rounds[group].append((statistics.median(steps), first))
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


def fk_run(args, providers, workloads, more=()):
    """Baselines of `fk-host run` with some providers fixed: medians and percentiles by workload."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "run.json"
        command = [args.host, "run", args.scenario, "--profile", "full", "--device", "cuda:0", "--json", str(file), *more]
        for workload in workloads:
            command += ["--workload", workload]
        for pair in providers:
            command += ["--provider", pair]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=args.limit)
        if not file.exists():
            raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-800:]}")
        report = json.loads(file.read_text())
    return {"command": " ".join(map(str, command[1:])), "exit_code": done.returncode, "error": report.get("error", ""),
            "ops": report["baseline"]["ops"],
            "workloads": {w["workload"]: {k: w[k] for k in ("prefill_tokens_per_s", "decode_tokens_per_s", "token_s", "first_token_s")}
                          for w in report["baseline"]["workloads"]}}


def fk_host(args, out, save):
    """The same change in fk-host: each group by the provider that is nearest to vLLM's own kernels, then all by `cuda`."""
    out["fk_host"] = out.get("fk_host", {})
    for name, pairs in [("cuda", []), *((g, p.split(",")) for g, p in (text.split(":") for text in args.instead))]:
        for graph in (True, False):
            key = f"{name} {'graph' if graph else 'eager'}"
            try:
                out["fk_host"][key] = fk_run(args, pairs, args.workloads, [] if graph else ["--no-graph"])
                for workload, w in out["fk_host"][key]["workloads"].items():
                    t = w["token_s"]
                    print(f"fk-host {key}: {workload}: step {1e3 * t['median']:.3f} ms ({1e3 * t['p10']:.3f}-{1e3 * t['p90']:.3f})", flush=True)
            except Exception as error:
                out["fk_host"][key] = {"failed": str(error)[-800:]}
                print(f"FAILED fk-host {key}: {str(error)[-800:]}", flush=True)
            save()


def compare(args, out, save):
    """vLLM in its own processes, as `vllm serve` has it."""
    import random
    from vllm import LLM
    with tempfile.TemporaryDirectory() as temporary:
        folder, config = config_folder(args, pathlib.Path(temporary) / "model")
        llm = LLM(model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", seed=1, max_model_len=2048,
                  max_num_seqs=500, max_num_batched_tokens=16384, enable_prefix_caching=False, gpu_memory_utilization=args.memory,
                  disable_log_stats=True)

        def seconds(batch, length, tokens):
            prompts = prompts_of(config, batch, length, random.randrange(1 << 30))
            begin = time.perf_counter()
            llm.generate(prompts, sampling(tokens), use_tqdm=False)
            return time.perf_counter() - begin

        rows = out.setdefault("vllm_rows", {})
        for batch in args.batches:
            seconds(batch, args.prompt, 8)
            few, many = 9, 9 + args.tokens
            steps = [1e3 * (seconds(batch, args.prompt, many) - seconds(batch, args.prompt, few)) / (many - few) for _ in range(args.rounds)]
            rows[f"step, batch {batch}"] = spread(steps)
            print(f"vLLM step, batch {batch}: {rows[f'step, batch {batch}']}", flush=True)
            save()
        prefill = [32 * args.prompt / (seconds(32, args.prompt, 1)) for _ in range(args.rounds + 1)][1:]
        rows["prefill 32, tok/s"] = spread(prefill)
        print(f"vLLM prefill {rows['prefill 32, tok/s']}", flush=True)
        save()
        if args.requests:
            took = seconds(args.requests, 512, 1024)
            rows["requests"] = {"number": args.requests, "seconds": took, "output_tokens_per_s": args.requests * 1024 / took}
            print(f"vLLM requests {rows['requests']}", flush=True)
            save()
        del llm


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mode", choices=["compare", "gain", "fk"])
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--host", default=str(ROOT / "build/fk-host"))
    p.add_argument("--plugin", default="cuda")
    p.add_argument("--wheel", type=pathlib.Path, help="a package for vLLM that is there already")
    p.add_argument("--config", default="llama-3.1-8b")
    p.add_argument("--scenario", default="llama3.1")
    p.add_argument("--layers", type=int, default=0, help="0: all of the configuration")
    p.add_argument("--graph", action="store_true")
    p.add_argument("--groups", nargs="*", default=["attention", "mlp", "norms"], choices=GROUPS)
    p.add_argument("--all", action="store_true", help="one more engine, with all groups")
    p.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--requests", type=int, default=1000)
    p.add_argument("--cache", type=float, default=3.0, help="GiB of each engine's cache")
    p.add_argument("--memory", type=float, default=0.9)
    p.add_argument("--workloads", nargs="*", default=["single_request", "fixed_batch_32"])
    p.add_argument("--instead", nargs="*", default=["mlp:linear=cublas"], help="GROUP:OP=PROVIDER,...")
    p.add_argument("--limit", type=float, default=300, help="seconds of one fk-host run")
    args = p.parse_args()
    args.host = str(pathlib.Path(args.host).resolve())
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # the archive has no FlashInfer; greedy choices need none
    os.environ["VLLM_DISABLE_COMPILE_CACHE"] = "1"  # its key does not name the functions of a package
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    out = json.loads(args.file.read_text()) if args.file.exists() else {}
    out.update(about())
    save = lambda: args.file.write_text(json.dumps(out, indent=1) + "\n")
    if args.mode == "fk":
        return fk_host(args, out, save)
    if args.mode == "gain":
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # all engines in this process
        os.environ["VLLM_PLUGINS"] = ""  # Packaged registers the ops of one engine at a time
    check_version()
    (gain if args.mode == "gain" else compare)(args, out, save)


if __name__ == "__main__":
    main()
