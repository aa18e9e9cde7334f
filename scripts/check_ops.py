#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_ops.py FOLDER [--host PATH] [--device D] [--size S] [--jobs N] [--but PLUGIN ...]: `fk-host check` of every plugin that is
found for the device, a process for each op and --jobs of them side by side, because most of a check is the reference on a core.
FOLDER gets a report of each plugin, check-PLUGIN.json, as one `check` of all its ops would give it, with the seconds of each op.
Exit 1 when a row is wrong or breaks a rule, a process gave no report, or nothing of a plugin was right."""
import argparse, concurrent.futures, json, pathlib, subprocess, sys, tempfile, time

from check_summary import of_check

root = pathlib.Path(__file__).resolve().parent.parent


def check(options, folder, plugin, op):
    """The report of one op, or why there is none; and its seconds."""
    file = pathlib.Path(folder) / f"{plugin}-{op}.json"
    start = time.monotonic()
    command = [options.host, "check", plugin, "--op", op, "--device", options.device, "--size", options.size, "--json", file]
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=options.most)
        why = f"exit {done.returncode}: {(done.stderr or done.stdout)[-300:].strip()}"
    except subprocess.TimeoutExpired:
        why = f"more than {options.most:.0f} s"
    took = time.monotonic() - start
    try:
        return json.loads(file.read_text()), "", took
    except (OSError, ValueError):
        return None, why, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--host", type=pathlib.Path, default=root / "build/fk-host")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="ci")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--most", type=float, default=300, help="seconds of an op")
    parser.add_argument("--but", nargs="+", default=[], metavar="PLUGIN", help="without these")
    options = parser.parse_args()
    listed = json.loads(subprocess.run([options.host, "list", "plugins", "--json"], capture_output=True, text=True, check=True).stdout)
    ops = {row["plugin"]: row["ops"] for row in listed["rows"] if row["plugin"] not in options.but and row.get("ops")}
    bad = False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        asked = {plugin: {op: pool.submit(check, options, folder, plugin, op) for op in ops[plugin]} for plugin in ops}
        for plugin, by_op in asked.items():
            whole, seconds, missing = None, {}, []
            for op, future in by_op.items():
                report, why, seconds[op] = future.result()
                if not report:
                    missing.append(f"  {op}: no report: {why}")
                elif whole:
                    whole["rows"] += report["rows"]
                else:
                    whole = report
            if whole:
                statuses = [row["status"] for row in whole["rows"]]
                whole["passed"] = not missing and "ok" in statuses and not {"wrong", "violation"} & set(statuses)
                whole["seconds"] = {op: round(s, 2) for op, s in seconds.items()}
                (options.folder / f"check-{plugin}.json").write_text(json.dumps(whole))
                print("\n".join(of_check(whole)))
            print("\n".join(missing), end="\n" if missing else "")
            bad |= not whole or not whole["passed"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
