# SPDX-License-Identifier: Apache-2.0
"""Entries of an author's tables LAUNCH and VARIANTS."""
import ast
import inspect
import pathlib

from contract import Problem
from expression import Expression

OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg"}
NUMBERS = {"i32": "i32", "int32": "i32", "i64": "i64", "int64": "i64", "fp32": "fp32", "float32": "fp32", "fp64": "fp64", "float64": "fp64"}


class Launch:
    """One kernel with its grid, and options that come before the variant's."""

    def __init__(self, fn, grid, options, line, file):
        self.fn, self.grid, self.options, self.line, self.file = fn, grid, options, line, file
        parameters = inspect.signature(fn.fn).parameters.values()
        self.parameters = [p.name for p in parameters]
        self.annotations = {p.name: str(p.annotation).rsplit(".", 1)[-1] for p in parameters if p.annotation is not p.empty}
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.constexprs = [name for name, text in self.annotations.items() if "constexpr" in text]
        self.places = {}
        for node in ast.walk(ast.parse(pathlib.Path(file).read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == fn.__name__:
                arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                self.places = {a.arg: a.lineno for a in arguments}

    def place(self, parameter):
        return self.places.get(parameter, self.line)

    def number(self, parameter, usual):
        """Triton's type of a number: the parameter's annotation, or the usual type."""
        text = self.annotations.get(parameter)
        if text is None:
            return usual
        if text not in NUMBERS or (NUMBERS[text][0] == "f") != (usual[0] == "f"):
            expected = "tl.float32 or tl.float64" if usual[0] == "f" else "tl.int32 or tl.int64"
            raise Problem(f"parameter `{parameter}` cannot have the type {text}; expected: {expected}", self.place(parameter), self.file)
        return NUMBERS[text]


class Variant:
    """Constexpr values, compile options, the condition, and arguments that are multiples of 16."""

    def __init__(self, values, line):
        self.line, self.when = line, Expression(values.pop("when", 1), line, "the condition")
        self.divisible = values.pop("divisible", [])
        self.options = {name: values.pop(name) for name in list(values) if name in OPTIONS}
        self.constexprs = values
