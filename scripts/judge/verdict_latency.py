#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a default verdict takes, from the start of `fk-host bench CANDIDATE` to its end, with and without `fk-host serve`.

Candidates are the shipped templates as `fk-host new` writes them: the right one is unchanged, the wrong one has another constant in its
answer, the crashing one ends in its first call, and the refusing one is the source that `new` writes for an op that has no template.
Cases are the contracts'. --provider judges a provider as a candidate of --op instead, where no template is right. Before each question to
the server there is a pause of --pause seconds, in which it prepares. Exit 1 when the slowest run of a kind is above its aim."""
import argparse, json, os, pathlib, platform, re, subprocess, sys, tempfile, time

from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--host", default=str(root / "build/fk-host"))
parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda:0")
parser.add_argument("--op", action="append", help="whose template is judged (default: silu_and_mul), or with --provider the provider's")
parser.add_argument("--provider", default="", help="the file of a plugin that is judged as a candidate of each --op")
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--pause", type=float, default=5)
parser.add_argument("--kinds", nargs="+", default=["right", "wrong", "crashed", "refused"])
parser.add_argument("--server", choices=["with", "without", "both"], default="both")
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()
options.host = os.path.abspath(options.host)
ops = options.op or ["silu_and_mul"]
gpu = options.device != "cpu"

# Seconds without and with a server. Of several products for each output the work is larger.
HEAVY = re.compile("attention|linear|moe")
AIMS = {"wrong": (2, 0.5), "crashed": (1.5, 0.3), "refused": (1.5, 0.3)}
RIGHT = {"faster", "same", "slower", "cannot_tell", "correct"}


def aim(kind, op):
    if not gpu:  # with a server none is stated
        return (25 if HEAVY.search(op) else 6), None
    if kind == "right":
        return (10, 4) if HEAVY.search(op) else (6, 1.5) if op == "silu_and_mul" else (12, 3)
    return AIMS[kind]


def edited(text, kind):
    """The template's source with what makes it wrong or crash."""
    changes = {"wrong": [(r"\(1 \+ (__expf|std::exp|expf)\(", r"(1.05f + \1("), (r"\bdouble sum = 0", "double sum = 0.1"), (r"\bfloat sum = 0", "float sum = 0.1f")],
               "crashed": [(r"if \(i >= count\) return;", "__trap();"), (r"(void forward\([^)]*\)[^{]*\{)", r"\1 __builtin_trap();")]}
    for pattern, replacement in changes[kind]:
        text, found = re.subn(pattern, replacement, text, count=1)
        if found:
            return text
    sys.exit(f"the template has nothing that `{kind}` changes")


def candidate(env, kind, op):
    name, language = f"{op}_{kind}", "cu" if gpu else "cpp"
    its = op
    if kind == "refused":
        its = "rms_norm" if gpu else "rotary_embedding"  # without a template: it refuses every case
    subprocess.run([options.host, "new", its, "--name", name, "--lang", language], env=env, check=True, capture_output=True)
    source = pathlib.Path(env["FK_CANDIDATES"]) / name / f"{its}.{language}"
    if kind in ("wrong", "crashed"):
        source.write_text(edited(source.read_text(), kind))
    subprocess.run([options.host, "build", name], env=env, check=True, capture_output=True)
    return [name]


def ask(env, words):
    start = time.perf_counter()
    done = subprocess.run([options.host, "bench", *words, "--device", options.device, "--fresh", "--json"], env=env, capture_output=True, text=True)
    took = time.perf_counter() - start
    if not done.stdout.startswith("{"):
        sys.exit(f"no verdict: {done.stderr}")
    return took, json.loads(done.stdout)


def measure(env, kind, op, words, served):
    if served:
        ask(env, words)  # what is made ahead is what was asked for before
    asked = []
    for _ in range(options.runs):
        if served:
            time.sleep(options.pause)
        asked.append(ask(env, words))
    times, verdicts = sorted(took for took, _ in asked), [verdict for _, verdict in asked]
    statuses = sorted({v["status"] for v in verdicts})
    if not set(statuses) <= (RIGHT if kind == "right" else {kind}):
        sys.exit(f"{words[0]} is {'/'.join(statuses)}: {verdicts[0]['why']}")
    spent = {}
    for verdict in verdicts:
        for part in verdict["spent"]:
            spent.setdefault(part["what"], []).append(part["seconds"])
    cases = verdicts[-1]["cases"]
    named = lambda rows: [case["case"] + (f", {case['variant']}" if case["variant"] else "") for case in rows]
    row = {"what": kind, "op": op, "server": served, "plugin": words[0], "statuses": statuses, "aim_s": aim(kind, op)[served], "runs": len(times),
           "wall_s": {"median": times[len(times) // 2], "most": times[-1]},
           "cases": sum(not case["beside"] and not case["left_out"] for case in cases), "smaller": sum(case["beside"] for case in cases),
           "timed": named(case for case in cases if case["timings"]), "left_out": named(case for case in cases if case["left_out"]),
           "spent_s": {what: sorted(all)[len(all) // 2] for what, all in spent.items()}}
    missed = row["aim_s"] is not None and times[-1] > row["aim_s"]
    print(f"{kind:<8} {op:<18} {'with' if served else 'without':<7} server  {'/'.join(statuses):<12} median {row['wall_s']['median']:6.2f} s  most {times[-1]:6.2f} s"
          + (f"  aim {row['aim_s']} s{'  MISSED' if missed else ''}" if row["aim_s"] is not None else ""), flush=True)
    return row, missed


def main():
    rows, missed = [], False
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FK_DATA=f"{folder}/data", FK_CANDIDATES=f"{folder}/candidates", FK_CACHE=f"{folder}/cache")
        os.makedirs(env["FK_CANDIDATES"])
        if options.provider:
            questions = [("right", op, [os.path.abspath(options.provider), "--op", op]) for op in ops]
        else:
            questions = [(kind, op, candidate(env, kind, op)) for op in ops for kind in options.kinds]
        device = options.device
        for served in (False, True):
            if options.server == ("without" if served else "with"):
                continue
            server = served and subprocess.Popen([options.host, "serve", "--device", options.device], env=env, stdout=subprocess.PIPE, text=True)
            if server:
                server.stdout.readline()
            try:
                for kind, op, words in questions:
                    row, late = measure(env, kind, op, words, served)
                    rows.append(row)
                    missed |= late
            finally:
                if server:
                    server.terminate()
                    server.communicate()
        if gpu:
            device = ask(env, questions[0][2])[1]["device"]
    if options.json:
        options.json.write_text(json.dumps({"what": "default verdicts", **seen_on(device, options.json), "machine": platform.machine(), "threads": os.cpu_count(),
                                            "load": os.getloadavg()[0], "pause_s": options.pause, "rows": rows}, indent=1) + "\n")
    return 1 if missed else 0


sys.exit(main())
