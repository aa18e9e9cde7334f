#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mistakes.py FK_HOST SOURCE_DIR: each mistake in a Rust source is told with file, line and the nearest right thing; no panic leaves the
plugin. Fails if a panic ends the worker, or if its words and its line are lost."""
import json

from environment import candidate, run, source, work

GOOD = (source / "plugin_api/adapters/rust/template/rms_norm.rs").read_text()


def line_of(text, word):
    return 1 + text[:text.index(word)].count("\n")


def built(text, expected, op="rms_norm", code=1, **more):
    candidate("m", op, text)
    said = " ".join(run("build", "m", code=code, **more).split())
    assert expected in said, f"expected: {expected}\nsaid: {said[-1500:]}"
    (work / "candidates/m" / f"{op}.rs").unlink()


# The compiler's errors, and those of the marks.
for old, new, expected in (
        ("self.init.eps", "self.init.epps", f"rms_norm.rs:{line_of(GOOD, 'self.init.eps')}:63: error: no field `epps` on type `&'a Init` [E0609]"),
        ("args.residual", "args.residul", "error: no field `residul`"),
        ("store(args.out, at, row);", "store(args.x, at, row);", f"rms_norm.rs:{line_of(GOOD, 'store(args.out')}:19: error: mismatched types [E0308]"),
        ("use fk::rms_norm::", "use fk::rms_nrm::", "rms_norm.rs:4:9: error: unresolved import `fk::rms_nrm` [E0432]"),
        ("fk::op!(rms_norm, RmsNorm);", "fk::op!(linear, RmsNorm);", f"rms_norm.rs:{line_of(GOOD, 'fk::op!')}: error: fk::op! names the op `linear`, but the file has the "
         "name of `rms_norm`"),
        ("RmsNorm);", "RmsNorm, plann);", "error: fk::op! does not know `plann`; did you mean `plan`?"),
        ("RmsNorm);", "RmsNorm, plan);", "the trait bound `RmsNorm<'_>: Planner` is not satisfied"),
        ("fk::op!(rms_norm, RmsNorm);", "// fk::op!(rms_norm, RmsNorm);", "error: there are 0 calls of fk::op!, and one is expected: fk::op!(rms_norm, KERNEL);"),
        ("fk::op!(rms_norm, RmsNorm);", "fk::op!(rms_norm, RmsNorm);\nfk::op!(rms_norm, RmsNorm);", f"rms_norm.rs:{line_of(GOOD, 'fk::op!') + 1}: error: there are 2 calls")):
    assert GOOD.count(old) >= 1, old
    built(GOOD.replace(old, new, 1), expected)
attention = (source / "plugin_api/adapters/rust/template/paged_attention.rs").read_text()
built(attention.replace(", edition = 2", ""), "error: op `paged_attention` has 2 editions: say which one the kernel knows, as in fk::op!(paged_attention, "
      "PagedAttention, edition = 2)", "paged_attention")
built(attention.replace("edition = 2", "edition = 3"), "op `paged_attention` has no edition 3; its newest is 2", "paged_attention")
built(GOOD.replace('fk::plugin!("template_rms_norm", "0.1.0");', ""), "ops, but no FK_PLUGIN(name, version)", code=2)
built(GOOD, "its name is that of no op (did you mean `rms_norm`?", "rms_nrm", code=2)
built(GOOD, "`no_rustc` cannot be started (the language needs it: on the PATH, or named by RUSTC)", code=3, RUSTC="no_rustc")
# A source reads nothing beyond its folder.
built(GOOD + 'const _: &str = include_str!("/etc/hostname");\n', "couldn't read `/etc/hostname`: Permission denied")
candidate("m", "rms_norm", GOOD.replace("self.init.eps", "self.init.epps"))
document = json.loads(run("build", "m", "--json", code=1))
assert document["error"].startswith(f"rms_norm.rs:{line_of(GOOD, 'self.init.eps')}:"), document["error"]


# Panics and errors at run time: each function, the thread of a helper, and too long a text.
def checked(text, *expected):
    candidate("p", "rms_norm", text)
    run("build", "p")
    said = " ".join(run("check", "p", "--case", "smoke0", code=1).split())
    for words in expected:
        assert words in said, f"expected: {words}\nsaid: {said[-1500:]}"
    assert "ended" not in said and "crash" not in said and "signal" not in said, said


forward = "        let width = self.init.hidden_size as usize;\n"
line = line_of(GOOD, forward)
checked(GOOD.replace(forward, '        panic!("width {}", self.init.hidden_size);\n' + "        #[allow(unreachable_code)]\n" + forward), f"forward: panic at rms_norm.rs:{line}: width ")
checked(GOOD.replace(forward, forward + "        let none: &[i32] = args.x.slice();\n        let _ = none;\n"),
        f"panic at rms_norm.rs:{line + 1}: the tensor has elements of ", "and i32 was asked for")
checked(GOOD.replace(forward, forward + "        load(args.x, args.x.numel(), &mut [0.0]);\n"), "out of range for slice of length")
checked(GOOD.replace(forward, forward + '        return Err(Fault::failed("no luck"));\n' + "        #[allow(unreachable_code)]\n").replace(
    "        if width == 0 {", "        { let _ = 0; }\n        if width == 0 {"), "forward: no luck")
checked(GOOD.replace(forward, forward + '        std::thread::scope(|scope| { scope.spawn(|| panic!("in a helper")); });\n'), "in a helper")
checked(GOOD.replace(forward, forward + '        panic!("{}", "é".repeat(400));\n' + "        #[allow(unreachable_code)]\n" + "        { let _ = 0; }\n"), "éééé")
checked(GOOD.replace("        Ok(RmsNorm {", '        if init.eps >= 0.0 { panic!("no instance") }\n        Ok(RmsNorm {'), "panic at rms_norm.rs", "no instance")
checked(GOOD.replace("        if !max.x", '        if init.eps >= 0.0 { panic!("no answer") }\n        if !max.x'), "panic at rms_norm.rs", "no answer")
print("mistakes: each is told, and no panic leaves the plugin")
