# SPDX-License-Identifier: Apache-2.0
"""The C++ text of a plugin's op. The cubins are loaded and launched by the classes of Triton's launcher.hpp."""
import struct

C_DTYPES = {"f64": "FK_F64", "f32": "FK_F32", "f16": "FK_F16", "bf16": "FK_BF16", "f8e4m3": "FK_F8E4M3", "f8e5m2": "FK_F8E5M2",
            "i64": "FK_I64", "i32": "FK_I32", "i8": "FK_I8", "u8": "FK_U8", "bool": "FK_BOOL"}
C_NUMBERS = {"int32": "int32_t", "int64": "int64_t", "float32": "float", "float64": "double"}


def escaped(text):
    return "".join(c if c.isalnum() or c in " .,:;_()[]-+*/<>=`'" else f"\\{ord(c):03o}" for c in text)


def cubin_text(name, cubin):
    words = struct.unpack(f"<{-(-len(cubin) // 8)}Q", cubin + bytes(-len(cubin) % 8))
    return f"alignas(16) constexpr uint64_t {name}[] = {{{','.join(map(hex, words))}}};\n"


def takes_text(source, kernel):
    """The condition on which a kernel takes a call."""
    contract, parts = source.contract, []
    passed = {name for name, _ in kernel.parameters}
    for name, dtype in source.entries[kernel.entry].items():
        slot = contract.tensors[name]
        if slot.is_list:
            continue
        view = f"fk_triton::tensor({slot.code})"
        parts.append(f"{view}.dtype == {C_DTYPES[dtype] if dtype else 0}")
        if dtype and slot.strided:
            parts += [f"{view}.compact({axis})" for axis in range(len(slot.shape) - 1) if f"{name}_stride_{axis}" not in passed]
        if dtype:
            parts.append(f"{view}.reach({len(slot.shape)}) <= INT32_MAX")  # TileLang computes offsets in 32 bits
        if dtype and slot.section != "weights":
            parts.append(f"{view}.aligned")
    variant = source.variants[kernel.variant]
    for name, value in variant.items():
        if name in contract.axes or name in contract.scalars:
            parts.append(f"{contract.axes.get(name) or contract.scalars[name].code} == {value}")
    for name, slot in contract.scalars.items():
        if name not in passed and name not in variant and slot.default and not slot.axis:
            parts.append(f"{slot.code} == {slot.default}")
    parts += [f"fk_triton::in_32_bits({source.value_of(name)})" for name, dtype in kernel.parameters if dtype == "int32"]
    parts.append(f"fk_triton::Grid{{{', '.join(kernel.grid)}}}.fits()")
    return " && ".join(parts)


def plugin_text(source, kernels, arches, shown):
    contract, op = source.contract, source.contract.op
    cubins, tables, takes, calls = "", "", "", ""
    for at, kernel in enumerate(kernels):
        codes = []
        for arch in arches:
            cubins += cubin_text(f"cubin_{at}_{arch}", kernel.cubins[arch])
            codes.append(f"{{cubin_{at}_{arch}, {arch.rstrip('af')}, {int(arch[-1] in 'af')}, {kernel.shared}, {kernel.warps}, 1, 0, 0, 0}}")
        tables += f"constexpr fk_triton::Code codes_{at}[] = {{{', '.join(codes)}}};\n"
        takes += f"  if ({takes_text(source, kernel)}) return {at};\n"
        values = ""
        for i, (name, dtype) in enumerate(kernel.parameters):
            if dtype == "handle":
                values += f"        const void* a{i} = fk_triton::tensor({contract.tensors[name].code}).data;\n"
            else:
                values += f"        {C_NUMBERS[dtype]} a{i} = static_cast<{C_NUMBERS[dtype]}>({source.value_of(name)});\n"
        passed = ", ".join(f"const_cast<void**>(&a{i})" if dtype == "handle" else f"&a{i}" for i, (_, dtype) in enumerate(kernel.parameters))
        calls += f"      case {at}: {{\n{values}        void* all[] = {{{passed}}};\n        kernel_->launch({{{', '.join(kernel.grid)}}}, all, ctx);\n        break;\n      }}\n"
    rows = ", ".join(f'{{"{kernel.name}", codes_{at}, {len(arches)}}}' for at, kernel in enumerate(kernels))
    sms = sorted({int(arch.rstrip("af")) for arch in arches})
    plugin = f'\nFK_PLUGIN("{source.plugin[0]}", "{source.plugin[1]}");\n' if source.plugin else ""
    edition = f"#define FK_{op.upper()}_EDITION {contract.edition}\n" if contract.editions > 1 else ""
    refusal = f'    throw fk::unsupported{{"{escaped(source.refuse)}"}};\n' if source.refuse else ""
    return f"""// Made from {shown}; do not edit.
{edition}#include "fk/ops/{op}.h"
#include "../triton/launcher.hpp"

namespace {{

{cubins}{tables}constexpr fk_triton::Kernel kKernels[] = {{{rows}}};
constexpr int32_t kSm[] = {{{', '.join(map(str, sms))}}};

// The number of the kernel that takes a call; -1: none. It depends on values which never change in an instance, and on maxima.
int taker(const fk_{op}_init& init, const fk_{op}_weights& weights, const fk_{op}_forward& forward) {{
  (void)init, (void)weights, (void)forward;
{takes}  return -1;
}}

struct TileOp {{
  using op = fk::{op};
  static constexpr fk_claims claims{{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, {source.claims[0]}, {source.claims[1]},
                                    FK_ACCUMULATE_F32, 0, {len(sms)}, kSm}};
  static void supports(const op::init& init, const op::weights& weights, const op::forward& forward, fk_need&) {{
{refusal}    if (taker(init, weights, forward) < 0)
      throw fk::unsupported{{"{escaped(str(shown))}: no entry of DTYPES and VARIANTS takes these dtypes, sizes and settings"}};
  }}
  TileOp(const fk_host&, const op::init& i, const op::weights& w) : init_(i), weights_(w) {{}}
  void prepare(const op::forward& most, const fk_memory&) {{
    int device = 0, major = 0, minor = 0;
    fk_triton::need(cudaGetDevice(&device), "cudaGetDevice");
    fk_triton::need(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "the device");
    fk_triton::need(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "the device");
    taker_ = taker(init_, weights_, most);
    if (taker_ < 0) throw std::runtime_error("supports() refused this case");
    kernel_ = std::make_unique<fk_triton::Loaded>(kKernels[taker_], major * 10 + minor);
  }}
  void forward(const op::forward& forward, const fk_ctx& ctx) {{
    const op::init& init = init_;
    const op::weights& weights = weights_;
    (void)init, (void)weights, (void)forward;
    switch (taker_) {{
{calls}    }}
  }}

 private:
  const op::init& init_;
  const op::weights& weights_;
  int taker_ = -1;
  std::unique_ptr<fk_triton::Loaded> kernel_;
}};
FK_OP({op}, TileOp);

}}  // namespace
{plugin}"""
