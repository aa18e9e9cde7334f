#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Between fk-host and the data sets of flashinfer-bench: Definition, Workload, Solution and Trace, which are JSON.

    flashinfer_traces.py export verdict.json --source mine.cpp --reference rms_norm.py --author ann DATASET
    flashinfer_traces.py import DATASET rms_norm_h4096 --op rms_norm --names hidden_states=x,output=out OUT

`export` adds a verdict of `bench --json` to a data set: each case with times or with an error is a trace. A definition needs a reference in
Python, the function `run` of its inputs; fk-host's own are in C.
`import` writes OUT/capture.json: the workloads as recorded cases, for `check` and `bench --recorded OUT`. It also writes each solution that
has an entry `FILE::fk_plugin` as a candidate OUT/NAME, and prints earlier traces. Constants of an op that are no axes, such as eps, come
from scalars of the workloads or from --init."""
import argparse, ast, json, os, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from verdict import ROOT, feedback

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32",
          "i16": "int16", "i8": "int8", "bool": "bool"}
OURS = {theirs: ours for ours, theirs in DTYPES.items()}
LANGUAGES = {".cpp": "cpp", ".c": "cpp", ".cu": "cuda"}
ENTRY = "fk_plugin"  # the symbol of a plugin of fk-host, as the entry point of a solution
FAILED = {"compile_error": "COMPILE_ERROR", "hang": "TIMEOUT", "wrong": "INCORRECT_NUMERICAL", "nondeterministic": "INCORRECT_NUMERICAL"}
PASSED = ("faster", "same", "slower", "cannot_tell")


def stop(what):
    sys.exit(f"flashinfer_traces: {what}")


def contract_of(op):
    import yaml

    files = list((ROOT / "registry/ops").rglob(f"{op}.yaml"))
    return yaml.safe_load(files[0].read_text()) if files else stop(f"there is no op `{op}`; `fk-host list ops` has their names")


def value_of(expression, axes):
    """A size such as "2*F". Contracts are the project's own, and still nothing but arithmetic is taken."""
    tree = ast.parse(str(expression).replace("/", "//"), mode="eval")
    if any(not isinstance(node, (ast.Expression, ast.BinOp, ast.Name, ast.Constant, ast.operator, ast.Load)) for node in ast.walk(tree)):
        stop(f"the size `{expression}` is no sum or product of axes")
    return eval(compile(tree, "size", "eval"), {"__builtins__": {}}, dict(axes))  # noqa: S307


def case_of(contract, verdict_case):
    """The contract's case with this name, completed: init values, axes, dtypes."""
    for size, cases in contract["cases"].items():
        for number, case in enumerate(cases):
            if case.get("name", f"{size}{number}") == verdict_case["case"] and size == verdict_case["size"]:
                return case
    stop(f"{contract['op']} has no case `{verdict_case['case']}` in {verdict_case['size']}; a hidden or recorded case has no definition")


def tensors_of(contract, case):
    """Present tensors as (name, role, shape, dtype of ours), weights first."""
    present, dtypes = case.get("with", []), case.get("dtype", {})
    out, types = [], {}
    for field in contract.get("weights", []) + contract["forward"]:
        if "shape" not in field:
            stop(f"{contract['op']}: `{field['name']}` is no tensor; only ops of tensors and constants can be exported")
        if field.get("optional") and field["name"] not in present:
            continue
        kind = dtypes.get(field["name"]) or {"float": "f32", "int": "i32"}.get(field["dtype"]) or types.get(field["dtype"], field["dtype"])
        if kind not in DTYPES:
            stop(f"{contract['op']}: the dtype `{kind}` of `{field['name']}` has no name in flashinfer-bench")
        types[field["name"]] = kind
        out.append((field["name"], field.get("role", "weight"), field["shape"], kind))
    return out


def definition_of(contract, case, reference):
    """(Definition, Workload without uuid) of a case."""
    init = [(i, case.get(i["name"], i.get("default"))) for i in contract.get("init", [])]
    constants = {i["axis"]: int(value) for i, value in init if i.get("axis")}
    sizes = constants | {axis: int(case[axis]) for axis in contract["axes"] if axis in case}
    axes, shapes = {}, {}
    for name, role, shape, kind in tensors_of(contract, case):
        shapes[name] = []
        for size in shape:
            text = re.sub(r"\W", "x", str(size))
            label = text if text.isidentifier() else "n" + text
            fixed = all(part in constants or part.isdigit() for part in re.findall(r"\w+", str(size)))
            axes[label] = {"type": "const", "value": int(value_of(size, sizes))} if fixed else {"type": "var"}
            if not fixed and str(size) != label:
                stop(f"{contract['op']}: `{name}` has the size `{size}` of an axis that varies")
            shapes[name].append(label)
    tensors = tensors_of(contract, case)
    spec = lambda name, kind: {"shape": shapes[name], "dtype": DTYPES[kind]}
    inputs = {name: spec(name, kind) for name, role, _, kind in tensors if role != "out"}
    scalars = {i["name"]: value for i, value in init if not i.get("axis") and i["type"] in ("float", "int", "bool")}
    types = {"float": "float32", "int": "int64", "bool": "bool"}
    inputs |= {i["name"]: {"shape": None, "dtype": types[i["type"]]} for i, _ in init if i["name"] in scalars}
    outputs = {name + "_out" * (role == "inout"): spec(name, kind) for name, role, _, kind in tensors if role in ("out", "inout")}
    parts = [contract["op"]] + [f"{axis.lower()}{value}" for axis, value in constants.items()]
    parts += sorted({kind for *_, kind in tensors}) + [name for name in case.get("with", [])]
    definition = {"name": "_".join(parts), "op_type": contract["op"], "axes": axes, "inputs": inputs, "outputs": outputs,
                  "reference": reference, "description": contract["summary"], "tags": [f"fk-host:op:{contract['op']}"]}
    workload = {"axes": {axis: sizes[axis] for axis, what in axes.items() if what["type"] == "var"},
                "inputs": {name: {"type": "scalar", "value": scalars[name]} if name in scalars else {"type": "random"} for name in inputs}}
    return definition, workload


def evaluation_of(verdict, case):
    """None where a case was not judged, or right and not timed: a passed trace has times."""
    status = case["status"]
    out = {"environment": {"hardware": verdict["device"], "libs": {"fk-host": verdict["host_version"]}}, "timestamp": verdict["time"],
           "log": feedback(verdict)}
    errors = {"worst_of_allowed": case["errors"]["worst"], "status": status, "receipt": verdict["receipt"]}
    if status in PASSED and case["timings"]:
        times = case["timings"][0]
        seconds = [times[side]["cold"]["median_s"] for side in ("candidate", "baseline")]
        return out | {"status": "PASSED", "correctness": {"extra": errors},
                      "performance": {"latency_ms": seconds[0] * 1e3, "reference_latency_ms": seconds[1] * 1e3,
                                      "speedup_factor": times["ratio"]["value"]}}
    if status in PASSED + ("correct", "unused", "refused", "unjudged", "untestable", "environment"):
        return None
    out["status"] = FAILED.get(status, "RUNTIME_ERROR")
    if out["status"] == "INCORRECT_NUMERICAL":
        out["correctness"] = {"max_absolute_error": abs(case["errors"]["got"] - case["errors"]["want"]), "extra": errors}
    return out


def put(file, text, add=False):
    file.parent.mkdir(parents=True, exist_ok=True)
    if add and file.exists() and text in file.read_text():
        return
    with open(file, "a" if add else "w") as out:
        out.write(text)


def export(verdict, source, reference, author, root):
    """Returns the traces that were added."""
    language = LANGUAGES.get(source.suffix) or stop(f"{source.name}: a solution's language is one of {', '.join(LANGUAGES)}")
    runs = [node for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    arguments = [one.arg for one in runs[0].args.args] if runs else stop("the reference has no function `run`")
    traces, others = [], []
    for case in verdict["cases"]:
        evaluation = None if case["beside"] or case["left_out"] else evaluation_of(verdict, case)
        if not evaluation:
            continue
        contract = contract_of(case["op"])
        definition, workload = definition_of(contract, case_of(contract, case), reference)
        if set(definition["inputs"]) != set(arguments):
            others.append(f"{case['case']} has the inputs {', '.join(definition['inputs'])}")
            continue
        definition["inputs"] = {key: definition["inputs"][key] for key in arguments}  # their order is the interface
        workload["uuid"] = case["case_hash"]
        name, kind = definition["name"], definition["op_type"]
        solution = {"name": f"{verdict['candidate']['name']}_{verdict['candidate']['sha256'][:12]}_{name}", "definition": name, "author": author,
                    "spec": {"language": language, "target_hardware": [verdict["device"].split()[0].split(":")[0]], "entry_point": f"{source.name}::{ENTRY}"},
                    "sources": [{"path": source.name, "content": source.read_text()}],
                    "description": f"A plugin of fk-host's C interface for the op {contract['op']}"}
        trace = {"definition": name, "workload": workload, "solution": solution["name"], "evaluation": evaluation}
        put(root / "definitions" / kind / f"{name}.json", json.dumps(definition, indent=2) + "\n")
        put(root / "solutions" / author / kind / name / f"{solution['name']}.json", json.dumps(solution, indent=2) + "\n")
        put(root / "workloads" / kind / f"{name}.jsonl", json.dumps({"definition": name, "workload": workload}) + "\n", add=True)
        put(root / "traces" / kind / f"{name}.jsonl", json.dumps(trace) + "\n", add=True)
        traces.append(trace)
    for other in others:
        print(f"left out: {other}, and the reference's function run({', '.join(arguments)})", file=sys.stderr)
    return traces or stop(f"the verdict `{verdict['status']}` has no case with times or an error: {verdict['why']}")


def documents(root, folder, name):
    for file in sorted((root / folder).rglob("*.json*")):
        for text in file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]:
            one = json.loads(text)
            if one.get("definition", one["name"] if folder == "definitions" else None) == name:
                yield one


def recorded_case(contract, definition, workload, names, init, number):
    """A workload as a case of a recording (docs/record.md)."""
    fields = {f["name"]: f for f in contract.get("weights", []) + contract["forward"]}
    names = {f"{name}_out": name for name, field in fields.items() if field.get("role") == "inout"} | names
    sizes = {axis: what["value"] for axis, what in definition["axes"].items() if what["type"] == "const"} | workload["axes"]
    theirs = {}
    for name, spec in list(definition["inputs"].items()) + list(definition["outputs"].items()):
        ours = names.get(name, name)
        if spec["shape"] is None:
            value = workload["inputs"].get(name, {}).get("value")
            init = ({} if value is None else {ours: value}) | init
        elif workload["inputs"].get(name, {"type": "random"})["type"] != "random":
            stop(f"workload {workload['uuid']}: `{name}` has stored contents, and only random ones can be imported")
        elif ours not in theirs:  # an inout tensor is an input of theirs, and perhaps an output too
            theirs[ours] = ([sizes[axis] for axis in spec["shape"]], OURS.get(spec["dtype"]) or stop(f"`{name}`: no dtype {spec['dtype']} here"))
    for name in theirs:
        if name not in fields:
            stop(f"{contract['op']} has no `{name}`, but {', '.join(fields)}; --names THEIRS=OURS")
    for name, field in fields.items():
        if name not in theirs and not field.get("optional"):
            stop(f"the definition has no `{name}` of {contract['op']}; --names THEIRS=OURS")
        if name in theirs and field["dtype"] in ("int", "i32", "i64"):
            stop(f"`{name}` has whole numbers, whose contents decide the work; only random floats can be imported")
    axes = {}
    for name, (shape, _) in theirs.items():
        if len(shape) != len(fields[name]["shape"]):
            stop(f"`{name}` has {len(shape)} axes, and {len(fields[name]['shape'])} in {contract['op']}")
        for size, axis in zip(shape, fields[name]["shape"]):
            if axis in contract["axes"] and axes.setdefault(axis, size) != size:
                stop(f"`{name}` has {size} for the axis {axis}, and another tensor has {axes[axis]}")
    for name, (shape, _) in theirs.items():
        if [value_of(axis, axes) for axis in fields[name]["shape"]] != shape:
            stop(f"`{name}` has the shape {shape}, and {contract['op']} has {fields[name]['shape']} with {axes}")
    values = {}
    for one in contract.get("init", []):
        value = axes.get(one.get("axis"), init.get(one["name"], one.get("default")))
        values[one["name"]] = str(value) if value is not None else stop(f"{contract['op']} needs a value of `{one['name']}`; --init {one['name']}=VALUE")
    fixed = {one.get("axis") for one in contract.get("init", [])}
    inputs = {name for name, field in fields.items() if field.get("role") != "out"}
    return {"name": f"workload.{number}", "op": contract["op"], "revision": contract["revision"], "init": values, "scalars": {},
            "axes": {axis: size for axis, size in axes.items() if axis not in fixed}, "listed": {},
            "with": [name for name in theirs if fields[name].get("optional")], "dtypes": {name: kind for name, (_, kind) in theirs.items() if name in inputs},
            "strided": [], "phase": "workload", "path": workload["uuid"], "provider": "", "workload": definition["name"], "step": 0, "count": 1,
            "shapes": {name: [shape] for name, (shape, _) in theirs.items()}, "tensors": {}}


def import_set(root, name, op, names, init, out):
    """Returns (cases, candidates, rows of earlier traces)."""
    definition = next(documents(root, "definitions", name), None) or stop(f"{root} has no definition `{name}`")
    contract = contract_of(op)
    workloads = [one["workload"] for one in documents(root, "workloads", name)]
    cases = [recorded_case(contract, definition, one, names, init, i) for i, one in enumerate(workloads)]
    index = {"schema": "fk-host.capture/1", "scenario": name, "arch": "flashinfer-bench", "profile": "full", "tp": 1, "ep": 1, "overlap": False,
             "dtype": cases[0]["dtypes"][next(iter(cases[0]["dtypes"]))] if cases else stop(f"{root} has no workload of `{name}`"), "device": "", "seed": 1,
             "weights": {"random": True}, "values": False, "workloads": [{"name": name, "requests": len(cases)}],
             "ops": [{"op": op, "phase": "workload", "calls": len(cases), "shapes": len(cases), "cases": len(cases)}], "files": [], "bytes": 0, "left_out": [],
             "cases": cases}
    put(out / "capture.json", json.dumps(index, indent=1) + "\n")
    candidates = []
    for solution in documents(root, "solutions", name):
        if not solution["spec"]["entry_point"].endswith("::" + ENTRY):
            continue  # a kernel with another interface
        folder = out / re.sub(r"[^A-Za-z0-9_-]", "_", solution["name"])
        for source in solution["sources"]:
            if pathlib.PurePath(source["path"]).is_absolute() or ".." in pathlib.PurePath(source["path"]).parts:
                stop(f"solution {solution['name']}: the path `{source['path']}` leaves its folder")
            put(folder / source["path"], source["content"])
        candidates.append(folder)
    rows = [(one["solution"], one["workload"]["axes"], one["evaluation"]["status"], (one["evaluation"].get("performance") or {}).get("speedup_factor"))
            for one in documents(root, "traces", name) if one.get("evaluation")]
    return cases, candidates, rows


def pairs(text):
    return dict(part.split("=", 1) for part in text.split(",") if part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, dest="verb")
    e = verbs.add_parser("export")
    e.add_argument("verdict", type=pathlib.Path)
    e.add_argument("--source", type=pathlib.Path, required=True)
    e.add_argument("--reference", type=pathlib.Path, required=True, help="a file in Python with the function run")
    e.add_argument("--author", default=os.environ.get("USER", "nobody"))
    e.add_argument("dataset", type=pathlib.Path)
    i = verbs.add_parser("import")
    i.add_argument("dataset", type=pathlib.Path)
    i.add_argument("definition")
    i.add_argument("--op", required=True)
    i.add_argument("--names", type=pairs, default={}, help="THEIRS=OURS, with commas")
    i.add_argument("--init", type=pairs, default={}, help="NAME=VALUE, with commas")
    i.add_argument("out", type=pathlib.Path)
    a = parser.parse_args()
    if a.verb == "export":
        traces = export(json.loads(a.verdict.read_text()), a.source, a.reference.read_text(), a.author, a.dataset)
        print(f"{len(traces)} traces in {a.dataset}")
        return
    cases, candidates, rows = import_set(a.dataset, a.definition, a.op, a.names, a.init, a.out)
    print(f"{len(cases)} cases in {a.out}/capture.json, {len(candidates)} candidates")
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main()
