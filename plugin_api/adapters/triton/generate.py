# SPDX-License-Identifier: Apache-2.0
"""The C++ text of a plugin's op: tables for launcher.hpp."""
import struct

from contract import Problem
from expression import Expression
from source import BYTES

C_DTYPES = {"f64": "FK_F64", "f32": "FK_F32", "f16": "FK_F16", "bf16": "FK_BF16", "f8e4m3": "FK_F8E4M3", "f8e5m2": "FK_F8E5M2",
            "i64": "FK_I64", "i32": "FK_I32", "i8": "FK_I8", "u8": "FK_U8", "bool": "FK_BOOL"}
C_NUMBERS = {"i32": "int32_t", "i64": "int64_t", "fp32": "float", "fp64": "double"}


class Names:
    """C++ text of what expressions and arguments read from a call, and which of it never changes."""

    def __init__(self, source):
        contract = source.contract
        self.text = {name: f"c.{name}" for name in (*contract.axes, *contract.scalars)}
        for name, (slot, axis) in contract.strides().items():
            self.text[name] = f"c.{slot.name}.stride({axis})"
        self.fixed = contract.fixed | set(contract.strides()) | set(contract.tensors)


def conditions(source, names, variant, dtypes):
    """The conditions of a variant as C++ texts: (fixed, varying)."""
    fixed, varying = [], []
    known = variant.constexprs | source.bytes_of(dtypes)

    def add(text, read):
        (varying if any(name in names.text and name not in names.fixed for name in read) else fixed).append(text)

    for part in variant.when.parts():
        if not set(part.names) <= set(known) - set(names.text):  # otherwise it holds: source.pairs()
            add(part.code(known | names.text), part.names)
    for name, value in variant.constexprs.items():  # a constexpr with the name of an axis or a scalar fixes it
        if name in names.text:
            add(f"{names.text[name]} == {Expression(value).code({})}", [name])
    for name in variant.divisible:
        slot = source.contract.tensors.get(name)
        if slot and slot.section != "weights" and dtypes[name]:
            add(f"c.{name}.aligned", [name])
        elif name in names.text:
            add(f"{names.text[name]} % 16 == 0", [name])
    read = source.named() | set().union(*[v.constexprs for v in source.variants])
    for name, slot in source.contract.scalars.items():
        if name not in read and slot.axis not in read and slot.default and not slot.axis:
            add(f"c.{name} == {slot.default}", [name])
    taken = {name for launch in source.launches for name in launch.parameters}
    for name, slot in source.contract.tensors.items():
        if name in taken and slot.strided and dtypes[name]:
            fixed.extend(f"c.{name}.compact({axis})" for axis in range(len(slot.shape) - 1)
                         if f"{name}_stride_{axis}" not in taken)
    return fixed, varying


def function(kind, name, body, arguments="const call& c"):
    unused = "" if "c." in body or "call" not in arguments else "(void)c, "
    return f"{kind} {name}({arguments}) {{ {unused and '(void)c; '}{body} }}\n"


def all_of(parts):
    return "return " + (" && ".join(parts) or "true") + ";"


def grid_text(source, names, launch, variant, dtypes):
    sizes = [size.code(names.text | variant.constexprs | source.bytes_of(dtypes)) for size in launch.grid]
    return "fk_triton::Grid{" + ", ".join(sizes + ["1"] * (3 - len(sizes))) + "}"


def run_text(source, names, variant, dtypes, kernels):
    """Body of a variant's launches, and of its size of scratch."""
    need, body, at = "int64_t bytes = 0; ", "", 0
    values = names.text | variant.constexprs | source.bytes_of(dtypes)
    if source.scratch or any(kernel_scratch for _, kernel_scratch in kernels):
        body += "  char* scratch = static_cast<char*>(ctx.scratch);\n"
    for name, (dtype, count) in source.scratch.items():
        size = f"fk_triton::up_to_256({count.code(values)} * {BYTES[dtype]})"
        body += f"  void* {name} = scratch;\n  scratch += {size};\n"
        need += f"bytes += {size}; "
    for launch, (kernel, global_scratch) in zip(source.launches, kernels):
        signature = source.signature(launch, dtypes)
        body += "  {\n    const auto grid = " + grid_text(source, names, launch, variant, dtypes) + ";\n"
        passed = []
        for name, kind in signature.items():
            if kind == "constexpr":
                continue
            if kind[0] == "*":
                value = name if name in source.scratch else f"c.{name}.data"
                body += f"    const void* a{at} = {value};\n"
            else:
                body += f"    {C_NUMBERS[kind]} a{at} = static_cast<{C_NUMBERS[kind]}>({names.text[name]});\n"
            passed.append(f"const_cast<void**>(&a{at})" if kind[0] == "*" else f"&a{at}")
            at += 1
        body += f"    void *global_scratch = {'scratch' if global_scratch else 'nullptr'}, *profile_scratch = nullptr;\n"
        if global_scratch:
            size = f"all_kernels[{kernel}].global_scratch({grid_text(source, names, launch, variant, dtypes)})"
            body += f"    scratch += all_kernels[{kernel}].global_scratch(grid);\n"
            need += f"bytes += {size}; "
        passed += ["&global_scratch", "&profile_scratch"]
        body += f"    void* arguments[] = {{{', '.join(passed)}}};\n"
        body += f"    k[{kernel}]->launch(grid, arguments, ctx);\n  }}\n"
    return need + "return bytes;", body


def cubin_text(name, cubin):
    padded = cubin + bytes(-len(cubin) % 8)
    words = struct.unpack(f"<{len(padded) // 8}Q", padded)
    lines = (",".join(hex(word) for word in words[at:at + 8]) for at in range(0, len(words), 8))
    return f"alignas(16) constexpr uint64_t {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def kernel_tables(jobs, made, sms):
    """Text of all cubins, and the kernel number of each (entry of DTYPES, variant, launch)."""
    cubins, text, rows, numbers, known = {}, "", [], {}, {}
    for (c, v, at) in dict.fromkeys(key[:3] for key in jobs):
        codes = tuple(made[jobs[c, v, at, sm]] for sm in sms)
        key = tuple((code.cubin, code.name) for code in codes)
        if key not in known:
            number = known[key] = len(rows)
            items = []
            for sm, code in zip(sms, codes):
                if code.cubin not in cubins:
                    cubins[code.cubin] = f"cubin_{len(cubins)}"
                    text += cubin_text(cubins[code.cubin], code.cubin)
                exact = int(code.target.endswith(("a", "f")))
                items.append(f"{{{cubins[code.cubin]}, {sm}, {exact}, {code.shared}, {code.num_warps}, {code.num_ctas}, "
                             f"{int(code.cooperative)}, {int(code.dependent)}, {code.global_scratch}}}")
            text += f"constexpr fk_triton::Code codes_{number}[] = {{{', '.join(items)}}};\n"
            rows.append((f"{{\"{codes[0].name}\", codes_{number}, {len(sms)}}}", any(code.global_scratch for code in codes)))
        numbers[c, v, at] = (known[key], rows[known[key]][1])
    return text + f"constexpr fk_triton::Kernel all_kernels[] = {{{', '.join(row for row, _ in rows)}}};\n", numbers


def call_text(contract):
    integers = [*contract.axes, *[n for n, s in contract.scalars.items() if s.kind != "float"]]
    floats = [n for n, s in contract.scalars.items() if s.kind == "float"]
    tensors = [n for n, s in contract.tensors.items() if not s.is_list]
    fields = [(integers, "int64_t"), (floats, "double"), (tensors, "fk_triton::Tensor")]
    text = "struct call {\n" + "".join(f"  {kind} {', '.join(names)};\n" for names, kind in fields if names) + "};\n"
    text += (f"call read_call(const fk_{contract.op}_init& init, const fk_{contract.op}_weights& weights,\n"
             f"          const fk_{contract.op}_forward& forward) {{\n  (void)init, (void)weights, (void)forward;\n  call c{{}};\n")
    for name in [*integers, *floats]:
        text += f"  c.{name} = {contract.axes.get(name) or contract.scalars[name].code};\n"
    for name in tensors:
        text += f"  c.{name} = fk_triton::tensor({contract.tensors[name].code});\n"
    return text + "  return c;\n}\n"


def plugin_text(source, jobs, made, sms, shown):
    """The whole file."""
    contract, names = source.contract, Names(source)
    op = contract.op
    tables, numbers = kernel_tables(jobs, made, sms)
    variants, functions, pairs = [], "", list(source.pairs())
    for c, dtypes in enumerate(source.combinations):
        tests = [f"c.{name}.dtype == {C_DTYPES[dtype] if dtype else 0}" for name, dtype in dtypes.items()]
        functions += function("bool", f"dtypes_{c}", all_of(tests))
        always = False
        for v in [v for c2, v in pairs if c2 == c]:
            variant = source.variants[v]
            fixed, varying = conditions(source, names, variant, dtypes)
            always |= not varying
            used = [numbers[c, v, at] for at in range(len(source.launches))]
            need, body = run_text(source, names, variant, dtypes, used)
            fits = [f"{grid_text(source, names, launch, variant, dtypes)}.fits()" for launch in source.launches]
            fits += [f"fk_triton::in_32_bits({names.text[name]})" for name in dict.fromkeys(
                name for launch in source.launches for name, kind in source.signature(launch, dtypes).items() if kind == "i32")]
            tag = f"{c}_{v}"
            functions += function("bool", f"fixed_{tag}", all_of(fixed))
            if varying:
                functions += function("bool", f"varying_{tag}", all_of(varying))
            functions += function("bool", f"fits_{tag}", all_of(fits)) + function("int64_t", f"scratch_{tag}", need)
            functions += f"void run_{tag}(const fk_triton::Kernels& k, const call& c, const fk_ctx& ctx) {{\n  (void)c;\n{body}}}\n"
            functions += f"constexpr int32_t kernels_{tag}[] = {{{', '.join(str(number) for number, _ in used)}}};\n"
            variants.append(f"{{dtypes_{c}, fixed_{tag}, {f'varying_{tag}' if varying else 'nullptr'}, fits_{tag}, scratch_{tag}, "
                            f"run_{tag}, kernels_{tag}, {len(used)}}}")
        if not always:
            read = {n for v in source.variants for n in [*v.when.names, *v.divisible, *v.constexprs]}
            changing = ", ".join(sorted(n for n in read if n in names.text and n not in names.fixed))
            shown_types = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items() if dtype)
            raise Problem((f"every variant has a condition on {changing}, which changes from call to call: one has to take all calls"
                           if changing else "no variant takes these dtypes") + f" ({shown_types})", source.variants[-1].line)
    claims = source.claims
    refusal = f'"{escaped(source.refuse)}"' if source.refuse else "nullptr"
    plugin = f'\nFK_PLUGIN("{source.plugin[0]}", "{source.plugin[1]}");\n' if source.plugin else ""
    edition = f"#define FK_{op.upper()}_EDITION {contract.edition}\n" if contract.editions > 1 else ""
    return f"""// Made from {shown}; do not edit.
{edition}#include "fk/ops/{op}.h"
#include "launcher.hpp"

namespace {{

{tables}
{call_text(contract)}
{functions}
constexpr int32_t kSm[] = {{{', '.join(map(str, sms))}}};

struct Plan {{
  using op = fk::{op};
  using Call = call;
  static constexpr fk_claims claims{{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, {claims['deterministic']},
                                    {claims['batch_invariant']}, FK_ACCUMULATE_F32, 0, {len(sms)}, kSm}};
  static constexpr const char* refusal = {refusal};
  static constexpr const char* no_dtypes = "{shown}: no entry of DTYPES has these dtypes and optional tensors";
  static constexpr const char* no_variant = "{shown}: no entry of VARIANTS takes these sizes, strides and settings";
  static constexpr const auto& kernels = all_kernels;
  static constexpr fk_triton::Variant<call> variants[] = {{
      {(',' + chr(10) + '      ').join(variants)}}};
  static constexpr auto read = read_call;
}};
using triton_{op} = fk_triton::Op<Plan>;
FK_OP({op}, triton_{op});

}}  // namespace
{plugin}"""


def escaped(text):
    return "".join(c if c.isalnum() or c in " .,:;_()[]-+*/<>=`'" else f"\\{ord(c):03o}" for c in text)
