#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rules.py ROOT: names of the rules of `check` are part of the ABI's promise (rules.v1.txt). Fails if a promised name is
gone from the code or from docs/abi.md, or if either has a name that is not promised."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
BREAKS = [r'Broken\{"(\w+)"', r'Broken\{[^,;]* \? "(\w+)" : "(\w+)"', r'ConformanceFault\{"(\w+)"', r'return \{"(\w+)",',
          r'of_instances = \{"(\w+)",', r'push_back\(\{"(\w+)",', r'^ {10}\{"(\w+)", s\.field', r'need_equal\([^;]*?, "(\w+)",',
          r'\brule = "(\w+)"', r'\brule = says\([^;]*? \? "(\w+)"[^;]*? \? "(\w+)"\s+: "(\w+)"', r'\badd\([^,;]*, "(\w+)",',
          r'CheckStatus::violation, "(\w+)"', r'\{"(?:crashed|exited|hang|memory|lost|forbidden)", "(\w+)"\}']
PARTS = [r'/\*fatal=\*/true,\s*"(\w+)"', r'\{strict, "(\w+)"']


def named(files, patterns):
    found = {}
    for path in files:
        text = path.read_text()
        for pattern in patterns:
            for match in re.finditer(pattern, text, re.M):
                for name in filter(None, match.groups()):
                    found.setdefault(name, path.relative_to(ROOT))
    return found


def documented(text):
    """The first column of the tables of rules, and the parts of the lint."""
    rules, on = set(), False
    for line in text.splitlines():
        if line.startswith("| rule |"):
            on = True
        elif not line.startswith("|"):
            on = False
        elif on and line.startswith("| `"):
            rules |= set(re.findall(r"`(\w+)`", line.split("|")[1]))
    return rules


def main():
    lines = (ROOT / "test/abi/rules.v1.txt").read_text().split()
    promised = {"rules": {name for name in lines if not name.startswith("lint:")},
                "parts of the lint": {name[5:] for name in lines if name.startswith("lint:")}}
    core = ROOT / "core"
    page = (ROOT / "docs/abi.md").read_text()
    files = [*(core / "check").glob("*.cpp"), *(core / "cases").glob("*.cpp"), *(core / "cli").glob("check*.cpp")]
    # The host knows the exception that left a plugin by its kind of failure.
    code = {"rules": {**named(files, BREAKS), **named([core / "worker/runner.cpp"], [r'"(threw)"'])},
            "parts of the lint": named([core / "plugin/lint.cpp"], PARTS)}
    lint_row = next(line for line in page.splitlines() if line.startswith("| `lint` |"))
    pages = {"rules": documented(page), "parts of the lint": set(re.findall(r"`(\w+)`", lint_row.split("|")[2]))}
    faults = []
    for what, names in promised.items():
        for where, there in (("the code", code[what]), ("docs/abi.md", {name: "its tables" for name in pages[what]})):
            faults += [f"{what}: `{name}` is promised, and gone from {where}" for name in sorted(names - set(there))]
            faults += [f"{what}: {where} ({there[name]}) has `{name}`, which test/abi/rules.v1.txt lacks" for name in sorted(set(there) - names)]
    print("\n".join(faults) or f"{sum(map(len, promised.values()))} names are as promised")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
