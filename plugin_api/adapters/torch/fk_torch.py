# SPDX-License-Identifier: Apache-2.0
"""Any op of a plugin as a torch.nn.Module whose arguments are the fields of its contract.

    plugin = fk_plugin.Plugin("candidates/mine/mine.so")
    norm = Op(plugin["rms_norm"], weights={"weight": layer.weight}, hidden_size=4096, eps=1e-5)
    out = norm(x=hidden, residual=residual)      # residual is updated in place, as the contract says

Outputs that are not given are allocated: their shape and dtype are the contract's. An instance is made when the op is
first called and again when a shape grows beyond what it was prepared for, or a dtype, a layout or the presence of an
optional field changes.
"""
import torch

import fk_plugin
from fk_plugin import CPU, CUDA, View

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
         torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
TYPES = {name: dtype for dtype, name in NAMES.items()}
GRAMMAR = {"__builtins__": {}, "cdiv": lambda a, b: -(-a // b), "min": min, "max": max}


def view(tensor):
    device = tensor.device
    return View(tensor.data_ptr(), tensor.shape, NAMES[tensor.dtype], tensor.stride(),
                CUDA if device.type == "cuda" else CPU, device.index or 0, keep=tensor)


def views(values):
    def one(value):
        if isinstance(value, torch.Tensor):
            return view(value)
        return [one(v) for v in value] if isinstance(value, (list, tuple)) else value
    return {name: one(value) for name, value in values.items() if value is not None}


def room_on(device):
    """Zeroed memory on a device, by size: its address and what keeps it alive."""
    if device.type == "cpu":
        return fk_plugin.allocate

    def allocate(nbytes):
        memory = torch.zeros(nbytes, dtype=torch.uint8, device=device)
        return memory.data_ptr(), memory
    return allocate


def copy_to(device):
    if device.type == "cpu":
        return None

    def upload(blob):
        memory = torch.frombuffer(bytearray(blob), dtype=torch.uint8).to(device)
        return memory.data_ptr(), memory
    return upload


class Op(torch.nn.Module):
    def __init__(self, op, weights=None, **init):
        super().__init__()
        self.op, self.init, self.instance, self.key, self.largest, self.blob = op, init, None, None, {}, None
        self.weights = torch.nn.ParameterDict(
            {k: torch.nn.Parameter(v, requires_grad=False) for k, v in (weights or {}).items() if v is not None})

    def axes(self, fields):
        """What the axis letters are in this call, from the constructor and from the tensors' shapes."""
        found = {}
        for s in self.op.init:
            if s.axis and s.name in self.init:  # those of ints: one for every element
                value = self.init[s.name]
                found.update(zip(s.axis.split(","), value if s.kind == "ints" else [value]))
        for slot in self.op.weights + self.op.forward:
            tensor = fields.get(slot.name, self.weights[slot.name] if slot.name in self.weights else None)
            if isinstance(tensor, torch.Tensor):
                found.update({d: n for d, n in zip(slot.shape, tensor.shape) if d.isalpha() and d not in found})
        return found

    def outputs(self, fields, device):
        """The required outputs that were not given, empty."""
        axes, made = self.axes(fields), {}
        for slot in self.op.forward:
            if slot.role != "out" or slot.optional or slot.name in fields:
                continue
            shape = [int(eval(d.replace("/", "//"), dict(GRAMMAR), axes)) for d in slot.shape]
            known = {**self.weights, **fields, **made}
            if slot.dtype[0] in known:  # the dtype of another field
                dtype = known[slot.dtype[0]].dtype
            elif len(slot.dtype) == 1:
                dtype = TYPES[slot.dtype[0]]
            else:  # several are allowed: that of the first floating input
                dtype = next(t.dtype for t in fields.values() if isinstance(t, torch.Tensor) and t.is_floating_point())
            made[slot.name] = torch.empty(shape, dtype=dtype, device=device)
        return made

    def prepared(self, given, weights, device):
        """The instance for these fields: one that was prepared for the same layout and shapes as large."""
        tensors = {n: v for n, v in given.items() if isinstance(v, View)}
        dense = lambda v: v.strides == View(0, v.shape, v.dtype).strides
        key = (str(device), tuple((n, v.data) for n, v in sorted(weights.items())),
               tuple((n, v.dtype, "" if dense(v) else v.strides) for n, v in sorted(tensors.items())))
        fits = key == self.key and all(
            a <= b for n, v in tensors.items() for a, b in zip(v.shape, self.largest[n].shape)) and all(
                v <= self.largest[n] for n, v in given.items() if isinstance(v, int))
        if not fits:
            self.close()
            # Axes are shared between fields, so a frame is taken as it is, never the larger of each field.
            self.instance = self.op.create(self.init, weights, given, threads=torch.get_num_threads(),
                                           device_id=device.index or 0, allocate=room_on(device),
                                           upload=copy_to(device))
            self.key, self.largest = key, fk_plugin.meta(given)
        return self.instance

    @torch.no_grad()
    def forward(self, **fields):
        fields = {n: v for n, v in fields.items() if v is not None}
        device = next(v.device for v in fields.values() if isinstance(v, torch.Tensor))
        made = self.outputs(fields, device)
        given, plan = views({**fields, **made}), None
        instance = self.prepared(given, views(self.weights), device)
        if instance.table.plan:
            plan = views({s.name: fields[s.name].cpu() for s in self.op.plan})
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        self.blob = instance.forward(given, stream, plan)
        return next(iter(made.values())) if len(made) == 1 else made or None

    def close(self):
        if self.instance:
            if self.key[0] != "cpu":
                torch.cuda.synchronize()
            self.instance.close()
        self.instance = self.key = None
