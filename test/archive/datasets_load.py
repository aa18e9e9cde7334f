#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""datasets_load.py FK_HOST SOURCE_DIR: Hugging Face `datasets` loads the lines of `trajectories export`. Skipped without that package."""
import json, os, pathlib, shutil, subprocess, sys, tempfile

try:
    import datasets
except ImportError:
    print("skipped: there is no Python package `datasets`")
    sys.exit(77)

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"), FK_DATA=str(work / "data"))
datasets.disable_progress_bars()


def run(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout[-1000:], done.stderr[-1000:])
    return done.stdout


template = (source / "plugin_api/template/ops/silu_and_mul.cpp").read_text()
for name, text, code in (("right", template, 0), ("broken", template + "\nint x = ;\n", 1)):
    folder = work / "candidates" / name
    folder.mkdir(parents=True)
    (folder / "silu_and_mul.cpp").write_text(text)
    if code:
        (program,) = json.loads(run("archive", "best", "silu_and_mul", "--json"))["programs"]
        (folder / "notes.json").write_text(json.dumps({"parents": [program["id"]], "strategy": "a fault"}))
    run("bench", folder, "--size", "smoke", "--seconds", "0", code=code)
for kind, rows in (("steps", 2), ("preferences", 0), ("rewards", 2)):
    file = work / f"{kind}.jsonl"
    run("trajectories", "export", "--kind", kind, "--output", file)
    if rows:
        table = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(work / "datasets"))
        assert len(table) == rows, (kind, table)
        assert {"split", "op", "family"} <= set(table.column_names), table.column_names
        assert (table[1]["reward"]["value"], table[0]["op"]) == (-2, "silu_and_mul"), table[1]
shutil.rmtree(work)
