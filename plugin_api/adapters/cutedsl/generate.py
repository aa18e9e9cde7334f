# SPDX-License-Identifier: Apache-2.0
"""The C++ text of a plugin's op: the table of exported code for launcher.hpp, and the calls."""
C_DTYPES = {"f64": "FK_F64", "f32": "FK_F32", "f16": "FK_F16", "bf16": "FK_BF16", "f8e4m3": "FK_F8E4M3", "f8e5m2": "FK_F8E5M2",
            "i64": "FK_I64", "i32": "FK_I32", "i8": "FK_I8", "u8": "FK_U8"}


def escaped(text):
    return "".join(c if c.isalnum() or c in " .,:;_()[]-+*/<>=`'" else f"\\{ord(c):03o}" for c in text)


def plugin_text(source, codes, shown):
    contract, op = source.contract, source.contract.op
    entries = source.entries
    declared = "".join(f"void {c.function}(void **, int32_t);\nvoid _mlir_{c.prefix}_cuda_init(void **);\n"
                       f"void _mlir_{c.prefix}_cuda_load_to_device(void **);\n" for c in codes)
    rows = ",\n    ".join(f"{{{c.entry}, {c.arch.rstrip('af')}, {int(c.arch[-1] in 'af')}, _mlir_{c.prefix}_cuda_init, "
                          f"_mlir_{c.prefix}_cuda_load_to_device}}" for c in codes)
    sms = sorted({int(c.arch.rstrip("af")) for c in codes})
    tests = []
    for at, entry in enumerate(entries):
        same = " && ".join(f"fk_cute::dtype({contract.tensors[name].code}) == {C_DTYPES[dtype] if dtype else 0}"
                           for name, dtype in entry.items() if not contract.tensors[name].is_list) or "true"
        tests.append(f"  if ({same}) return {at};\n")
    needs = []
    for name, slot in contract.tensors.items():
        if name in source.parameters:
            needs.append((f"fk_cute::small({slot.code})", f"{name}: sizes below 2147483648 only"))
    for name, slot in contract.scalars.items():
        if name not in source.parameters and slot.axis not in source.parameters and slot.default and not slot.axis:
            needs.append((f"{slot.code} == {slot.default}", f"{name}: {slot.default} only"))
    for name in source.parameters:
        code = contract.axes.get(name) or (contract.scalars[name].code if name in contract.scalars and contract.scalars[name].kind != "float" else "")
        if code:
            needs.append((f"fk_cute::in_32_bits({code})", f"{name}: below 2147483648 only"))
    needs += [(f"{contract.axes[axis]} <= {most}", f"{axis}: at most {most}") for axis, most in source.limits.items()]
    checks = "".join(f'    if (!({code})) throw fk::unsupported{{"{escaped(why)}"}};\n' for code, why in needs)
    calls = ""
    for at, code in enumerate(codes):
        entry, values, passed = entries[code.entry], "", []
        for name in source.parameters:
            slot = contract.tensors.get(name)
            if name == "stream":
                passed.append("&stream")
            elif slot:
                if entry[name] is None:
                    continue
                view = slot.code + (".or_null" if slot.optional else "")
                values += f"        auto {name}_ = fk_cute::tensor<{len(slot.shape)}>({view});\n"
                passed.append(f"&{name}_")
            else:
                scalar = contract.scalars.get(name)
                kind = "float" if scalar and scalar.kind == "float" else "int32_t"
                values += f"        auto {name}_ = static_cast<{kind}>({contract.axes.get(name) or scalar.code});\n"
                passed.append(f"&{name}_")
        calls += f"      case {at}: {{\n{values}        void* all[] = {{{', '.join(passed)}, &status}};\n        {code.function}(all, {len(passed) + 1});\n        break;\n      }}\n"
    empty = " || ".join(f"{slot.code}->shape[{i}] == 0" for name, slot in contract.tensors.items() if slot.role in ("out", "inout") and not slot.optional and not slot.is_list
                        for i in range(len(slot.shape))) or "false"
    claims = source.claims
    plugin = f'\nFK_PLUGIN("{source.plugin[0]}", "{source.plugin[1]}");\n' if source.plugin else ""
    edition = f"#define FK_{op.upper()}_EDITION {contract.edition}\n" if contract.editions > 1 else ""
    refusal = f'    throw fk::unsupported{{"{escaped(source.refuse)}"}};\n' if source.refuse else ""
    return f"""// Made from {shown}; do not edit.
{edition}#include "fk/ops/{op}.h"
#include "launcher.hpp"

extern "C" {{
{declared}}}

namespace {{

constexpr fk_cute::Code kCodes[] = {{
    {rows}}};
constexpr int32_t kSm[] = {{{', '.join(map(str, sms))}}};
std::once_flag loaded[{len(codes)}];

int entry_of(const fk_{op}_init& init, const fk_{op}_weights& weights, const fk_{op}_forward& forward) {{
  (void)init, (void)weights, (void)forward;
{''.join(tests)}  return -1;
}}

struct CuteOp {{
  using op = fk::{op};
  static constexpr fk_claims claims{{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, {claims['deterministic']},
                                    {claims['batch_invariant']}, FK_ACCUMULATE_F32, 0, {len(sms)}, kSm}};
  const op::init& init;
  const op::weights& weights;
  int code = -1;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& forward, fk_need&) {{
{refusal}    if (entry_of(init, weights, forward) < 0)
      throw fk::unsupported{{"{escaped(str(shown))}: no entry of DTYPES has these dtypes and optional tensors"}};
{checks}  }}
  CuteOp(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {{}}
  void prepare(const op::forward& most, const fk_memory&) {{
    code = fk_cute::chosen(kCodes, entry_of(init, weights, most));
    fk_cute::load(kCodes[code], loaded[code]);
  }}
  void forward(const op::forward& forward, const fk_ctx& ctx) {{
    if ({empty}) return;
    auto stream = static_cast<cudaStream_t>(ctx.stream);
    int32_t status = 0;
    switch (code) {{
{calls}    }}
    fk_cute::need(static_cast<cudaError_t>(status), "a launch");
  }}
}};
FK_OP({op}, CuteOp);

}}  // namespace
{plugin}"""
