#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py FK_HOST ROOT GENERATED: the example of docs/abi.md is compiled by the page's own command, and passes `check`. Fails
if the page's text no longer makes a plugin."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

host, root, generated = (pathlib.Path(word).resolve() for word in sys.argv[1:])
page = (root / "docs/abi.md").read_text()
source = re.search(r"^```c\n(.*?)^```$", page, re.S | re.M).group(1)
build, check = re.search(r"^```sh\n(cc .*?)\n(fk-host .*?)\n```$", page, re.S | re.M).groups()

with tempfile.TemporaryDirectory() as work:
    include = pathlib.Path(work) / "include"
    shutil.copytree(root / "plugin_api/fk", include / "fk")
    shutil.copytree(generated / "fk/ops", include / "fk/ops")
    (pathlib.Path(work) / "mine.c").write_text(source)
    subprocess.run(build.replace("INCLUDE", str(include)) + " -Wall -Wextra -Werror", shell=True, check=True, cwd=work)
    said = subprocess.run([host, *check.split()[1:]], cwd=work, capture_output=True, text=True)
    print(said.stdout, said.stderr)
    sys.exit(0 if said.returncode == 0 and "\nPASS" in said.stdout else 1)
