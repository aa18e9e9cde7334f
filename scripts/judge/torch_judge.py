#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A judge of kernels as they are commonly written in Python: torch_judge.py CANDIDATE BASELINE [--timing events|do_bench].

One process with torch, which both plugins of silu_and_mul run in: fixed seeds, three inputs, values right when 99 of 100 elements are
within a tolerance, then a clock that nobody checks. `events` puts a pair of CUDA events around a copy of the inputs and the call, a
hundred times, and takes the mean, as FastKernels' bench does; `do_bench` is triton.testing's. Calls go to the plugin through a frame
that is made once, so that what is timed is not Python. Prints one line of JSON. scripts/judge/compare_gpu_judges.py puts it beside this
host. --device cpu, with a plain clock instead of events, tries all of it without a GPU."""
import argparse, ctypes, json, pathlib, sys, time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "plugin_api/adapters/torch"))
import fk_plugin
from fk_torch import copy_into, room_on, views

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("candidate")
parser.add_argument("baseline")
parser.add_argument("--rows", type=int, default=4096)
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--dtype", default="bfloat16")
parser.add_argument("--timing", default="events", choices=("events", "do_bench"))
parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
options = parser.parse_args()
device = torch.device(options.device)
if options.timing == "do_bench" and device.type == "cpu":
    parser.error("do_bench times GPUs")


class Clock:
    """A torch.cuda.Event of the CPU."""

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, stop):
        return 1e3 * (stop.at - self.at)


class Side:
    """A plugin with its instance, and the call on one pair of tensors."""

    def __init__(self, path, x):
        self.op = fk_plugin.Plugin(path)["silu_and_mul"]
        self.x, self.out = x, torch.empty(x.shape[0], x.shape[1] // 2, dtype=x.dtype, device=device)
        values = views({"x": self.x, "out": self.out})
        self.instance = self.op.create({"size": x.shape[1] // 2}, {}, values, allocate=room_on(device), copy=copy_into)
        one = self.instance
        self.frame = fk_plugin.Frame(self.op.forward, values)
        stream = torch.cuda.current_stream().cuda_stream if device.type == "cuda" else None
        self.context = fk_plugin.Context(ctypes.sizeof(fk_plugin.Context), 0, stream, one.memory["scratch"][0],
                                         one.need.scratch, None, 0, ctypes.pointer(one.error))

    def __call__(self):
        self.instance.check(self.op.table.forward(self.instance.self, self.frame.pointer, self.context))


def right(side):
    for seed in (200, 201, 202):
        torch.manual_seed(seed)
        side.x.copy_(torch.randn(side.x.shape, device=device))
        side()
        gate, up = side.x.float().chunk(2, 1)
        wanted = torch.nn.functional.silu(gate) * up
        close = torch.isclose(side.out.float(), wanted, rtol=1e-2, atol=1e-2)
        if close.float().mean().item() < 0.99:
            return False
    return True


def seconds(side):
    if options.timing == "do_bench":
        import triton.testing
        return triton.testing.do_bench(side) * 1e-3
    fresh = side.x.clone()
    for _ in range(10):
        side()
    all = []
    for _ in range(100):
        start, stop = [torch.cuda.Event(enable_timing=True) if device.type == "cuda" else Clock() for _ in range(2)]
        start.record()
        side.x.copy_(fresh)
        side()
        stop.record()
        if device.type == "cuda":
            torch.cuda.synchronize()
        all.append(start.elapsed_time(stop) * 1e-3)
    return sum(all) / len(all)


x = torch.randn(options.rows, 2 * options.width, device=device).to(getattr(torch, options.dtype))
sides = {"candidate": Side(options.candidate, x), "baseline": Side(options.baseline, x.clone())}
said = {"correct": right(sides["candidate"])}
if said["correct"]:
    said["baseline_s"], said["candidate_s"] = seconds(sides["baseline"]), seconds(sides["candidate"])
    said["ratio"] = said["baseline_s"] / said["candidate_s"]
print(json.dumps(said))
