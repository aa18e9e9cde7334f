# SPDX-License-Identifier: Apache-2.0
"""Runs sources in Triton on the CPU by Triton's interpreter, as the launcher would run them on a GPU. The caller sets TRITON_INTERPRET=1 first."""
import builtins
import subprocess
import sys

import numpy
import torch
import triton.language as tl
from contract import Contract
from source import Source
from triton.runtime import interpreter



def _with_mask(function, at):
    """The interpreter of Triton 3.9 makes numbers of some truth values; masks may not be numbers."""

    def called(builder, *arguments):
        arguments[at].data = arguments[at].data.astype(bool)
        return function(builder, *arguments)

    return called


for _name, _at in (("create_masked_load", 1), ("create_masked_store", 2)):
    setattr(interpreter.InterpreterBuilder, _name, _with_mask(getattr(interpreter.InterpreterBuilder, _name), _at))
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i32": torch.int32, "u8": torch.uint8}
NAMES = {dtype: name for name, dtype in TORCH.items()}


def load(host, file):
    """The source FILE, whose name is that of its op."""
    text = subprocess.run([host, "show", file.stem, "--header"], capture_output=True, text=True, check=True).stdout
    return Source(file, lambda edition: Contract(file.stem, text, edition))


def call(source, tensors, numbers, want, most=99):
    """Launches variants that take the call, at most so many, as the launcher does for the first; want(tensors, what) sees the result of each."""
    names = dict(numbers)
    for name, tensor in tensors.items():
        if tensor is not None:
            names |= {f"{name}_stride_{at}": stride for at, stride in enumerate(tensor.stride())}
        elif name in source.contract.tensors:
            names |= {f"{name}_stride_{at}": 0 for at in range(len(source.contract.tensors[name].shape))}
    types = {name: None if tensor is None else NAMES[tensor.dtype] for name, tensor in tensors.items()}
    c = source.combinations.index({name: types.get(name) for name in source.contract.tensors})
    names |= source.bytes_of(types)
    ran = 0
    for v, variant in [(v, source.variants[v]) for c2, v in source.pairs() if c2 == c]:
        values = names | variant.constexprs
        if not variant.when.value(values) or any(variant.constexprs.get(name, number) != number for name, number in names.items()):
            continue
        fresh = {name: copied(tensor) for name, tensor in tensors.items()}
        scratch = {name: torch.full((max(1, int(size.value(values))),), 99, dtype=TORCH[dtype]) for name, (dtype, size) in source.scratch.items()}
        for launch in source.launches:
            grid = tuple(int(size.value(values)) for size in launch.grid)
            arguments = {name: variant.constexprs.get(name, launch.defaults.get(name)) if name in launch.constexprs
                         else fresh[name] if name in fresh else scratch[name] if name in scratch else names[name] for name in launch.parameters}
            if all(grid):
                launch.fn[grid](**arguments)
        want(fresh, f"{source.contract.op}, {types}, {numbers}, variant {v}")
        ran += 1
        if ran == most:
            break
    assert ran, f"no variant takes {numbers} with {types}"


def copied(tensor):
    """A copy with the same strides; gaps between rows stay."""
    if tensor is None:
        return None
    whole = torch.empty(1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0,
                        dtype=tensor.dtype)
    return torch.as_strided(whole, tensor.shape, tensor.stride()).copy_(tensor)


def count_with_tensors(prefix):
    """Loops of modules whose names begin with `prefix` count with tensors, as compiled loops do; the interpreter's own loops count with numbers."""
    def counted(*limits):
        for number in builtins.range(*[int(limit) for limit in limits]):
            yield tl.core.tensor(interpreter.TensorHandle(numpy.array([number], numpy.int32), tl.int32), tl.int32)

    for name, module in list(sys.modules.items()):
        if name.startswith(prefix):
            module.range = counted


def near(got, expected, what, scale=1.0):
    bound = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[got.dtype] * scale
    spread = expected.abs().max().item() or 1.0 if expected.numel() else 1.0
    worst = (got.double() - expected.double()).abs().max().item() / spread if expected.numel() else 0.0
    assert worst <= bound, f"{what}: off by {worst:.2e} of the largest value, and {bound:.1e} is allowed"
