#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""loops.py WHAT FK_HOST SOURCE_DIR WRONG_PLUGIN: programs of scripts/loops. `formats` needs recorded files and fk-host alone; flashinfer,
openevolve, pytest and kernelbench (torch) use these packages in the interpreter FK_LOOPS_PYTHON. Exit code 77: the package is not installed. Fails when a right
candidate counts as wrong, a wrong one as right, or a package refuses our documents."""
import atexit, json, os, pathlib, shutil, subprocess, sys, tempfile

what, host = sys.argv[1:3]
source, wrong = map(pathlib.Path, sys.argv[3:5])
loops, recorded = source / "scripts/loops", source / "test/loops/recorded"
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
python = os.environ.get("FK_LOOPS_PYTHON") or sys.executable
env = dict(os.environ, FK_HOST=host, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), PYTHONPATH=str(loops))
norm = source / "candidates/example_rms_norm/rms_norm.cpp"


def need(module):
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
        print(f"{module} is not installed for {python}")
        sys.exit(77)


def run(*words, code=0, **more):
    done = subprocess.run([*map(str, words)], env=env | more, capture_output=True, text=True, timeout=500, cwd=work)
    assert done.returncode == code, (words, done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout + done.stderr


def traces(*words, code=0):
    return run(sys.executable, loops / "flashinfer_traces.py", *words, code=code)


def export(verdict, root):
    return traces("export", verdict, "--source", norm, "--reference", recorded / "rms_norm.py", "--author", "ann", root)


def altered(name, change):
    verdict = json.loads((recorded / "verdict.json").read_text())
    change(verdict)
    (work / name).write_text(json.dumps(verdict))
    return work / name


def fail(verdict):
    case = verdict["cases"][0]
    verdict["status"] = case["status"] = "wrong"
    case["timings"] = []
    case["errors"] |= {"got": 3.0, "want": 1.0}


name = "rms_norm_c64_f32_weight_residual"
if what == "formats":
    root, out = work / "set", work / "out"
    said = export(recorded / "verdict.json", root)
    assert "1 traces" in said and said.count("left out") == 2, said  # two cases have other inputs than the reference
    export(recorded / "verdict.json", root)  # again: nothing twice
    export(altered("wrong.json", fail), root)
    definition = json.loads((root / f"definitions/rms_norm/{name}.json").read_text())
    assert list(definition["inputs"]) == ["weight", "x", "residual", "eps"] and list(definition["outputs"]) == ["residual_out", "out"], definition
    lines = [json.loads(line) for line in (root / f"traces/rms_norm/{name}.jsonl").read_text().splitlines()]
    assert [line["evaluation"]["status"] for line in lines] == ["PASSED", "INCORRECT_NUMERICAL"], lines
    times = json.loads((recorded / "verdict.json").read_text())["cases"][0]["timings"][0]
    passed, incorrect = (line["evaluation"] for line in lines)
    assert passed["performance"]["latency_ms"] == times["candidate"]["cold"]["median_s"] * 1e3 and passed["performance"]["speedup_factor"] == times["ratio"]["value"]
    assert incorrect["correctness"]["max_absolute_error"] == 2 and "performance" not in incorrect
    assert lines[0]["workload"]["axes"] == {"T": 5} and lines[0]["workload"]["inputs"]["eps"] == {"type": "scalar", "value": 1e-5}
    # A case without a reference of these inputs, a verdict without times: words, and no trace.
    assert "no case with times" in traces("export", altered("none.json", lambda v: v["cases"].clear()), "--source", norm, "--reference", recorded / "rms_norm.py", root, code=1)
    # Back: the workload is a recorded case, which `bench` judges; the solution is a candidate, which `build` compiles.
    said = traces("import", root, name, "--op", "rms_norm", out)
    assert "1 cases" in said and "1 candidates" in said and "PASSED" in said, said
    candidate = next(path for path in out.iterdir() if path.is_dir())
    assert (candidate / "rms_norm.cpp").read_text() == norm.read_text()
    run(host, "build", candidate)
    run(host, "bench", candidate / (candidate.name + ".so"), "--recorded", out, "--seconds", "0", "--json", work / "back.json")
    back = json.loads((work / "back.json").read_text())
    ours = [case for case in back["cases"] if case["case"] == "workload.0"]
    assert back["status"] == "correct" and len(ours) == 1 and "T=5" in ours[0]["sizes"] and not ours[0]["beside"], ours
    # Another data set, whose names differ; errors name the nearest right thing.
    other = definition | {"name": "norm_h64", "inputs": {"hidden": definition["inputs"]["x"], "weight": definition["inputs"]["weight"]},
                          "outputs": {"y": definition["outputs"]["out"]}}
    (root / "definitions/norm_h64.json").write_text(json.dumps(other))
    work_load = {"axes": {"T": 3}, "inputs": {"hidden": {"type": "random"}, "weight": {"type": "random"}}, "uuid": "u"}
    (root / "workloads/norm_h64.jsonl").write_text(json.dumps({"definition": "norm_h64", "workload": work_load}) + "\n")
    assert "has no `hidden`, but weight, x" in traces("import", root, "norm_h64", "--op", "rms_norm", work / "o2", code=1)
    traces("import", root, "norm_h64", "--op", "rms_norm", "--names", "hidden=x,y=out", "--init", "eps=1e-5", work / "o2")
    case = json.loads((work / "o2/capture.json").read_text())["cases"][0]
    assert case["with"] == ["weight"] and case["axes"] == {"T": 3} and case["init"] == {"hidden_size": "64", "eps": "1e-5"}, case
    assert "no op `rms_nrm`" in traces("import", root, name, "--op", "rms_nrm", work / "o3", code=1)

elif what == "flashinfer":
    need("flashinfer_bench.data")
    export(recorded / "verdict.json", work / "set")
    export(altered("wrong.json", fail), work / "set")
    run(python, "-c", f"""
from flashinfer_bench.data import EvaluationStatus, TraceSet
found = TraceSet.from_path({str(work / 'set')!r})
assert list(found.definitions) == [{name!r}] and len(found.workloads[{name!r}]) == 1
states = [one.evaluation.status for one in found.traces[{name!r}]]
assert states == [EvaluationStatus.PASSED, EvaluationStatus.INCORRECT_NUMERICAL], states
assert [one.spec.language.value for one in found.solutions[{name!r}]] == ["cpp"]
shapes = found.definitions[{name!r}].get_input_shapes({{"T": 5}})
assert [tuple(shape) for shape in (shapes.values() if isinstance(shapes, dict) else shapes) if shape is not None] == [(64,), (5, 64), (5, 64)], shapes
import torch
scope = {{}}
exec(found.definitions[{name!r}].reference, scope)
x = torch.randn(5, 64)
summed, out = scope["run"](torch.ones(64), x, x.clone(), 0.0)
assert torch.allclose(summed, 2 * x) and torch.allclose(out.pow(2).mean(-1), torch.ones(5), atol=1e-4)
from flashinfer_bench.data import Trace, Definition, Solution, save_json_file, save_jsonl_file
import pathlib
mine = pathlib.Path({str(work / 'theirs')!r})
for folder in ("definitions", "solutions", "workloads", "traces"):
    (mine / folder).mkdir(parents=True)
save_json_file(found.definitions[{name!r}], mine / "definitions/a.json")
save_json_file(found.solutions[{name!r}][0], mine / "solutions/a.json")
save_jsonl_file(found.workloads[{name!r}], mine / "workloads/a.jsonl")
save_jsonl_file(found.traces[{name!r}], mine / "traces/a.jsonl")
""")
    said = traces("import", work / "theirs", name, "--op", "rms_norm", work / "out")  # as the package writes them
    assert "1 cases" in said and "1 candidates" in said and "PASSED" in said, said

elif what == "openevolve":
    need("openevolve")
    (work / "slow.cpp").write_text(norm.read_text())
    (work / "bad.cpp").write_text(norm.read_text().replace("sum / float(width)", "sum / float(width - 1)"))
    (work / "broken.cpp").write_text("int x = ;\n")
    (work / "loop.py").write_text(f"""
import asyncio, json, pathlib, sys
from openevolve.config import EvaluatorConfig
from openevolve.evaluator import Evaluator
config = EvaluatorConfig(cascade_evaluation=True, max_retries=0, timeout=400)
evaluator = Evaluator(config, {str(loops / 'openevolve_evaluator.py')!r}, suffix=".cpp")
out = {{}}
for name in ("slow", "bad", "broken"):
    metrics = asyncio.run(evaluator.evaluate_program(pathlib.Path(name + ".cpp").read_text(), name))
    out[name] = [metrics, {{k: v for k, v in (evaluator.get_pending_artifacts(name) or {{}}).items() if isinstance(v, str)}}]
pathlib.Path("out.json").write_text(json.dumps(out))
""")
    run(python, "loop.py", FK_LOOP_LANGUAGE="cpp", FK_LOOP_SIZE="smoke", FK_LOOP_SECONDS="0.05", FK_LOOP_OPS="rms_norm")
    found = json.loads((work / "out.json").read_text())
    metrics, artifacts = found["slow"]
    assert metrics["right"] == 1 and 0 < metrics["combined_score"] == metrics["speed_low"] <= metrics["speed"] <= metrics["speed_high"], metrics
    assert artifacts["status"] in ("faster", "same", "slower", "cannot_tell") and artifacts["receipt"], artifacts
    metrics, artifacts = found["bad"]
    assert metrics["right"] == 0 and metrics["combined_score"] == 0 and "speed" not in metrics, metrics
    assert artifacts["status"] == "wrong" and "A factor is missing" in artifacts["feedback"], artifacts
    metrics, artifacts = found["broken"]
    assert metrics["right"] == 0 and artifacts["status"] == "compile_error" and "expected" in artifacts["feedback"] + artifacts.get("log", ""), artifacts

elif what == "pytest":
    need("pytest")
    tests = work / "tests"
    for part, change in (("mine", lambda text: text), ("bad", lambda text: text.replace("sum / float(width)", "sum / float(width - 1)"))):
        (tests / part).mkdir(parents=True)
        (tests / part / "norm.cpp").write_text(change(norm.read_text()))
        (tests / part / "candidate.yaml").write_text("")
    (tests / "test_mine.py").write_text("def test_mine(fk_verdict):\n    assert fk_verdict('tests/mine/norm.cpp', ops=['rms_norm'])['status'] == 'correct'\n")
    words = [python, "-m", "pytest", "-p", "pytest_fk_host", "-p", "no:cacheprovider", "--fk-size", "smoke", "--junit-xml", "out.xml", "-v"]
    said = run(*words, "--fk-seconds", "0", "tests", wrong, code=1)
    assert "2 passed" in said and "2 failed" in said, said
    assert "status: wrong" in said and "next:" in said, said
    assert 'name="receipt"' in (work / "out.xml").read_text()
    said = run(*words, "--fk-seconds", "0.05", "--fk-min-speed", "1000", "tests/mine", code=1)
    assert "1 failed" in said and "must be at least 1000" in said, said
elif what == "kernelbench":
    need("torch")
    tasks = source / "test/loops/kernelbench"

    def imported(name, *words, code=0):
        said = run(python, loops / "kernelbench.py", tasks / f"{name}.py", work / name, *words, code=code)
        paths = run("bash", "-c", f". {work / name}/env.sh && printf '%s\\n%s' \"$FK_REGISTRY_PATH\" \"$FK_PLUGIN_PATH\"").split("\n")
        return said, {"FK_REGISTRY_PATH": paths[0], "FK_PLUGIN_PATH": paths[1], "FK_CANDIDATES": str(work / "candidates")}

    # The judge knows a right program and a wrong one by the task's own answers, also for other numbers of rows.
    said, at = imported("gated_mlp")
    assert "1 inputs, 4 weights, 1 outputs, any number of rows" in said, said
    right = (tasks / "kb_gated_mlp.cpp").read_text()
    for name, text, code in (("right", right, 0), ("wrong", right.replace("* nw[i] + nb[i]", "* nw[i]").replace('"right"', '"wrong"'), 1)):
        (work / "candidates" / name).mkdir(parents=True)
        (work / "candidates" / name / "kb_gated_mlp.cpp").write_text(text)
        verdict = json.loads(run(host, "bench", name, "--size", "full", "--seconds", "0", "--patience", "200", "--json", "verdict.json", code=code, **at)
                             and (work / "verdict.json").read_text())
        assert verdict["status"] == ("correct" if code == 0 else "wrong"), verdict["why"]
        assert "task" in [case["case"] for case in verdict["cases"]], verdict["cases"]
    # Constants among the inputs, a variance and a counter among the weights; whole numbers, two outputs, fixed sizes.
    for name, words, rows in (("conv_block", [], "7 weights, 1 outputs, any number"), ("row_choice", ["--length", "6"], "0 weights, 2 outputs, fixed")):
        said, at = imported(name, *words)
        assert rows in said, said
        said = run(host, "check", f"kb_torch_{name}", "--op", f"kb_{name}", **at)
        assert "PASS" in said, said
    assert "no file" in run(python, loops / "kernelbench.py", "absent.py", work / "absent", code=1)

print(f"{what}: done")
