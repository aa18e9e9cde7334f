#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ranks.py FILE [--host build-gpu/fk-host] [--gpus N] [--only WORD ...] [--seconds S] [--most S] [--dry-run]: what is
wanted of several GPUs, measured in one go beside its rival in the same run, on as many of 2, 4 and 8 GPUs as there are:
  eager         what is captured below, without CUDA graphs: every op at one small and one large case, Llama with --no-graph
  values        smoke and ci cases of the collectives and of the products that talk, by `check`, and a product of many tiles
  all_reduce    8 KiB, 256 KiB and 256 MiB beside NCCL, captured; all_reduce_add_rms_norm in decode beside both one after the other
  parts         reduce_scatter and all_gather of a prefill beside NCCL
  oracle        the same cases by cuda_reference, which judges what the CPU is too slow for
  experts       moe_dispatch and moe_combine: bandwidth at 4096 tokens beside NCCL's all_to_all, time at 128 tokens; fused_moe_ep
                beside dispatch, products and combine one after the other
  products      linear_all_reduce, linear_reduce_scatter and all_gather_linear beside linear and NCCL one after the other
  llama         Llama 3.1 8B with --tp 1, 2, 4, 8, one request: milliseconds per token
  overlap       Llama 3.1 8B with --tp 2, 4 and 8, 32 requests at a time and one, without and with --overlap: prompt tokens per second
  mixtral       Mixtral 8x7B with --tp 2 and 4: 1000 requests of 512 tokens and 1024 new ones, output tokens per second
Every step has a time of its own; what takes longer is ended with all its processes and becomes a row, and the next one
begins; --most is for all of them. What the devices have no room for is left out. FILE gets all reports, a table of aims is printed. --only runs the steps whose name has one of
the words, --dry-run only prints the commands. Exit 0 when every step gave a report with right values; a missed aim is no error."""
import argparse, json, math, os, pathlib, shlex, signal, subprocess, sys, tempfile, time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
parser.add_argument("--host", default="build-gpu/fk-host")
parser.add_argument("--gpus", type=int, help="at most this many; default: all")
parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
parser.add_argument("--seconds", default="0.2", help="of a race")
parser.add_argument("--most", type=float, help="seconds of a step")
parser.add_argument("--dry-run", action="store_true")

PRODUCTS = {"linear_all_reduce": {2: ["o_prefill_2", "down_prefill_2"], 4: ["o_prefill_4", "down_prefill_4"], 8: ["o_prefill_8", "down_prefill_8"]},
            "linear_reduce_scatter": {2: ["down_prefill_2"], 4: ["o_prefill_4", "down_prefill_4"], 8: ["o_prefill_8", "down_prefill_8"]},
            "all_gather_linear": {2: ["qkv_prefill_2"], 4: ["qkv_prefill_4", "gate_up_prefill_4"], 8: ["qkv_prefill_8", "gate_up_prefill_8"]}}
PARTS = ["reduce_scatter", "all_gather"]
SEVERAL = (2, 4, 8)
LLAMA = {2: 0.62, 4: 0.42, 8: 0.33}  # milliseconds per token, of those of one GPU
MIXTRAL = {2: 17000, 4: 30000}  # output tokens per second
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "all_gather_columns", "all_to_all", "all_reduce_add_rms_norm",
               "vocab_parallel_embedding", "moe_dispatch", "moe_combine", "fused_moe_ep"]


def steps(host, gpus, seconds):
    """(name, command, most seconds)"""
    def bench(op, cases, most):
        return [host, "bench", op, "--size", "full", "--device", "cuda", "--provider", "nccl", "--provider", "cuda", "--seconds", seconds] + \
            [word for case in cases for word in ("--case", case)], most
    for op in COLLECTIVES + list(PRODUCTS):
        yield f"values {op}", [host, "check", "cuda", "--op", op, "--device", "cuda", "--size", "ci", "--patience", "60"], 240
        yield f"oracle {op}", [host, "check", "cuda_reference", "--op", op, "--device", "cuda", "--size", "ci", "--patience", "60"], 240
    for op in PRODUCTS:
        yield f"values many tiles {op}", *bench(op, ["tiles_2"], 180)
    for n in SEVERAL:
        if n > gpus:
            continue
        for case in ("kib_8", "kib_256", "mib_256"):
            yield f"all_reduce {case}_{n}", *bench("all_reduce", [f"{case}_{n}"], 120)
        for rows in (128, 4096):
            yield f"experts all_to_all {rows}_{n}", *bench("all_to_all", [f"rows_{rows}_{n}"], 120)
            for op in ("moe_dispatch", "moe_combine"):
                yield f"experts {op} {rows}_{n}", *bench(op, [f"tokens_{rows}_{n}"], 180)
        yield f"all_reduce add_rms_norm decode_{n}", *bench("all_reduce_add_rms_norm", [f"decode_{n}"], 120)
        for op in PARTS:
            yield f"parts {op} prefill_{n}", *bench(op, [f"prefill_{n}"], 120)
        for case in ("decode", "prefill"):
            yield f"experts fused_moe_ep {case}_{n}", *bench("fused_moe_ep", [f"{case}_{n}"], 180)
        for op, cases in PRODUCTS.items():
            for case in cases[n]:
                yield f"products {op} {case}", *bench(op, [case], 180)
    for n in SEVERAL:
        if n > gpus:
            continue
        eager = {"all_reduce": [f"kib_8_{n}", f"mib_256_{n}"], "moe_dispatch": [f"tokens_128_{n}", f"tokens_4096_{n}"],
                 "moe_combine": [f"tokens_128_{n}", f"tokens_4096_{n}"]} | {op: cases[n][:1] for op, cases in PRODUCTS.items()}
        for op, cases in eager.items():
            command, most = bench(op, cases, 180)
            yield f"eager {op} {n}", [*command, "--no-graph"], most
        yield f"eager llama tp {n}", [host, "run", "llama3.1", "--profile", "full", "--device", "cuda", "--tp", str(n), "--no-graph", "--workload", "single_request"], 420
    for n in (1, *SEVERAL):
        if n <= gpus:
            yield f"llama tp {n}", [host, "run", "llama3.1", "--profile", "full", "--device", "cuda", "--tp", str(n), "--workload", "single_request"], 420
    for n in SEVERAL:
        for how, option in (("without", []), ("with", ["--overlap"])) if n <= gpus else ():
            yield f"overlap tp {n} {how}", [host, "run", "llama3.1", "--profile", "full", "--device", "cuda", "--tp", str(n), *option,
                                            "--workload", "single_request", "--workload", "fixed_batch_32"], 420
    for n in MIXTRAL:
        if n <= gpus:
            # All requests at once, in as many pages as there is room for: 96000 are what they need in the end. Where there are fewer, the youngest
            # are computed a second time, or wait.
            yield f"mixtral tp {n}", [host, "run", "mixtral", "--profile", "full", "--device", "cuda", "--tp", str(n), "--workload", "in512_out1024",
                                      "--max-batch", "1000", "--pages", "0", "--time-limit", "60"], 900


def run(command, most):
    """A step: its report, why there is none, seconds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        # A session of its own, so that nothing of it is left when it takes too long.
        process = subprocess.Popen([*command, "--json", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            said, why = process.communicate(timeout=most)[0], ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # the host ends its ranks
            try:
                said = process.communicate(timeout=10)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said = process.communicate()[0]
            why = f"not done after {most:g} s"
        report = None
        if path.exists():
            try:
                report = json.loads(path.read_text() or "null")
            except ValueError:
                why = why or "its report cannot be read"
    if not why and process.returncode:
        why = f"exit code {process.returncode}"
    if not why and report is None:
        why = "no report"
    return {"command": " ".join(command), "seconds": round(time.monotonic() - start, 1), "why": why, "said": said[-3000:] if why else "", "report": report}


def rows_of(done, name):
    report = (done.get(name) or {}).get("report") or {}
    return {r["provider"]: r for r in report.get("rows", []) if not r.get("why") and r.get("cold_s")}


def sent_bytes(rows, ranks, experts=256, top_k=8, row=14336):
    """Of one rank by moe_dispatch: a token goes once to every other rank that has one of its experts, which are chosen evenly. As many
    elements come back by moe_combine, where a rank's answers to a token are one sum; how it codes them is its own affair."""
    away = experts - experts // ranks
    there = 1 - math.comb(away, top_k) / math.comb(experts, top_k)
    return rows * row * (ranks - 1) * there


def workload(done, name, which=None):
    report = (done.get(name) or {}).get("report") or {}
    return next((w for w in (report.get("baseline") or {}).get("workloads", []) if w.get("done") and which in (None, w["workload"])), None)


def aims(done, gpus):
    """(what, measured, aim, reached), of what was measured."""
    def ratio(what, name, aim):
        rows = rows_of(done, name)
        if {"nccl", "cuda"} <= rows.keys():
            times = rows["nccl"]["cold_s"] / rows["cuda"]["cold_s"]
            yield what, f"{times:.2f} times as fast ({1e6 * rows['cuda']['cold_s']:.1f} us)", f"{aim:.2f}", times >= aim
    for n in SEVERAL:
        for case, aim in (("kib_8", 1 / 0.42), ("kib_256", 1 / 0.55), ("mib_256", 1)):
            yield from ratio(f"all_reduce {case}, {n} ranks, beside NCCL", f"all_reduce {case}_{n}", aim)
        for rows in (128, 4096):
            rival = rows_of(done, f"experts all_to_all {rows}_{n}").get("nccl")
            for op in ("moe_dispatch", "moe_combine"):
                own = rows_of(done, f"experts {op} {rows}_{n}").get("cuda")
                if not own or not rival:
                    continue
                if rows == 128:
                    most = 0.75 * rival["cold_s"]
                    yield (f"{op}, 128 tokens, {n} ranks, beside NCCL's all_to_all of 128 rows from each to each",
                           f"{1e6 * own['cold_s']:.1f} us of {1e6 * rival['cold_s']:.1f} us: {own['cold_s'] / rival['cold_s']:.2f}", "0.75", own["cold_s"] <= most)
                else:
                    best = (n - 1) * rows * 14336 / rival["cold_s"]
                    mine = sent_bytes(rows, n) / own["cold_s"]
                    yield (f"{op}, 4096 tokens, {n} ranks, bandwidth of NCCL's all_to_all", f"{mine / 1e9:.0f} of {best / 1e9:.0f} GB/s: {mine / best:.2f}", "0.85", mine >= 0.85 * best)
        yield from ratio(f"all_reduce_add_rms_norm decode_{n}, beside both one after the other", f"all_reduce add_rms_norm decode_{n}", 1)
        for op in PARTS:
            yield from ratio(f"{op} prefill_{n}, beside NCCL", f"parts {op} prefill_{n}", 1)
        for case in ("decode", "prefill"):
            yield from ratio(f"fused_moe_ep {case}_{n}, beside its parts one after the other", f"experts fused_moe_ep {case}_{n}", 1)
        for op, cases in PRODUCTS.items():
            for case in cases[n]:
                yield from ratio(f"{op} {case}, beside both one after the other", f"products {op} {case}", 1.2)
    one = workload(done, "llama tp 1")
    for n, aim in LLAMA.items():
        many = workload(done, f"llama tp {n}")
        if one and many:
            a, b = many["token_s"]["median"], one["token_s"]["median"]
            yield f"Llama 3.1 8B, tp {n}", f"{1e3 * a:.2f} ms a token, {a / b:.3f} of tp 1", f"{aim:.2f}", a <= aim * b
    for n in SEVERAL:
        for which in ("single_request", "fixed_batch_32"):
            both = [workload(done, f"overlap tp {n} {how}", which) for how in ("with", "without")]
            if all(both):
                (a, b), (c, d) = ([w[figure]["median"] for w in both] for figure in ("prefill_tokens_per_s", "first_token_s"))
                yield (f"Llama 3.1 8B, tp {n}, prefill of {which} with --overlap",
                       f"{a:.0f} tok/s, {a / b:.3f} of without; first token after {1e3 * c:.1f} ms, without {1e3 * d:.1f}", "more", a > b)
    for n, aim in MIXTRAL.items():
        many = workload(done, f"mixtral tp {n}")
        if many:
            speed = many["output_tokens"] / many["round_s"]["median"]
            yield f"Mixtral 8x7B, tp {n}", f"{speed:.0f} tok/s", str(aim), speed >= aim


def left_out(step):
    """Why a step was left out: its devices are too small for it, as its report says; empty otherwise."""
    return ((step["report"] or {}).get("too_large") or {}).get("what", "")


def wrong(step):
    """Why a step's values are not right; empty when they are."""
    report = step["report"] or {}
    bad = [r for r in report.get("rows", []) if r.get("status") in ("wrong", "violation")]
    if bad:
        return f"{len(bad)} rows, the first: {bad[0].get('case')}: {bad[0].get('text', '')[:200]}"
    failed = [r for r in report.get("rows", []) if r.get("why") and r.get("provider") == "cuda"]
    return f"{failed[0]['case']}: {failed[0]['why'][:200]}" if failed else ""


def main():
    arguments = parser.parse_args()
    said = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    if arguments.dry_run:
        gpus = arguments.gpus or SEVERAL[-1]
    else:
        try:
            gpus = len(said("nvidia-smi", "-L").splitlines())
        except FileNotFoundError:
            gpus = 0
        gpus = min(gpus, arguments.gpus or gpus)
        if gpus < 2:
            print(f"skipped: {gpus} NVIDIA GPUs, at least two are needed")
            return 0
    wanted = [s for s in steps(arguments.host, gpus, arguments.seconds) if not arguments.only or any(w in s[0] for w in arguments.only)]
    if arguments.dry_run:
        for name, command, most in wanted:
            print(f"{name} ({most} s): {' '.join(command)}")
        return 0
    words = ["FILE" if word == arguments.file else word for word in sys.argv[1:]]
    out = {"command": shlex.join(["scripts/gpu/ranks.py", *words]), "device": f"{gpus} x {said('nvidia-smi', '--query-gpu=name', '--format=csv,noheader').splitlines()[0]}",
           "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()[0],
           "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": said("date", "-u", "+%F"),
           "nccl": "without NVLink multicast" if os.environ.get("NCCL_NVLS_ENABLE", "0") == "0" else "with NVLink multicast", "steps": {}}
    bad = False
    for name, command, most in wanted:
        step = out["steps"][name] = run(command, arguments.most or most)
        out_of_room = left_out(step)
        why = "" if out_of_room else step["why"] or wrong(step)
        bad = bad or bool(why)
        print(f"{name}: {'left out: ' + out_of_room if out_of_room else why or 'done'}, {step['seconds']} s", flush=True)
        # After every step: what is killed later has left what was measured.
        out["aims"] = [dict(zip(("what", "measured", "aim", "reached"), row)) for row in aims(out["steps"], gpus)]
        pathlib.Path(arguments.file).write_text(json.dumps(out, indent=1))
    for row in out.get("aims", []):
        print(f"{'reached' if row['reached'] else 'missed '} {row['what']}: {row['measured']}, aim {row['aim']}")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
