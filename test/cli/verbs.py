#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verbs.py FK_HOST SOURCE_DIR: the command line as a user meets it: every verb, and what it says of bad input."""
import json, os, pathlib, shutil, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))
(work / "candidates").mkdir()
passed = failed = 0


def run(words, code, *parts, absent=()):
    """Runs fk-host; the exit code and every part of the output (both streams) must be as expected."""
    global passed, failed
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=120)
    text = done.stdout + done.stderr
    wrong = [p for p in parts if p not in text] + [p for p in absent if p in text]
    if done.returncode == code and not wrong:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: fk-host {' '.join(map(str, words))}\n  exit {done.returncode}, expected {code}; missing or present: {wrong}\n{text[:1500]}")
    return done.stdout


# What there is.
run(["--help"], 0, "run", "check", "verify", "list")
run(["--version"], 0, "fk-host")
run(["list", "ops"], 0, "rms_norm", "paged_attention", "decoder_layer", "cpu, reference")
run(["list", "models"], 0, "mixtral", "MixtralForCausalLM")
run(["list", "models", "--map"], 0, "moe_decoder_layer")
run(["list", "plugins"], 0, "reference", "baseline")
run(["list", "workloads"], 0, "fixed_batch_32")
run(["list", "devices"], 0, "cpu")
assert json.loads(run(["list", "ops", "--json"], 0))["schema"] == "fk-host.list/1"
run(["show", "rms_norm"], 0, "typedef struct fk_rms_norm_forward", "Mirrors vllm", "fk-host new rms_norm")
run(["show", "rms_norm", "--header"], 0, "FK_RMS_NORM_OP(NAME, CLAIMS)")
run(["show", "mixtral"], 0, "tiny profile")
assert len(run(["show", "moe_decoder_layer"], 0)) < 12000
run(["graph", "mixtral"], 0, "digraph", "moe_grouped_gemm")
run(["graph", "llama3.1", "--format", "mermaid", "--level", "3", "--phase", "prefill"], 0, "flowchart", "decoder_layer")

# A wrong word is met with the nearest right one.
run(["lst"], 2, "did you mean `list`")
run(["list", "opps"], 2, "did you mean `ops`")
run(["show", "rms_nrom"], 2, "did you mean `rms_norm`")
run(["show", "store_kvcache"], 2, "kv_cache_append")
run(["graph", "mixtrl"], 2, "mixtral")
run(["graph", "mixtral", "--phase", "decod"], 2, "did you mean `decode`")
run(["check", "cpuu"], 2, "did you mean `cpu`")
run(["check", "cpu", "--op", "rms_nrom"], 2, "rms_norm")
run(["check", work / "nothing.so"], 2, "there is no such file")
run(["bench", "liner"], 2, "did you mean `linear`")
run(["run", work / "none.yaml"], 2)
run(["verify", work / "none"], 2, "is not a folder")

# YAML: file, line, what was expected.
text = (source / "scenarios/mixtral.yaml").read_text()
shutil.copytree(source / "scenarios/workloads", work / "workloads")
for old, new, parts in [("model: mixtral", "model: mixtrl", ["mixtral"]), ("seed: 1", "sed: 1", ["sed", "seed"]),
                        ("seed: 1", "seed: one", ["integer"]), ("run: [mixed", "run: [mixd", ["mixed"])]:
    bad = work / "mixtral.yaml"
    bad.write_text(text.replace(old, new, 1))
    run(["run", bad], 2, "mixtral.yaml:", *parts)

# A candidate: scaffold, build, check, run.
run(["new", "rms_norm", "--name", "mine"], 0, "mine/rms_norm.cpp")
run(["new", "rms_norm", "--name", "mine"], 2, "it is there already")
run(["new", "rms_norm", "--name", "../up"], 2, "is not a name")
run(["build", "mine"], 0, "mine 0.1.0 with rms_norm")
run(["build", "mien"], 2, "did you mean `mine`")
run(["check", "mine"], 0, "PASS")
run(["check", "mine", "--json"], 0, '"schema": "fk-host.check/1"')
run(["bench", "rms_norm", "--size", "smoke", "--seconds", "0.02"], 0, "mine", "reference")
run(["run", source / "scenarios/llama3.1.yaml", "--workload", "single_request"], 0, "mine", "correct")
report = json.loads(run(["run", source / "scenarios/smoke.yaml", "--json"], 0))
assert report["schema"].startswith("fk-host.run/"), report["schema"]
run(["new", "linear", "--name", "later"], 0)
run(["build", "later"], 0)
run(["check", "later"], 1, "forward is not written yet")
broken = work / "candidates/mine/rms_norm.cpp"
broken.write_text(broken.read_text().replace("const float scale", "const flaot scale"))
run(["build", "mine"], 1, "flaot")
(work / "candidates/garbage.so").write_bytes(b"no ELF file at all")
run(["list", "plugins"], 0, "garbage", "ELF")

shutil.rmtree(work)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
