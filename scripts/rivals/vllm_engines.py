#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines of vLLM with random weights in one process, with a packaged plugin or without; vllm_gain.py measures them."""
import json, pathlib, random, subprocess, sys, time, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def fill_weights(model, model_config):
    """Random weights of unit gain, drawn in bfloat16, the same in each engine. vLLM's own are so small that layers would add little."""
    import torch
    if getattr(fill_weights, "of", None) and any(m is model for m in fill_weights.of()):
        return  # vLLM asks for each module again
    modules = list(model.modules())
    fill_weights.of = lambda: modules
    generator = torch.Generator("cuda").manual_seed(1)

    def fill(value, mean, deviation):
        value.copy_(torch.empty(value.shape, dtype=torch.bfloat16, device="cuda").normal_(mean, deviation, generator=generator))

    for value in model.state_dict().values():
        if not value.is_floating_point():
            continue
        if value.dim() < 2:
            fill(value, 1, 0.1)
            continue
        for part in value if value.dim() > 2 else [value]:  # an expert at a time
            fill(part, 0, part.shape[-1] ** -0.5)
    embedding = [m for m in modules if type(m).__name__ == "VocabParallelEmbedding"]
    for module in embedding:
        fill(module.weight.data, 0, 1)
    route_by_token(model.state_dict(), generator)


def route_by_token(values, generator):
    """Routers of random weights have near ties, which rounding decides. So routers read channels of the embedding, one for each expert,
    with levels far apart and an order of their own for each token. No layer writes to these channels."""
    import torch
    routers = [v for name, v in values.items() if name.endswith(".gate.weight")]
    if not routers:
        return
    experts = routers[0].shape[0]
    for name, value in values.items():
        if name.endswith("embed_tokens.weight"):
            order = torch.rand(value.shape[0], experts, device="cuda", generator=generator).argsort(1)
            value[:, :experts] = torch.linspace(-2, 2, experts, device="cuda")[order].to(value.dtype)
        elif name.endswith(".gate.weight"):
            value.zero_()
            value[:, :experts].fill_diagonal_(4)
        elif name.endswith("o_proj.weight"):
            value[:experts] = 0
        elif name.endswith("w2_weight"):
            value[:, :experts] = 0
        elif "norm" in name and value.dim() == 1:
            value[:experts] = 1


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


def make_engine(folder, graph, cache_gb, custom_ops=(), dtype="bfloat16", **options):
    from vllm import LLM
    from vllm.model_executor.model_loader import dummy_loader
    dummy_loader.initialize_dummy_weights = fill_weights
    compilation = {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32]}
    if custom_ops:
        compilation["custom_ops"] = list(custom_ops)
    return LLM(model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype=dtype, seed=1, max_model_len=2048,
               max_num_seqs=32, max_num_batched_tokens=16384, enable_prefix_caching=False, enforce_eager=not graph,
               kv_cache_memory_bytes=int(cache_gb * 2**30), gpu_memory_utilization=0.1, compilation_config=compilation, disable_log_stats=True, **options)


def prompts_of(config, count, length, seed):
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
        """Milliseconds between the ends of steps while all requests decode. vLLM returns from a step while the GPU works on
        the next one, so a single step says nothing."""
        self.seconds.clear()
        self.llm.generate(prompts, sampling(tokens), use_tqdm=False)
        ends = [end for _, end in self.seconds]
        return [1e3 * (b - a) for a, b in zip(ends, ends[1:])][4:-2]

    def kernels(self, prompts, first=8, number=20):
        """Milliseconds of each kernel in a step, from `number` steps that torch's profiler saw."""
        import torch
        plain, seen = self.llm.llm_engine.step, []
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])

        def step():
            if len(seen) in (first, first + number):
                torch.cuda.synchronize()
                profile.start() if len(seen) == first else profile.stop()
            seen.append(0)
            return plain()

        self.llm.llm_engine.step = step
        try:
            self.llm.generate(prompts, sampling(first + number + 8), use_tqdm=False)
        finally:
            self.llm.llm_engine.step = plain
        of = {}
        for event in profile.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                row = of.setdefault(event.name[:100], {"ms": 0, "calls": 0})
                row["ms"] += event.time_range.elapsed_us() / 1e3 / number
                row["calls"] += 1 / number
        return dict(sorted(of.items(), key=lambda pair: -pair[1]["ms"])[:20])

    def prefill(self, prompts):
        """Seconds until all requests have their first token."""
        begin = time.perf_counter()
        self.llm.generate(prompts, sampling(1), use_tqdm=False)
        return time.perf_counter() - begin
