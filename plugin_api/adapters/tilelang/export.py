# SPDX-License-Identifier: Apache-2.0
"""The author's file, and its program lowered and compiled for each entry of DTYPES, each of VARIANTS and each compute capability."""
import ast
import dataclasses
import difflib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import traceback

import tilelang
from contract import Problem, nearest
from tilelang import tvm

TABLES = {"PLUGIN", "EDITION", "PROGRAM", "DTYPES", "VARIANTS", "CLAIMS", "REFUSE"}
NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3", "f8e5m2": "float8_e5m2",
         "i64": "int64", "i32": "int32", "i8": "int8", "u8": "uint8", "bool": "bool"}
# A descriptor of TMA would have to be made for each call by the driver, which a plugin does not link.
OFF = {"tl.disable_tma_lower": True, "tl.disable_warp_specialized": True}
OPERATORS = {"Add": "+", "Sub": "-", "Mul": "*"}
FUNCTIONS = {"FloorDiv": "floor_div", "FloorMod": "floor_mod", "Div": "floor_div", "Max": "max", "Min": "min"}


@dataclasses.dataclass
class Kernel:
    """One entry of DTYPES with one of VARIANTS: its parameters (name, dtype), grid as C++ texts, warps, shared bytes, a cubin for each arch."""
    entry: int
    variant: int
    name: str
    parameters: list
    grid: list
    warps: int
    shared: int
    cubins: dict


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
        module = self.guarded(self._module)
        edition = getattr(module, "EDITION", None)
        self.contract = contract_of(edition)
        if edition is None and self.contract.editions > 1:
            raise Problem(f"op `{self.contract.op}` has {self.contract.editions} editions: say which one the kernel knows, as in "
                          f"`EDITION = {self.contract.editions}`")
        self.plugin = getattr(module, "PLUGIN", None)
        if self.plugin is not None and not (isinstance(self.plugin, tuple) and len(self.plugin) == 2 and all(
                isinstance(part, str) and re.fullmatch(r"[\w.+-]+", part) for part in self.plugin)):
            self._fail("PLUGIN", f'PLUGIN has to be a pair of a name and a version, as in ("mine", "0.1.0"), not {self.plugin!r}')
        self.refuse = getattr(module, "REFUSE", "")
        self.program = getattr(module, "PROGRAM", None)
        if not callable(self.program):
            self._fail("PROGRAM", f"PROGRAM has to be a function that returns a T.prim_func, as in `PROGRAM = {self.contract.op}`")
        claims = getattr(module, "CLAIMS", {})
        for name in claims:
            if name not in ("deterministic", "batch_invariant"):
                self._fail("CLAIMS", f"CLAIMS: `{name}` is not a claim{nearest(str(name), {'deterministic', 'batch_invariant'})}")
        self.claims = [int(bool(claims.get(name, False))) for name in ("deterministic", "batch_invariant")]
        self.entries = self._entries(getattr(module, "DTYPES", [{}]))
        self.variants = getattr(module, "VARIANTS", [{}])
        for variant in self.variants:
            for name, value in variant.items():
                if name in self.contract.axes or name in self.contract.scalars:
                    if name not in self.contract.fixed:
                        self._fail("VARIANTS", f"VARIANTS: `{name}` changes from call to call; leave it to T.dynamic(\"{name}\")")
                    if not isinstance(value, (int, float)):
                        self._fail("VARIANTS", f"VARIANTS: `{name}` has to be a number, not {value!r}")

    def _fail(self, table, what):
        raise Problem(what, self.lines.get(table, 0))

    def guarded(self, body):
        """Runs statements of the author; their errors get the author's line."""
        try:
            return body()
        except Problem:
            raise
        except Exception as error:
            own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path.resolve())]
            text = " ".join(str(error).split())
            raise Problem(f"{type(error).__name__}: {text[-500:]}", own[-1].lineno if own else self.lines.get("PROGRAM", 0)) from None

    def _module(self):
        sys.path.insert(0, str(self.path.parent.resolve()))
        spec = importlib.util.spec_from_file_location("fk_candidate", self.path.resolve())
        module = importlib.util.module_from_spec(spec)
        sys.modules["fk_candidate"] = module
        spec.loader.exec_module(module)
        return module

    def _entries(self, table):
        """A list of {tensor: dtype, or None where an optional tensor is absent}."""
        contract, out = self.contract, []
        for entry in table:
            whole = {}
            for name in entry:
                if name not in contract.tensors:
                    self._fail("DTYPES", f"DTYPES: `{name}` is no tensor of `{contract.op}`{nearest(str(name), contract.tensors)}")
            for name, slot in contract.tensors.items():
                like = slot.dtypes[0] if slot.dtypes else ""
                dtype = None if slot.is_list else entry.get(name)
                if dtype is None and not slot.optional and not slot.is_list:
                    dtype = whole[like] if like in contract.tensors else like if len(slot.dtypes) == 1 else None
                    if dtype is None:
                        self._fail("DTYPES", f"DTYPES: `{name}` may be {', '.join(slot.dtypes)}: name one")
                allowed = [whole[like]] if like in contract.tensors else slot.dtypes
                if dtype is not None and dtype not in allowed:
                    self._fail("DTYPES", f"DTYPES: `{name}` cannot be {dtype!r} here; expected: {', '.join(map(str, allowed))}")
                whole[name] = dtype
            out.append(whole)
        return out

    def code(self, expression):
        """A size of a grid as C++ text, with the axes of the contract."""
        kind = type(expression).__name__
        if kind == "IntImm":
            return str(int(expression.value))
        if kind == "Var":
            return self.value_of(expression.name)
        if kind == "Cast":
            return self.code(expression.value)
        if kind in OPERATORS:
            return f"({self.code(expression.a)} {OPERATORS[kind]} {self.code(expression.b)})"
        if kind in FUNCTIONS:
            return f"fk_triton::{FUNCTIONS[kind]}<int64_t>({self.code(expression.a)}, {self.code(expression.b)})".replace("floor_div<int64_t>", "floor_div").replace("floor_mod<int64_t>", "floor_mod")
        raise Problem(f"a size of the grid has a {kind}, which this adapter does not know: use + - * // % min max of axes", self.lines.get("PROGRAM", 0))

    def value_of(self, name):
        contract = self.contract
        if name in contract.axes:
            return contract.axes[name]
        if name in contract.scalars:
            return contract.scalars[name].code
        strides = contract.strides()
        if name in strides:
            slot, axis = strides[name]
            return f"fk_triton::tensor({slot.code}).stride({axis})"
        known = {*contract.axes, *contract.scalars, *contract.tensors, *strides}
        raise Problem(f"`{name}` is nothing that the contract of `{contract.op}` has{nearest(name, known)}", self.lines.get("PROGRAM", 0))

    def compiled(self, arches, folder):
        out = []
        for e, entry in enumerate(self.entries):
            dtypes = {name: NAMES[dtype] if dtype else None for name, dtype in entry.items()}
            for v, variant in enumerate(self.variants):
                cubins, kernel = {}, None
                for arch in arches:
                    target = tvm.target.Target({"kind": "cuda", "arch": f"sm_{arch}"})

                    def lowered():
                        with target, tvm.transform.PassContext(config=OFF):
                            return tilelang.lower(self.program(dtypes, **variant), target=target)
                    artifact = self.guarded(lowered)
                    kernel = self._kernel(e, v, artifact)
                    cubins[arch] = self._cubin(artifact.kernel_source, arch, folder / f"kernel_{e}_{v}_{arch}")
                kernel.cubins = cubins
                out.append(kernel)
        return out

    def _kernel(self, e, v, artifact):
        functions = list(artifact.device_mod.functions.items())
        line = self.lines.get("PROGRAM", 0)
        if len(functions) != 1:
            raise Problem(f"the program has {len(functions)} kernels, and this adapter takes one T.Kernel", line)
        function = functions[0][1]
        extents = {name: size for name, size in function.attrs["thread_extent"].items()}
        threads = 1
        for name in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            threads *= int(extents[name].value) if name in extents else 1
        if any(name.startswith("clusterIdx") for name in extents) or (set(extents) >= {"threadIdx.y"} and int(extents["threadIdx.y"].value) > 1) or threads % 32:
            raise Problem("blocks of one axis, of whole warps and without clusters are expected", line)
        grid = [self.code(extents[name]) if name in extents else "1" for name in ("blockIdx.x", "blockIdx.y", "blockIdx.z")]
        parameters = [(p.name, str(p.dtype)) for p in function.params]
        for name, dtype in parameters:
            if "CUtensorMap" in artifact.kernel_source or (dtype == "handle" and name not in self.contract.tensors):
                raise Problem("the kernel takes a TMA descriptor, or a tensor that the contract does not have: parameters have the contract's names", line)
            if dtype != "handle":
                self.value_of(name)
        shared = int(function.attrs["dyn_shared_memory_buf"].value) if "dyn_shared_memory_buf" in function.attrs else 0
        return Kernel(e, v, str(function.attrs["global_symbol"]), parameters, grid, threads // 32, shared, {})

    def _cubin(self, text, arch, file):
        home = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
        nvcc = os.environ.get("NVCC") or str(home / "bin/nvcc")
        root = pathlib.Path(tilelang.__file__).resolve().parent
        file.with_suffix(".cu").write_text(text)
        words = [nvcc, "-cubin", "-O3", "-std=c++17", "-w", f"-arch=sm_{arch}", f"-I{root / 'src'}", f"-I{root / '3rdparty/cutlass/include'}", "--expt-relaxed-constexpr",
                 "-DENABLE_BF16", str(file.with_suffix(".cu")), "-o", str(file.with_suffix(".cubin"))]
        try:
            done = subprocess.run(words, capture_output=True, text=True)
        except OSError as error:
            raise Problem(f"`{nvcc}` cannot be started ({error.strerror}): install the CUDA toolkit, or name it by CUDA_HOME") from None
        if done.returncode:
            raise Problem(f"nvcc refuses the CUDA source of TileLang: {' '.join((done.stderr + done.stdout).split())[:400]}", self.lines.get("PROGRAM", 0))
        return file.with_suffix(".cubin").read_bytes()
