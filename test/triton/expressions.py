#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""expressions.py FK_HOST SOURCE_DIR: expressions of an author mean the same in C++ as in Python, and others are refused."""
import ast, os, pathlib, random, subprocess, sys, tempfile

source = pathlib.Path(sys.argv[2])
adapter = source / "plugin_api/adapters/triton"
sys.path.insert(0, str(adapter))
from contract import Problem  # noqa: E402
from expression import Expression  # noqa: E402

seed = int.from_bytes(os.urandom(4), "little")
print(f"seed {seed}")
random.seed(seed)


def made(depth):
    if depth == 0:
        return random.choice(["T", "C", "BLOCK", str(random.randint(0, 40))])
    a, b = made(depth - 1), made(depth - 1)
    return random.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {b})", f"({a} % {b})", f"cdiv({a}, {b})",
                          f"min({a}, {b}, 7)", f"max({a}, {b})", f"next_power_of_2({a} % 5000)", f"({a} if {b} < T <= {a} else {b})",
                          f"({a} == {b} or not {a} > 3)", f"({a} != 0 and {b} >= 2) + 1", f"-{a}"])


checks, count = "", 0
while count < 300:
    names = {"T": random.randint(-5, 300), "C": random.randint(0, 5), "BLOCK": random.choice([1, 16, 64])}
    text = made(random.randint(1, 3))
    one = Expression(text)
    try:
        value = int(one.value(names))
    except ZeroDivisionError:
        continue
    # `and` and `or` give one of their operands in Python; as a condition it means the same.
    truth = any(isinstance(node, ast.BoolOp) for node in ast.walk(one.tree))
    if truth and not isinstance(one.tree, ast.BoolOp):
        continue
    if abs(value) >= 2**60:
        continue
    code = one.code({"T": f"int64_t{{{names['T']}}}", "C": f"int64_t{{{names['C']}}}", "BLOCK": names["BLOCK"]})
    left, right = (f"bool({code})", str(bool(value)).lower()) if truth else (f"int64_t({code})", f"int64_t{{{value}}}")
    checks += f'  if ({left} != {right}) failed = std::printf("%s\\n", {chr(34)}{text} with {names}{chr(34)}) > 0;\n'
    count += 1
with tempfile.TemporaryDirectory() as work:
    file, program = pathlib.Path(work, "checks.cpp"), pathlib.Path(work, "checks")
    file.write_text('#include <cstdio>\n#include "launcher.hpp"\nint main() {\n  bool failed = false;\n' + checks + "  return failed;\n}\n")
    built = subprocess.run(["c++", "-std=c++17", "-O0", "-w", "-I", adapter, "-I", source / "test/triton/toolkit/include", "-I", source / "plugin_api",
                            "-I", source / "plugin_api/fk/cpp", "-c", file, "-o", f"{program}.o"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]
    stubs = pathlib.Path(work, "cudart.o")
    subprocess.run(["cc", "-c", source / "test/triton/toolkit/cudart.c", "-I", source / "test/triton/toolkit/include", "-o", stubs], check=True)
    subprocess.run(["c++", f"{program}.o", stubs, "-o", program], check=True)
    ran = subprocess.run([program], capture_output=True, text=True)
    assert ran.returncode == 0, "differs from Python: " + ran.stdout

for text, expected in (("T +", "is not an expression"), ("f(T)", "`f(T)` is not possible here"), ("T.x", "is not possible"), ("'a'", "is not possible"),
                       ("T / 2", "`T / 2` is not possible here"), ("[T]", "is not possible"), ("T ** 2", "is not possible"), ("cdiv(T)", "is not possible"),
                       ("__import__('os')", "is not possible"), ("99999999999999999999", "is not possible")):
    try:
        Expression(text)
    except Problem as problem:
        assert expected in str(problem), f"{text}: {problem}"
    else:
        raise AssertionError(f"`{text}` was taken")
try:
    Expression("Tokens * 2").code({"tokens": "c.tokens", "T": "c.T"})
except Problem as problem:
    assert "`Tokens` is no axis, scalar, stride or constexpr; did you mean `tokens`?" in str(problem), problem
else:
    raise AssertionError("an unknown name was taken")
print("expressions: 300 values and 11 refusals")
