#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bindings.py FK_HOST SOURCE_DIR: the bindings of all ops compile, and each struct and constant is as the C compiler has it. Conversions of
bf16 and f16 agree with fk/cpp/floats.hpp for every pattern of 16 bits, and for a sample of floats."""
import json, pathlib, re, subprocess, sys

from environment import header, run, rustc, source, work

adapter = source / "plugin_api/adapters/rust"
sys.path.insert(0, str(adapter))
import bindings  # noqa: E402

ops = [row["op"] for row in json.loads(run("list", "ops", "--json"))["rows"]]
crate = work / "crate"
crate.mkdir()
headers = {op: header(op) for op in ops}
editions = {op: max([int(n) for n in re.findall(r"since=(\d+)", file.read_text())], default=1) for op, file in headers.items()}
for op, file in headers.items():
    (crate / f"{op}.rs").write_text(bindings.op_text(file, editions[op]))
first = ops[0]
(crate / "abi.rs").write_text(bindings.abi_text(headers[first], editions[first]))
(crate / "lib.rs").write_text(bindings.crate_text(ops))


def compiled(*words):
    done = subprocess.run([rustc, "--edition", "2021", *map(str, words)], capture_output=True, text=True, cwd=work)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr[-3000:]


compiled("--crate-type", "rlib", "--crate-name", "fk", "-o", crate / "libfk.rlib", crate / "lib.rs")

# One program in each language prints every size, offset and constant.
text = bindings.preprocessed(headers[first], editions[first])
structs = [(name, [field for field, _ in bindings.members(body)]) for kind, name, body in bindings.structs(text)
           if body and kind == "struct" and not name.startswith(f"fk_{first}_")]
assert {"fk_in", "fk_claims", "fk_host", "fk_comm", "fk_ctx"} <= {name for name, _ in structs}, structs
constants = [name for name, _ in bindings.constants(text, bindings.preprocessed(headers[first], editions[first], macros=True)) if not name.startswith(f"FK_{first.upper()}_")]
assert {"FK_F64", "FK_BF16", "FK_GRAPH_ALWAYS", "FK_UNSUPPORTED"} <= set(constants), constants
c = f'#include <stdio.h>\n#define FK_{first.upper()}_EDITION {editions[first]}\n#include "fk/ops/{first}.h"\nint main(void) {{\n'
rust = "use std::mem::{align_of, size_of, MaybeUninit};\nuse std::ptr::addr_of;\nfn main() {\n    let _ = align_of::<u8>();\n"
for name, fields in structs:
    c += f'  printf("{name} %zu\\n", sizeof({name}));\n'
    rust += f'    println!("{name} {{}}", size_of::<fk::abi::{name}>());\n'
    for field in fields:
        c += f'  printf("{name}.{field} %zu\\n", offsetof({name}, {field}));\n'
        rust += (f"    let one = MaybeUninit::<fk::abi::{name}>::uninit();\n"
                 f'    println!("{name}.{field} {{}}", unsafe {{ addr_of!((*one.as_ptr()).{bindings.name_of(field)}) as usize - one.as_ptr() as usize }});\n')
for name in constants:
    c += f'  printf("{name} %d\\n", {name});\n'
    rust += f'    println!("{name} {{}}", fk::abi::{name[3:]});\n'
(work / "layout.c").write_text(c + "}\n")
(work / "layout.rs").write_text(rust + "}\n")
subprocess.run(["cc", "-std=c11", "-w", "-I", work / "headers", "-I", source / "plugin_api", work / "layout.c", "-o", work / "in_c"], check=True)
compiled("--extern", f"fk={crate / 'libfk.rlib'}", "-o", work / "in_rust", work / "layout.rs")
said = [subprocess.run([work / name], capture_output=True, text=True, check=True).stdout.splitlines() for name in ("in_c", "in_rust")]
assert said[0] == said[1], [pair for pair in zip(*said) if pair[0] != pair[1]][:10]

# Conversions.
(work / "floats.cpp").write_text('''#include <cstdio>
#include "fk/cpp/floats.hpp"
int main() {
  for (uint32_t i = 0; i < 65536; ++i) {
    float a = fk::from_bf16(uint16_t(i)), b = fk::from_f16(uint16_t(i));
    uint32_t x, y, bits = i * 65537u ^ i * 40503u << 3;
    float c;
    std::memcpy(&x, &a, 4), std::memcpy(&y, &b, 4), std::memcpy(&c, &bits, 4);
    if (a != a) x = 1;
    if (b != b) y = 1;
    std::printf("%x %x %x %x\\n", x, y, c != c ? 1 : fk::to_bf16(c), c != c ? 1 : fk::to_f16(c));
  }
}
''')
(work / "floats.rs").write_text('''use fk::{Bf16, Half};
fn main() {
    for i in 0..65536u32 {
        let (a, b) = (f32::from(Bf16(i as u16)), f32::from(Half(i as u16)));
        let c = f32::from_bits(i.wrapping_mul(65537) ^ i.wrapping_mul(40503) << 3);
        let bits = |x: f32| if x.is_nan() { 1 } else { x.to_bits() };
        let (d, e) = if c.is_nan() { (1, 1) } else { (Bf16::from(c).0, Half::from(c).0) };
        println!("{:x} {:x} {:x} {:x}", bits(a), bits(b), d, e);
    }
}
''')
subprocess.run(["c++", "-std=c++17", "-I", source / "plugin_api", work / "floats.cpp", "-o", work / "floats_c"], check=True)
compiled("--extern", f"fk={crate / 'libfk.rlib'}", "-o", work / "floats_rust", work / "floats.rs")
said = [subprocess.run([work / name], capture_output=True, text=True, check=True).stdout.splitlines() for name in ("floats_c", "floats_rust")]
assert len(said[0]) == 65536 and said[0] == said[1], [pair for pair in zip(*said) if pair[0] != pair[1]][:10]
print(f"bindings: {len(ops)} ops, {len(structs)} structs and {len(constants)} constants as in C")
