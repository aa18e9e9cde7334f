#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in OpenCL C -> one C++ file with the source inside. The device's driver compiles it.

    build.py SOURCE --header fk/ops/OP.h --out OUT.cpp

SOURCE has the name of its op. Mistakes are printed as FILE:LINE: error: SENTENCE, and the exit code is 1.
"""
import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "triton")]  # contract.py is Triton's
from contract import Problem  # noqa: E402
from source import Source  # noqa: E402

# For each dtype: its number in -DFK_<tensor>, and how kernels read and write an element.
DTYPES = [("FK_F32", "float", "(p)[i]", "(p)[i] = (v)"),
          ("FK_F16", "half", "vload_half(i, p)", "vstore_half_rte(v, i, p)"),
          ("FK_BF16", "ushort", "fk_from_bf16((p)[i])", "(p)[i] = fk_to_bf16(v)"),
          ("FK_I64", "long", "(p)[i]", "(p)[i] = (v)"),
          ("FK_I32", "int", "(p)[i]", "(p)[i] = (v)"),
          ("FK_U8", "uchar", "(p)[i]", "(p)[i] = (v)"),
          ("FK_F64", "double", "(p)[i]", "(p)[i] = (v)")]
PRELUDE = """#define TENSOR(name) __global name##_t *name
#define HAS(name) (FK_##name != 0)
#define GET(name, i) FK_GET_##name(name, i)
#define PUT(name, i, v) FK_PUT_##name(name, i, v)
float fk_from_bf16(ushort bits) { return as_float((uint)bits << 16); }
ushort fk_to_bf16(float v) {
  const uint bits = as_uint(v);
  return isnan(v) ? (ushort)(bits >> 16 | 0x40) : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
"""


def prelude(source):
    text = PRELUDE
    for name in sorted(source.taken):
        for number, (_, kind, read, write) in enumerate(DTYPES, 1):
            text += (f"#{'if' if number == 1 else 'elif'} FK_{name} == {number}\ntypedef {kind} {name}_t;\n"
                     f"#define FK_GET_{name}(p, i) {read}\n#define FK_PUT_{name}(p, i, v) {write}\n")
        text += f"#else\ntypedef uchar {name}_t;\n#define FK_GET_{name}(p, i) 0\n#define FK_PUT_{name}(p, i, v)\n#endif\n"
    return text + "#line 1\n"


def view(slot):
    return f"{slot.code}.or_null" if slot.optional else slot.code


def argument(source, kind, name, items):
    contract = source.contract
    if kind == "tensor":
        slot = contract.tensors[name]
        return f".pointer({view(slot)} ? {view(slot)}->data : nullptr)" if slot.optional else f".pointer({slot.code}->data)"
    if name in contract.strides():
        slot, axis = contract.strides()[name]
        value = f"({view(slot)} ? {view(slot)}->strides[{axis}] : 0)" if slot.optional else f"{slot.code}->strides[{axis}]"
    else:
        value = items if name == "items" else contract.axes.get(name) or contract.scalars[name].code
    cast = {"long": "value(static_cast<int64_t>", "double": "value(static_cast<double>", "float": "number(static_cast<float>"}[kind]
    return f".{cast}({value}))"


def refusals(source):
    """C++ statements that refuse calls which the kernels cannot take."""
    contract, out = source.contract, ""
    if source.refusal:
        out += f'    throw fk::unsupported{{"{source.refusal.group(1)}"}};\n'
    read = {name for launch in source.launches for _, name in launch.parameters}
    for name, slot in contract.tensors.items():
        if slot.is_list or (name not in source.taken and slot.optional):
            out += f'    if ({view(slot) if not slot.is_list else slot.code + (".or_null" if slot.optional else "")}) ' \
                   f'throw fk::unsupported{{"{name}: the kernels do not take it"}};\n'
            continue
        if slot.strided and name in source.taken:
            for axis in range(len(slot.shape) - 1):
                if f"{name}_stride_{axis}" not in read:
                    out += f'    if ({view(slot)} && !dense({view(slot)}, {axis})) throw fk::unsupported{{"{name}: dense rows only"}};\n'
    for name, slot in contract.scalars.items():
        expressions = {n for launch in source.launches for n in launch.items.names}
        if name not in read | expressions and slot.axis not in read | expressions and slot.default and not slot.axis:
            out += f'    if ({slot.code} != {slot.default}) throw fk::unsupported{{"{name}: the default only"}};\n'
    return out


def plugin_text(source):
    contract = source.contract
    options = "".join(f'    text += " -DFK_{name}=" + std::to_string(dtype_of({view(contract.tensors[name])}));\n'
                      for name in sorted(source.taken))
    body = ""
    names = {**contract.axes, **{name: slot.code for name, slot in contract.scalars.items()}}
    for launch in source.launches:
        items = launch.items.code(names)
        passed = "".join(argument(source, kind, name, items) for kind, name in launch.parameters)
        body += (f'    fk_opencl::Launch(ctx, kSource, options(forward), "{launch.kernel}"){passed}'
                 f".run({items}, {launch.group});\n")
    cases = "".join(f"    case {c}: return {number};\n" for number, (c, *_) in enumerate(DTYPES, 1))
    op = contract.op
    edition = f"#define FK_{op.upper()}_EDITION {contract.edition}\n" if contract.editions > 1 else ""
    return f'''{edition}#include "fk/ops/{op}.h"
#include "launcher.hpp"

namespace {{
const char* const kSource = R"cl_source({prelude(source)}{source.text})cl_source";
[[maybe_unused]] int64_t floor_div(int64_t a, int64_t b) {{ return a / b - (a % b != 0 && (a < 0) != (b < 0)); }}
[[maybe_unused]] int64_t floor_mod(int64_t a, int64_t b) {{ return a - floor_div(a, b) * b; }}
[[maybe_unused]] int64_t cdiv(int64_t a, int64_t b) {{ return (a + b - 1) / b; }}
int dtype_of(const fk_in* view) {{
  if (!view) return 0;
  switch (FK_DTYPE(view)) {{
{cases}    default: return 0;
  }}
}}
int dtype_of(const fk_out* view) {{ return dtype_of(view ? fk_as_in(view) : nullptr); }}
// True if the axis has the stride of a dense tensor.
[[maybe_unused]] bool dense(const fk_in* view, int axis) {{
  int64_t step = 1;
  for (int i = axis + 1; i < view->ndim; ++i) step *= view->shape[i];
  return view->strides[axis] == step;
}}
[[maybe_unused]] bool dense(const fk_out* view, int axis) {{ return dense(fk_as_in(view), axis); }}

struct Op {{
  using op = fk::{op};
  static constexpr fk_claims claims{{FK_END(fk_claims, sm), FK_OPENCL, FK_GRAPH_NEVER, 1, 0, FK_ACCUMULATE_F32, 0, 0, nullptr}};
  const op::init& init;
  const op::weights& weights;
  Op(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {{}}
  static void supports([[maybe_unused]] const op::init& init, [[maybe_unused]] const op::weights& weights,
                       [[maybe_unused]] const op::forward& forward, fk_need&) {{
{refusals(source)}  }}
  void prepare(const op::forward& most, const fk_memory& memory) {{
    fk_opencl::compile(memory, kSource, options(most));
  }}
  std::string options([[maybe_unused]] const op::forward& forward) const {{
    std::string text = "-cl-std=CL1.2";
{options}    return text;
  }}
  void forward(const op::forward& forward, const fk_ctx& ctx) {{
{body}  }}
}};
FK_OP({op}, Op);
}}  // namespace

FK_PLUGIN("{source.plugin}", "{source.version}");
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--header", required=True)
    parser.add_argument("--arch", help="ignored: the device's driver compiles the kernels")
    parser.add_argument("--march", help="ignored, too")
    parser.add_argument("--out", required=True)
    a = parser.parse_args()
    try:
        path = pathlib.Path(a.source)
        read = Source(path.read_text(), path.stem, pathlib.Path(a.header).read_text())
        pathlib.Path(a.out).write_text(plugin_text(read))
    except Problem as problem:
        print(f"{a.source}:{problem.line or 1}: error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
