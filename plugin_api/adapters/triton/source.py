# SPDX-License-Identifier: Apache-2.0
"""The author's file: its kernels and its tables, checked against the contract."""
import ast
import importlib.util
import itertools
import pathlib
import sys
import traceback

from contract import Problem, nearest
from entries import OPTIONS, Launch, Variant
from expression import Expression

TABLES = {"PLUGIN", "EDITION", "LAUNCH", "DTYPES", "SCRATCH", "VARIANTS", "CLAIMS", "REFUSE"}
POINTERS = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5",
            "i64": "i64", "i32": "i32", "i8": "i8", "u8": "u8", "bool": "i1"}
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i64": 8, "i32": 4, "i8": 1, "u8": 1, "bool": 1}


class Source:
    """All that a build needs to know of the author's file."""

    def __init__(self, path, contract_of):
        self.path = pathlib.Path(path)
        try:
            self.tree = ast.parse(self.path.read_text())
        except SyntaxError as error:
            raise Problem(f"{error.msg}", error.lineno or 0) from None
        self.lines = {target.id: node for node in self.tree.body if isinstance(node, ast.Assign)
                      for target in node.targets if isinstance(target, ast.Name)}
        for name in self.lines:
            if name.isupper() and name not in TABLES and nearest(name, TABLES).startswith("; did"):
                raise Problem(f"`{name}` is not a table of this adapter{nearest(name, TABLES)}", self.line(name))
        module = self._module()
        self.table = {name: getattr(module, name) for name in TABLES if hasattr(module, name)}
        edition = self._typed("EDITION", int, None)
        self.contract = contract_of(edition)
        if edition is None and self.contract.editions > 1:
            raise Problem(f"op `{self.contract.op}` has {self.contract.editions} editions: say which one the kernel knows, as in "
                          f"`EDITION = {self.contract.editions}`")
        self.claims = self._claims()
        self.refuse = self._typed("REFUSE", str, "")
        self.plugin = self._plugin()
        self.launches = self._launches()
        self.scratch = self._scratch()
        self.combinations = self._dtypes()
        self.variants = self._variants()
        self._check_parameters()
        self._check_use()

    def line(self, table, entry=None):
        """The line of a table, or of one entry of it where the table is written as a list."""
        node = self.lines.get(table)
        if node is None:
            return 0
        if entry is not None and isinstance(node.value, (ast.List, ast.Tuple)) and entry < len(node.value.elts) \
                and not any(isinstance(e, ast.Starred) for e in node.value.elts):
            return node.value.elts[entry].lineno
        return node.lineno

    def _module(self):
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(self.path.parent.resolve()))
        spec = importlib.util.spec_from_file_location("fk_candidate", self.path.resolve())
        module = importlib.util.module_from_spec(spec)
        sys.modules["fk_candidate"] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # whatever the author's statements throw
            own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(self.path.resolve())]
            raise Problem(f"{type(error).__name__}: {error}", own[-1].lineno if own else 0) from None
        return module

    def _typed(self, name, kind, default):
        value = self.table.get(name, default)
        if value is not default and (not isinstance(value, kind) or isinstance(value, bool)):
            raise Problem(f"`{name}` has to be a {kind.__name__}, not {value!r}", self.line(name))
        return value

    def _claims(self):
        known = {"deterministic", "batch_invariant"}
        claims = self._typed("CLAIMS", dict, {})
        for name in claims:
            if name not in known:
                raise Problem(f"CLAIMS: `{name}` is not a claim{nearest(str(name), known)}", self.line("CLAIMS"))
        return {name: int(bool(claims.get(name, False))) for name in sorted(known)}

    def _plugin(self):
        plugin = self.table.get("PLUGIN")
        if plugin is not None and not (isinstance(plugin, tuple) and len(plugin) == 2 and all(
                isinstance(part, str) and part and all(c.isalnum() or c in "_.+-" for c in part) for part in plugin)):
            raise Problem(f"PLUGIN has to be a pair of a name and a version, as in (\"mine\", \"0.1.0\"), not {plugin!r}",
                          self.line("PLUGIN"))
        return plugin

    def _launches(self):
        out = []
        table = self.table.get("LAUNCH")
        if not isinstance(table, (list, tuple)) or not table:
            raise Problem("LAUNCH is missing: a list of pairs (kernel, [grid]), as in `LAUNCH = [(kernel, [\"T\"])]`", self.line("LAUNCH"))
        for at, entry in enumerate(table):
            line = self.line("LAUNCH", at)
            if not (isinstance(entry, (list, tuple)) and len(entry) in (2, 3) and isinstance(entry[1], (list, tuple))
                    and 1 <= len(entry[1]) <= 3 and isinstance(entry[-1], (dict, list, tuple))):
                raise Problem(f"LAUNCH: {entry!r} is not a pair (kernel, [one to three expressions]), perhaps with a dict of options", line)
            fn, options = entry[0], entry[2] if len(entry) == 3 else {}
            self._check_options("LAUNCH", options, line)
            kind = type(fn).__name__
            if kind not in ("JITFunction", "InterpretedFunction"):
                hint = "; list its configurations in VARIANTS instead" if kind in ("Autotuner", "Heuristics") else ""
                raise Problem(f"LAUNCH: the kernel is a {kind}, but a function with @triton.jit alone is expected{hint}", line)
            file = pathlib.Path(fn.fn.__code__.co_filename)
            grid = [Expression(size, line, "the grid") for size in entry[1]]
            out.append(Launch(fn, grid, options, line, file))
        return out

    @staticmethod
    def _check_options(table, options, line):
        for name, value in options.items():
            if name not in OPTIONS:
                raise Problem(f"{table}: `{name}` is no option{nearest(str(name), OPTIONS)}", line)
            if not isinstance(value, int) or value < 1:
                raise Problem(f"{table}: `{name}` has to be a number above 0, not {value!r}", line)

    def _scratch(self):
        out = {}
        for name, entry in self._typed("SCRATCH", dict, {}).items():
            if not (isinstance(entry, (list, tuple)) and len(entry) == 2 and entry[0] in POINTERS):
                raise Problem(f"SCRATCH: `{name}` has to be a pair (dtype, number of elements), not {entry!r}", self.line("SCRATCH"))
            if name in self.contract.slots:
                raise Problem(f"SCRATCH: `{name}` is a slot of the contract; choose another name", self.line("SCRATCH"))
            out[name] = (entry[0], Expression(entry[1], self.line("SCRATCH"), f"the size of `{name}`"))
        return out

    def _dtypes(self):
        """A list of {tensor: dtype, or None where it is absent}. Lists of tensors have no part in it."""
        tensors = {name: slot for name, slot in self.contract.tensors.items() if not slot.is_list}
        out = []
        table = self._typed("DTYPES", list, [{}])
        for at, entry in enumerate(table):
            line, whole = self.line("DTYPES", at), {}
            if not isinstance(entry, dict):
                raise Problem(f"DTYPES: {entry!r} is not a dict of tensors and dtypes", line)
            for name in entry:
                if name not in tensors:
                    raise Problem(f"DTYPES: `{name}` is no tensor of `{self.contract.op}`{nearest(str(name), tensors)}", line)
            for name, slot in tensors.items():
                given, like = entry.get(name, slot), slot.dtypes[0] if slot.dtypes else ""
                if given is slot and slot.optional:
                    given = None
                if given is None and not slot.optional:
                    raise Problem(f"DTYPES: `{name}` is required and cannot be None", line)
                if like in tensors and given is not None:
                    follows = whole.get(like) or entry.get(like)
                    if given is not slot and follows and given != follows:
                        raise Problem(f"DTYPES: `{name}` has the dtype of `{like}`, which is {follows}, not {given}", line)
                    given = follows if given is slot else given
                    if given is None:
                        raise Problem(f"DTYPES: `{name}` has the dtype of `{like}`: name the dtype", line)
                elif given is slot and len(slot.dtypes) != 1:
                    raise Problem(f"DTYPES: `{name}` may be {', '.join(slot.dtypes)}: name one, as in {{\"{name}\": "
                                  f"\"{slot.dtypes[0]}\"}}", line)
                elif given is slot:
                    given = like
                if given is not None and like not in tensors and given not in slot.dtypes:
                    raise Problem(f"DTYPES: `{name}` is never {given!r}; expected: {', '.join(slot.dtypes)}", line)
                if given is not None and given not in POINTERS:
                    raise Problem(f"DTYPES: `{name}`: Triton has no pointer to {given}", line)
                whole[name] = given
            if whole in [known for known, _ in out]:
                raise Problem("DTYPES: two entries are equal", line)
            out.append((whole, line))
        return [known for known, _ in out]

    def _variants(self):
        out, table = [], self._typed("VARIANTS", list, [{}])
        known = set().union(*[launch.constexprs for launch in self.launches])
        for at, entry in enumerate(table):
            line = self.line("VARIANTS", at)
            if not isinstance(entry, dict):
                raise Problem(f"VARIANTS: {entry!r} is not a dict", line)
            variant = Variant(dict(entry), line)
            for name, value in variant.constexprs.items():
                if name not in known:
                    raise Problem(f"VARIANTS: `{name}` is no constexpr of a kernel and no option"
                                  + nearest(str(name), known | OPTIONS | {"when", "divisible"}), line)
                if not isinstance(value, (bool, int, float)):
                    raise Problem(f"VARIANTS: `{name}` has to be a number, not {value!r}", line)
            for launch in self.launches:
                for name in launch.constexprs:
                    if name not in variant.constexprs and name not in launch.defaults:
                        raise Problem(f"VARIANTS: the constexpr `{name}` of kernel `{launch.fn.__name__}` has no value", line)
            self._check_options("VARIANTS", variant.options, line)
            out.append(variant)
        if not out:
            raise Problem("VARIANTS is empty", self.line("VARIANTS"))
        return out

    def _check_parameters(self):
        strides, scalars = self.contract.strides(), self.contract.scalars
        for launch in self.launches:
            for name in launch.parameters:
                slot = self.contract.slots.get(name)
                if name in launch.constexprs or name in self.scratch or name in self.contract.axes or name in scalars:
                    continue
                known = [*self.contract.slots, *strides, *self.contract.axes, *self.scratch]
                if slot and (slot.kind != "tensor" or slot.is_list):
                    raise Problem(f"parameter `{name}` is a {'list of tensors' if slot.is_list else slot.kind}, which a Triton kernel "
                                  "cannot take here", launch.place(name), launch.file)
                if slot is None and name not in strides:
                    raise Problem(f"parameter `{name}` of kernel `{launch.fn.__name__}` is nothing that the contract of "
                                  f"`{self.contract.op}` has; expected: a tensor, SLOT_stride_K, an axis, a scalar, an entry of "
                                  f"SCRATCH or a tl.constexpr{nearest(name, known)}", launch.place(name), launch.file)
        plain = {name for launch in self.launches for name in launch.parameters if name not in launch.constexprs}
        for variant in self.variants:
            for name in variant.divisible:
                if name not in plain:
                    raise Problem(f"VARIANTS: `{name}` is divisible, but no kernel has such a parameter{nearest(str(name), plain)}",
                                  variant.line)

    def signature(self, launch, dtypes):
        """Triton's type of each parameter for one entry of DTYPES."""
        out = {}
        for name in launch.parameters:
            slot = self.contract.slots.get(name)
            if name in launch.constexprs:
                out[name] = "constexpr"
            elif name in self.scratch:
                out[name] = "*" + POINTERS[self.scratch[name][0]]
            elif name in dtypes:
                out[name] = "constexpr" if dtypes[name] is None else "*" + POINTERS[dtypes[name]]
            elif slot:
                out[name] = launch.number(name, "fp32" if slot.kind == "float" else "i32")
            else:
                out[name] = launch.number(name, "i32" if name in self.contract.axes else "i64")
        return out

    def aligned(self, launch, variant, dtypes):
        """Parameters that are multiples of 16: weights and scratch always are."""
        return [name for name in launch.parameters if name in variant.divisible or name in self.scratch
                or (dtypes.get(name) and self.contract.slots[name].section == "weights")]

    @staticmethod
    def bytes_of(dtypes):
        """SLOT_bytes: the size of an element, 0 where the tensor is absent."""
        return {f"{name}_bytes": BYTES[dtype] if dtype else 0 for name, dtype in dtypes.items()}

    def pairs(self):
        """(number of an entry of DTYPES, number of a variant), without those whose condition is false for these dtypes."""
        for c, dtypes in enumerate(self.combinations):
            for v, variant in enumerate(self.variants):
                known = variant.constexprs | self.bytes_of(dtypes)
                if all(part.value(known) for part in variant.when.parts() if set(part.names) <= set(known)):
                    yield c, v

    def named(self):
        """Every name that a kernel or an expression reads."""
        grids = [size for launch in self.launches for size in launch.grid]
        expressions = grids + [size for _, size in self.scratch.values()] + [v.when for v in self.variants]
        return set(itertools.chain(*[e.names for e in expressions], *[launch.parameters for launch in self.launches]))

    def _check_use(self):
        """Nothing of the contract may be forgotten: a kernel that ignores a slot is wrong where the slot matters."""
        if self.refuse:
            return
        named = self.named()
        tensors = self.contract.tensors
        for name, slot in self.contract.slots.items():
            used = name in named or slot.axis in named or any(n.startswith(name + "_stride_") for n in named)
            if used or slot.axis or slot.capture:
                continue
            if slot.kind == "tensor" and (not slot.optional or any(c.get(name) for c in self.combinations)):
                raise Problem(f"no kernel has the parameter `{name}`, {'a required' if not slot.optional else 'an optional'} tensor of "
                              f"`{self.contract.op}`" + (" that DTYPES gives a dtype" if slot.optional else ""))
            if name not in tensors and not slot.default:
                raise Problem(f"nothing reads `{name}`, which calls of `{self.contract.op}` give: take it as a parameter, or name it in "
                              "the condition of a variant")
