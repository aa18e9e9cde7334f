# SPDX-License-Identifier: Apache-2.0
"""Makes the plugin of this package ops of torch, `torch.ops.fk.<op>`, once per process. The shim
fk_torch.so defines and runs them; this file adds what torch.compile needs: shapes of outputs."""
import ctypes
import json
import pathlib

import torch

from . import fk_plugin

HERE = pathlib.Path(__file__).parent
ABOUT = json.loads((HERE / "about.json").read_text())
TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
         "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8,
         "bool": torch.bool, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
GRAMMAR = {"__builtins__": {}, "cdiv": lambda a, b: -(-a // b),
           "min": lambda a, b: torch.sym_min(a, b), "max": lambda a, b: torch.sym_max(a, b)}


def names_in(dim):
    return {word for word in "".join(c if c.isalnum() or c == "_" else " " for c in dim).split()
            if not word.isdigit() and word not in GRAMMAR}


def value_of(dim, axes):
    return axes[dim] if dim in axes else eval(dim.replace("/", "//"), dict(GRAMMAR), axes)


def bind_axes(op, fields):
    """The axis letters of a call, from constructor values and from shapes, as numbers or symbols."""
    axes = {}
    for slot in op.init:
        value = fields.get(slot.name)
        name = slot.axis or (slot.name if slot.kind == "int" else None)  # shapes may name it: C/groups
        if name and value is not None:
            axes.update(zip(name.split(","), value if slot.kind == "ints" else [value]))
    open_dims = []
    for slot in op.forward + op.weights:
        value = fields.get(slot.name)
        if isinstance(value, torch.Tensor) and not slot.list:
            open_dims += zip(slot.shape, value.shape)
    for dim, size in open_dims:
        if dim.isidentifier():
            axes.setdefault(dim, size)
    for dim, size in open_dims:  # 2*F: the only unknown follows
        unknown = names_in(dim) - set(axes)
        if len(unknown) == 1:
            name = unknown.pop()
            zero, one = (value_of(dim, {**axes, name: x}) for x in (0, 1))
            axes[name] = (size - zero) // (one - zero)
    return axes


def dtype_of(slot, fields):
    chosen = fields.get(f"{slot.name}_dtype")
    if chosen is not None:
        return chosen
    followed = fields.get(slot.dtype[0])
    if isinstance(followed, (list, tuple)):
        followed = followed[0]
    if isinstance(followed, torch.Tensor):
        return followed.dtype
    if len(slot.dtype) == 1:
        return TYPES[slot.dtype[0]]
    flat = (t for v in fields.values() for t in (v if isinstance(v, (list, tuple)) else [v]))
    return next(t.dtype for t in flat if isinstance(t, torch.Tensor) and t.is_floating_point())


def fake_of(op, overload):
    """The outputs of an op without its values."""
    names = [a.name for a in overload._schema.arguments]
    # torch leaves out arguments that equal their defaults.
    defaults = {a.name: a.default_value for a in overload._schema.arguments if a.has_default_value()}
    outs = [s for s in op.forward if s.kind == "tensor" and s.role == "out" and not s.optional]

    def fake(*values, **keywords):
        fields = {**defaults, **dict(zip(names, values)), **keywords}
        for slot in op.forward + op.weights:  # torch takes None for a tensor
            if slot.name in fields and fields[slot.name] is None and slot.name not in defaults and slot.kind == "tensor":
                raise RuntimeError(f"fk::{op.name}: {slot.name}: it is None, but this overload needs a tensor")
        axes, made = bind_axes(op, fields), []
        flat = [t for v in fields.values() for t in (v if isinstance(v, (list, tuple)) else [v])]
        device = next(t.device for t in flat if isinstance(t, torch.Tensor))
        for slot in outs:
            shape = [value_of(dim, axes) for dim in slot.shape]
            fields[slot.name] = torch.empty(shape, dtype=dtype_of(slot, fields), device=device)
            made.append(fields[slot.name])
        return made[0] if len(made) == 1 else tuple(made) or None

    return fake


def version_of(text):
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split(".")[:2])


def check_torch():
    name, least, this = ABOUT["name"], ABOUT["torch"], torch.__version__
    if version_of(this) < version_of(least):
        raise ImportError(f"{name} needs torch {least} or later; this is {this}")
    if ABOUT["device"] == "cuda" and not torch.version.cuda:
        raise ImportError(f"{name} has kernels for CUDA; this torch {this} has no CUDA")


def open_plugin():
    check_torch()
    try:
        return fk_plugin.Plugin(HERE / ABOUT["plugin"])
    except OSError as error:  # a library that another torch brings
        raise ImportError(f"{ABOUT['name']}: its kernels do not load beside torch {torch.__version__}: {error}") from None


PLUGIN = open_plugin()


def checked(status, text):
    if status:
        raise ImportError(f"{ABOUT['name']}: {text.value.decode(errors='replace')}")
    return text.value.decode()


def load():
    """Defines the ops. Returns their namespace, and the function that forgets instances."""
    check_torch()
    names = ABOUT["namespace"]
    for name in ABOUT["ops"]:
        if hasattr(getattr(torch.ops, names), name):
            raise ImportError(f"{ABOUT['name']}: torch.ops.{names}.{name} exists already, from another package; "
                              "package one of the two with --namespace")
    library, text = ctypes.CDLL(str(HERE / "fk_torch.so")), ctypes.create_string_buffer(1 << 14)
    path = str(HERE / ABOUT["plugin"]).encode()
    checked(library.fk_torch_load(path, names.encode(), text, ctypes.c_size_t(len(text))), text)
    space = getattr(torch.ops, names)
    for name in text.value.decode().split():
        for overload in getattr(space, name).overloads():
            target = f"{names}::{name}" + ("" if overload == "default" else f".{overload}")
            fake = fake_of(PLUGIN[name], getattr(getattr(space, name), overload))
            torch.library.register_fake(target, (lambda *a, **k: None) if overload == "out" else fake)

    def forget():
        """Drops all instances. Call it after weights changed in place, and drop CUDA graphs before."""
        checked(library.fk_torch_forget(text, ctypes.c_size_t(len(text))), text)

    return space, forget
