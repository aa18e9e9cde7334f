#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rank_providers.py FILE [--host build/fk-host] [--device cuda:0] [--op OP ...] [--seconds S] [--most S]: the `ranking` of registry/devices,
measured. Every op that two or more baselines beside the oracles serve has its full cases raced by all of them in one run (`fk-host bench OP
--size full`). FILE gets device, driver, commit, date and all rows; what is printed can be put into the device's file: for each op the
providers by the geometric mean of their times over the best one's, where every provider that takes less than all cases stands behind those
that take more; by a bound on the sizes where one saves more than 1 % a case. Behind it stand the cases that the first one does not win, and by how
much. What is left out by --most is named."""
import argparse, collections, json, math, os, pathlib, subprocess, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parents[2]
ORACLES = ("reference", "cuda_reference")
WORTH = 0.01  # of the time of a case, in the mean: what a bound on sizes has to save


def order(rows):
    """Providers, best first, of rows with cold_s: (cases taken, mean ratio)."""
    best = {}
    for r in rows:
        best[r["case"]] = min(best.get(r["case"], math.inf), r["cold_s"])
    ratios = collections.defaultdict(list)
    for r in rows:
        ratios[r["provider"]].append(math.log(r["cold_s"] / best[r["case"]]))
    return sorted(ratios, key=lambda p: (-len(ratios[p]), sum(ratios[p]) / len(ratios[p]), p))


def seconds_of(rows, provider):
    """The sum of the logarithms of a provider's times over the best ones, by cases; none where it does not take all."""
    cases = collections.defaultdict(dict)
    for r in rows:
        cases[r["case"]][r["provider"]] = r["cold_s"]
    return sum(math.log(times[provider] / min(times.values())) for times in cases.values()) if all(provider in times for times in cases.values()) else math.inf


def split_of(rows, first):
    """The bound on sizes above which another provider than below is best, that saves most: (expression, least value above), or None."""
    def values(expression, r):
        letters = {"max": max, **r["axes"]}
        return eval(expression.replace("/", "//"), {"__builtins__": {}}, letters)

    letters = sorted({letter for r in rows for letter in r.get("axes", {})})
    expressions = [letter for letter in letters if all(letter in r.get("axes", {}) for r in rows)]
    if {"T", "B"} <= set(expressions):
        expressions.append("T/max(B,1)")
    best, split = seconds_of(rows, first) - len({r["case"] for r in rows}) * math.log(1 + WORTH), None
    for expression in expressions:
        seen = sorted({values(expression, r) for r in rows})
        for low, high in zip(seen, seen[1:]):
            sides = [[r for r in rows if (values(expression, r) >= high) == above] for above in (True, False)]
            lost = sum(seconds_of(side, order(side)[0]) for side in sides)
            if lost < best - 1e-12:
                best, split = lost, (expression, max(low + 1, math.ceil(math.sqrt(low * high))), sides)
    return split


def ranking_of(op, rows):
    """The entry of an op, and the cases that its first provider does not win: (entry, [(case, provider, ratio)])."""
    taken = [r for r in rows if r.get("cold_s") and not r.get("why") and r["provider"] not in ORACLES]
    if not taken:
        return None, []
    entry = order(taken)
    firsts = {r["case"]: entry[0] for r in taken}
    if split := split_of(taken, entry[0]):
        expression, least, sides = split
        entry = [(f'{{where: {{"{expression}": {{at_least: {least}}}}}, providers: ', order(sides[0])), ("", order(sides[1]))]
        firsts = {r["case"]: order(side)[0] for side in sides for r in side}
    lost = []
    for case, first in sorted(firsts.items()):
        times = {r["provider"]: r["cold_s"] for r in taken if r["case"] == case}
        best = min(times, key=times.get)
        if best != first:
            lost.append((case, best, times[first] / times[best] if first in times else None))
    return entry, lost


def text_of(op, entry):
    one = lambda providers: "[" + ", ".join(providers) + "]"
    if isinstance(entry[0], str):
        return f"  {op}: " + one(entry)
    return f"  {op}:\n" + "\n".join("    - " + where + one(providers) + ("}" if where else "") for where, providers in entry)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--host", default="build/fk-host")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--op", nargs="+", default=[])
    parser.add_argument("--seconds", default="0.1", help="of a race, for each provider")
    parser.add_argument("--most", type=float, default=1e9, help="seconds, after which no further op is raced")
    arguments = parser.parse_args()
    said = lambda *command: subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ops = collections.defaultdict(list)
    listed = json.loads(said(arguments.host, "list", "plugins", "--json"))
    kind = arguments.device.split(":")[0]
    for plugin in listed["rows"]:
        if plugin["kind"] == "baseline" and plugin["plugin"] not in ORACLES and (plugin["plugin"] == "cpu") == (kind == "cpu"):
            for op in plugin["ops"]:
                ops[op].append(plugin["plugin"])
    wanted = arguments.op or sorted(op for op, providers in ops.items() if len(providers) > 1)
    begin, rows, left = time.monotonic(), [], []
    for op in wanted:
        if time.monotonic() - begin > arguments.most:
            left.append(op)
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "bench.json"
            options = [word for provider in ops[op] for word in ("--provider", provider)]
            done = subprocess.run([arguments.host, "bench", op, "--size", "full", "--device", arguments.device, "--seconds", arguments.seconds, *options, "--json", str(out)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            report = json.loads(out.read_text()) if out.exists() and out.read_text() else None
        if not report:
            sys.exit(f"{op}: no report: {done.stderr.strip()[-300:]}")
        rows += report["rows"]
        entry, lost = ranking_of(op, [r for r in rows if r["op"] == op])
        if entry:
            print(text_of(op, entry), flush=True)
        for case, best, ratio in lost:
            print(f"  # {op} {case}: {best}" + (f", {ratio:.3f} times as fast" if ratio else ", which the first does not take"))
    commit = os.environ.get("FK_COMMIT") or said("git", "-C", str(root), "rev-parse", "--short", "HEAD").strip()
    driver = pathlib.Path("/proc/driver/nvidia/version")
    arguments.file.write_text(json.dumps({"what": "providers beside each other", "command": " ".join(["scripts/gpu/rank_providers.py FILE", *sys.argv[2:]]), "device": report["device"],
                                          "driver": driver.read_text().splitlines()[0] if driver.exists() else "", "commit": commit, "date": time.strftime("%F", time.gmtime()),
                                          "left_out": left, "rows": rows}, indent=1) + "\n")
    if left:
        print(f"  # left out: {' '.join(left)}")


if __name__ == "__main__":
    main()
