# SPDX-License-Identifier: Apache-2.0
"""Kernels of the package flash-linear-attention (MIT), and small kernels around them.

The package's own `__init__.py` files import its layers and models, so this file imports the kernels' modules without them. The package
asks the GPU of the machine for its properties. A build needs no GPU, so the questions get the answers of a Hopper GPU.
"""
import importlib
import importlib.util
import sys
import types

import triton
import triton.language as tl


def _package():
    if "fla" in sys.modules:
        return
    found = importlib.util.find_spec("fla")
    if found is None:
        raise ImportError("the package flash-linear-attention is missing: scripts/fetch_external.sh fetches its sources")
    for name in ("fla", "fla.ops", "fla.modules"):
        module = types.ModuleType(name)
        module.__path__ = [f"{place}/{name.replace('.', '/')[4:]}" for place in found.submodule_search_locations]
        sys.modules[name] = module
    sys.modules["fla"].__version__ = "0"
    utils = importlib.import_module("fla.utils")
    utils.IS_NVIDIA = utils.IS_NVIDIA_HOPPER = utils.IS_TF32_SUPPORTED = utils.IS_GATHER_SUPPORTED = True
    utils.IS_NVIDIA_BLACKWELL = False


def kernel(module, name):
    """A function with @triton.jit of fla.ops, without its tuning: the tables of the op's file choose its configuration."""
    _package()
    fn = getattr(importlib.import_module(f"fla.{module}" if module.startswith("modules.") else f"fla.ops.{module}"), name)
    while type(fn).__name__ not in ("JITFunction", "InterpretedFunction"):
        fn = fn.fn
    return fn


@triton.jit
def dense_or_copy(tensor, copy, dense):
    """The tensor itself, or its copy without gaps, memory of bytes."""
    if dense:
        at = tensor
    else:
        at = copy.to(tl.pointer_type(tensor.dtype.element_ty), bitcast=True)
    return at


@triton.jit
def copy_row(tensor, copy, row, stride, width, BLOCK: tl.constexpr):
    """A row of `width` elements into the copy, if rows of the tensor have gaps."""
    if stride != width:
        to = copy.to(tl.pointer_type(tensor.dtype.element_ty), bitcast=True)
        for start in range(0, width, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(to + row * width + at, tl.load(tensor + row * stride + at, mask=at < width), mask=at < width)


@triton.jit
def clear_state(state, cu_seqlens, state_slots, has_initial_state, state_stride, width, BLOCK: tl.constexpr):
    """Zeros for the state of a request that has tokens and no initial state."""
    n = tl.program_id(0)
    if (tl.load(has_initial_state + n) == 0) & (tl.load(cu_seqlens + n + 1) > tl.load(cu_seqlens + n)):
        at = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        to = state + tl.load(state_slots + n).to(tl.int64) * state_stride + at
        tl.store(to, tl.zeros((BLOCK,), tl.float32).to(state.dtype.element_ty), mask=at < width)


@triton.jit
def typed(memory, like):
    """Memory of bytes as a pointer to elements of another tensor's dtype."""
    return memory.to(tl.pointer_type(like.dtype.element_ty), bitcast=True)


@triton.jit
def chunk_table(cu_seqlens, chunks, offsets, B, most, SIZE: tl.constexpr):
    """What the package's prepare_chunk_indices and prepare_chunk_offsets make on the host, on the device: `chunks` has a pair (request, number in
    it) for each chunk, `offsets` the first chunk of each request. Program n fills the part of request n. Program B fills the rest of `most` pairs
    with a chunk behind the end of request 0, where kernels do nothing.
    """
    n = tl.program_id(0)
    before = 0
    for start in range(0, n, 1024):
        at = start + tl.arange(0, 1024)
        length = tl.load(cu_seqlens + at + 1, mask=at < n, other=0) - tl.load(cu_seqlens + at, mask=at < n, other=0)
        before += tl.sum((length + SIZE - 1) // SIZE)
    request, first, count = 0, most, most - before
    if n < B:
        tl.store(offsets + n, before)
        request, first = n, 0
        count = (tl.load(cu_seqlens + n + 1) - tl.load(cu_seqlens + n) + SIZE - 1) // SIZE
    for start in range(0, count, 1024):
        at = start + tl.arange(0, 1024)
        tl.store(chunks + 2 * (before + at), request + at * 0, mask=at < count)
        tl.store(chunks + 2 * (before + at) + 1, first + at * (n < B), mask=at < count)
