#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a verdict takes, from the start of `fk-host bench` to its end: verdict_latency.py [--json FILE] [-- options of bench].

Asks about a right, a wrong and a crashing plugin (--right, --wrong, --crashed; the defaults are of test/attacks and
test/bad_plugins, which have to be built) and about one that was asked about before, without and with `fk-host serve`; then --clients
of them ask the server at once. With the server there is a pause of --pause seconds between questions, in which it prepares. Beside the
wall time stands the processor time of everything that the question made run, which a busy machine changes less. The data folder is the
script's own, and so are the cases: silu_and_mul has five smoke cases there. Without options for bench: --size smoke."""
import argparse, collections, concurrent.futures, json, os, pathlib, platform, re, shutil, subprocess, sys, tempfile, time

from seen_on import seen_on

root = pathlib.Path(__file__).resolve().parent.parent
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--host", default=str(root / "build/fk-host"))
parser.add_argument("--right", default=str(root / "build/test/attacks/plugins/honest/kahan.so"))
parser.add_argument("--wrong", default=str(root / "build/test/attacks/plugins/math/c12_weight.so"))
parser.add_argument("--crashed", default=str(root / "build/test/bad_plugins/plugins/bad_segfault.so"))
parser.add_argument("--runs", type=int, default=20)
parser.add_argument("--pause", type=float, default=2)
parser.add_argument("--clients", type=int, default=16)
parser.add_argument("--device", default="cpu", help="also an option of bench")
parser.add_argument("--served", action="store_true", help="with the server alone")
parser.add_argument("--rounds", type=int, default=2, help="questions of every client")
parser.add_argument("--json", type=pathlib.Path)
at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
options, rest = parser.parse_args(sys.argv[1:at]), sys.argv[at + 1:] or ["--size", "smoke"]
rest += ["--device", options.device]
ticks = os.sysconf("SC_CLK_TCK")


CASES = ((5, 32), (3, 17), (7, 64), (40, 96), (1, 1024))  # rows and sizes; the first two are the contract's own


def five_cases(folder):
    """A home whose silu_and_mul has these smoke cases."""
    home = pathlib.Path(folder) / "home"
    shutil.copytree(root / "registry", home / "registry")
    (home / "scenarios").symlink_to(root / "scenarios")
    contract = next((home / "registry").rglob("silu_and_mul.yaml"))
    rows = "".join(f"    - {{T: {t}, size: {size}}}\n" for t, size in CASES)
    text, found = re.subn(r"^  smoke:\n(    - .*\n)+", "  smoke:\n" + rows, contract.read_text(), flags=re.M)
    if not found:
        sys.exit(f"{contract}: no smoke cases to replace")
    contract.write_text(text)
    return home


def processor_s(pid):
    """Of a process and its children, those that have ended and those that have not."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(stat.parent.name) == pid:
            total += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            total += sum(map(int, fields[11:13]))
    return total / ticks


def ask(env, plugin, *words, server=None):
    """Seconds, seconds of the processor, and the verdict."""
    before, served = os.times(), server and processor_s(server.pid)
    start = time.perf_counter()
    done = subprocess.run([options.host, "bench", plugin, "--json", *rest, *words], env=env, capture_output=True, text=True)
    took = time.perf_counter() - start
    after = os.times()
    if not done.stdout.startswith("{"):
        sys.exit(f"no verdict: {done.stderr}")
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return took, busy + (processor_s(server.pid) - served if server else 0), json.loads(done.stdout)


def quantiles(values):
    values = sorted(values)
    return {"median": values[len(values) // 2], "p95": values[min(len(values) - 1, int(0.95 * len(values)))], "most": values[-1]}


def measure(env, server):
    rows = []
    for name, plugin, words in (("right", options.right, ("--fresh",)), ("wrong", options.wrong, ("--fresh",)),
                                ("crashed", options.crashed, ("--fresh",)), ("duplicate", options.right, ())):
        if name == "duplicate":
            time.sleep(2.1)  # hashes of files are remembered once these are older than their clocks' grain
        ask(env, plugin, *words, server=server)  # what is made ahead is what was asked for before
        asked = []
        for _ in range(options.runs):
            if server and name != "duplicate":
                time.sleep(options.pause)
            asked.append(ask(env, plugin, *words, server=server))
        statuses = sorted({v["status"] for _, _, v in asked})
        if name == "duplicate" and not all(v["stored"] for _, _, v in asked):
            sys.exit("a question that was asked before was not answered from the store")
        rows.append({"what": name, "server": bool(server), "plugin": pathlib.Path(plugin).stem, "statuses": statuses, "cases": sum(not case["beside"] for case in asked[0][2]["cases"]),
                     "wall_s": quantiles([t for t, _, _ in asked]), "processor_s": quantiles([t for _, t, _ in asked]), "runs": len(asked)})
        # What the judge did with it, as the verdicts say.
        spent = [{s["what"]: s["seconds"] for s in v["spent"]} for _, _, v in asked]
        rows[-1]["spent_s"] = {what: quantiles([s.get(what, 0) for s in spent])["median"] for what in dict.fromkeys(what for s in spent for what in s)}
        slowest, reasons = max(asked, key=lambda one: one[0])[2], lambda v: [re.sub(r"[-+.\d]*\d[-+.\de]*", "N", f"{case['status']}: {case['why']}") for case in v["cases"] if case["why"]]
        rows[-1]["slowest_s"] = {s["what"]: s["seconds"] for s in slowest["spent"]}
        rows[-1]["reasons"] = dict(collections.Counter(why for _, _, v in asked for why in reasons(v)))
        w, p = rows[-1]["wall_s"], rows[-1]["processor_s"]
        print(f"{name:<10} {'with' if server else 'without'} server  {'/'.join(statuses):<18} {len(asked)} runs  wall median {1e3 * w['median']:8.1f} ms  "
              f"p95 {1e3 * w['p95']:8.1f} ms  processor median {1e3 * p['median']:8.1f} ms", flush=True)
    return rows


def beside():
    """What is in every question: this program's start, and beside it what the driver takes to name its devices, which it does not ask."""
    def once(work):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    files = list(pathlib.Path("/proc/driver/nvidia/gpus").glob("*/information"))
    return {"start_s": quantiles([once(lambda: subprocess.run([options.host, "--version"], capture_output=True)) for _ in range(options.runs)]),
            "driver_s": quantiles([once(lambda: [file.read_text() for file in files]) for _ in range(options.runs)]) if files else None}


def together(env):
    """Verdicts in an hour when so many clients ask without a pause."""
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        list(pool.map(lambda _: ask(env, options.right, "--fresh"), range(options.rounds * options.clients)))
    return options.rounds * options.clients / (time.perf_counter() - start) * 3600


def write(rows, parts, loads, device, rate):
    """Also before all is seen: what was stays where the rest is stopped."""
    if options.json:
        options.json.write_text(json.dumps({
            "what": "verdict latency", **seen_on(device, options.json), "machine": platform.machine(), "threads": os.cpu_count(), "load": loads, "pause_s": options.pause,
            "rows": rows, **parts, "clients": options.clients, "verdicts_per_hour": rate}, indent=1) + "\n")


with tempfile.TemporaryDirectory() as folder:
    env = dict(os.environ, FK_DATA=f"{folder}/data", FK_HOME=str(five_cases(folder)))
    loads = [os.getloadavg()[0]]
    rows, parts = [] if options.served else measure(env, None), beside()
    print("start of the program", parts["start_s"], "files of the driver", parts["driver_s"], flush=True)
    server = subprocess.Popen([options.host, "serve", "--device", options.device], env=env, stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    try:
        rows += measure(env, server)
        device = ask(env, options.right, server=server)[2]["device"]
        write(rows, parts, loads, device, None)
        rate = together(env)
    finally:
        server.terminate()
        server.communicate()
    loads.append(os.getloadavg()[0])
print(f"{rate:.0f} verdicts in an hour for {options.clients} clients; {device}; load {loads[0]:.1f} to {loads[1]:.1f}")
write(rows, parts, loads, device, rate)
