#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""templates.py FK_HOST SOURCE_DIR: what `new --lang triton` writes compiles, and keeps the lint."""
import json, subprocess

from environment import env, host, run, source, work

# Templates compile, and a plugin passes the lint. Those that are complete say so.
for op in [file.stem for file in sorted((source / "plugin_api/adapters/triton/template").glob("*.py"))]:
    assert "plain and correct" in run("new", op, "--lang", "triton", "--name", f"{op}_t")
    said = run("build", f"{op}_t")
    assert f"{op}_t 0.1.0 with {op}" in said and "warning" not in said and "refused" not in said, said
    assert "it runs on CUDA devices" in run("check", f"{op}_t", code=1)
# Other ops get a source that refuses; the ones here have optional tensors, lists, and an axis named as a scalar.
built = ("gelu", "layer_norm", "decode_step", "embedding_bag")
for op in [row["op"] for row in json.loads(run("list", "ops", "--json"))["rows"]]:
    done = subprocess.run([host, "new", op, "--lang", "triton", "--name", f"{op}_n"], env=env, capture_output=True, text=True)
    file = work / f"candidates/{op}_n/{op}.py"
    if done.returncode:
        assert done.returncode == 2 and "use another language" in done.stderr and not file.parent.exists(), done.stderr
    else:
        compile(file.read_text(), file, "exec")
    if op in built:
        assert "refuses every case" in done.stdout and f"{op}_n 0.1.0 with {op}" in run("build", f"{op}_n", "--arch", "sm_80,90a,100a")
print("templates: they compile")
