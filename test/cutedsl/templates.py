#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""templates.py FK_HOST SOURCE_DIR: what `new --lang cutedsl` writes compiles for several compute capabilities without a GPU, links, and keeps
the lint. The tensors that forward() passes have the layout of the headers that CuTe DSL exported. No value is computed here."""
import json, re, subprocess

from environment import env, host, python, run, source, work

adapter = source / "plugin_api/adapters/cutedsl"
for op in sorted(file.stem for file in (adapter / "template").glob("*.py")):
    assert "plain, and its values are untested" in run("new", op, "--lang", "cutedsl", "--name", f"{op}_t")
    said = run("build", f"{op}_t")
    assert f"{op}_t 0.1.0 with {op}" in said and "warning" not in said and "refused" not in said, said
    assert "it runs on CUDA devices" in run("check", f"{op}_t", code=1)
# Other ops get a source that compiles and refuses, or a sentence.
for op in [row["op"] for row in json.loads(run("list", "ops", "--json"))["rows"]]:
    done = subprocess.run([host, "new", op, "--lang", "cutedsl", "--name", f"{op}_n"], env=env, capture_output=True, text=True)
    file = work / f"candidates/{op}_n/{op}.py"
    if done.returncode:
        assert done.returncode == 2 and "use another language" in done.stderr and not file.parent.exists(), done.stderr
    else:
        compile(file.read_text(), file, "exec")
    if op in ("gelu", "layer_norm"):
        assert f"{op}_n 0.1.0 with {op}" in run("build", f"{op}_n", "--arch", "80 90a 100a")

# Layout: each exported struct has the size of the struct that launcher.hpp makes, with its members in the same places.
folder = work / "made"
folder.mkdir()
header = folder / "paged_attention.h"
header.write_text(subprocess.run([host, "show", "paged_attention", "--header"], capture_output=True, text=True, check=True).stdout)
subprocess.run([python, adapter / "build.py", adapter / "template/paged_attention.py", "--header", header, "--out", folder / "out.cpp"], env=env, check=True)
exported = (folder / "out.made/fk_cute_paged_attention_0_90a.h").read_text()
found = re.findall(r"int32_t dynamic_shapes\[(\d+)\];(?:\s*int64_t dynamic_strides\[(\d+)\];)?\s*\} \w+_Tensor_(\w+)_t;", exported)
assert {name for _, _, name in found} == {"q", "k_cache", "v_cache", "block_tables", "cu_seqlens", "seq_lens", "sinks", "out"}, found
passed = (folder / "out.cpp").read_text()
for shapes, strides, name in found:
    assert f"auto {name}_ = fk_cute::tensor<{shapes}>(" in passed and int(strides or 0) == int(shapes) - 1, (name, shapes, strides)
order = re.search(r"void \*args\[\d+\] = \{\s*(.*?)\s*\};", exported, re.S).group(1)
order = [word.strip(" &\n") for word in order.split(",")]
assert re.search(r"void\* all\[\] = \{" + ", ".join(f"&{word}_?" for word in order[:-1]) + ", &status\\};", passed), order
print("templates: they compile and link")
