#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""odd_on_gpus.py --host FK_HOST --plugins DIR [--device cuda] [--jobs 8] [--only WORD] [--json FILE]: ranks on GPUs of which the last one dies,
hangs, calls something else, faults or does not come (odd.cu), in `verify`, `check`, `bench` and `run`. Every run has to end in time, with its exit
status, with the rank and the op in its words, and with no process left; afterwards the devices are idle, have their memory back, and a right plugin
passes. Ranks have a GPU each, or share those that there are. Exit 0 when all is so. With --device cpu, for itself: of plugins that are compiled for it."""
import argparse, json, os, pathlib, re, subprocess, sys, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA = ROOT / "test/golden/llama"
LAST = "rank 1"
# A process whose kernel goes on may be there long after it was killed, until the driver lets it end.
DIED = r"{last}: (crashed: SIGKILL|it closed its connection)"
OP = r", in [a-z_0-9]+ \("  # in a model, the last op that was enqueued: where a device hangs or fails it is that or one before it
MISSED = r"{last}: its device did not come to where that of rank [0-9] waited for it"
GONE = "(" + MISSED + ".*" + OP + ")|{last} did not come to "
FAULT = r"{last}: (?!crashed|gave no|its device|was stopped|did not|called)"


class Case:
    """`most`: seconds, of which a few are the start of processes beside others. `words`: an expression over all that is printed."""

    def __init__(self, plugin, verb, words, most, *options, code=1, last=LAST):
        self.plugin, self.verb, self.most, self.options, self.code = plugin, verb, most, options, code
        self.words = words.replace("{last}", last)

    def name(self):
        return f"{self.verb} {self.plugin}"

    def command(self, host, device):
        plugin = f"odd_gpu_{self.plugin}"
        return [str(host), *{"verify": ["verify", LLAMA, "--tp", "2", "--provider", plugin],
                             "check": ["check", plugin],
                             "bench": ["bench", plugin, "--no-store", "--size", "smoke", "--seconds", "0"],
                             "run": ["run", "llama3.1", "--profile", "tiny", "--workload", "single_request", "--tp", "2", "--candidate", plugin]}[self.verb],
                "--device", device, *self.options]


def cases():
    start = 25  # seconds, of processes that share devices and cores with others
    # The default patience, in which hosts wait 20 s for each other and kernels 15 s: those that take longest first.
    # Nobody can know whom a kernel waits for; the last rank's goes on, until it waits for those who wait for it.
    yield Case("peers_leaves", "verify", r"rank [01]: .*(" + OP + "|@)", start + 20)
    short = ("--patience", "15")  # hosts wait 6 s for each other, and kernels of the host as long
    yield Case("host_hangs", "verify", r"{last} did not come to all_reduce", start + 8, *short)
    yield Case("host_leaves", "verify", r"{last} (called .* where rank 0 called |did not come to )all_reduce", start + 8, *short)
    yield Case("host_disagrees", "verify", r"{last} called barrier where rank 0 called all_reduce", start)
    for way in ("host", "peers"):
        yield Case(f"{way}_dies", "verify", DIED + r".*, in all_reduce \(", start)
        yield Case(f"{way}_dies_late", "verify", f"({DIED}|{MISSED})" + r".*, in all_reduce \(", start + 15, *short)
        yield Case(f"{way}_traps", "verify", FAULT + rf".*({OP}|@odd_gpu)", start)
        yield Case(f"{way}_honest", "verify", rf"odd_gpu_{way}_honest(.|\n)*PASS", start + 20, code=0)


def cases_in_turn():
    """Those that have the devices for themselves: `check` and `bench` wait until nobody else is on them, and what a driver says of a fault is believed to
    be a rank's only there. The first three are of two ranks, the others of three."""
    # Where kernels that do not end are several on a device, its driver takes long to end their processes.
    yield Case("peers_stuck", "verify", GONE, 30)
    yield Case("peers_hangs", "verify", GONE, 30)
    yield Case("host_stuck", "verify", MISSED + ".*" + OP, 30, "--patience", "15")
    short, last = ("--patience", "10"), "rank 2"
    yield Case("host_traps", "check", r"all_reduce +.*violation +forward +" + FAULT, 30, "--ranks", "3", *short, last=last)
    yield Case("host_stuck", "check", r"all_reduce +.*violation +time +" + MISSED, 30, "--ranks", "3", *short, last=last)
    yield Case("host_traps", "bench", r"all_reduce, case smoke1(.|\n)*" + FAULT, 40, "--case", "smoke1", *short, last=last)
    yield Case("peers_dies_late", "run", r"failed +" + DIED + r".*, in all_reduce \(", 40, *short)


def left_behind(broker):
    """Runners have their broker's process id as an argument."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"__runner", str(broker).encode()]:
            found.append(int(entry.name))
    return found


def where_they_are(broker):
    """Of a broker and its runners, threads by what they wait in: what a run that does not end was at."""
    found = []
    for pid in [broker, *left_behind(broker)]:
        for thread in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
            try:
                state = (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]
                found.append(f"{pid}/{thread.name} {(thread / 'comm').read_text().strip()} {state} {(thread / 'wchan').read_text()} {(thread / 'syscall').read_text().split()[0]}")
            except (OSError, IndexError):
                continue
    return "\n".join(found)


def devices_now():
    """MiB that are used and percent that are busy, by GPU; a machine that does not count the latter is taken for idle."""
    seen = ["-i", os.environ["CUDA_VISIBLE_DEVICES"]] if os.environ.get("CUDA_VISIBLE_DEVICES") else []
    said = subprocess.run(["nvidia-smi", *seen, "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return [tuple(int(word) if word.strip().isdigit() else 0 for word in line.split(",")) for line in said.stdout.splitlines()] if said.returncode == 0 else []


class Runs:
    def __init__(self, arguments):
        self.a, self.rows, self.lock = arguments, [], threading.Lock()
        self.environment = dict(os.environ, FK_CANDIDATES=str(arguments.plugins))

    def run(self, case):
        start = time.monotonic()
        process = subprocess.Popen(list(map(str, case.command(self.a.host, self.a.device))), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment)
        wrong = []
        try:
            said, _ = process.communicate(timeout=case.most)
        except subprocess.TimeoutExpired:
            wrong.append(f"not done after {case.most} s")
            there = where_they_are(process.pid)
            process.kill()
            said, _ = process.communicate()
            said += there
        seconds = time.monotonic() - start
        if left := left_behind(process.pid):
            wrong.append(f"left behind: {left}")
        if not wrong and process.returncode != case.code:
            wrong.append(f"exit {process.returncode} and not {case.code}")
        if not re.search(case.words, said):
            wrong.append(f"not said: {case.words}")
        words = next((line.strip() for line in said.splitlines() if re.search(r"rank \d", line)), "")
        with self.lock:
            self.rows.append({"case": case.name(), "seconds": round(seconds, 1), "most_s": case.most, "said": re.sub(" +", " ", words)[:300], "wrong": wrong})
            if wrong:
                print(f"BAD {case.name()}, {seconds:.1f} s: {'; '.join(wrong)}\n{said}", flush=True)

    def queue(self, waiting):
        while True:
            with self.lock:
                case = next(waiting, None)
            if case is None:
                return
            self.run(case)

    def wanted(self, cases):
        return (case for case in cases if not self.a.only or re.search(self.a.only, case.name()))

    def all(self):
        parallel, in_turn = self.wanted(cases()), self.wanted(cases_in_turn())
        threads = [threading.Thread(target=self.queue, args=(parallel,)) for _ in range(self.a.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.queue(in_turn)

    def idle_again(self, before):
        """The devices are idle and have their memory back, and a right plugin passes there."""
        wrong = [] if before else ["nvidia-smi says nothing of them"]
        for _ in range(50 if before else 0):
            now = devices_now()
            wrong = [f"GPU {i}: {used} MiB used, {before[i][0]} before; busy {busy} %" for i, (used, busy) in enumerate(now) if used > before[i][0] + 64 or busy > 10]
            if not wrong:
                break
            time.sleep(0.1)
        if wrong:
            self.rows.append({"case": "devices afterwards", "seconds": 5, "most_s": 5, "said": "", "wrong": wrong})
            print("BAD devices afterwards: " + "; ".join(wrong))
        self.run(Case("peers_honest", "check", r"\nPASS", 40, "--quick", code=0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", type=pathlib.Path, required=True)
    parser.add_argument("--plugins", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--only", help="an expression that a case's name has")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    if a.device != "cpu" and not pathlib.Path("/dev/nvidiactl").exists():
        print("skipped: no NVIDIA GPU on this machine")
        return 0
    start = time.monotonic()
    runs, before = Runs(a), devices_now() if a.device != "cpu" else []
    runs.all()
    if a.device != "cpu":
        runs.idle_again(before)
    bad = [row for row in runs.rows if row["wrong"]]
    for row in runs.rows:
        print(f"{row['case']}: {row['seconds']} s: {row['said']}")
    print(f"{len(runs.rows) - len(bad)} of {len(runs.rows)} runs with a rank that goes wrong ended as they should, in {time.monotonic() - start:.0f} s")
    if a.json:
        a.json.write_text(json.dumps({"seconds": time.monotonic() - start, "runs": runs.rows}, indent=1))
    return 1 if bad or not runs.rows else 0


if __name__ == "__main__":
    sys.exit(main())
