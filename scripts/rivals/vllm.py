#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm.py: vLLM 0.26.0 and fk-host on the same GPUs, with random weights of the same sizes. scripts/rivals/fetch_wheels.sh brings
vLLM to a machine without network.

    scripts/rivals/vllm.py compare FILE --host build/fk-host    steps, prefill, 1000 requests, beside `fk-host run`; with
                                                                --tp 4 both are divided between four GPUs
    scripts/rivals/vllm.py gain FILE --host build/fk-host       the provider `cuda`, packaged, inside vLLM: steps and logits
    scripts/rivals/vllm.py fk FILE --host build/fk-host         the same change of the same ops in `fk-host run`

`gain` loads one engine of vLLM as it comes and one for each group of ops, and asks them in turns. So all see the same clocks.
`--graph` asks engines with torch.compile and CUDA graphs, vLLM's default; without it they run eagerly. FK_COMMIT names the
commit where there is no .git. FILE gets JSON after each part."""
import argparse, json, os, pathlib, random, statistics, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
from about import about  # noqa: E402
from fk_runs import fk_run, scenario_of, show  # noqa: E402
from vllm_engines import config_folder, prompts_of, sampling  # noqa: E402
from vllm_gain import GROUPS, gain, spread  # noqa: E402
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != HERE.parent]  # this file is no `import vllm`
VERSION = "0.26.0"
BATCHES = 1, 8, 32
NEAREST = {  # providers whose kernels are nearest to vLLM's own: FlashAttention's tiles, cuBLAS, and simple kernels of norms and gates
    "attention": ["paged_attention=flashinfer", "kv_cache_append=cuda_reference", "rotary_embedding=flashinfer"],
    "mlp": ["linear=cublas", "silu_and_mul=flashinfer"],
    "norms": [],  # torch.compile writes vLLM's; no provider's are near
    "moe": [],  # vLLM's are in Triton; no provider's are near
}


def multicast():
    return "without NVLink multicast" if os.environ.get("NCCL_NVLS_ENABLE", "0") == "0" else "with NVLink multicast"


def check_version():
    """Imports vLLM, or ends with a sentence."""
    try:
        import vllm
    except ImportError as missing:
        raise SystemExit(f"vllm.py: vLLM is not there ({missing}); scripts/rivals/fetch_wheels.sh makes an archive of it")
    if vllm.__version__.split("+")[0] != VERSION:
        raise SystemExit(f"vllm.py: it compares with vLLM {VERSION}; this is {vllm.__version__}")


def fk_gain(args, out, save):
    """The same changes in fk-host: first each group by the providers nearest to vLLM's kernels, then one group by `cuda`, then all.
    A run is a process of its own. The second turn goes backwards, so a drift of clocks shows in the spread."""
    nearest = {**NEAREST, **{g: pairs.split(",") for g, pairs in (text.split(":") for text in args.instead)}}
    groups = ["before", *(g for g in args.groups if nearest[g]), *(["all"] if args.all else [])]
    mode = "graph" if args.graph else "eager"
    result = out.setdefault("fk_host", {})[mode] = {"nearest": {g: nearest[g] for g in args.groups}, "groups": {}, "failed": {}}
    turns = {group: [] for group in groups}
    for turn in range(args.turns):
        for group in groups if turn % 2 == 0 else groups[::-1]:
            pairs = [pair for other in args.groups if group not in (other, "all") for pair in nearest[other]]
            try:
                turns[group].append(fk_run(args, pairs, [f"in512_batch_{batch}" for batch in args.batches], [] if args.graph else ["--no-graph"]))
            except Exception as error:
                result["failed"][group] = str(error)[-1500:]
                print(f"FAILED fk-host {group}: {str(error)[-1500:]}", flush=True)
        for group, runs in turns.items():
            result["groups"][group] = fk_steps(args, runs, turns["before"])
        save()
    for group, row in result["groups"].items():
        for batch, of in row["steps"].items():
            print(f"fk-host {group:10} batch {batch:>2}: step {of['step_ms']['median']:.3f} ms, change {of.get('change_ms', {}).get('median', 0):+.3f} ms", flush=True)


def fk_steps(args, runs, before):
    row = {"runs": [{k: run[k] for k in ("command", "verdict", "ops")} for run in runs], "steps": {}}
    for batch in args.batches if runs else ():
        steps = [run["workloads"][f"in512_batch_{batch}"]["token_s"] for run in runs]
        at = row["steps"][str(batch)] = {"step_ms": {"median": 1e3 * statistics.median(s["median"] for s in steps), "low": 1e3 * min(s["p10"] for s in steps),
                                                     "high": 1e3 * max(s["p90"] for s in steps), "number": len(steps)},
                                         "prefill_tokens_per_s": spread([run["workloads"][f"in512_batch_{batch}"]["prefill_tokens_per_s"]["median"] for run in runs])}
        if len(before) == len(runs):
            base = [run["workloads"][f"in512_batch_{batch}"]["token_s"] for run in before]
            at["change_ms"] = {"median": 1e3 * statistics.median(s["median"] - b["median"] for s, b in zip(steps, base)),
                               "low": 1e3 * min(s["p10"] - b["p90"] for s, b in zip(steps, base)), "high": 1e3 * max(s["p90"] - b["p10"] for s, b in zip(steps, base)),
                               "number": len(steps)}
    return row


def fk_compare(args, out, save):
    """fk-host beside `compare`: the same steps, prefill and requests, with the providers of its ranking."""
    workloads = [f"in512_batch_{batch}" for batch in args.batches] + (["in512_out1024"] if args.requests else [])
    room = ["--max-batch", str(args.max_batch), "--pages", "0"] if args.requests else []
    for ways in args.fk or ([f"--tp {args.tp}"] if args.tp > 1 else [""]):
        rows = out[f"fk_host_rows {ways}".strip()] = fk_run(args, [], workloads, [*ways.split(), *room])
        save()
        show(rows, ways)


def all_reduces(worker):
    """The ways in which a rank of vLLM may add tensors, in the order in which it asks them."""
    from vllm.distributed.parallel_state import get_tp_group
    at = get_tp_group().device_communicator
    found = {name: getattr(at, name, None) for name in ("qr_comm", "fi_ar_comm", "ca_comm", "symm_mem_comm", "pynccl_comm")}
    return [name for name, way in found.items() if way is not None and not getattr(way, "disabled", False)]


def compare(args, out, save):
    """vLLM in its own processes, as `vllm serve` has it."""
    from vllm import LLM
    with tempfile.TemporaryDirectory() as temporary:
        folder, config = config_folder(args, pathlib.Path(temporary) / "model")
        llm = LLM(model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", seed=1, max_model_len=2048,
                  max_num_seqs=args.max_batch, max_num_batched_tokens=16384, enable_prefix_caching=False, gpu_memory_utilization=args.memory,
                  disable_log_stats=True, tensor_parallel_size=args.tp, enable_expert_parallel=args.experts)
        if args.tp > 1:
            out["vllm_all_reduce"] = llm.collective_rpc(all_reduces)[0]

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
    p.add_argument("--scenario", default="llama3.1_steps")
    p.add_argument("--model", help="of `compare`: a model of fk-host, run with --config in place of a scenario")
    p.add_argument("--profile", default="full", help="of fk-host")
    p.add_argument("--device", default="cuda:0", help="of fk-host")
    p.add_argument("--layers", type=int, default=0, help="0: all of the configuration")
    p.add_argument("--graph", action="store_true")
    p.add_argument("--groups", nargs="*", default=["attention", "mlp", "norms"], choices=GROUPS)
    p.add_argument("--all", action="store_true", help="one more engine, with all groups")
    p.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--requests", type=int, default=1000)
    p.add_argument("--max-batch", type=int, default=500, help="of `compare`")
    p.add_argument("--tp", type=int, default=1, help="of `compare`: GPUs between which both divide the model")
    p.add_argument("--experts", action="store_true", help="of `compare`: vLLM divides experts by whole experts")
    p.add_argument("--fk", nargs="*", help="of `compare`: other divisions for fk-host, such as '--ep 4'")
    p.add_argument("--cache", type=float, default=3.0, help="GiB of each engine's cache")
    p.add_argument("--memory", type=float, default=0.9)
    p.add_argument("--instead", nargs="*", default=[], help="GROUP:OP=PROVIDER,...: other providers than the nearest that are known")
    p.add_argument("--turns", type=int, default=2, help="runs of fk-host for each group")
    p.add_argument("--kernels", action="store_true", help="also the times of kernels in each engine's steps")
    p.add_argument("--limit", type=float, default=300, help="seconds of one fk-host run")
    args = p.parse_args()
    args.host = str(pathlib.Path(args.host).resolve())
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # all_reduces() travels to the ranks
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # the archive has no FlashInfer; greedy choices need none
    os.environ["VLLM_DISABLE_COMPILE_CACHE"] = "1"  # its key does not name the functions of a package
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    out = json.loads(args.file.read_text()) if args.file.exists() else {}
    out.update(about("vllm.py", vllm=VERSION, config=args.config,
                     **({"nccl": multicast()} if args.tp > 1 else {})))
    save = lambda: args.file.write_text(json.dumps(out, indent=1) + "\n")
    if args.mode == "fk":
        return fk_gain(args, out, save)
    if args.mode == "gain":
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # all engines in this process
        os.environ["VLLM_PLUGINS"] = ""  # Packaged registers the ops of one engine at a time
    check_version()
    if args.mode == "gain":
        return gain(args, out, save)
    compare(args, out, save)
    with tempfile.TemporaryDirectory() as folder:
        if args.model:
            args.scenario = str(scenario_of(args.model, args.config, folder, max_context=2048))
        fk_compare(args, out, save)


if __name__ == "__main__":
    main()
