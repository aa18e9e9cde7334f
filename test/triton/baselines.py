#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""baselines.py FK_HOST SOURCE_DIR PLUGINS PROVIDER [OP [SEED]]: the sources of baselines/PROVIDER in Triton give right values. Triton's interpreter
runs them on the CPU, and the plugin `reference` in the folder PLUGINS is the reference.

The package's sources are found by Python, or in external/. Exit code 77 without them, Triton or PyTorch: nothing was tested.
"""
import atexit
import importlib.util
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile

host, root, plugins, provider = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
if "TRITON_INTERPRET" not in os.environ:
    python = os.environ.get("PYTHON", sys.executable)
    os.execve(python, [python, *sys.argv], os.environ | {"TRITON_INTERPRET": "1"})
adapters = root / "plugin_api/adapters"
sys.path[:0] = [str(adapters / "triton"), str(adapters / "torch"), str(root / "baselines" / provider)]
try:
    import torch
    import triton  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
from fk_plugin import Plugin, View
from interpreter import NAMES, TORCH, call, copied, count_with_tensors, load, near

# Ops of the sources, with axes. `T` makes requests of different lengths, one of them without tokens. `gaps` are tensors whose rows have gaps.
GLA = {"H": 3, "D": 24, "DV": 40, "N": 6, "with": []}
DELTA = GLA | {"H": 4, "G": 2, "DG": 1, "q": "f32", "beta": "f32"}
MAMBA = {"N": 6, "H": 4, "G": 2, "D": 24, "DS": 40, "with": ["d", "dt_bias"], "x": "f16", "d": "f32", "dt_bias": "f32"}
DPLR = GLA | {"r": "f32", "w": "f32", "scales": {"a": 0.2, "b": 0.2}}
CASES = {
    "gated_linear_attention_update": [
        GLA | {"B": 3, "with": ["g"], "q": "f32", "g": "f32"},
        GLA | {"B": 2, "with": ["g", "decay"], "q": "f16", "g": "f32", "gaps": ["q", "k", "v", "g", "recurrent_state"]},
        GLA | {"B": 2, "D": 80, "DV": 68, "with": ["decay"], "q": "f16", "recurrent_state": "f16"},
        GLA | {"B": 2, "D": 64, "DV": 128, "with": ["g"], "q": "f16", "g": "f16", "gaps": ["q", "v"]}],
    "gated_linear_attention": [
        GLA | {"B": 3, "T": 9, "with": ["g"], "q": "f32", "g": "f32"},
        GLA | {"B": 3, "T": 7, "with": ["g", "decay"], "q": "f16", "g": "f32", "gaps": ["q", "k", "v", "g", "recurrent_state"]},
        GLA | {"B": 3, "T": 150, "H": 2, "D": 32, "DV": 48, "with": ["g"], "q": "f16", "g": "f16", "gaps": ["q", "k", "v", "g"]},
        GLA | {"B": 2, "T": 70, "H": 2, "D": 144, "DV": 80, "with": ["g"], "q": "f16", "g": "f32"},
        GLA | {"B": 4, "T": 140, "H": 2, "D": 32, "DV": 80, "with": ["decay"], "q": "f16", "gaps": ["v"]}],
    "gated_delta_rule_update": [
        DELTA | {"B": 3}, DELTA | {"B": 2, "DG": 24, "gaps": ["q", "k", "v", "g", "beta", "recurrent_state"]},
        DELTA | {"B": 2, "D": 80, "DV": 64, "DG": 80, "q": "f16", "numbers": {"qk_l2_norm": 0}, "scales": {"q": 0.3, "k": 0.3}},
        DELTA | {"B": 2, "D": 64, "DV": 32, "q": "f16"}],
    "gated_delta_rule": [
        DELTA | {"B": 3, "T": 9}, DELTA | {"B": 2, "T": 7, "DG": 24, "q": "f16", "gaps": ["q", "k", "v", "g", "beta", "recurrent_state"]},
        DELTA | {"B": 2, "T": 100, "H": 2, "G": 1, "D": 64, "DV": 16, "q": "f16", "gaps": ["q", "v", "beta"]}],
    "selective_state_update": [
        MAMBA | {"B": 3, "x": "f32", "DS": 9}, MAMBA | {"B": 2, "DS": 200, "with": ["d"], "gaps": ["x", "dt", "b", "c", "ssm_state"]},
        MAMBA | {"B": 5, "D": 32, "DS": 128, "with": ["dt_bias"], "dt_bias": "f16"}],
    "ssd_chunk_scan": [
        MAMBA | {"B": 3, "T": 100, "numbers": {"chunk_size": 64}, "gaps": ["x", "dt", "b", "c", "ssm_state"]},
        MAMBA | {"B": 4, "T": 90, "DS": 136, "with": ["dt_bias"], "numbers": {"chunk_size": 32, "dt_min": 0.1, "dt_max": 0.2}},
        MAMBA | {"B": 2, "T": 300, "H": 2, "G": 1, "D": 64, "DS": 64, "ssm_state": "f16", "numbers": {"chunk_size": 256}}],
    "dplr_recurrence_update": [
        DPLR | {"B": 3}, DPLR | {"B": 2, "r": "f16", "gaps": list("rwkvab") + ["recurrent_state"]},
        DPLR | {"B": 2, "D": 80, "DV": 64, "r": "f16", "w": "f16", "recurrent_state": "f16"}],
    "dplr_recurrence": [
        DPLR | {"B": 3, "T": 9}, DPLR | {"B": 4, "T": 7, "r": "f16", "gaps": list("rwkvab") + ["recurrent_state"]},
        DPLR | {"B": 2, "T": 5, "D": 80, "DV": 64, "r": "f16", "w": "f16", "recurrent_state": "f16"}],
}
INIT = {"DS": "state_size", "H": "num_heads", "G": "num_k_heads", "DG": "gate_dim", "D": "head_dim", "DV": "v_head_dim"}


def tensor_of(slot, shape, dtype, case):
    name = slot.name
    if name == "cu_seqlens":
        ends = sorted(torch.randint(0, case["T"] + 1, (case["B"] - 1,)).tolist()) + [case["T"]]
        ends[0] = 0 if case["B"] > 2 else ends[0]  # a request without tokens
        return torch.tensor([0, *ends], dtype=torch.int32)
    if name == "state_slots":
        return torch.randperm(case["N"])[:case["B"]].to(torch.int32)
    if name == "has_initial_state":
        return (torch.arange(case["B"]) % 2).to(torch.int32)
    uniform = {"g": (-1, -0.01), "w": (-0.6, -0.01), "decay": (-0.5, -0.01), "beta": (0.05, 1), "a": (-8, -0.5) if slot.section == "weights" else None}.get(name)
    made = torch.rand(shape) * (uniform[1] - uniform[0]) + uniform[0] if uniform else torch.randn(shape)
    return (made * case.get("scales", {}).get(name, 1)).to(TORCH[dtype])


def with_gap(tensor):
    wide = torch.zeros(tensor.shape[0], tensor[0].numel() + 16, dtype=tensor.dtype)
    return torch.as_strided(wide, tensor.shape, (wide.stride(0), *tensor.stride()[1:])).copy_(tensor)


def view(tensor):
    return None if tensor is None else View(tensor.data_ptr(), tensor.shape, NAMES[tensor.dtype], tensor.stride(), keep=tensor)


def run(source, case):
    contract = source.contract
    tensors = {}
    for name, slot in contract.tensors.items():
        if slot.optional and name not in case["with"]:
            tensors[name] = None
            continue
        like = slot.dtypes[0]
        dtype = case.get(name) or (case.get(like) if like in contract.tensors else like)
        shape = [eval(size.replace("+", " + "), {}, case) for size in slot.shape]
        made = tensor_of(slot, shape, dtype or "f32", case)
        tensors[name] = with_gap(made) if name in case.get("gaps", ()) else made
    numbers = {axis: case[axis] for axis in contract.axes}
    numbers |= {name: slot.default and float(slot.default) for name, slot in contract.scalars.items()}
    numbers |= {INIT[axis]: size for axis, size in numbers.items() if axis in INIT}
    if "num_groups" in contract.scalars:
        numbers["num_groups"] = case["G"]
    numbers |= {"scale": 0.3} if "scale" in contract.scalars else {}
    numbers |= {"max_query_len": case.get("T")} | case.get("numbers", {})
    # The reference, on copies.
    mine = {name: copied(tensor) for name, tensor in tensors.items()}
    views = {name: view(tensor) for name, tensor in mine.items()}
    init = {name: numbers[name] for name, slot in contract.scalars.items() if slot.section == "init"}
    pick = lambda section: {name: views[name] for name, slot in contract.tensors.items() if slot.section == section}
    forward = pick("forward") | {name: numbers[name] for name, slot in contract.scalars.items() if slot.section == "forward"}
    with reference[contract.op].create(init, pick("weights"), forward) as it:
        if "cu_seqlens" in views:
            it.plan({"cu_seqlens": views["cu_seqlens"]})
        it.forward(forward)

    rounded = any(tensor is not None and tensor.dtype == torch.float16 for tensor in tensors.values())

    def want(got, what):
        for name, slot in contract.tensors.items():
            if slot.role in ("out", "inout"):
                near(got[name], mine[name], f"{what}, {name}", 50 if rounded and slot.role == "inout" else 1)

    call(source, tensors, numbers, want, 2)


archive, module = {"fla": ("fla-core", "fla"), "mamba": ("vllm-mamba", "vllm")}[provider]
packed = sorted((root / "external").glob(f"{archive}-*.tar.xz"))
if packed:
    unpacked = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, unpacked, True)
    tarfile.open(packed[-1]).extractall(unpacked, filter="data")
    sys.path.insert(0, unpacked)
if importlib.util.find_spec(module) is None:
    print(f"skipped: no external/{archive}-*.tar.xz, and Python has no module {module}")
    sys.exit(77)
reference = Plugin(plugins / "reference.so")
seed = int(sys.argv[6]) if len(sys.argv) > 6 else int.from_bytes(os.urandom(4), "little")
print(f"seed {seed}")
torch.manual_seed(seed)
files = sorted(file for file in (root / "baselines" / provider).glob("*.py") if file.stem[0] != "_")
for file in files:
    if len(sys.argv) > 5 and file.stem != sys.argv[5]:
        continue
    source = load(host, file)
    count_with_tensors(f"{module}.")
    for case in CASES[file.stem]:
        run(source, case)
    print(f"right: {file.stem}")
