#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""divided.py FILE [--host build-gpu/fk-host] [--device cuda] [--jobs 8]: `fk-host verify` of every reference case, divided between two and four
ranks: tensors, experts, both, and with overlapped sums. Right values are all that counts, so processes run side by side. FILE gets the cases
of each division. Exit 1 where a model with laws of division is wrong; a model without them says so, and is counted apart."""
import argparse, concurrent.futures, json, pathlib, subprocess, tempfile
from check_summary import undivided

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOW = "--tp 2", "--tp 4", "--ep 2", "--ep 4", "--tp 2 --ep 2", "--ep 3", "--tp 2 --overlap", "--tp 4 --overlap"


def verify(host, device, how, cases, most):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "verify.json"
        command = [host, "verify", *cases, *how.split(), "--device", device, "--json", str(file)]
        try:
            said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=most)
        except subprocess.TimeoutExpired:
            return how, [{"name": " ".join(cases), "passed": False, "error": f"not done after {most:g} s", "rows": []}]
        if not file.exists():
            return how, [{"name": " ".join(cases), "passed": False, "error": f"exit {said.returncode}: {said.stderr[-500:]}", "rows": []}]
        return how, json.loads(file.read_text())["cases"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--host", default="build-gpu/fk-host")
    p.add_argument("--device", default="cuda")
    p.add_argument("--jobs", type=int, default=8)
    p.add_argument("--limit", type=float, default=300, help="seconds of one process")
    args = p.parse_args()
    host = str(pathlib.Path(args.host).resolve())
    cases = [str(c.parent.relative_to(ROOT)) for c in sorted(ROOT.glob("test/golden/*/config.json"))]
    found = {how: [] for how in HOW}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for how, rows in pool.map(lambda at: verify(host, args.device, at[0], at[1], args.limit),
                                  [(how, cases[first:first + 12]) for how in HOW for first in range(0, len(cases), 12)]):
            found[how] += rows
    args.file.write_text(json.dumps({how: {c["name"]: c["error"] or ("pass" if c["passed"] else [r["what"] for r in c["rows"] if not r["ok"]])
                                           for c in rows} for how, rows in found.items()}, indent=1) + "\n")
    wrong = [(how, c) for how, rows in found.items() for c in rows if not c["passed"] and not undivided(c)]
    for how, rows in found.items():
        print(f"{how}: {sum(c['passed'] for c in rows)} of {sum(not undivided(c) for c in rows)} models pass, {sum(undivided(c) for c in rows)} are not divided")
    for how, c in wrong:
        print(f"BAD {how} {c['name']}: {c['error'] or [r['what'] for r in c['rows'] if not r['ok']]}")
    return 1 if wrong or not all(any(c["passed"] for c in rows) for rows in found.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
