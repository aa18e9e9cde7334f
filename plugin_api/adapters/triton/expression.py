# SPDX-License-Identifier: Apache-2.0
"""Pure expressions in Python's syntax, as values in Python and as text in C++."""
import ast

from contract import Problem, nearest

COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
DIVISIONS = {ast.FloorDiv: "floor_div", ast.Mod: "floor_mod"}
FUNCTIONS = {"cdiv": 2, "min": 2, "max": 2, "next_power_of_2": 1}


class Expression:
    """Names are axes, scalars, strides and constexprs. `names` has those that the expression reads."""

    def __init__(self, text, line=0, what="expression"):
        self.text, self.line, self.what, self.names = str(text), line, what, []
        try:
            self.tree = ast.parse(self.text.strip(), mode="eval").body
        except SyntaxError as error:
            raise Problem(f"{what} `{self.text}` is not an expression: {error.msg}", line) from None
        self._walk(self.tree)

    def _refuse(self, node):
        shown = ast.unparse(node)
        raise Problem(f"{self.what} `{self.text}`: `{shown}` is not possible here; an expression has numbers, names, "
                      f"+ - * // %, comparisons, and, or, not, if-else, {', '.join(FUNCTIONS)}", self.line)

    def _walk(self, node):
        if isinstance(node, ast.Constant):
            if not isinstance(node.value, (bool, int, float)) or not abs(node.value) < 2**63:
                self._refuse(node)
        elif isinstance(node, ast.Name):
            if node.id not in self.names:
                self.names.append(node.id)
        elif isinstance(node, ast.BinOp) and type(node.op) in (OPERATORS | DIVISIONS):
            self._walk(node.left), self._walk(node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            self._walk(node.operand)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                self._walk(value)
        elif isinstance(node, ast.Compare) and all(type(op) in COMPARISONS for op in node.ops):
            for value in [node.left, *node.comparators]:
                self._walk(value)
        elif isinstance(node, ast.IfExp):
            self._walk(node.test), self._walk(node.body), self._walk(node.orelse)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            count = FUNCTIONS.get(node.func.id)
            if count is None or len(node.args) < count or (len(node.args) > count and count != 2):
                self._refuse(node)
            for value in node.args:
                self._walk(value)
        else:
            self._refuse(node)

    def code(self, names):
        """C++ text. `names` maps each name to C++ text, or to a number."""
        for name in self.names:
            if name not in names:
                raise Problem(f"{self.what} `{self.text}`: `{name}` is no axis, scalar, stride or constexpr" + nearest(name, names),
                              self.line)
        return self._code(self.tree, names)

    def _code(self, node, names):
        again = lambda value: self._code(value, names)
        if isinstance(node, ast.Constant):
            return literal(node.value)
        if isinstance(node, ast.Name):
            value = names[node.id]
            return value if isinstance(value, str) else literal(value)
        if isinstance(node, ast.BinOp):
            left, right = again(node.left), again(node.right)
            if type(node.op) in OPERATORS:
                return f"({left} {OPERATORS[type(node.op)]} {right})"
            return f"fk_triton::{DIVISIONS[type(node.op)]}({left}, {right})"
        if isinstance(node, ast.UnaryOp):
            return f"({'-' if isinstance(node.op, ast.USub) else '!'}{again(node.operand)})"
        if isinstance(node, ast.BoolOp):
            return "(" + (" && " if isinstance(node.op, ast.And) else " || ").join(map(again, node.values)) + ")"
        if isinstance(node, ast.Compare):
            values = [again(value) for value in [node.left, *node.comparators]]
            parts = [f"{a} {COMPARISONS[type(op)]} {b}" for a, op, b in zip(values, node.ops, values[1:])]
            return "(" + " && ".join(parts) + ")"
        if isinstance(node, ast.IfExp):
            return f"({again(node.test)} ? {again(node.body)} : {again(node.orelse)})"
        text = again(node.args[0])
        if FUNCTIONS[node.func.id] == 1:
            return f"fk_triton::{node.func.id}({text})"
        for value in node.args[1:]:
            text = f"fk_triton::{node.func.id}({text}, {again(value)})"
        return text

    def parts(self):
        """Expressions of which all have to hold."""
        joined = isinstance(self.tree, ast.BoolOp) and isinstance(self.tree.op, ast.And)
        return [Expression(ast.unparse(part), self.line, self.what) for part in (self.tree.values if joined else [self.tree])]

    def value(self, names):
        """The same in Python."""
        functions = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max,
                     "next_power_of_2": lambda n: 1 << max(int(n) - 1, 0).bit_length()}
        code = compile(ast.Expression(self.tree), "<expression>", "eval")
        return eval(code, {"__builtins__": {}} | functions, names)  # noqa: S307 only the nodes above


def literal(value):
    if isinstance(value, bool):
        return "int64_t{1}" if value else "int64_t{0}"
    return f"int64_t{{{value}}}" if isinstance(value, int) else repr(float(value))
