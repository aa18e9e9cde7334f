# SPDX-License-Identifier: Apache-2.0
"""The author's file, and its function compiled for each entry of DTYPES and each compute capability."""
import ast
import dataclasses
import difflib
import importlib.util
import inspect
import pathlib
import re
import sys
import traceback

import cutlass
import cutlass.cute as cute
from contract import Problem, nearest
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

TABLES = {"PLUGIN", "EDITION", "LAUNCH", "DTYPES", "LIMITS", "CLAIMS", "REFUSE"}
DTYPES = {"f64": "Float64", "f32": "Float32", "f16": "Float16", "bf16": "BFloat16", "f8e4m3": "Float8E4M3FN", "f8e5m2": "Float8E5M2",
          "i64": "Int64", "i32": "Int32", "i8": "Int8", "u8": "Uint8"}


@dataclasses.dataclass
class Code:
    """One exported function: its entry of DTYPES, its compute capability, its prefix and file without a suffix."""
    entry: int
    arch: str
    prefix: str
    file: pathlib.Path
    function: str  # name of the C function


class Source:
    def __init__(self, path, contract_of):
        self.path = pathlib.Path(path)
        try:
            tree = ast.parse(self.path.read_text())
        except SyntaxError as error:
            raise Problem(error.msg, error.lineno or 0) from None
        self.lines = {t.id: node.lineno for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
        for name in self.lines:
            close = difflib.get_close_matches(name, TABLES, 1, 0.75)
            if name.isupper() and name not in TABLES and close:
                raise Problem(f"`{name}` is not a table of this adapter; did you mean `{close[0]}`?", self.lines[name])
        self.functions = {node.name: node.lineno for node in tree.body if isinstance(node, ast.FunctionDef)}
        module = self._guarded(self._module)
        self.edition = getattr(module, "EDITION", None)
        self.contract = contract_of(self.edition)
        if self.edition is None and self.contract.editions > 1:
            raise Problem(f"op `{self.contract.op}` has {self.contract.editions} editions: say which one the kernel knows, as in "
                          f"`EDITION = {self.contract.editions}`")
        self.plugin = getattr(module, "PLUGIN", None)
        if self.plugin is not None and not (isinstance(self.plugin, tuple) and len(self.plugin) == 2 and all(
                isinstance(part, str) and re.fullmatch(r"[\w.+-]+", part) for part in self.plugin)):
            self._fail("PLUGIN", f'PLUGIN has to be a pair of a name and a version, as in ("mine", "0.1.0"), not {self.plugin!r}')
        self.refuse = getattr(module, "REFUSE", "")
        self.claims = self._claims(getattr(module, "CLAIMS", {}))
        self.launch = getattr(module, "LAUNCH", None)
        if not callable(self.launch):
            self._fail("LAUNCH", f"LAUNCH has to be a function with @cute.jit, as in `LAUNCH = {self.contract.op}`")
        self.parameters = self._parameters()
        self.limits = getattr(module, "LIMITS", {})
        for name, most in self.limits.items():
            if name not in self.contract.axes or not isinstance(most, int):
                self._fail("LIMITS", f"LIMITS: `{name}: {most!r}` is not an axis and a number{nearest(str(name), self.contract.axes)}")
        self.entries = self._entries(getattr(module, "DTYPES", [{}]))

    def _fail(self, table, what):
        raise Problem(what, self.lines.get(table, 0))

    def _guarded(self, body):
        """Runs statements of the author; their errors get the author's line."""
        try:
            return body()
        except Problem:
            raise
        except Exception as error:
            own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path.resolve())]
            words = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
            line = re.search(rf"{re.escape(self.path.name)}:(\d+)", words)
            text = " ".join(words.split())
            raise Problem(f"{type(error).__name__}: {text[:500]}",
                          int(line.group(1)) if line else own[-1].lineno if own else self.lines.get("LAUNCH", 0)) from None

    def _module(self):
        sys.path.insert(0, str(self.path.parent.resolve()))
        spec = importlib.util.spec_from_file_location("fk_candidate", self.path.resolve())
        module = importlib.util.module_from_spec(spec)
        sys.modules["fk_candidate"] = module
        spec.loader.exec_module(module)
        return module

    def _claims(self, claims):
        known = {"deterministic", "batch_invariant"}
        for name in claims:
            if name not in known:
                self._fail("CLAIMS", f"CLAIMS: `{name}` is not a claim{nearest(str(name), known)}")
        return {name: int(bool(claims.get(name, False))) for name in sorted(known)}

    def _parameters(self):
        contract = self.contract
        known = {*contract.tensors, *contract.scalars, *contract.axes, "stream"}
        names = list(inspect.signature(self.launch).parameters)
        line = self.functions.get(getattr(self.launch, "__name__", ""), self.lines.get("LAUNCH", 0))
        for name in names:
            if name not in known:
                raise Problem(f"parameter `{name}` is nothing that the contract of `{contract.op}` has; expected: a tensor, a scalar, an axis or "
                              f"`stream`{nearest(name, known)}", line)
            if name in contract.tensors and contract.tensors[name].is_list:
                raise Problem(f"parameter `{name}` is a list of tensors: use another language", line)
        if "stream" not in names:
            raise Problem("the function has no parameter `stream: CUstream`, on which it launches", line)
        if inspect.signature(self.launch).parameters["stream"].annotation is inspect.Parameter.empty:
            raise Problem("`stream` needs its type: `stream: CUstream`, from cuda.bindings.driver", line)
        for name, slot in contract.tensors.items():
            if not slot.optional and name not in names:
                raise Problem(f"the function has no parameter `{name}`, a tensor of `{contract.op}`", line)
        fixed = {contract.scalars[name].axis for name in contract.scalars}
        for name, slot in contract.scalars.items():
            if name not in names and not slot.axis and not slot.default and not slot.capture and name not in fixed:
                raise Problem(f"the function has no parameter `{name}`, a scalar of `{contract.op}` without a default", line)
        return names

    def _entries(self, table):
        """A list of {tensor: dtype, or None where an optional tensor is absent}."""
        contract, out = self.contract, []
        if not isinstance(table, list) or not table or not all(isinstance(entry, dict) for entry in table):
            self._fail("DTYPES", f"DTYPES has to be a list of dicts of tensors and dtypes, not {table!r}")
        for entry in table:
            whole = {}
            for name in entry:
                if name not in contract.tensors:
                    self._fail("DTYPES", f"DTYPES: `{name}` is no tensor of `{contract.op}`{nearest(str(name), contract.tensors)}")
            for name, slot in contract.tensors.items():
                if slot.is_list:
                    whole[name] = None
                    continue
                like = slot.dtypes[0] if slot.dtypes else ""
                dtype = entry.get(name)
                if dtype is None and not slot.optional:
                    dtype = whole[like] if like in contract.tensors else like if len(slot.dtypes) == 1 else None
                    if dtype is None:
                        self._fail("DTYPES", f"DTYPES: `{name}` may be {', '.join(slot.dtypes)}: name one")
                if like in contract.tensors and dtype is not None:
                    if dtype != whole[like]:
                        self._fail("DTYPES", f"DTYPES: `{name}` has the dtype of `{like}`, which is {whole[like]}, not {dtype}")
                elif dtype is not None and dtype not in slot.dtypes:
                    self._fail("DTYPES", f"DTYPES: `{name}` is never {dtype!r}; expected: {', '.join(slot.dtypes)}")
                if dtype is not None and dtype not in DTYPES:
                    self._fail("DTYPES", f"DTYPES: CuTe DSL has no {dtype}")
                if dtype is not None and name not in self.parameters:
                    self._fail("DTYPES", f"the function has no parameter `{name}`, an optional tensor that DTYPES gives a dtype")
                whole[name] = dtype
            out.append(whole)
        return out

    def argument(self, name, entry):
        """What cute.compile() gets for a parameter."""
        slot = self.contract.tensors.get(name)
        if name == "stream":
            return make_fake_stream()
        if slot:
            if entry[name] is None:
                return None
            shape = tuple(cute.sym_int32() for _ in slot.shape)
            stride = tuple([*(cute.sym_int64() for _ in slot.shape[1:]), 1][:len(slot.shape)])
            return make_fake_tensor(getattr(cutlass, DTYPES[entry[name]]), shape, stride)
        scalar = self.contract.scalars.get(name)
        return cutlass.Float32(1) if scalar and scalar.kind == "float" else cutlass.Int32(1)

    def compiled(self, arches, folder):
        codes = []
        for at, entry in enumerate(self.entries):
            for arch in arches:
                prefix = f"fk_cute_{self.contract.op}_{at}_{arch}"
                arguments = [self.argument(name, entry) for name in self.parameters]
                done = self._guarded(lambda: cute.compile(self.launch, *arguments, options=f"--gpu-arch sm_{arch}"))
                self._guarded(lambda: done.export_to_c(file_path=str(folder), file_name=prefix, function_prefix=prefix))
                header = (folder / f"{prefix}.h").read_text()
                function = re.search(r"^void (_mlir_\w+)\(void \*\*args, int32_t num_args\);", header, re.M)
                if not function:
                    raise Problem("the header that CuTe DSL wrote has another form than that of version 4.8.1, which was tried")
                codes.append(Code(at, arch, prefix, folder / prefix, function.group(1)))
        return codes
