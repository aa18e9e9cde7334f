#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A task of KernelBench as a throw-away contract, whose reference is the task itself in torch.

    kernelbench.py TASK.py OUT [--name NAME]      with a Python that has torch
    . OUT/env.sh && fk-host new kb_NAME --name mine && fk-host bench mine

A task is a file with the class Model, get_inputs() and get_init_inputs(). Its first forward fixes shapes and dtypes. If the model takes
other numbers of rows, the first axis of the inputs is free, and the judge changes it. All other sizes are the task's. OUT gets the
contract, the plugin reference.kb_NAME (the task in float64, which judges) and the plugin kb_torch_NAME (the task in float32, the baseline
on a CPU), and env.sh with the paths of both. The task's code runs as a part of the judge, so take it from people whom you trust."""
import argparse, ctypes, importlib.util, json, os, pathlib, re, shlex, subprocess, sys

DTYPES = {"torch.float32": "f32", "torch.int64": "i64", "torch.int32": "i32"}
TYPES = {"f32": "float", "i64": "int64_t", "i32": "int32_t"}


def stop(what):
    sys.exit(f"kernelbench: {what}")


# ---- in the judge: called by the plugins through PyRun_SimpleString ----


class Task:
    """The model of one plugin."""

    def __init__(self, path, double):
        import torch

        spec = importlib.util.spec_from_file_location("kernelbench_task", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.torch, self.double, self.models = torch, double, {}
        torch.manual_seed(0)
        self.constants = self.module.get_inputs()

    def model(self):
        self.torch.manual_seed(0)
        out = self.module.Model(*self.module.get_init_inputs()).eval()
        return out.double() if self.double else out

    def tensor(self, view):
        address, dtype, shape = view
        kind = {"f32": self.torch.float32, "i64": self.torch.int64, "i32": self.torch.int32}[dtype]
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            return self.torch.empty(shape, dtype=kind)
        size = self.torch.empty(0, dtype=kind).element_size()
        return self.torch.frombuffer((ctypes.c_char * (count * size)).from_address(address), dtype=kind).view(shape)

    def call(self, instance, weights, inputs, outputs, error):
        try:
            with self.torch.no_grad():
                if instance not in self.models:
                    model = self.model()
                    state = model.state_dict()
                    for (name, old), view in zip(sorted(state.items()), weights):
                        state[name] = self.tensor(view).to(old.dtype).reshape(old.shape)
                    model.load_state_dict(state)
                    self.models[instance] = model
                given = iter(inputs)
                values = [self.tensor(next(given)) if self.torch.is_tensor(one) else one for one in self.constants]
                if self.double:
                    values = [v.double() if self.torch.is_tensor(v) and v.is_floating_point() else v for v in values]
                got = self.models[instance](*values)
                for view, value in zip(outputs, [got] if self.torch.is_tensor(got) else got):
                    self.tensor(view).copy_(value.reshape(view[2]))
        except Exception as fault:  # becomes the plugin's error
            text = f"{type(fault).__name__}: {fault}".encode()[:500]
            ctypes.memmove(error, text + b"\0", len(text) + 1)


# ---- the generator ----


class Contract:
    """The fields of a task: weights, inputs, outputs, each as (name, tensor)."""

    def __init__(self, path, options):
        self.task = Task(path, False)
        torch = self.torch = self.task.torch
        self.model = self.task.model()
        self.inputs = [(f"in{i}", x) for i, x in enumerate(self.task.constants) if torch.is_tensor(x)]
        self.weights = [(re.sub(r"\W", "_", "w_" + name), x) for name, x in sorted(self.model.state_dict().items())]
        self.weights = [(name, x.reshape(1) if x.dim() == 0 else x) for name, x in self.weights]
        self.outputs = [(f"out{i}", x) for i, x in enumerate(self.run(self.task.constants))]
        for name, x in self.inputs + self.weights + self.outputs:
            if str(x.dtype) not in DTYPES:
                stop(f"{name} has the dtype {x.dtype}; known are {', '.join(DTYPES)}")
            if x.dim() == 0 or x.numel() == 0:
                stop(f"{name} has no element or no axis: {list(x.shape)}")
        self.batch = not options.fixed and self.rows_are_free()
        self.options = options

    def run(self, values):
        with self.torch.no_grad():
            got = self.model(*values)
        return [got] if self.torch.is_tensor(got) else list(got)

    def rows_are_free(self):
        """True if the model takes 1 and 3 rows, and each output has as many."""
        sizes = {x.shape[0] for _, x in self.inputs}
        if len(sizes) != 1 or any(x.shape[0] not in sizes for _, x in self.outputs):
            return False
        for rows in (1, 3):
            cut = [x[[i % x.shape[0] for i in range(rows)]].contiguous() if self.torch.is_tensor(x) else x for x in self.task.constants]
            try:
                got = self.run(cut)
            except Exception:  # a model of fixed shapes
                return False
            if any(one.shape != (rows, *old.shape[1:]) for one, (_, old) in zip(got, self.outputs)):
                return False
        return True

    def values(self, x, is_weight):
        if not x.is_floating_point():
            return f"randint({min(0, int(x.min()))},{int(x.max()) + 1})"
        low, mean, std = float(x.min()), float(x.mean()), float(x.std()) if x.numel() > 1 else 0.0
        if low >= 0 and is_weight and mean > 0:  # such as a variance
            return f"uniform({0.5 * mean:.6g},{1.5 * mean:.6g})"
        if low >= 0 and not is_weight and float(x.max()) <= 1:
            return "uniform(0,1)"
        return f"normal({mean:.6g},{std or 0.1:.6g})"  # constants such as a bias of zeros get a width

    def text(self, op):
        length = self.options.length or max([x[0].numel() for _, x in self.inputs + self.weights])

        def row(name, x, role, values):
            shape = ", ".join("B" if self.batch and role != "weight" and i == 0 else str(n) for i, n in enumerate(x.shape))
            at = "" if role == "weight" else f"role: {role}, "
            return f"  - {{name: {name}, {at}shape: [{shape}], dtype: [{DTYPES[str(x.dtype)]}]" + (f', values: "{values}"' if values else "") + "}"
        lines = [f"op: {op}", "revision: 1", f"summary: the task {op.removeprefix('kb_')} of KernelBench, by its own Model in torch"]
        lines += ["axes: {B: rows}" if self.batch else "axes: {B: calls}"]
        if self.weights:
            lines += ["weights:"] + [row(name, x, "weight", self.values(x, True)) for name, x in self.weights]
        lines += ["forward:"] + [row(name, x, "in", self.values(x, False)) for name, x in self.inputs]
        lines += [row(name, x, "out", "") for name, x in self.outputs]
        lines += [f'cost: {{flops: "{max(1, sum(x.numel() for _, x in self.outputs))}"}}']
        lines += [f"tolerance: {{numerics: {self.options.numerics}" + (f", length: {length}" if self.options.numerics != "elementwise" else "") + "}"]
        rows = self.inputs[0][1].shape[0] if self.batch else 1
        lines += ["cases:", "  smoke:", f"    - {{B: {min(rows, 2)}}}", "  ci:", f"    - {{B: {min(rows, 3)}}}", "  full:", f"    - {{name: task, B: {rows}}}"]
        return "\n".join(lines) + "\n"

    def source(self, op, plugin, double, task):
        def views(fields, of):
            return "{" + ", ".join(f'view({of}.{name}, "{DTYPES[str(x.dtype)]}")' for name, x in fields) + "}"
        return SOURCE % {
            "op": op, "plugin": plugin, "name": re.sub(r"\W", "_", plugin), "double": "True" if double else "False", "task": json.dumps(str(task)), "here": json.dumps(str(pathlib.Path(__file__).resolve().parent)),
            "paths": json.dumps(json.dumps([p for p in sys.path if p])), "home": json.dumps(sys.base_prefix), "library": json.dumps(library()),
            "weights": views(self.weights, "weights"), "inputs": views(self.inputs, "args"), "outputs": views(self.outputs, "args")}


SOURCE = (pathlib.Path(__file__).parent / "kernelbench.cpp.in").read_text()


def library():
    """The shared library of this Python."""
    import sysconfig

    name = sysconfig.get_config_var("LDLIBRARY") or ""
    for folder in (sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL")):
        if folder and name.endswith(".so") and (pathlib.Path(folder) / name).exists():
            return str(pathlib.Path(folder) / name)
    stop(f"this Python has no shared library ({name or 'unknown'})")


def build(host, folder, name, text, env):
    at = folder / name
    at.mkdir(parents=True, exist_ok=True)
    (at / f"{name.replace('.', '_')}.cpp").write_text(text)
    (at / "candidate.yaml").write_text("libraries: [dl]\n")
    done = subprocess.run([host, "build", str(at)], env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        stop(f"{name} does not compile:\n{done.stdout}{done.stderr}")
    return at


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--name", help="of the op; default: the task's file name")
    parser.add_argument("--numerics", default="reduction", help="the contract's error model (registry/README.md); default: reduction")
    parser.add_argument("--length", type=int, help="terms of the longest sum; default: the largest row of an input or weight")
    parser.add_argument("--fixed", action="store_true", help="all sizes are the task's, the number of rows too")
    parser.add_argument("--host", default=os.environ.get("FK_HOST") or str(pathlib.Path(__file__).resolve().parents[2] / "build/fk-host"))
    options = parser.parse_args()
    name = re.sub(r"\W", "_", options.name or options.task.stem).lower().strip("_")
    op, out, task = f"kb_{name}", options.out.absolute(), options.task.absolute()
    if not task.is_file():
        stop(f"there is no file {task}")
    contract = Contract(task, options)
    registry = out / "registry"
    (registry / "ops/l1/kernelbench").mkdir(parents=True, exist_ok=True)
    (registry / f"ops/l1/kernelbench/{op}.yaml").write_text(contract.text(op))
    env = dict(os.environ, FK_REGISTRY_PATH=str(registry))
    plugins = [build(options.host, out, plugin, contract.source(op, plugin, double, task), env)
               for plugin, double in ((f"reference.{op}", True), (f"kb_torch_{name}", False))]
    paths = {"FK_REGISTRY_PATH": [registry], "FK_PLUGIN_PATH": plugins}
    (out / "env.sh").write_text("".join(f"export {key}={shlex.quote(':'.join(map(str, value)))}${{{key}:+:${key}}}\n" for key, value in paths.items()))
    rows = "any number of rows" if contract.batch else "fixed sizes"
    print(f"{op}: {len(contract.inputs)} inputs, {len(contract.weights)} weights, {len(contract.outputs)} outputs, {rows}\n. {out / 'env.sh'}")


if __name__ == "__main__":
    main()
