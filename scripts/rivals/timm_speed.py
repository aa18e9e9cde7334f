#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""timm_speed.py FILE: vision models of timm, transformers and torch beside `fk-host run`, by turns on one GPU, with random weights.

The rival is compiled (torch.compile, max-autotune) in bfloat16 with images channels last, and its step is a CUDA graph. An
answer of either side begins with images in host memory and ends with results there. `device_ms` of the rival is the graph alone.
fk-host runs the same configuration in bfloat16, from a scenario which the script writes. A compilation has --compile seconds;
after them the rival is compiled by torch.compile's default mode, then eager, and the row says so. FILE gets JSON after each row.

    scripts/rivals/timm_speed.py timm.json --host build/fk-host [--only dinov3 swinv2] [--batch 1 64] [--limit SECONDS]

Needs torch 2.11 or newer and timm; rtdetrv2 needs transformers, yolov10 the repository's test/golden/make."""
import argparse, json, pathlib, signal, statistics, subprocess, sys, tempfile, time

from about import ROOT, about

# Architecture: configuration of fk-host, the rival's name (timm's, or a function here), pixels of an image's side.
MODELS = {
    "dinov3": ("dinov3-vitl16", "vit_large_patch16_dinov3_qkvb", 224),
    "siglip2": ("siglip2-so400m-patch16-naflex", "vit_so400m_patch16_siglip_256", 256),
    "swinv2": ("swinv2-large-window12-192", "swinv2_large_window12_192", 192),
    "convnextv2": ("convnextv2-base-22k-224", "convnextv2_base", 224),
    "mobilenetv4": ("mobilenetv4-conv-medium", "mobilenetv4_conv_medium", 256),
    "efficientnetv2": ("efficientnetv2-rw-m", "efficientnetv2_rw_m", 320),
    "rtdetrv2": ("rtdetr-v2-r101vd", "transformers", 640),
    "yolov10": ("yolov10n", "torch", 640),
}
BATCHES = 1, 8, 64


def config_of(name):
    return json.loads((ROOT / f"registry/configs/{name}.json").read_text())


def rival_model(arch):
    """The module, and the function which gets tensors from its result."""
    config, name, side = MODELS[arch]
    if name == "transformers":
        from transformers import RTDetrV2Config, RTDetrV2ForObjectDetection
        return RTDetrV2ForObjectDetection(RTDetrV2Config(**config_of(config))), lambda y: [y.logits, y.pred_boxes]
    if name == "torch":
        sys.path.append(str(ROOT / "test/golden/make"))
        import yolov10
        return yolov10.Network(config_of(config)), lambda y: list(y[1:])
    import timm
    more = {"num_classes": 0} if arch in ("dinov3", "siglip2", "swinv2") else {"num_classes": 1000}
    if arch != "efficientnetv2" and arch != "mobilenetv4" and arch != "convnextv2":
        more["img_size"] = side
    if arch == "dinov3":
        more["dynamic_img_size"] = False  # else its positions are made on the CPU in each call, and there is no graph
    return timm.create_model(name, pretrained=False, **more), lambda y: [y]


def within(seconds, call):
    """False if the call took longer: it is stopped, and its error may be any that the stop became on its way."""
    late = []

    def stop(*_):
        late.append(True)
        raise TimeoutError
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(seconds))
    try:
        call()
    except Exception:
        if not late:
            raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return not late


class Rival:
    """A captured step with images of its own."""

    def __init__(self, arch, batch, args):
        import torch, torch._dynamo
        from torch_race import captured
        self.torch, side = torch, MODELS[arch][2]
        torch.manual_seed(1)
        model, results = rival_model(arch)
        model = model.eval().to("cuda", torch.bfloat16, memory_format=torch.channels_last)
        self.host = torch.randn(batch, 3, side, side).to(torch.bfloat16).contiguous(memory_format=torch.channels_last).pin_memory()
        self.images = self.host.cuda().contiguous(memory_format=torch.channels_last)
        begin = time.perf_counter()
        with torch.inference_mode():
            self.compiled, step = f"eager: compiling took more than {args.compile:.0f} s", model
            for mode in ("max-autotune-no-cudagraphs", "default"):  # captured() makes the graph
                torch._dynamo.reset()
                compiled = torch.compile(model, mode=mode)
                if within(args.compile, lambda: [compiled(self.images) for _ in range(3)]):
                    self.compiled, step = mode.removesuffix("-no-cudagraphs"), compiled
                    break
            self.compile_s = time.perf_counter() - begin

            def call():
                self.results = results(step(self.images))
            try:
                self.step = captured([call]).replay
            except RuntimeError as error:  # a model which reads numbers from the device
                torch.cuda.synchronize()
                self.compiled += f", no graph: {str(error)[:100]}"
                self.step = torch.inference_mode()(call)
        self.step()
        torch.cuda.synchronize()
        self.out = [torch.empty(r.shape, dtype=r.dtype, pin_memory=True) for r in self.results]

    def samples(self, seconds):
        """Milliseconds of answers, and of the device alone."""
        answers, device, end = [], [], time.perf_counter() + seconds
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        while len(answers) < 10 or time.perf_counter() < end:
            begin = time.perf_counter()
            self.images.copy_(self.host, non_blocking=True)
            events[0].record()
            self.step()
            events[1].record()
            for out, result in zip(self.out, self.results):
                out.copy_(result, non_blocking=True)
            self.torch.cuda.synchronize()
            answers.append(1e3 * (time.perf_counter() - begin))
            device.append(events[0].elapsed_time(events[1]))
        return answers, device


def spread(values):
    values = sorted(values)
    at = lambda share: values[min(int(share * len(values)), len(values) - 1)]
    return {"median": statistics.median(values), "p10": at(0.1), "p90": at(0.9), "number": len(values)}


def write_scenario(folder, arch, batch, args):
    name = f"{arch}_beside"
    (folder / "workloads").mkdir(exist_ok=True)
    (folder / "workloads/beside.yaml").write_text(
        f"summary: {batch} images at a time\nworkloads:\n  images:\n    summary: {batch} images at a time\n    kind: latency\n"
        f"    batch: {batch}\n    warmup: 3\n    iterations: {args.iterations}\n")
    profile = f"{{dtype: bf16, limits: {{max_batch: {batch}, max_context: 1}}}}"
    file = folder / f"{name}.yaml"
    file.write_text(f"scenario: {name}\nsummary: {arch} in bfloat16\nmodel: {arch}\nconfig: {MODELS[arch][0]}\nseed: 1\n"
                    f"workloads: beside\nrun: [images]\nprofiles:\n  tiny: {profile}\n  full: {profile}\n")
    return file


def fk_run(file, args):
    """Milliseconds of answers in a run of fk-host, and the report's other words."""
    report_file = file.with_suffix(".json")
    command = [args.host, "run", str(file), "--profile", "full", "--device", args.device, "--json", str(report_file),
               *(word for pair in args.provider for word in ("--provider", pair))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=args.limit)
    report = json.loads(report_file.read_text()) if report_file.exists() else {}
    if not report.get("baseline", {}).get("workloads"):
        raise RuntimeError(f"fk-host: exit {done.returncode}: {report.get('what') or report.get('error', '')} {done.stderr[-500:]}")
    base = report["baseline"]
    return {"round_s": base["workloads"][0]["round_s"], "verdict": base["verdict"],
            "ops": sorted({f"{op['op']}={op['provider']}" for op in base["ops"]})}


def measure(arch, batch, folder, args):
    row = {"config": MODELS[arch][0], "rival": MODELS[arch][1], "pixels": MODELS[arch][2], "batch": batch, "fk_host": []}
    file = write_scenario(folder, arch, batch, args)
    rival = None if args.fk_only else Rival(arch, batch, args)
    answers, device = [], []
    for _ in range(args.turns):
        if rival:
            both = rival.samples(args.seconds)
            answers += both[0]
            device += both[1]
        row["fk_host"].append(fk_run(file, args))
    own = [1e3 * run["round_s"]["median"] for run in row["fk_host"]]
    row["fk_host_ms"] = {"median": statistics.median(own), "p10": 1e3 * min(run["round_s"]["p10"] for run in row["fk_host"]),
                         "p90": 1e3 * max(run["round_s"]["p90"] for run in row["fk_host"]), "runs": len(own)}
    if rival:
        row |= {"compiled": rival.compiled, "compile_s": rival.compile_s, "rival_ms": spread(answers), "device_ms": spread(device)}
        row["speedup"] = row["rival_ms"]["median"] / row["fk_host_ms"]["median"]
        row["speedup_to_device"] = row["device_ms"]["median"] / row["fk_host_ms"]["median"]
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--host", default=str(ROOT / "build/fk-host"))
    p.add_argument("--device", default="cuda:0", help="of fk-host")
    p.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--batch", nargs="+", type=int, default=list(BATCHES))
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2, help="of the rival in a turn")
    p.add_argument("--iterations", type=int, default=50, help="rounds of fk-host in a turn")
    p.add_argument("--compile", type=float, default=300, help="seconds for a compilation")
    p.add_argument("--limit", type=float, default=300, help="seconds of one fk-host run")
    p.add_argument("--provider", nargs="*", default=[], help="OP=PLUGIN for fk-host")
    p.add_argument("--fk-only", action="store_true", help="without the rival, as on a machine without torch")
    args = p.parse_args()
    args.host = str(pathlib.Path(args.host).resolve())
    out = json.loads(args.file.read_text()) if args.file.exists() else {}
    versions = {}
    if not args.fk_only:
        import torch
        versions = {"torch": torch.__version__}
        try:
            import timm
            versions["timm"] = timm.__version__
        except ImportError:
            pass
    out |= about("timm_speed.py", **versions)
    rows, failed = out.setdefault("rows", {}), out.setdefault("failed", {})
    for arch in args.only:
        for batch in args.batch:
            name = f"{arch}, batch {batch}"
            failed.pop(name, None)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    row = rows[name] = measure(arch, batch, pathlib.Path(folder), args)
                print(f"{name}: fk-host {row['fk_host_ms']['median']:.3f} ms"
                      + (f", rival {row['rival_ms']['median']:.3f} ms ({row['compiled']}, {row['compile_s']:.0f} s), device {row['device_ms']['median']:.3f} ms, x {row['speedup']:.2f}"
                         if "speedup" in row else ""), flush=True)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {str(error)[-800:]}"
                print(f"FAILED {name}: {failed[name]}", flush=True)
            args.file.write_text(json.dumps(out, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
