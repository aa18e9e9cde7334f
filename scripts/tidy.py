#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the layout promises: include directions, pairs of files, sizes, functions, first lines, words, English, the
table of scripts, files of results, names of headers. Run by the tests."""
import pathlib, re, shutil, subprocess, sys

import english, functions

root = pathlib.Path(__file__).resolve().parent.parent
order = ["base", "tensor", "text", "contract", "device", "comm", "plugin", "graph", "exec", "engines", "worker", "cases", "measure", "check", "judge", "scenario", "report", "store", "eval", "archive", "service", "endpoint", "deploy", "cli"]
problems = []


def tracked():
    """What git knows of, or every file outside build folders where git does not answer."""
    names = []
    if shutil.which("git"):
        done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True)
        names = done.stdout.splitlines() if done.returncode == 0 else []
    files = [root / line for line in names if (root / line).is_file()]
    return files or [p for p in root.rglob("*") if p.is_file() and not p.relative_to(root).parts[0].startswith(("build", ".git"))]


def complain(path, text):
    problems.append(f"{path.relative_to(root)}: {text}")


def includes(path):
    return re.findall(r'^#include "([^"]+)"', path.read_text(errors="replace"), re.M)


def check_directions(path):
    parts = path.relative_to(root).parts
    for inc in includes(path):
        target = inc.split("/")
        if parts[0] == "core":
            if target[0] == "core" and order.index(target[1]) > order.index(parts[1]):
                complain(path, f"core/{parts[1]} may not include core/{target[1]}, which stands right of it")
            if target[0] in ("baselines", "candidates", "test"):
                complain(path, f"core may not include {target[0]}")
        elif parts[0] == "baselines" and parts[1] in ("models", "blocks"):
            allowed = inc.startswith(("core/base/", "baselines/models/parts/", "baselines/blocks/")) or inc in (
                "core/graph/builder.hpp", "core/exec/model.hpp") or re.fullmatch(r"core/engines/\w+/engine.hpp", inc)
            if not allowed:
                complain(path, f"models and blocks may not include {inc}")
        elif parts[0] in ("baselines", "candidates", "plugin_api") and target[0] in ("core", "test"):
            complain(path, f"plugin code may not include {inc}")


def check_size(path):
    suffix, lines = path.suffix, path.read_text(errors="replace").count("\n")
    rel = path.relative_to(root).as_posix()
    cap = None
    if rel.startswith("plugin_api/fk/") and suffix == ".h": cap = 300
    elif suffix in (".hpp", ".cuh", ".h") and not rel.startswith("test/"): cap = 300
    elif suffix in (".cpp", ".c", ".cu"): cap = 600 if suffix == ".cu" else 500
    elif suffix in (".py", ".sh"): cap = 300
    elif rel.startswith("registry/ops/"): cap = 120
    elif rel == "README.md": cap = 150
    if cap and lines > cap:
        complain(path, f"{lines} lines, at most {cap}")


def check_first_line(path):
    if path.suffix in (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh", ".py", ".sh") and "frozen" not in path.parts:
        head = path.read_text(errors="replace").split("\n")[:2]
        if not any("SPDX-License-Identifier" in line for line in head):
            complain(path, "the first line has no SPDX-License-Identifier")


def check_words(path):
    if path.suffix in (".safetensors", ".so", ".csv", ".json") or path == pathlib.Path(__file__).resolve():
        return
    text = path.read_text(errors="replace")
    for word in ("TO" + "DO", "FIX" + "ME", "/work" + "/", "/ro" + "ot/"):
        if word in text:
            complain(path, f"contains `{word}`")


def stems(pattern):
    return {p.stem: p for p in root.glob(pattern)}


def check_pairs():
    contracts = {p.stem: (int(p.parent.parent.name[1]), p) for p in root.glob("registry/ops/l*/*/*.yaml")}
    references, blocks = stems("baselines/reference/**/*.cpp"), stems("baselines/blocks/*/*.cpp")
    for op, (level, path) in contracts.items():
        if op not in references:
            complain(path, f"has no reference: baselines/reference/{path.parent.name}/{op}.cpp is missing")
        if level > 1 and op not in blocks:
            complain(path, f"has no decomposition: baselines/blocks/<kind>/{op}.cpp is missing")
    described = stems("registry/models/*/*.yaml")
    written = {k: v for k, v in stems("baselines/models/*/*.cpp").items() if v.parent.name != "parts"}
    for name in described.keys() ^ written.keys():
        if name in described and re.search(r"^(decoder|encoder):", described[name].read_text(), re.M):
            continue  # the file is the whole model
        complain((described.get(name) or written.get(name)), "a model needs both registry/models/<domain>/<arch>.yaml and baselines/models/<domain>/<arch>.cpp")


def check_scripts(files):
    """Each script has one row in the table of scripts/README.md, and each row has its script."""
    page = root / "scripts/README.md"
    rows = re.findall(r"^\| \*?`([^`]+)`\*? \|", page.read_text(), re.M)
    there = {f.relative_to(page.parent).as_posix() for f in files if page.parent in f.parents and f != page}
    for name in sorted(there.difference(rows)):
        complain(page.parent / name, "has no row in the table of scripts/README.md")
    for name in sorted({name for name in rows if name not in there or rows.count(name) > 1}):
        complain(page, f"`{name}` " + ("has several rows" if name in there else "is not in scripts/"))


def check_headers(files):
    """A header which a comment or a document names exists."""
    there = {f.name for f in files}
    for f in files:
        parts = f.relative_to(root).parts
        if f.suffix == ".md" and parts[-1] != "CHANGELOG.md" or f.suffix in (".hpp", ".cpp", ".cuh", ".cu", ".h") and parts[0] in ("core", "baselines", "plugin_api"):
            for line in f.read_text(errors="replace").split("\n"):
                text = line if f.suffix == ".md" else line.partition("//")[2]
                for name in re.findall(r"(?<![\w<])[\w/.-]*?(\w+\.(?:hpp|cuh))\b", text):
                    if name not in there:
                        complain(f, f"names `{name}`, which does not exist")


def check_results(files):
    """docs/results has one file of each subject, and every file which a source or a document names."""
    subjects = {}
    for f in sorted(root.glob("docs/results/20*")):
        other = subjects.setdefault(f.name[len("2026-01-01-"):], f)
        if other != f:
            complain(other, f"{f.name} is newer: a subject has one file")
    for f in files:
        if f.suffix in (".md", ".hpp", ".cpp", ".py", ".cuh", ".cu") and "golden" not in f.parts:
            for name in re.findall(r"\b20\d\d-\d\d-\d\d-[\w.-]+\.(?:json|txt)\b", f.read_text(errors="replace")):
                if not (root / "docs/results" / name).is_file():
                    complain(f, f"docs/results/{name} does not exist")


files = tracked()
for f in files:
    rel = f.relative_to(root)
    if rel.parts[0] == "external":
        continue  # sources of other projects
    if f.suffix in (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh"):
        check_directions(f)
    check_size(f)
    check_first_line(f)
    check_words(f)
folders = {}
for f in files:
    folders.setdefault(f.parent, []).append(f)
for folder, content in folders.items():
    # Descriptions of models and public configurations are lists of names, which other libraries make long.
    if len(content) > 50 and not any(folder.is_relative_to(root / "registry" / kind) for kind in ("models", "configs")):
        complain(folder, f"{len(content)} files, at most 50")
check_pairs()
check_scripts(files)
check_results(files)
check_headers(files)
problems += [*english.complaints(), *functions.complaints()]
print("\n".join(problems) if problems else f"{len(files)} files are tidy")
sys.exit(bool(problems))
