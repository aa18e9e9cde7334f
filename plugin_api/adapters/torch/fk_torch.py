# SPDX-License-Identifier: Apache-2.0
"""Any op of a plugin as a torch.nn.Module whose arguments are the fields of its contract.

    plugin = fk_plugin.Plugin("candidates/mine/mine.so")
    norm = Op(plugin["rms_norm"], weights={"weight": layer.weight}, hidden_size=4096, eps=1e-5)
    out = norm(x=hidden, residual=residual)      # residual is updated in place, as the contract says

Outputs that are not given are allocated: their shape and dtype are the contract's. An instance is made when the op is
first called and again when a shape grows beyond what it was prepared for, or a dtype, a layout or the presence of an
optional field changes.

CUDA graphs: call the module once before capture. What an op schedules on the host is done by forward() outside of capture, and
by plan(), with the same fields, before every replay.
"""
import os
import pathlib

import torch

import fk_plugin
from fk_plugin import CPU, CUDA, View

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
         torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool", torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
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
        torch.cuda.synchronize(device)  # prepare() may use streams of its own; weights are there as well
        return memory.data_ptr(), memory
    return allocate


def copy_into(memory, content):
    """Into memory of room_on(): a device's is a tensor."""
    if isinstance(memory[1], torch.Tensor):
        memory[1][:len(content)].copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    else:
        fk_plugin.copy(memory, content)


def stream_of(device):
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None


def capturing(device):
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


class Op(torch.nn.Module):
    def __init__(self, op, weights=None, **init):
        super().__init__()
        self.op, self.init, self.instance, self.key, self.largest = op, init, None, None, {}
        # A weight such as `type` has the name of a method of torch's; its parameter is `type_`.
        self.weights, self.parameter_of = torch.nn.ParameterDict(), {}
        kept = lambda v: torch.nn.Parameter(v, requires_grad=False)
        for name, value in (weights or {}).items():
            if value is not None:
                key = self.parameter_of[name] = name + "_" * hasattr(torch.nn.ParameterDict, name)
                many = isinstance(value, (list, tuple))
                self.weights[key] = torch.nn.ParameterList(map(kept, value)) if many else kept(value)

    def named_weights(self):
        """Tensors and lists of tensors, by the contract's names."""
        lists = lambda v: list(v) if isinstance(v, torch.nn.ParameterList) else v
        return {name: lists(self.weights[key]) for name, key in self.parameter_of.items()}

    def axes(self, fields):
        """What the axis letters are in this call, from the constructor and from the tensors' shapes."""
        found = {}
        for s in self.op.init:
            if s.axis and s.name in self.init:  # those of ints: one for every element
                value = self.init[s.name]
                found.update(zip(s.axis.split(","), value if s.kind == "ints" else [value]))
        known = {**self.named_weights(), **fields}
        for slot in self.op.weights + self.op.forward:
            tensor = known.get(slot.name)
            if isinstance(tensor, (list, tuple)) and tensor:
                tensor = tensor[0]
            if isinstance(tensor, torch.Tensor):
                found.update({d: n for d, n in zip(slot.shape, tensor.shape) if d.isalpha() and d not in found})
        for s in self.op.init:  # an axis that no argument and no tensor has is as large as its default
            if s.axis and s.kind != "ints" and s.axis not in found:
                found[s.axis] = int(s.default)
        return found

    def outputs(self, fields, device):
        """The required outputs that were not given, empty."""
        axes, made = self.axes(fields), {}
        for slot in self.op.forward:
            if slot.role != "out" or slot.optional or slot.name in fields:
                continue
            shape = [int(eval(d.replace("/", "//"), dict(GRAMMAR), axes)) for d in slot.shape]
            known = {**self.named_weights(), **fields, **made}
            if slot.dtype[0] in known:  # the dtype of another field
                dtype = known[slot.dtype[0]].dtype
            elif len(slot.dtype) == 1:
                dtype = TYPES[slot.dtype[0]]
            else:  # several are allowed: that of the first floating input, or of a weight
                dtype = next(t.dtype for t in [*fields.values(), *self.named_weights().values()]
                             if isinstance(t, torch.Tensor) and t.is_floating_point())
            made[slot.name] = torch.empty(shape, dtype=dtype, device=device)
        return made

    def prepared(self, given, weights, device):
        """The instance for these fields: one that was prepared for the same layout and shapes as large."""
        tensors = {n: v for n, v in given.items() if isinstance(v, View)}
        dense = lambda v: v.strides == View(0, v.shape, v.dtype).strides
        places = lambda v: tuple(map(places, v)) if isinstance(v, list) else v.data
        key = (str(device), tuple((n, places(v)) for n, v in sorted(weights.items())),
               tuple((n, v.dtype, "" if dense(v) else v.strides) for n, v in sorted(tensors.items())))
        fits = key == self.key and all(
            a <= b for n, v in tensors.items() for a, b in zip(v.shape, self.largest[n].shape)) and all(
                v <= self.largest[n] for n, v in given.items() if isinstance(v, int))
        if not fits:
            if capturing(device):
                raise fk_plugin.Failed(f"{self.op.name}: call it with these shapes once before they are captured")
            self.close()
            # Axes are shared between fields, so a frame is taken as it is, never the larger of each field.
            self.instance = self.op.create(self.init, weights, given, threads=torch.get_num_threads(),
                                           device_id=device.index or 0, allocate=room_on(device),
                                           copy=copy_into, stream=stream_of(device))
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # what prepare() has begun, on any stream
            self.key, self.largest = key, fk_plugin.meta(given)
        return self.instance

    def know(self, fields):
        """Every field is one of the op's, and none is missing but outputs."""
        known = [s.name for s in self.op.forward]
        for name in fields:
            if name not in known:
                raise fk_plugin.Failed(f"{self.op.name}: no such field: {name}; there are {', '.join(known)}")
        for s in self.op.forward:
            if s.kind == "tensor" and s.role != "out" and not s.optional and s.name not in fields:
                raise fk_plugin.Failed(f"{self.op.name}: {s.name}: it is required")

    def bound(self, fields):
        """The fields of a call with its outputs, as views, and the instance for them."""
        fields = {n: v for n, v in fields.items() if v is not None}
        self.know(fields)
        device = next((v.device for v in fields.values() if isinstance(v, torch.Tensor)), None)
        if device is None:
            raise fk_plugin.Failed(f"{self.op.name}: no field is a tensor")
        made = self.outputs(fields, device)
        given = views({**fields, **made})
        return device, made, given, self.prepared(given, views(self.named_weights()), device)

    def schedule(self, instance, fields):
        if instance.table.plan:
            instance.plan(views({s.name: fields[s.name].cpu() for s in self.op.plan}))

    @torch.no_grad()
    def plan(self, **fields):
        """What forward() with these fields schedules on the host, alone: before a captured forward is replayed."""
        self.schedule(self.bound(fields)[3], fields)

    @torch.no_grad()
    def forward(self, **fields):
        device, made, given, instance = self.bound(fields)
        if not capturing(device):
            self.schedule(instance, fields)
        instance.forward(given, stream_of(device))
        return next(iter(made.values())) if len(made) == 1 else made or None

    def close(self):
        if self.instance:
            if self.key[0] != "cpu":
                torch.cuda.synchronize()
            self.instance.close()
        self.instance = self.key = None


def mirrors(op, production=None):
    """The production class of an op, as its contract in the registry has it, and its arguments in order: the slot of
    each, or "dropped: reason"."""
    import yaml
    folders = [pathlib.Path(__file__).resolve().parents[3] / "registry"]
    folders += [pathlib.Path(p) for p in os.environ.get("FK_REGISTRY_PATH", "").split(":") if p]
    for file in (f for folder in folders for f in folder.glob(f"ops/*/*/{op}.yaml")):
        for entry in yaml.safe_load(file.read_text()).get("mirrors", []):
            if production is None or entry["name"] == production or entry["name"].endswith("." + production):
                return entry["name"], entry["arguments"]
    raise fk_plugin.Failed(f"{op}: the registry has no contract that mirrors {production or 'anything'}")


class Mirror(Op):
    """An op under the argument names of the production class that it mirrors, in the constructor and in the call:

        norm = Mirror(plugin["rms_norm"], "RMSNorm", {"weight": w}, hidden_size=4096, eps=1e-5)
        out = norm(hidden, residual)

    Arguments may be given by position in the order of production. One that the contract drops may be None; another value
    is refused with the contract's reason. Fields without a production argument keep their own name."""

    def __init__(self, op, production=None, weights=None, **arguments):
        self.production, self.names = mirrors(op.name, production)
        super().__init__(op, weights, **self.translated(arguments))

    def translated(self, arguments):
        found = {}
        for name, value in arguments.items():
            slot = self.names.get(name, name)
            if not slot.startswith("dropped:"):
                found[slot] = value
            elif value is not None:
                raise TypeError(f"{self.production}: {name} is {slot}")
        return found

    def fields(self, values, arguments):
        fields = {slot.name for slot in self.op.forward}
        order = [name for name, slot in self.names.items() if slot in fields]
        if len(values) > len(order):
            raise TypeError(f"{self.production}: {len(values)} values for {', '.join(order)}")
        return self.translated({**dict(zip(order, values)), **arguments})

    def plan(self, *values, **arguments):
        super().plan(**self.fields(values, arguments))

    def forward(self, *values, **arguments):
        return super().forward(**self.fields(values, arguments))
