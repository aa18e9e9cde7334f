#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_package.py FK_HOST [--device cpu|cuda] [--plugin NAME] [--scenario NAME]...: packages a plugin for torch, checks
the wheel, and calls each recorded case of the scenarios in four ways. Eager calls equal the plugin called through ctypes
bit for bit. Calls under torch.compile(fullgraph=True) equal eager calls. On a GPU, replays of CUDA graphs equal them, too.
torch.library.opcheck accepts every op. Bad input gets its sentence. Exit 77: torch is missing."""
import argparse, base64, hashlib, json, pathlib, subprocess, sys, tempfile, zipfile

try:
    import torch
except ImportError as missing:
    print(f"skipped: Python has no {missing.name}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plugin_api/adapters/torch"))
import fk_plugin
import fk_torch


def host(program, *words, code=0):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def check_wheel(path):
    """Every file is listed with its digest, and the digests are right."""
    with zipfile.ZipFile(path) as wheel:
        assert wheel.testzip() is None
        record = next(n for n in wheel.namelist() if n.endswith("RECORD"))
        rows = dict(line.split(",", 1) for line in wheel.read(record).decode().splitlines())
        assert set(rows) == set(wheel.namelist()), "RECORD lists other files than the wheel has"
        for name, row in rows.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).decode().rstrip("=")
            assert name == record or row == f"sha256={digest},{wheel.getinfo(name).file_size}", f"{name}: {row}"


def read_tensors(folder, files, device):
    found = {}
    for file in files:
        data = (folder / file).read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = (8 + size + x for x in entry["data_offsets"])
                dtype = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I32": torch.int32,
                         "I64": torch.int64, "U8": torch.uint8, "F8_E4M3": torch.float8_e4m3fn}[entry["dtype"]]
                flat = torch.frombuffer(bytearray(data[begin:end] or bytes(8)), dtype=dtype)
                found[name] = flat[:torch.Size(entry["shape"]).numel()].reshape(entry["shape"]).to(device)
    return found


def padded(tensor):
    """The same values in rows with gaps, as slices of a wider tensor have them."""
    wide = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] + 16, dtype=tensor.dtype, device=tensor.device)
    wide[..., :tensor.shape[-1]] = tensor
    return wide[..., :tensor.shape[-1]]


def init_value(slot, text):
    if slot.kind == "ints":
        return [int(x) for x in text.strip("[]").split(",")]
    if slot.kind in ("int", "dtype"):
        return int(text)
    return {"float": float, "bool": lambda t: t == "true", "enum": str}[slot.kind](text)


class Case:
    """A recorded call, ready for an op of torch."""

    def __init__(self, op, recorded, tensors):
        self.name, self.op = f"{op.name} {recorded['name']}", op
        self.init = {s.name: init_value(s, recorded["init"][s.name]) for s in op.init if s.name in recorded["init"]}
        self.bounds = dict(recorded["scalars"])
        fields = {}
        for name, ids in recorded["tensors"].items():
            slot = next((s for s in op.forward + op.weights if s.name == name), None)
            values = [padded(tensors[i]) if name in recorded["strided"] else tensors[i] for i in ids]
            if slot and slot.role != "out":
                fields[name] = values if slot.list else values[0]
        self.complete = all(s.optional or s.role == "out" or s.kind != "tensor" or s.name in fields
                            for s in op.forward + op.weights)
        names = {s.name for s in op.weights}
        self.weights = {n: v for n, v in fields.items() if n in names}
        self.fields = {n: v for n, v in fields.items() if n not in names}

    def kind(self):
        """The op and the present fields: each such call is compiled once."""
        return f"{self.op.name}({', '.join(sorted([*self.fields, *self.weights]))})"

    def fresh(self):
        """Copies with the same strides, because a call may write to them."""
        copy = lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device).copy_(t)
        return {n: [copy(x) for x in v] if isinstance(v, list) else copy(v) for n, v in self.fields.items()}

    def arguments(self):
        return {**self.fresh(), **self.weights, **self.init, **self.bounds}


def results(out, fields):
    """All that a call has written."""
    outs = list(out) if isinstance(out, (tuple, list)) else [] if out is None else [out]
    return [t for t in outs + [fields[n] for n in sorted(fields)] if isinstance(t, torch.Tensor)]


def called(function, case):
    arguments = case.arguments()
    out = function(**arguments)
    return results(out, {n: arguments[n] for n in case.fields})


def by_ctypes(case):
    fields = case.fresh()
    op = fk_torch.Op(case.op, weights=case.weights, **case.init)
    out = op(**fields, **case.bounds)
    op.close()
    return results(tuple(out.values()) if isinstance(out, dict) else out, fields)


def same(ours, theirs, what):
    assert len(ours) == len(theirs), f"{what}: {len(ours)} results, not {len(theirs)}"
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
        assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)), f"{what}: other bits"


def in_graph(function, plan, case):
    """The results of a replay, after inputs were written again and the op was planned again."""
    arguments = case.arguments()
    function(**arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function(**arguments)
    for name, tensor in case.fresh().items():
        arguments[name].copy_(tensor)
    if plan:
        plan(**arguments)
    graph.replay()
    torch.cuda.synchronize()
    return results(out, {n: arguments[n] for n in case.fields})


def try_case(space, case, first, device):
    overload = "update" if any(s.role == "inout" and s.optional and s.name in case.fields for s in case.op.forward) else "default"
    function = getattr(getattr(space, case.op.name), overload)
    eager = called(function, case)
    same(eager, by_ctypes(case), case.name)
    if device == "cuda" and not any(isinstance(v, list) for v in case.fields.values()):
        same(in_graph(function, getattr(space, case.op.name + "_plan", None), case), eager, f"{case.name} in a CUDA graph")
    if not first:
        return

    def step(**arguments):
        return function(**arguments)

    torch._dynamo.reset()  # one function, for every op another
    same(called(torch.compile(step, fullgraph=True), case), eager, f"{case.name} compiled")
    tests = ["test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic", "test_schema"]
    eights = [t for t in case.weights.values() if isinstance(t, torch.Tensor) and t.dtype == torch.float8_e4m3fn]
    # torch's test_schema adds numbers to its inputs, which torch cannot do in 8 bits.
    torch.library.opcheck(function, (), case.arguments(), test_utils=tests[:3 if eights else 4])


def refused(call, text):
    try:
        call()
    except (RuntimeError, ImportError) as error:
        assert text in str(error), f"`{error}` does not say `{text}`"
    else:
        raise AssertionError(f"nothing was refused with `{text}`")


def bad_calls(space, device):
    x, w = torch.randn(4, 64, device=device), torch.randn(64, device=device)
    refused(lambda: space.rms_norm(x, weight=w[:32]), "the axis C is 32 in weight and 64 in x")
    refused(lambda: space.rms_norm(x.t()), "the contract wants dense rows (pass x.contiguous())")
    refused(lambda: space.rms_norm(x.double()), "x: it is f64, but the contract allows f32, bf16, f16")
    refused(lambda: space.rms_norm(x, hidden_size=8), "the axis C is 8 in hidden_size and 64 in x")
    refused(lambda: space.rms_norm(x[0]), "it has shape [64], but 2 axes are needed")
    refused(lambda: space.rms_norm(torch.randn(4 * 64 + 1, device=device)[1:].view(4, 64)), "its address is no multiple of 16")
    refused(lambda: space.rms_norm(x, None, w), "residual: it is None, but this overload needs a tensor")
    compiled = torch.compile(lambda x, w: space.rms_norm(x, None, w))
    refused(lambda: compiled(x, w), "residual: it is None, but this overload needs a tensor")
    if device == "cuda":
        refused(lambda: space.rms_norm(x, weight=w.cpu()), "it lies on another device")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plugin", default="reference")
    parser.add_argument("--scenario", action="append")
    a = parser.parse_args()
    tried, checked = 0, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        host(a.host, "package", a.plugin, "--for", "torch", "--out", folder / "out", "--namespace", "fk_test")
        (wheel,) = (folder / "out").glob("*.whl")
        check_wheel(wheel)
        zipfile.ZipFile(wheel).extractall(folder / "site")
        sys.path.insert(0, str(folder / "site"))
        package = __import__(f"fk_{a.plugin}")
        space, plugin = package.ops, fk_plugin.Plugin(folder / f"site/fk_{a.plugin}/fk_{a.plugin}_kernels.so")
        refused(lambda: package.load(), "torch.ops.fk_test.")
        for scenario in a.scenario or ["mixtral"]:
            record = folder / scenario
            host(a.host, "record", scenario, "--values", "--requests", 2, "--limit", 2, "--profile", "tiny", "--device",
                 "cpu", "--out", record, *(["--provider", "fused_moe=reference"] if scenario == "mixtral" else []))
            index = json.loads((record / "capture.json").read_text())
            tensors = read_tensors(record, index["files"], a.device)
            for recorded in index["cases"]:
                if recorded["op"] not in package.about["ops"]:
                    continue
                case = Case(plugin[recorded["op"]], recorded, tensors)
                if case.complete:
                    try_case(space, case, case.kind() not in checked, a.device)
                    checked += [case.kind()] * (case.kind() not in checked)
                    tried += 1
        ops = sorted({kind.split("(")[0] for kind in checked})
        assert "rms_norm" in ops, ops
        bad_calls(space, a.device)
        package.forget()
        package.ops_module.ABOUT["torch"] = "99.0"
        refused(lambda: package.load(), "needs torch 99.0 or later")
        package.ops_module.ABOUT.update(torch="2.10", plugin="fk_torch_absent.so")
        refused(lambda: package.ops_module.open_plugin(), "its kernels do not load beside torch")
        if not torch.version.cuda:
            package.ops_module.ABOUT.update(device="cuda")
            refused(lambda: package.load(), "has no CUDA")
    print(f"{tried} cases of {len(ops)} ops on {a.device}, torch {torch.__version__}: {', '.join(ops)}")


if __name__ == "__main__":
    main()
