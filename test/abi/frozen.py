#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""frozen.py FK_HOST ROOT: notes and lint of every frozen plugin as `list` shows them, and the tables of those which the
loader can open here. Fails if a version is read wrongly, if an old one has no note, or if a table is not what the notes say."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

host, root = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(root / "plugin_api/adapters/torch"))
sys.dont_write_bytecode = True
import fk_plugin  # noqa: E402

OLD = "was built for ABI v0, which only this version still loads; build it again with this version's headers"
LIMIT = 300 << 10  # bytes of a file
files = sorted((root / "test/abi/frozen").rglob("*.so"))
assert len(files) >= 8, files
faults = []


def need(true, file, what):
    if not true:
        faults.append(f"{file.relative_to(root)}: {what}")


with tempfile.TemporaryDirectory() as folder:
    for i, file in enumerate(files):
        (pathlib.Path(folder) / f"{i}.so").symlink_to(file)
    said = subprocess.run([host, "list", "plugins", "--json"], env={**os.environ, "FK_CANDIDATES": folder}, capture_output=True, text=True,
                          check=True).stdout
    rows = {pathlib.Path(row["path"]).resolve(): row for row in json.loads(said)["rows"]}
tables = 0
for file in files:
    old = file.name.endswith(".v0.so")
    row = rows.get(file)
    need(row, file, "`list plugins` does not show it")
    need(file.stat().st_size <= LIMIT, file, f"it has {file.stat().st_size} bytes")
    if not row:
        continue
    need(row["abi"] == ("0.0" if old else "1.0"), file, f"ABI {row['abi']}")
    told = [finding for finding in row["findings"] if OLD in finding]
    need(len(told) == old, file, f"findings: {row['findings']}")
    need(not any(finding.startswith("refused") for finding in row["findings"]), file, f"findings: {row['findings']}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            plugin = fk_plugin.Plugin(file)
        except OSError as error:  # its device's library is not installed
            need("cannot open shared object file" in str(error), file, str(error))
            print(f"{file.name}: its table is not read: {error}")
            continue
    tables += 1
    need([OLD in str(w.message) for w in caught] == [True] * old, file, f"Python warns: {[str(w.message) for w in caught]}")
    need(plugin.name == row["plugin"] and list(plugin.ops) == row["ops"], file, f"its table has {plugin.name} {list(plugin.ops)}, its notes {row}")
need(tables >= 5, files[0].parent, f"{tables} tables were read")
print("\n".join(faults) or f"{len(files)} plugins, {tables} tables")
sys.exit(1 if faults else 0)
