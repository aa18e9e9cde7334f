#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""templates.py FK_HOST SOURCE_DIR: what `new --lang rust` writes compiles without a warning; the templates are right, also with secret
inputs; the others refuse with their sentence. Fails if a view, a frame or a conversion of the bindings is wrong."""
import json

from environment import candidate, run, source, work

for op in sorted(file.stem for file in (source / "plugin_api/adapters/rust/template").glob("*.rs")):
    assert "plain and correct" in run("new", op, "--lang", "rust", "--name", f"{op}_t")
    said = run("build", f"{op}_t")
    assert f"{op}_t 0.1.0 with {op}" in said and "warning" not in said and "refused" not in said, said
    run("check", f"{op}_t")
    run("bench", f"{op}_t", "--size", "smoke", "--seconds", "0", "--json", work / "verdict.json")
    status = json.loads((work / "verdict.json").read_text())["status"]
    assert status == "correct", f"{op}: {status}"

# Sources of other ops: choices, lists, integers, a communicator, a plan, several editions, a keyword as a name.
for op in ("gelu", "decode_step", "embedding_bag", "self_attention", "fused_moe", "conv2d"):
    assert "refuses every case" in run("new", op, "--lang", "rust", "--name", f"{op}_n")
    said = run("build", f"{op}_n")
    assert f"{op}_n 0.1.0 with {op}" in said and "warning" not in said, said
    assert "forward is not written yet" in run("check", f"{op}_n", code=1)

# A plugin of several languages: two ops in Rust with a shared file, and one in C++.
two = work / "candidates/two"
norm = (source / "plugin_api/adapters/rust/template/rms_norm.rs").read_text().replace("template_rms_norm", "two")
linear = (source / "plugin_api/adapters/rust/template/linear.rs").read_text()
shared = '#[path = "_shared.rs"]\nmod shared;\n'
candidate("two", "rms_norm", shared + norm.replace("3 * init.hidden_size as usize * 4", "shared::bytes(3 * init.hidden_size)"))
candidate("two", "linear", shared + linear.replace('fk::plugin!("template_linear", "0.1.0");\n', "")
          .replace("2 * init.in_features as usize * 4", "shared::bytes(2 * init.in_features)"))
(two / "_shared.rs").write_text("pub fn bytes(floats: i64) -> usize {\n    floats as usize * 4\n}\n")
cpp = (source / "plugin_api/template/ops/gelu.cpp").read_text()
(two / "gelu.cpp").write_text("\n".join(line for line in cpp.splitlines() if "FK_PLUGIN" not in line) + "\n")
(two / "candidate.yaml").write_text("march: x86-64-v2\n" if __import__("platform").machine() == "x86_64" else "")
assert all(op in run("build", "two") for op in ("rms_norm", "linear", "gelu"))
said = run("check", "two")
assert said.count("PASS") == 1 and all(f"  {op} " in said for op in ("rms_norm", "linear", "gelu")), said

# plan() runs once a step, and forward() reads its blob.
folder = candidate("planned", "paged_attention", (source / "plugin_api/adapters/rust/template/paged_attention.rs").read_text()
                   .replace("edition = 2)", "edition = 2, plan)").replace("template_paged_attention", "planned")
                   .replace("..Need::default() })", "plan: 8, ..Need::default() })")
                   .replace("        let init = self.init;\n", "        let init = self.init;\n        let tokens = fk::elements_of::<i64>(ctx.plan)[0];\n"
                            "        assert!(tokens >= i64::from(*args.cu_seqlens.slice::<i32>().last().unwrap()), \"plan has {} tokens\", tokens);\n")
                   .replace("fk::op!", "impl fk::paged_attention::Planner for PagedAttention<'_> {\n    fn plan(&mut self, step: &fk::paged_attention::Plan, "
                            "blob: &mut [u8]) -> Result<usize, Fault> {\n        let tokens = *step.cu_seqlens.slice::<i32>().last().unwrap();\n"
                            "        fk::elements_mut::<i64>(blob)[0] = tokens.into();\n        Ok(8)\n    }\n}\nfk::op!"))
run("build", "planned")
run("check", "planned")
print("templates: they compile and are right")
