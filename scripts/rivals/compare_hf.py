#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_hf.py: whole models against HuggingFace transformers, an independent implementation, with equal weights.

A checkpoint of random bfloat16 weights is written once; transformers computes its logits in float32 (what is right) and in
bfloat16, `fk-host verify` in bfloat16, of a prefill and of decoding with the tokens given. The error of fk-host, root mean
square and 99th percentile as shares of the spread, may be at most 1.1 times that of transformers in bfloat16.
Models: llama; mixtral, whose random routers have near-ties that rounding decides; mixtral_routed, the same sizes with routers
that read channels which the layers leave as the embedding wrote them, so that the experts of every token are those of
the float32 run in every other run too. --speed times transformers' decoding instead. Needs torch, transformers, safetensors.

    scripts/rivals/compare_hf.py --device cuda --host build/fk-host --json hf.json
    scripts/rivals/compare_hf.py --tiny --device cpu
"""
import argparse, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time
import torch, transformers
from safetensors.torch import load_file, save_file

root = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = {"llama": "llama-3.1-8b", "mixtral": "mixtral-8x7b-v0.1", "mixtral_routed": "mixtral-8x7b-v0.1"}
TINY = {"hidden_size": 256, "intermediate_size": 384, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 4, "vocab_size": 1024, "max_position_embeddings": 4096, "bos_token_id": 1, "eos_token_id": 2}
LIMIT = 1.1
ORACLES = "reference", "cuda_reference"  # more exact than what is deployed: a comparison with them would say nothing


def config_of(model, args):
    config = json.loads((root / f"registry/configs/{CONFIGS[model]}.json").read_text())
    if args.tiny:
        config.update(TINY)
    if args.layers:
        config["num_hidden_layers"] = min(args.layers, config["num_hidden_layers"])
    return config


def layers_that_fit(config, memory, disk):
    """Of a model in float32 in so many bytes of memory, and of its checkpoint in bfloat16 in so many on the disk; a tenth of both stays free."""
    width, kv = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * width * (width + kv) + 3 * width * config["intermediate_size"] * config.get("num_local_experts", 1)
    ends = 2 * config["vocab_size"] * width
    most = (0.9 * min(memory / 4, disk / 2) - ends) // layer
    if most < 1:
        raise SystemExit(f"{config['architectures'][0]}: not one layer fits: {memory / 2**30:.0f} GiB of memory, {disk / 2**30:.0f} GiB on the disk")
    return min(int(most), config["num_hidden_layers"])


class Weights:
    """Writes a checkpoint in shards, one a layer, so that no more than a layer is in memory."""

    def __init__(self, folder, config, args):
        self.folder, self.config, self.device, self.map, self.bytes, self.shard = folder, config, args.device, {}, 0, {}
        self.generator = torch.Generator(args.device).manual_seed(args.seed)

    def normal(self, *shape, mean=0.0, std=None):
        """Of unit gain unless `std` is given."""
        values = torch.randn(shape, generator=self.generator, device=self.device, dtype=torch.bfloat16)
        return values.mul_(shape[-1] ** -0.5 if std is None else std).add_(mean)

    def put(self, name, values):
        self.shard[name] = values.contiguous()

    def flush(self):
        file = f"model-{len(set(self.map.values())) + 1:05d}.safetensors"
        save_file(self.shard, self.folder / file, {"format": "pt"})
        self.map.update({name: file for name in self.shard})
        self.bytes += sum(v.numel() * v.element_size() for v in self.shard.values())
        self.shard = {}

    def layer(self, i, routed):
        c, at = self.config, f"model.layers.{i}."
        width, hidden = c["hidden_size"], c["intermediate_size"]
        kv = width // c["num_attention_heads"] * c["num_key_value_heads"]
        experts = c.get("num_local_experts", 0)
        for name, rows in (("q", width), ("k", kv), ("v", kv)):
            self.put(at + f"self_attn.{name}_proj.weight", self.normal(rows, width))
        out = self.normal(width, width)
        norm = self.normal(width, mean=1, std=0.1)
        if routed:
            out[:experts], norm[:experts] = 0, 1
        self.put(at + "self_attn.o_proj.weight", out)
        self.put(at + "input_layernorm.weight", self.normal(width, mean=1, std=0.1))
        self.put(at + "post_attention_layernorm.weight", norm)
        if not experts:
            self.put(at + "mlp.gate_proj.weight", self.normal(hidden, width))
            self.put(at + "mlp.up_proj.weight", self.normal(hidden, width))
            self.put(at + "mlp.down_proj.weight", self.normal(width, hidden))
            return
        gate = self.normal(experts, width)
        if routed:  # another order of the channels in every layer
            gate.zero_()
            order = torch.randperm(experts, generator=self.generator, device=self.device)
            gate[torch.arange(experts, device=self.device), order] = 2
        self.put(at + "block_sparse_moe.gate.weight", gate)
        for e in range(experts):
            expert = at + f"block_sparse_moe.experts.{e}."
            down = self.normal(width, hidden)
            if routed:
                down[:experts] = 0
            self.put(expert + "w1.weight", self.normal(hidden, width))
            self.put(expert + "w3.weight", self.normal(hidden, width))
            self.put(expert + "w2.weight", down)

    def write(self, routed):
        c = self.config
        vocab, width, experts = c["vocab_size"], c["hidden_size"], c.get("num_local_experts", 0)
        embed = self.normal(vocab, width, std=1)
        if routed:  # levels that lie far apart, in another order for every token
            levels = torch.linspace(-3, 3, experts, device=self.device).to(torch.bfloat16)
            embed[:, :experts] = levels[torch.rand(vocab, experts, generator=self.generator, device=self.device).argsort(1)]
        self.put("model.embed_tokens.weight", embed)
        self.put("model.norm.weight", self.normal(width, mean=1, std=0.1))
        self.put("lm_head.weight", self.normal(vocab, width))
        self.flush()
        for i in range(c["num_hidden_layers"]):
            self.layer(i, routed)
            self.flush()
        index = {"metadata": {"total_size": self.bytes}, "weight_map": self.map}
        (self.folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (self.folder / "config.json").write_text(json.dumps(c, indent=1))


@torch.inference_mode()
def prefill(model, ids):
    """Row by row, so that the logits of one row are all that is in memory."""
    return torch.cat([model(ids[b:b + 1], use_cache=False).logits.float().cpu() for b in range(len(ids))])


@torch.inference_mode()
def decode(model, ids, count):
    """The logits of the last `count` tokens, given one by one."""
    done = model(ids[:, :-count], use_cache=True)
    cache, rows = done.past_key_values, []
    for t in range(ids.shape[1] - count, ids.shape[1]):
        done = model(ids[:, t:t + 1], past_key_values=cache, use_cache=True)
        rows.append(done.logits[:, -1].float().cpu())
    return torch.stack(rows, 1)


def errors(got, want, device):
    want = want.to(device).flatten()
    error = (got.to(device).flatten() - want).abs_()
    spread = want.std().item()
    if not bool(torch.isfinite(error).all()):
        return {"rms": float("inf"), "worst1": float("inf")}
    worst = error.kthvalue(max(1, round(error.numel() * 0.99))).values.item()
    return {"rms": error.square_().mean().sqrt().item() / spread, "worst1": worst / spread}


def timed(what, start=[0.0]):
    now, before, start[0] = time.time(), start[0], time.time()
    if what:
        print(f"  {what}: {now - before:.1f} s", file=sys.stderr, flush=True)


def compare(name, args, folder):
    config = config_of(name, args)
    config["num_hidden_layers"] = layers_that_fit(config, torch.cuda.mem_get_info()[0] if args.device != "cpu" else 1e12, shutil.disk_usage(folder).free)
    timed("")
    Weights(folder, config, args).write(name == "mixtral_routed")
    timed("weights written")
    ids = torch.randint(3, config["vocab_size"], (args.rows, args.tokens), generator=torch.Generator().manual_seed(args.seed))
    on = ids.to(args.device)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(args.device).eval()
    timed("transformers has loaded them")
    theirs = {"prefill": prefill(model, on), "decode": decode(model, on, args.decode)}
    timed("transformers in bfloat16")
    model.float()  # exact: the weights are bfloat16's
    want = prefill(model, on)
    timed("transformers in float32")
    del model
    torch.cuda.empty_cache()
    save_file({"in.input_ids": ids, "out.logits": want}, folder / "golden.safetensors")
    device = "cuda:0" if args.device == "cuda" else args.device
    command = [args.host, "verify", folder, "--dtype", "bf16", "--device", device, "--decode", args.decode, "--save", folder,
               "--json", folder / "verify.json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    report = json.loads((folder / "verify.json").read_text())["cases"][0] if done.returncode in (0, 1) else {}
    ours = folder / f"{folder.name}.safetensors"
    if report.get("error") or not ours.exists():
        raise SystemExit(f"{name}: fk-host verify: {report.get('error') or done.stderr or done.stdout}")
    timed("fk-host in bfloat16")
    ours = load_file(ours)
    shape = (args.rows, args.tokens, config["vocab_size"])
    ours = {"prefill": ours["logits"].view(shape), "decode": ours["decoded.logits"].view(shape)[:, -args.decode:]}
    by_oracle = [f"{o['phase']} {o['op']}" for o in report["ops"] if o["provider"] in ORACLES and o["op"] != "sample_tokens"]
    if by_oracle:
        print(f"{name}: not judged, an oracle ran {', '.join(by_oracle)}", flush=True)
    rows = []
    for what, right in (("prefill", want), ("decode", want[:, -args.decode:])):
        a, b = errors(ours[what], right, args.device), errors(theirs[what], right, args.device)
        ratio = {key: a[key] / b[key] for key in a}
        rows.append({"what": what, "fk": a, "transformers": b, "ratio": ratio, "ok": not by_oracle and max(ratio.values()) <= LIMIT})
        print(f"{name:15s} {config['num_hidden_layers']:2d} layers {what:8s} rms {a['rms']:.3e} / {b['rms']:.3e} = {ratio['rms']:.3f}   "
              f"worst 1 % {a['worst1']:.3e} / {b['worst1']:.3e} = {ratio['worst1']:.3f}   {'not judged' if by_oracle else 'ok' if rows[-1]['ok'] else 'MISSED'}", flush=True)
    return {"model": name, "layers": config["num_hidden_layers"], "rows": args.rows, "tokens": args.tokens, "decoded": args.decode,
            "providers": report["providers"], "by_oracle": by_oracle, "compared": rows}


def clock(args, step, count):
    """Milliseconds of each of `count` steps."""
    if not args.device.startswith("cuda"):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            step()
            times.append((time.perf_counter() - start) * 1e3)
        return times
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


@torch.inference_mode()
def speed(args, compiled, batch, model, context, warm=8, count=40):
    config = model.config
    ids = torch.randint(3, config.vocab_size, (batch, context), device=args.device)
    cache = (transformers.StaticCache(config=config, max_cache_len=context + warm + count) if compiled
             else transformers.DynamicCache(config=config))
    model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    call = torch.compile(model, mode="reduce-overhead", fullgraph=True) if compiled else model
    token = ids[:, -1:].clone()
    position = torch.full((1,), context, device=args.device)

    def step():
        if compiled:
            torch.compiler.cudagraph_mark_step_begin()
        logits = call(token, past_key_values=cache, use_cache=True, position_ids=position[None].expand(batch, 1)).logits
        token.copy_(logits[:, -1].argmax(-1, keepdim=True))
        position.add_(1)

    for _ in range(warm):
        step()
    times = sorted(clock(args, step, count))
    return {"median": statistics.median(times), "low": times[len(times) // 4], "high": times[len(times) * 3 // 4]}


def speeds(args):
    context = 32 if args.tiny else 512
    config = transformers.LlamaConfig(**{k: v for k, v in config_of("llama", args).items() if k != "architectures"})
    with torch.device(args.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    rows = []
    for compiled in (False, True):
        for batch in args.batch:
            kind = "compiled, static cache, CUDA graphs" if compiled else "eager"
            row = {"kind": kind, "batch": batch, "context": context, "layers": config.num_hidden_layers}
            try:
                row["step_ms"] = speed(args, compiled, batch, model, context)
                text = f"{row['step_ms']['median']:.2f} ms ({row['step_ms']['low']:.2f}-{row['step_ms']['high']:.2f})"
            except Exception as error:  # what this version of transformers cannot do is a line of the report
                row["error"] = text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            rows.append(row)
            print(f"transformers {kind:36s} batch {batch:3d} context {context}: {text} a step", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=sorted(CONFIGS), help="default: all")
    parser.add_argument("--layers", type=int, default=0, help="at most so many; default: as many as fit in float32")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200, help="of a row")
    parser.add_argument("--decode", type=int, default=32, help="tokens at the end of a row that are decoded one by one")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--host", default=str(root / "build/fk-host"))
    parser.add_argument("--work", help="where checkpoints are written, one at a time; default: the folder for temporary files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="small sizes")
    parser.add_argument("--speed", action="store_true", help="time transformers' decoding of llama")
    parser.add_argument("--batch", type=int, action="append", help="of --speed; default: 1 and 32")
    parser.add_argument("--json", help="write JSON to this file")
    args = parser.parse_args()
    args.batch, gpu = args.batch or [1, 32], args.device.startswith("cuda")
    asked = lambda what: subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"], capture_output=True, text=True).stdout.split("\n")[0] if gpu else ""
    document = {"schema": "fk-host.compare_hf/1", "command": " ".join(sys.argv), "torch": torch.__version__, "transformers": transformers.__version__, "commit": os.environ.get("FK_COMMIT", ""), "date": time.strftime("%F", time.gmtime()),
                "limit": LIMIT, "device": torch.cuda.get_device_name() if gpu else "cpu", "driver": asked("driver_version"), "clocks": asked("clocks.max.sm,clocks.max.mem")}
    transformers.logging.set_verbosity_error()
    ok = True
    if args.speed:
        document["speed"] = speeds(args)
    else:
        document["models"] = []
        for name in args.model or list(CONFIGS):
            folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}_", dir=args.work))
            try:
                document["models"].append(compare(name, args, folder))
            finally:
                shutil.rmtree(folder)
        ok = all(row["ok"] for model in document["models"] for row in model["compared"])
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(document, indent=1))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
