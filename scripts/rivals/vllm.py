#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm.py: vLLM 0.26.0 and fk-host on one GPU, with random weights of the same sizes. scripts/rivals/fetch_wheels.sh brings
vLLM to a machine without network.

    scripts/rivals/vllm.py compare FILE --host build/fk-host    steps, prefill, 1000 requests, beside `fk-host run`
    scripts/rivals/vllm.py gain FILE --host build/fk-host       the provider `cuda`, packaged, inside vLLM: steps and logits

`gain` loads one engine of vLLM as it comes and one for each group of ops, and asks them in turns. So all see the same clocks.
`--graph` asks engines with torch.compile and CUDA graphs, vLLM's default; without it they run eagerly. FK_COMMIT names the
commit where there is no .git. FILE gets JSON after each part."""
import argparse, datetime, json, os, pathlib, random, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve()
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
from vllm_engines import GROUPS, config_folder, gain, prompts_of, sampling, spread  # noqa: E402
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != HERE.parent]  # this file is no `import vllm`
VERSION = "0.26.0"
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
