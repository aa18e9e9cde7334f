#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source with a function that tvm-ffi exports -> one C++ file with the op, and a library with the function beside it.

    build.py SOURCE --header fk/ops/OP.h --out OUT.cpp

Writes OUT.cpp, which is compiled with the headers of the ABI and of this folder, and OUT.a with the function and the runtime of tvm-ffi. SOURCE has
the name of its op. Python has the package apache-tvm-ffi. Mistakes are printed as FILE:LINE: error: SENTENCE, and the exit code is 1.
"""
import argparse
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "triton"))  # contract.py is Triton's
from contract import Contract, Problem, nearest  # noqa: E402

HEAD = re.compile(r"^// fk-host: (\w+), plugin ([\w.-]+) (\S+)[ \t]*$", re.M)
ARGUMENTS = re.compile(r"^// arguments: (.+?)[ \t]*$", re.M)
EXPORT = re.compile(r"^\s*TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,", re.M)
KINDS = ("tensor", "int", "float", "bool", "enum")
CLAIMS = ("deterministic", "batch_invariant")
# The runtime, which functions call. The package's library is a shared one, and a candidate has no folder for it.
RUNTIME = ("object", "function", "error", "container", "tensor", "dtype", "init_once", "backtrace", "extra/env_context")

TEXT = """// Made from {shown}; do not edit.
{edition}#include "fk/ops/{op}.h"
#include "launcher.hpp"

extern "C" fk_tvm_ffi::Function {functions};
namespace {{

{sm}struct Plan {{
  using op = fk::{op};
  static constexpr fk_claims claims{{FK_END(fk_claims, sm), {device}, FK_GRAPH_ALWAYS, {deterministic}, {batch_invariant}, FK_ACCUMULATE_F32, 0,
                                    {sm_list}}};
  static constexpr const char* refusal = {refusal};
  static constexpr fk_tvm_ffi::Function *function = __tvm_ffi_{op}, *supports = {supports};
  static int call(fk_tvm_ffi::Function* function, const op::init& init, const op::weights& weights, const op::forward& forward,
                  fk_tvm_ffi::Any* result) {{
    (void)init, (void)weights, (void)forward;
    const fk_tvm_ffi::Any arguments[] = {{{arguments}}};
    return function(nullptr, arguments, {count}, result);
  }}
}};
using tvm_ffi_{op} = fk_tvm_ffi::Op<Plan>;
FK_OP({op}, tvm_ffi_{op});

}}  // namespace
FK_PLUGIN("{plugin}", "{version}");
"""


class Source:
    """What the comments of a source say, checked against the contract."""

    def __init__(self, path, header):
        self.text, self.op = path.read_text(), path.stem
        line = lambda at: self.text.count("\n", 0, at) + 1  # noqa: E731
        head = HEAD.search(self.text)
        if not head:
            raise Problem(f"no line `// fk-host: {self.op}, plugin NAME VERSION`", 1)
        if head.group(1) != self.op:
            raise Problem(f"the head says op `{head.group(1)}`, the file's name says `{self.op}`", line(head.start()))
        self.plugin, self.version = head.group(2), head.group(3)
        edition = re.search(r"^// edition (\d+)\s*$", self.text, re.M)
        self.contract = contract = Contract(self.op, header, int(edition.group(1)) if edition else None)
        if contract.editions > 1 and not edition:
            raise Problem(f"op `{self.op}` has {contract.editions} editions: say which one the function knows, as in `// edition {contract.editions}`",
                          line(head.start()))
        self.arguments = []
        for found in ARGUMENTS.finditer(self.text):
            for name in [word.strip() for word in found.group(1).split(",") if word.strip()]:
                slot = contract.slots.get(name)
                if slot is None or slot.is_list or slot.kind not in KINDS:
                    known = [n for n, s in contract.slots.items() if not s.is_list and s.kind in KINDS]
                    raise Problem(f"`{name}` is no tensor and no scalar of `{self.op}`{nearest(name, known)}", line(found.start()))
                self.arguments.append(name)
        if not self.arguments:
            raise Problem("no line `// arguments: SLOT, ...` with the function's arguments in order", line(head.start()))
        for name, slot in contract.slots.items():
            if name not in self.arguments and not slot.axis and not slot.capture and not slot.optional and not slot.default:
                raise Problem(f"the function does not get `{name}`, which calls of `{self.op}` give", line(head.start()))
        exports = {m.group(1): line(m.start()) for m in EXPORT.finditer(self.text)}
        if self.op not in exports:
            raise Problem(f"TVM_FFI_DLL_EXPORT_TYPED_FUNC exports no `{self.op}`{nearest(self.op, exports)}", next(iter(exports.values()), 1))
        self.supports = f"{self.op}_supports" in exports
        claims = re.search(r"^// claims (.*?)\s*$", self.text, re.M)
        self.claims = claims.group(1).split() if claims else []
        for name in self.claims:
            if name not in CLAIMS:
                raise Problem(f"`{name}` is no claim{nearest(name, CLAIMS)}", line(claims.start()))
        refusal = re.search(r"^// refuse: (.+?)\s*$", self.text, re.M)
        self.refusal = refusal.group(1) if refusal else ""

    def unread(self):
        """Optional slots which the function does not get: absent, or at their defaults."""
        return [(name, slot) for name, slot in self.contract.slots.items()
                if name not in self.arguments and not slot.capture and not slot.axis and (slot.optional or slot.default)]


def tests(source):
    """C++ statements of supports() for unread slots."""
    out = ""
    for name, slot in source.unread():
        if slot.kind == "tensor":
            out += f'if ({slot.code}.or_null) throw fk::unsupported{{"{name}: the function does not get it"}};\n    '
        elif slot.kind in ("int", "float", "bool", "enum"):
            out += f'if ({slot.code} != {slot.default or 0}) throw fk::unsupported{{"{name}: the function does not get it"}};\n    '
    return out


def text_of(source, shown, device, sms):
    contract = source.contract
    kinds = {"int": "int64_t", "bool": "int64_t", "enum": "int64_t", "float": "double"}
    arguments = []
    for name in source.arguments:
        slot = contract.slots[name]
        if slot.kind == "tensor":
            arguments.append(f"fk_tvm_ffi::argument({slot.code})" if slot.optional else f"fk_tvm_ffi::argument(static_cast<const void*>({slot.code}))")
        else:
            arguments.append(f"fk_tvm_ffi::argument(static_cast<{kinds[slot.kind]}>({slot.code}))")
    functions = [f"__tvm_ffi_{source.op}"] + [f"__tvm_ffi_{source.op}_supports"] * source.supports
    made = TEXT.format(
        shown=shown, op=source.op, functions=", ".join(functions), device="FK_CUDA" if device == "cuda" else "FK_CPU",
        edition=f"#define FK_{source.op.upper()}_EDITION {contract.edition}\n" if contract.editions > 1 else "",
        sm=f"constexpr int32_t kSm[] = {{{', '.join(map(str, sms))}}};\n" if device == "cuda" else "",
        sm_list=f"{len(sms)}, kSm" if device == "cuda" else "0, nullptr", refusal='"' + source.refusal.replace('"', "'") + '"' if source.refusal else "nullptr",
        supports=functions[-1] if source.supports else "nullptr", arguments=", ".join(arguments), count=len(arguments), plugin=source.plugin,
        version=source.version, **{claim: int(claim in source.claims) for claim in CLAIMS})
    return made.replace("    (void)init, (void)weights, (void)forward;\n", "    (void)init, (void)weights, (void)forward;\n    " + tests(source).rstrip(" "))


def package():
    found = importlib.util.find_spec("tvm_ffi")
    if found is None:
        raise Problem(f"{sys.executable} has no tvm-ffi: install the package apache-tvm-ffi, or name another Python by PYTHON")
    return pathlib.Path(found.origin).parent


def compiled(words):
    """Runs compilers at the same time, whose words go to the author. Returns true if all succeed."""
    running = []
    for line in words:
        try:
            running.append(subprocess.Popen(line))
        except OSError as error:
            raise Problem(f"`{line[0]}` cannot be started: {error.strerror}") from None
    return not any([process.wait() for process in running])


def build(a, device):
    source, out = pathlib.Path(a.source), pathlib.Path(a.out).resolve()
    read, place = Source(source, pathlib.Path(a.header).read_text()), package()
    sms = [int(re.sub(r"\D", "", word)) for word in (a.arch or "90a").replace(",", " ").split()]
    out.write_text(text_of(read, a.source, device, sms))
    cxx, includes = os.environ.get("CXX", "c++"), ["-isystem", str(place / "include"), "-I", str(HERE.parent.parent)]
    runtime = out.with_suffix(".runtime.cc")
    runtime.write_text("".join(f'#include "{place / "src/ffi" / (name + ".cc")}"\n' for name in RUNTIME))
    common = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", *includes]
    objects = [out.with_suffix(f".{name}.o") for name in ("runtime", "support", "function")]
    own = [cxx, *common, "-O3", "-Wall", "-Wextra", *([f"-march={a.march}"] if a.march else [])]
    if device == "cuda":
        nvcc = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin/nvcc"
        codes = [f"-gencode=arch=compute_{word},code=sm_{word}" for word in (a.arch or "90a").replace(",", " ").split()]
        own = [str(nvcc), "-std=c++17", "-O3", "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique", *codes, *includes]
    quiet = [cxx, *common, "-O1", "-w", "-DTVM_FFI_USE_LIBBACKTRACE=0", "-DTVM_FFI_BACKTRACE_ON_SEGFAULT=0", "-DTVM_FFI_EXPORTS=1"]
    if not compiled([[*quiet, "-c", str(runtime), "-o", str(objects[0])], [*quiet, "-c", str(HERE / "support.cc"), "-o", str(objects[1])],
                     [*own, "-c", a.source, "-o", str(objects[2])]]):
        return 1
    archive = out.with_suffix(".a")
    archive.unlink(missing_ok=True)
    return 0 if compiled([["ar", "qc", str(archive), *map(str, objects)]]) else 1


def main(device="cpu"):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--header", required=True)
    parser.add_argument("--arch", default="", help="compute capabilities, such as 90a, of a source in CUDA")
    parser.add_argument("--march", default="", help="the processor, such as native or x86-64-v3")
    parser.add_argument("--out", required=True)
    a = parser.parse_args()
    try:
        return build(a, device)
    except Problem as problem:
        print(f"{a.source}:{problem.line or 1}: error: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
