#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the `mirrors` of contracts against the signatures of the production modules that they name.

Usage: mirrors.py check                    every contract against registry/signatures.json; no network
       mirrors.py record [--from DIR] writes that file from sources that are parsed and never imported

DIR holds wheels' contents, one folder each (unzip vllm-*.whl -d DIR/vllm; wheels by `pip download --no-deps`). For every
mirrored import path the file has package, version, arguments with their defaults, and the attributes that a class sets.
A class has the arguments of its constructor and of its forward; overloads have those of all of them. In a contract
`argument.part` stands for a part of an argument, `attribute.part` and `self.attribute` for what a constructor made.
"""
import argparse
import ast
import difflib
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORE = ROOT / "registry" / "signatures.json"
# Where the same source lies under another name.
ALIASES = {"torch.Tensor": "torch._C.TensorBase"}
FORWARDS = ("forward", "forward_native", "forward_cuda")


def read_mirrors(path):
    """[(import path, {argument: slot or reason})] of a contract; reads the two spellings of YAML that contracts have."""
    block, found = False, []
    lines = path.read_text().split("\n")
    for i, line in enumerate(lines):
        if re.match(r"\S", line):
            block = line.startswith("mirrors:")
        if not block:
            continue
        entry = r'"?([\w.]+)"?:\s*("(?:[^"\\]|\\.)*"|[^,}#]+)'
        if name := re.match(r"  - name: (\S+)", line):
            found.append((name[1], {}))
        elif flow := re.match(r"    arguments: \{(.*)\}\s*$", line):
            found[-1][1].update(re.findall(entry, flow[1]))
        elif item := re.match(r"      " + entry, line):
            found[-1][1][item[1]] = item[2]
        elif line.strip() not in ("", "mirrors:", "arguments:") and not line.strip().startswith("#"):
            sys.exit(f"{path}:{i + 1}: cannot be read here: {line.strip()}")
    return found


def contracts():
    return sorted((ROOT / "registry" / "ops").glob("l*/*/*.yaml"))


class Sources:
    """Definitions by import path, from parsed files."""

    def __init__(self, folder):
        self.tops = {}
        for wheel in sorted(p for p in folder.iterdir() if p.is_dir()):
            info = next(wheel.glob("*.dist-info/METADATA"), None)
            if info is None:
                continue
            field = {key: re.search(rf"^{key}: (.*)$", info.read_text(), re.M)[1] for key in ("Name", "Version")}
            for top in wheel.iterdir():
                if top.is_dir() and not top.name.endswith(".dist-info"):
                    self.tops[top.name] = (wheel, field["Name"], field["Version"])
        self.trees, self.cache = {}, {}

    def module(self, dotted):
        """The parsed files of a module: source, then its stub."""
        if dotted not in self.trees:
            self.trees[dotted] = []
            base = self.tops[dotted.split(".")[0]][0] / dotted.replace(".", "/")
            for file in (base.with_suffix(".py"), base / "__init__.py", base.with_suffix(".pyi"), base / "__init__.pyi"):
                if file.exists():
                    self.trees[dotted].append((ast.parse(file.read_text()), file.name.startswith("__init__")))
        return self.trees[dotted]

    def find(self, path):
        """(module, definitions of that name): several for overloads. None when there is no such thing."""
        path = next((new + path[len(old):] for old, new in ALIASES.items() if path.startswith(old + ".")), path)
        parts = path.split(".")
        if path in self.cache or parts[0] not in self.tops:
            return self.cache.get(path)
        self.cache[path] = None  # while it is looked for: imports go in circles
        cut = next((n for n in range(len(parts) - 1, 0, -1) if self.module(".".join(parts[:n]))), 0)
        for tree, package in self.module(".".join(parts[:cut])) if cut else []:
            if found := self.inside(".".join(parts[:cut]), package, tree.body, parts[cut:]):
                self.cache[path] = found
                return found
        if parts[0] == "torch" and len(parts) == 2:
            self.cache[path] = self.find("torch._C._VariableFunctions." + parts[1])
        return self.cache[path]

    def inside(self, dotted, package, body, names):
        definitions, later = [], []
        for node in flat(body):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == names[0]:
                definitions.append(node)
            elif isinstance(node, ast.ImportFrom):
                base = dotted.split(".")[:len(dotted.split(".")) - node.level + (1 if package else 0)] if node.level else []
                source = ".".join(base + ([node.module] if node.module else []))
                for alias in node.names:
                    if (alias.asname or alias.name) == names[0] or alias.name == "*":
                        later.append(".".join([source, names[0] if alias.name == "*" else alias.name] + names[1:]))
        if definitions and len(names) == 1:
            return dotted, definitions
        for node in definitions:
            if isinstance(node, ast.ClassDef) and (found := self.inside(dotted, package, node.body, names[1:])):
                return found
        return next((found for path in later if (found := self.find(path))), None)

    def method(self, dotted, node, name, depth=0):
        """The definition of a method, of the class or of the nearest base that has it."""
        own = [n for n in flat(node.body) if isinstance(n, ast.FunctionDef) and n.name == name]
        if own or depth > 6:
            return own
        for base in node.bases:
            found = self.find(dotted + "." + ast.unparse(base)) if isinstance(base, (ast.Name, ast.Attribute)) else None
            if found and isinstance(found[1][0], ast.ClassDef):
                if above := self.method(found[0], found[1][0], name, depth + 1):
                    return above
        return []

    def owner(self, path):
        """The class of a method; None for a function."""
        found = self.find(path.rsplit(".", 1)[0])
        return found[1][0] if found and isinstance(found[1][0], ast.ClassDef) else None

    def signature(self, path):
        found = self.find(path)
        if found is None:
            return None
        dotted, nodes = found
        package, version = self.tops[path.split(".")[0]][1:]
        out = {"package": package, "version": version, "arguments": {}}
        owner = nodes[0] if isinstance(nodes[0], ast.ClassDef) else self.owner(path)
        init = self.method(dotted, owner, "__init__") if owner else []
        if owner and not path.startswith("torch.Tensor."):
            out["attributes"] = sorted({n.attr for f in init for n in ast.walk(f) if isinstance(n, ast.Attribute)
                                        and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == "self"})
        if nodes[0] is owner:
            runs = next((m for name in FORWARDS if plain(m := self.method(dotted, nodes[0], name))), [])
            nodes = init + runs
        for node in nodes:
            for name, default in arguments(node):
                if name not in ("self", "cls", "ctx") or (name == "self" and path.startswith("torch.Tensor.")):
                    out["arguments"].setdefault(name, default)
        return out


def plain(methods):
    """Whether a method says what it takes: one of *args only passes on."""
    return methods and any(name != "self" for name, _ in arguments(methods[0]))


def flat(body):
    """Statements, those of branches too."""
    for node in body:
        yield node
        for field in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With)):
                yield from flat(getattr(node, field, []))


def arguments(node):
    """[(name, default as it is written or null)], without *args and **kwargs."""
    a = node.args
    placed = a.posonlyargs + a.args
    defaults = [None] * (len(placed) - len(a.defaults)) + a.defaults + a.kw_defaults
    return [(arg.arg, default and ast.unparse(default)) for arg, default in zip(placed + a.kwonlyargs, defaults)]


def record(folder):
    sources, paths, missing = Sources(folder), set(), {}
    for contract in contracts():
        paths.update(name for name, _ in read_mirrors(contract))
    signatures = {}
    old = json.loads(STORE.read_text())["not_recorded"] if STORE.exists() else {}
    for path in sorted(paths):
        if path.split(".")[0] not in sources.tops:
            missing[path] = old.get(path, "its source was not among those recorded")
        elif signature := sources.signature(path):
            signatures[path] = signature
        else:
            print(f"{path}: not found in {'-'.join(sources.tops[path.split('.')[0]][1:])}")
    STORE.write_text(json.dumps({"signatures": signatures, "not_recorded": missing}, indent=1) + "\n")
    print(f"{len(signatures)} signatures, {len(missing)} without a source")


def hint(name, names):
    near = difflib.get_close_matches(name, names, 1)
    return f", did you mean `{near[0]}`?" if near else ""


def compare(where, path, given, signature):
    problems, known = [], signature["arguments"]
    for name in given:
        parts = name.removeprefix("self.").split(".")
        if parts[0] not in known and not ("." in name and parts[0] in signature.get("attributes", [])):
            problems.append(f"{where}: {path} has no argument `{name}`{hint(name, known)}")
    heads = {name.split(".")[0] for name in given}
    for name in known:
        if name not in heads:
            problems.append(f"{where}: {path}: the argument `{name}` is neither mapped nor dropped{hint(name, given)}")
    return problems


def check():
    store = json.loads(STORE.read_text())
    signatures, missing, problems, seen = store["signatures"], store["not_recorded"], [], set()
    for contract in contracts():
        where = contract.relative_to(ROOT)
        for path, given in read_mirrors(contract):
            seen.add(path)
            if path in signatures:
                problems += compare(where, path, given, signatures[path])
            elif path not in missing:
                problems.append(f"{where}: {path} is not recorded{hint(path, signatures)}")
    problems += [f"registry/signatures.json: no contract mirrors {path}" for path in (signatures | missing).keys() - seen]
    print("\n".join(problems) if problems else f"{len(seen) - len(missing)} mirrors have the recorded arguments")
    for path, why in missing.items():
        print(f"not checked: {path}: {why}")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("verb", choices=["check", "record"])
    parser.add_argument("--from", dest="folder", type=pathlib.Path, default=ROOT / "external" / "sources")
    args = parser.parse_args()
    return check() if args.verb == "check" else record(args.folder)


if __name__ == "__main__":
    sys.exit(main())
