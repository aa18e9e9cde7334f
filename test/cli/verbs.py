#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verbs.py FK_HOST SOURCE_DIR NEEDY: the command line as a user meets it: every verb, and what it says of bad input. NEEDY is a plugin that cannot be
loaded."""
import json, os, pathlib, resource, shutil, sys

from host import Host

source, needy = pathlib.Path(sys.argv[2]), sys.argv[3]
host = Host(sys.argv[1])
work, run = host.work, host.run

# What there is.
run(["--help"], 0, "run", "check", "verify", "list")
version = run(["--version"], 0, "fk-host")
# Before anything is built, the script answers from a copy of the help. A missing line: build/fk-host --help > docs/help.txt
verbs = [line.strip() for line in run(["--help"], 0).split("Subcommands:")[1].splitlines() if line.strip()]
unbuilt = {"program": source / "scripts" / "fk-host", "FK_BUILD_DIR": work / "unbuilt"}
run(["--help"], 0, *verbs, **unbuilt)
run(["--version"], 0, version, **unbuilt)
assert not (work / "unbuilt").exists()
run(["list", "ops"], 0, "rms_norm", "paged_attention", "decoder_layer", "cpu", "reference")
run(["list", "models"], 0, "mixtral", "MixtralForCausalLM")
run(["list", "models", "--map"], 0, "moe_decoder_layer")
run(["list", "plugins"], 0, "reference", "baseline")
run(["list", "workloads"], 0, "fixed_batch_32")
run(["list", "devices"], 0, "cpu")
types = run(["coverage", "--names", "--missing"], 0, "model types of transformers", "run whole", "types lack only", "left out: mimo_v2_flash: ")
whole = next(line for line in types.splitlines() if line.startswith("  run whole: ")).removeprefix("  run whole: ").split(", ")
assert {"llama", "gpt2", "falcon", "gemma3_text"} <= set(whole) and f"{len(whole)} run whole" in types, types
# README has the figures of the command.
count, library, ops_exist = types.split()[0], types.split()[5], types.split(" call nothing but ")[0].split()[-1]
readme = (source / "README.md").read_text()
assert f"{len(whole)} of the {count} model types of transformers {library.rsplit('.', 1)[0]} run whole; {ops_exist} more call nothing but ops" in readme, types
(work / "types.json").write_text(json.dumps({"transformers": "0", "types": [{"type": "gpt2", "ops": ["linear"]}, {"type": "new", "ops": ["linear"]},
                                                                         {"type": "odd", "ops": ["linear", "no_such_op"]}]}))
run(["coverage", work / "types.json", "--missing"], 0, "3 model types of transformers 0", "1 run whole", "1 call nothing but", "1 others",
    "1 types lack only no_such_op")
# Configurations: one of a known model, and one of a model that nobody has described.
golden = source / "test" / "golden" / "gpt2"
run(["import", golden, "--no-scenario"], 0, "gpt2: GPT-2", "a decoder described by", "keys: all", "tensors: all", "full size in bf16", "h100",
    absent=["scenario:"])
config = json.loads((golden / "config.json").read_text())
(work / "config.json").write_text(json.dumps({**config, "model_type": "gpt9", "architectures": ["GPT9LMHeadModel"], "foreign_key": 1}))
run(["import", work / "config.json", "--no-scenario"], 2, "unknown: ", "GPT9LMHeadModel", "nearest model: gpt2", "foreign_key", "gpt2.yaml")
(work / "config.json").write_text(json.dumps({**config, "foreign_key": 1}))
run(["import", work / "config.json", "--no-scenario"], 2, "foreign_key", "remove it if it changes no answer")
# A class with another head, a model inside of another one, and a model like none.
(work / "config.json").write_text(json.dumps({**config, "architectures": ["GPT2ForTokenClassification"]}))
run(["import", work / "config.json", "--no-scenario"], 2, "GPT2ForTokenClassification", "nearest model: gpt2, for the same model_type",
    '"architectures": ["GPT2LMHeadModel"]')
(work / "config.json").write_text(json.dumps({"model_type": "gpt9_vl", "architectures": ["GPT9ForConditionalGeneration"],
                                              "text_config": config, "vision_config": {"model_type": "eye9", "eyes": 2}}))
run(["import", work / "config.json", "--no-scenario"], 2, "its part `text_config` is a model which runs here", "--part text_config",
    "its part `vision_config` is unknown, too")
run(["import", work / "config.json", "--no-scenario", "--part", "text_config"], 0, "gpt2: GPT-2")
run(["import", work / "config.json", "--no-scenario", "--part", "vision_config"], 2, "no model here has keys like these")
run(["import", work / "config.json", "--no-scenario", "--part", "text_confg"], 2, "did you mean `text_config`?")
# A model without a scenario of its own runs, and a configuration in place of a scenario names `import`.
run(["graph", "starcoder2", "--profile", "tiny"], 0)
run(["run", work / "config.json"], 2, "fk-host import")
# A description without sizes says where they come from.
(work / "mine" / "models" / "llm").mkdir(parents=True)
(work / "mine" / "models" / "llm" / "sizeless.yaml").write_text(
    "arch: sizeless\ndomain: llm\nsummary: no sizes\narchitectures: [Sizeless]\ncorrectness: logits\n"
    "decoder: {norms: {before_attention: a, before_mlp: b}}\n")
run(["run", "sizeless", "--device", "cpu"], 2, "hidden_size", "fk-host import CONFIG", FK_REGISTRY_PATH=work / "mine")
# A folder's name may have dots. The scenario belongs to the home, where a name finds it.
home, dotted = work / "home", work / "Small-2.5-0.5B"
shutil.copytree(source / "scenarios", home / "scenarios"), dotted.mkdir()
(home / "registry").symlink_to(source / "registry")
(dotted / "config.json").write_text(json.dumps(config))
run(["import", dotted], 0, f"scenario: {home}/scenarios/Small-2.5-0.5B.yaml", "fk-host run Small-2.5-0.5B", FK_HOME=home)
assert json.loads(run(["list", "ops", "--json"], 0))["schema"] == "fk-host.list/1"
run(["show", "rms_norm"], 0, "typedef struct fk_rms_norm_forward", "Mirrors vllm", "fk-host new rms_norm")
run(["show", "rms_norm", "--header"], 0, "FK_RMS_NORM_OP(NAME, CLAIMS)")
run(["show", "mixtral"], 0, "tiny profile")
for op in json.loads(run(["list", "ops", "--json"], 0))["rows"]:  # prompt-sized; a whole layer has 40 tensors and more
    page = run(["show", op["op"]], 0, "Rules", "->strides[i]", "Cases", "FK_OP(" + op["op"])
    assert len(page) < (9000 if op["level"] == 1 else 13200), op["op"]
run(["show", "gated_mlp"], 0, ", silu_and_mul, linear", "host.child()")
run(["show", "paged_attention"], 0, "int64_t plan(", "decode: B=4")
rows = json.loads(run(["list", "plugins", "--json"], 0))["rows"]
assert any(row["plugin"] == "reference" and "linear" in row["ops"] and row["path"].endswith(".so") for row in rows)
rows = json.loads(run(["list", "models", "--map", "--json"], 0))["rows"]
assert {"model": "mixtral", "phase": "decode", "level": 2, "op": "moe_block", "calls": 32} in rows
# An older name of a verb, or of an option, works too, and the help does not list the verb's.
assert run(["capture", "--help"], 0) == run(["record", "--help"], 0, "fk-host record [OPTIONS] SCENARIO")
run(["--help"], 0, absent=["\n  capture "])
for option in ("--recorded", "--captured"):
    run(["check", "cpu", option, work], 2, "there is no capture.json")
run(["graph", "mixtral"], 0, "digraph", "moe_grouped_gemm\\nmodel.layers.0.block_sparse_moe", "\\ncpu",
    absent=["not asked"])
run(["graph", "mixtral", "--level", "2"], 0, "moe_block\\nmodel.layers.1.block_sparse_moe\\nexpanded",
    absent=["topk_softmax"])
run(["graph", "llama3.1", "--format", "mermaid", "--level", "3", "--phase", "prefill"], 0, "flowchart", "decoder_layer")

# A wrong word is met with the nearest right one.
run(["lst"], 2, "did you mean `list`")
run(["list", "opps"], 2, "did you mean `ops`")
run(["show", "rms_nrom"], 2, "did you mean `rms_norm`")
run(["show", "store_kvcache"], 2, "kv_cache_append")
run(["graph", "mixtrl"], 2, "mixtral")
run(["graph", "mixtral", "--phase", "decod"], 2, "did you mean `decode`")
run(["graph", "mixtral", "--format", "svg"], 2, "dot or mermaid")
run(["graph", "mixtral", "--level", "5"], 2, "levels are 1 to 4")
run(["graph", "mixtral", "--profile", "tny"], 2, "tiny")
run(["graph", "mixtral", "--candidate", "mine"], 2, "there is no candidate `mine`")
run(["graph", "mixtral", "--device", "cupu"], 2, "did you mean `cpu`")
run(["graph", "default"], 2, "it is a list of scenarios")
run(["list", "ops", "--map"], 2, "--map goes with")
run(["watch"], 2, "either a scenario to run or --check")
run(["watch", "mixtrl"], 2, "did you mean `mixtral`")
run(["bench", "linear", "--provider", "cpuu"], 2, "did you mean `cpu`")
run(["bench", "linear", "--size", "huge"], 2, "smoke, ci, full or range")
run(["check", "cpuu"], 2, "did you mean `cpu`")
# Bad input says so, instead of blaming a candidate or the machine.
for words in (["check", "cpu", "--op", "add"], ["bench", "add"], ["bench", "cpu", "--no-store"], ["run", "smoke"]):
    run([*words, "--device", "cupu"], 2, "did you mean `cpu`")
    run([*words, "--device", "cpu:1"], 2, "there is no device `cpu:1`")
for words in (["check", "cpu", "--op", "add"], ["bench", "cpu", "--no-store"], ["run", "smoke"], ["verify", source / "test/golden/llama"]):
    run([*words, "--patience", "0"], 2, "--patience")
run(["bench", "cpu", "--family", "ordinry"], 2, "did you mean `ordinary`")
run(["run", "smoke", "--provider", "linear=cpuu"], 2, "did you mean `cpu`")
run(["new", "rms_norm", "--name", "cpu"], 2, "`cpu` is a baseline")
run(["check", "cpu", "--op", "rms_nrom"], 2, "rms_norm")
run(["check", "cpu", "--op", "rms_norm", "--op", "l2_nrom"], 2, "did you mean `l2_norm`")
run(["check", "cpu", "--op", "rms_norm", "--case", "smoke9"], 2, "did you mean `smoke", absent=["PASS"])
run(["check", "cpu", "--case", "ci0"], 2, "smoke case")
one = json.loads(run(["check", "cpu", "--op", "rms_norm", "--op", "add", "--case", "smoke4", "--quick", "--json"], 0))
assert {(row["op"], row["case"]) for row in one["rows"]} == {("rms_norm", "smoke4")}, one["rows"]
written, varied = (json.loads(run(["check", "cpu", "--op", "rms_norm", "--json", *words], 0)) for words in (["--quick"], []))
assert written["quick"] and not varied["quick"] and 0 < len(written["rows"]) < len(varied["rows"]), [len(r["rows"]) for r in (written, varied)]
assert {row["op"] for row in json.loads(run(["check", "reference", "--op", "add", "--op", "concat", "--json"], 0))["rows"]} == {"add", "concat"}
run(["check", work / "nothing.so"], 2, "there is no such file")
run(["bench", "liner"], 2, "did you mean `linear`")
run(["bench", "referense"], 2, "did you mean `reference`")
run(["bench", "linear", "--seconds", "-1"], 2, "less than nothing")
run(["check", "cpu", "--size", "huge"], 2, "smoke, ci, full or range")
# Numbers that would become others, and NaN, which is no number to wait for.
for verb in (["check", "cpu"], ["run", "smoke"], ["verify", "x"], ["bench", "cpu"]):
    run([*verb, "--patience", "nan"], 2, "nan is no number")
for words, part in (["--time-limit", "nan"], "nan is no number"), (["--time-limit", "-5"], "--time-limit"), (["--seed", "-3"], "-3 is no whole number from 0 on"):
    run(["run", "smoke", *words], 2, part)
for seed, part in ("-1", "from 0 on"), ("9" * 23, "too large a number"), ("1.5", "no whole number"), ("", "no whole number"):
    run(["check", "cpu", "--seed", seed], 2, part)
for words in (["show"], ["new"], ["build"], ["check"], ["graph"], ["list"], ["list", "ops", "more"],
              ["run", "smoke", "--sed", "1"]):
    run(words, 2, "--help")
for verb in ("bench", "build", "check", "graph", "list", "new", "run", "show", "verify", "watch"):
    run([verb, "--help"], 0, "Usage", "Options")
run(["run", work / "none.yaml"], 2)

# A report goes to what was named: into a pipe, to where a link points, and not in its place.
os.mkfifo(work / "fifo")
end = os.open(work / "fifo", os.O_RDONLY | os.O_NONBLOCK)
(work / "real").write_text("old")
(work / "link").symlink_to("real")
for target in ("fifo", "link", "new"):
    run(["list", "devices", "--json", work / target], 0)
assert json.loads(os.read(end, 1 << 16))["schema"] == "fk-host.list/1" and (work / "fifo").is_fifo()
assert (work / "link").is_symlink() and (work / "real").read_text() == (work / "new").read_text() != "old"
os.close(end)

# Names are anybody's: what is printed of them is one line, without escape sequences.
(work / "names").mkdir()
forged = work / "names/evil\nPASS (forged)\x1b[31m.so"
forged.write_text("hello")
for words, code in (["check", forged], 2), (["bench", forged, "--no-store", "--size", "smoke"], 1), (["list", "plugins"], 0), (["run", "smoke"], 0):
    run([*words, *(["--device", "cpu"] if words[0] != "list" else [])], code, "evil?PASS" if words[0] == "list" else "evil\\x0aPASS", absent=["\nPASS", "\x1b"],
        FK_PLUGIN_PATH=work / "names" if len(words) == 2 and words[1] != forged else "")

# Files that are no plugins, folders that are not there or not writable.
(work / "text.so").write_text("hello")
run(["check", work / "text.so"], 2, "is not an ELF file")
(work / "cut.so").write_bytes(pathlib.Path(host.program).with_name("plugins").joinpath("reference.so").read_bytes()[:5000])
run(["check", work / "cut.so"], 2, "is truncated")
shutil.copy(work / "cut.so", work / "candidates")
run(["check", "cut"], 2, "is truncated", absent=["cut.so: " + str(work)])
(work / "candidates/cut.so").unlink()
run(["check", str(work) + "/"], 2, "is not a regular file")
run(["check", host.program], 2, "is not a shared object")
for name, value, words, part in [
        ("FK_PLUGIN_PATH", work / "nowhere", ["list", "plugins"], "does not exist"),
        ("FK_REGISTRY_PATH", work / "nowhere", ["list", "ops"], "is no folder"),
        ("FK_HOME", work, ["list", "ops"], "registry/ops"),
        ("FK_CANDIDATES", "/proc/none", ["new", "rms_norm", "--name", "mine"], "cannot be made"),
        ("FK_CANDIDATES", work / "text.so", ["new", "rms_norm", "--name", "mine"], "cannot be made"),
        ("FK_CANDIDATES", work / "text.so", ["watch", "--check"], "is not a folder")]:
    run(words, 2, part, **{name: value})

# YAML: file, line, what was expected.
text = (source / "scenarios/smoke.yaml").read_text().replace("scenario: smoke", "scenario: mine")
shutil.copytree(source / "scenarios/workloads", work / "workloads")
for old, new, parts in [("model: llama", "model: llma", ["llama"]), ("seed: 1", "sed: 1", ["sed", "seed"]),
                        ("seed: 1", "seed: one", ["integer"]), ("run: [smoke", "run: [smok", ["smoke"]),
                        ("seed: 1", "limits: {chunk_tokens: 100000000000}", ["must be at most"])]:
    bad = work / "mine.yaml"
    bad.write_text(text.replace(old, new, 1))
    run(["run", bad], 2, "mine.yaml:", *parts)

# A scenario whose answers are all alike: a candidate that writes zeros would be right. And what JSON cannot hold is not left out.
alike = (source / "scenarios/smoke.yaml").read_text().replace("scenario: smoke", "scenario: alike")
(work / "alike.yaml").write_text(alike.replace("change: {num_hidden_layers: 2}", "change: {num_hidden_layers: 2, rms_norm_eps: 1e300}"))
run(["run", work / "alike.yaml", "--device", "cpu"], 3, "untestable", "zeros would pass")
for number in (".nan", ".inf", "-.inf"):
    (work / "alike.yaml").write_text(alike.replace("layers: 2}", "layers: 2, rms_norm_eps: " + number + "}"))
    run(["run", work / "alike.yaml", "--device", "cpu"], 2, "alike.yaml:13:", number + "` is no number to compute with")

# One that nobody has asked for may be missing; a name and a summary are one line.
(work / "alike.yaml").write_text(alike[:alike.index("  full:")].replace("summary: ", 'summary: "x\\n\\e[31mPASS" # '))
run(["run", work / "alike.yaml", "--device", "cpu"], 0, "there is no profile `full`", "x\\x0a\\x1b[31mPASS", "No candidate", absent=["\x1b"])

# Workloads that would take all memory or never end.
(work / "alike.yaml").write_text(alike.replace("workloads: llm", "workloads: odd"))
os.mkfifo(work / "workloads/fifo")
for keys, part in (("requests: 1000000000000, prompt: 5, output: 2", "at most 1000000"), ("requests: 2, prompt: 9223372036854775807, output: 9223372036854775807", "at most 2147483648"),
                   ("requests: 2, lengths: fifo", "is not a regular file"), ("requests: 2, lengths: nowhere", "no such file")):
    (work / "workloads/odd.yaml").write_text("workloads:\n  smoke: {kind: throughput, " + keys + "}\n")
    run(["run", work / "alike.yaml", "--device", "cpu"], 2, part)

# Caches that are larger than what is free are refused before they are filled.
bad.write_text(text.replace("max_context: 64", "max_context: 100000000"))
run(["run", bad], 3, " for caches", " of memory are free", "smaller limits")

# A candidate: scaffold, build, check, run.
run(["new", "rms_norm", "--name", "mine"], 0, "mine/rms_norm.cpp")
run(["new", "rms_norm", "--name", "mine"], 2, "it is there already")
for name in ("../up", "a b", "1st", "x" * 49, ""):
    run(["new", "rms_norm", "--name", name], 2, "is not a name")
run(["new", "rms_norm", "--name", "other", "--lang", "cobol"], 2, "known: c, cpp, cu")
run(["new", "rms_nrom", "--name", "other"], 2, "did you mean `rms_norm`")
assert "fk-host check mine" in (work / "candidates/mine/README.md").read_text()
run(["check", "mine"], 2, "has not been built", "fk-host build mine")
run(["build", "mine"], 0, "mine 0.1.0 with rms_norm")
run(["build", work / "candidates/mine"], 0, "mine 0.1.0 with rms_norm")
run(["build", "mien"], 2, "did you mean `mine`")
run(["build", work / "nothing"], 2, "there is no such folder")
(work / "candidates/empty").mkdir()
run(["build", "empty"], 2, "there is no .c, .cpp or .cu file")
run(["build", "mine"], 2, "cannot be started", CXX="no_such_compiler")
run(["build", "mine"], 3, "cannot be made", FK_CACHE="/proc/none")
run(["graph", "llama3.1", "--candidate", "mine"], 0, "rms_norm\\nmodel.norm\\nmine")
run(["list", "plugins"], 0, "mine", "candidate")
run(["check", "mine"], 0, "PASS")
seeds = {json.loads(run(["check", "mine", "--json"], 0, '"schema": "fk-host.check/1"'))["seed"] for _ in range(3)}
assert len(seeds) == 3, f"inputs are random: {seeds}"
again = [json.loads(run(["check", "mine", "--json", "--seed", max(seeds)], 0)) for _ in range(2)]
assert again[0]["seed"] == again[1]["seed"] == max(seeds) and again[0]["rows"] == again[1]["rows"], "a seed repeats a check"
# What the machine refuses is not a candidate's fault: a folder for copies, room on a disk, addresses.
tiny = ["run", source / "scenarios/llama3.1.yaml", "--workload", "single_request"]
judging = [["check", "mine"], ["bench", "mine", "--size", "smoke", "--no-store"], tiny]
for words in judging:
    run(words, 3, "/proc/none/plugins: cannot be made", absent=["FAIL"], FK_CACHE="/proc/none")
    run(words, 3, "File too large", absent=["FAIL"], limit=(resource.RLIMIT_FSIZE, 5000), FK_CACHE=work / "full")
    if b"__asan_init" not in pathlib.Path(host.program).read_bytes():  # which takes terabytes of them
        run(words, 3, "ulimit -v unlimited", absent=["FAIL"], limit=(resource.RLIMIT_AS, 600 << 20))
# Nor is a reference that cannot be loaded: without it nothing is known to be right.
(work / "other/plugins").mkdir(parents=True)
shutil.copy(needy, work / "other/plugins/reference.so")
run(["check", "mine"], 0, "PASS", FK_PLUGIN_PATH=work / "other/plugins")  # there is another one
shutil.copy(host.program, work / "other/fk-host")
run(["check", "mine"], 3, "no answers can be judged", "libfk_absent.so", program=work / "other/fk-host", FK_HOME=source)
run(["bench", "rms_norm", "--size", "smoke", "--seconds", "0.02"], 0, "mine", "reference")
run(["run", source / "scenarios/llama3.1.yaml", "--workload", "single_request"], 0, "mine", "correct")
report = json.loads(run(["run", source / "scenarios/smoke.yaml", "--json"], 0))
assert report["schema"].startswith("fk-host.run/"), report["schema"]
run(["new", "topk_softmax", "--name", "later"], 0)
run(["build", "later"], 0)
run(["check", "later"], 1, "forward is not written yet")
# Who goes on with the plugin of an older build is told so, by whatever name it is asked for.
broken = work / "candidates/mine/rms_norm.cpp"
sound, old = broken.read_text(), "it was built from sources"
quick = ["--size", "smoke", "--seconds", "0", "--no-store"]
asked = [["check", "mine"], ["bench", "mine", *quick], ["bench", work / "candidates/mine/mine.so", *quick]]
for words in (*asked, tiny):
    run(words, 0, absent=[old])
broken.write_text(sound.replace("const float scale", "const flaot scale"))
run(["build", "mine"], 1, "flaot")
for words in (*asked, tiny):
    run(words, 0, old, "`fk-host build mine`")
for words in asked:
    assert old in json.loads(run([*words, "--json"], 0))["stale"], words
broken.write_text(sound)
run(["check", "mine"], 0, absent=[old])
broken.write_text(sound.replace("const float scale", "const flaot scale"))
(work / "candidates/garbage.so").write_bytes(b"no ELF file at all")
run(["list", "plugins"], 0, "garbage", "ELF")

host.end()
