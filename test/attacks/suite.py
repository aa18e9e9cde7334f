#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has every attack and every honest control judged and prints the score.

Each plugin goes through the judge (judge() below, the only place that knows its command). Each attack also goes through
naive_judge.cpp, which must believe it: an attack that fools nobody proves nothing. Exit 1 if an attack is accepted, an honest
control is rejected, or an attack does not do what it says. Exit 1, too, if an attack is off target: it ends with another status
than its `verdict:` line names, so its defence was not reached. One with threads may be stopped anyhow. --markdown FILE redraws the tables of docs/attacks.md."""
import argparse, concurrent.futures, contextlib, glob, itertools, json, os, pathlib, re, subprocess, sys, tempfile, threading, time

root = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(root.parent.parent / "scripts/judge"))
from seen_on import seen_on

say = threading.Lock()


# Right answers, whatever their speed; an attack that is judged slower has gained nothing.
RIGHT = ("faster", "same", "cannot_tell", "correct", "slower")
STOPPED = ("cheating", "impossible", "illegal_access", "crashed", "hang", "memory", "violation", "wrong", "nondeterministic", "graph_unsafe")
# How an attack may end that does not say it. What never ran, or has nothing to be compared with, has tried nothing.
USUAL = STOPPED + RIGHT
STATUSES = USUAL + ("compile_error", "lint", "load", "environment", "untestable", "unjudged", "refused", "unused")

# What the naive judge compares an attack on a GPU with, in its own process; of other ops, `cuda_reference`.
HONEST = {"silu_and_mul": "cuda_honest/cuda_plain", "rms_norm": "cuda_honest/cuda_norm", "all_reduce": "cuda_ranks/cuda_ranks_one_shot"}


def naive_of(path, text, op):
    """(words for fooled(), why there are none): `naive: OP accepted|faster [options]`, or `naive: -` and the reason."""
    found = re.search(r"^naive: ([^ \n]+) ?([^\n]*)$", text, re.M)
    words = found[2].split() if found else []
    if found and found[1] == "-":
        return None, found[2]
    if not found or found[1] != op or not words or words[0] not in ("accepted", "faster"):
        sys.exit(f"{path}: its first comment does not say how the naive judge takes it (naive: {op} accepted, or faster, or -)")
    return words, ""


def head(path):
    """What the first lines of an attack or a control say about it."""
    comment = itertools.takewhile(lambda line: re.match(r"(//|/\*)", line), path.read_text().split("\n")[1:])
    text = re.sub(r"(?<=\S)\n(?=\S)", " ", "\n".join(re.sub(r"^(//|/\*) ?| ?\*/$", "", line) for line in comment))
    about = re.search(r"^([A-G]\d+|honest): (.*)$", text, re.M)
    stopped = re.search(r"^Stopped by: (.*)$", text, re.M)
    verdict = re.search(r"^verdict: (.*)$", text, re.M)
    size = re.search(r"^size: (\w+)$", text, re.M)
    captured = re.search(r"^captured: (\w+)$", text, re.M)
    ratio = re.search(r"^ratio: ([0-9.]+) at least$", text, re.M)
    if not about:
        sys.exit(f"{path}: its first comment has no class")
    if re.search(r" (work|naive|ratio|size|captured|verdict): ", about[2]):
        sys.exit(f"{path}: a line that says something for itself needs an empty one before it")
    ends = tuple(verdict[1].split()) if verdict else USUAL
    if unknown := set(ends) - set(STATUSES):
        sys.exit(f"{path}: its verdict has no status {unknown.pop()}")
    # Threads, signals and children of its own race with the judge: it is chance where they are when they are stopped.
    if re.search(r"<thread>|<c?signal|pthread|ahead\.hpp|fork\(", path.read_text()):
        ends += STOPPED
    found = re.search(r"^FK_OP\((\w+),|^FK_(\w+)_OP\(", path.read_text(), re.M)
    op = (found[1] or found[2]).lower() if found else ""
    naive, why = naive_of(path, text, op) if about[1] != "honest" else (None, "")
    return {"name": path.stem, "folder": path.parent.name, "class": about[1], "what": about[2], "stopped": stopped[1] if stopped else "",
            "size": size[1] if size else "", "captured": captured[1] if captured else "", "least": float(ratio[1]) if ratio else 0, "works": bool(re.search(r"^work: honest$", text, re.M)), "broken": bool(re.search(r"^work: broken$", text, re.M)),
            "ends": ends, "naive": naive, "fools": f"- {why}".strip(), "op": op}


def run(command, limit, folder):
    """Status and both outputs; a command that takes too long is ended, and so is what it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
    try:
        said = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said = process.communicate()[0] + b"\n(took too long)"
    return process.returncode, said.decode(errors="replace")


def speed_of(report):
    """The status of an accepted plugin. Where an oracle alone has the op, that is `correct` however quick the plugin is; then what the
    race measured says whether its attack on the clock went well. On a GPU the oracle of a small case is another than the one that is raced."""
    raced = [case["timings"][0]["ratio"]["speed"].replace(" ", "_") for case in report["cases"] if case["why"].startswith("there is no baseline to race")]
    if report["status"] != "correct" or not raced:
        return report["status"]
    return min(raced, key=RIGHT.index)


def judge(options, file, item, folder):
    """(verdict, speed, why): the verdict is `correct` when the plugin was accepted, and then its speed says beside what.
    Noise of a loaded machine may hide the speed; a longer race tells it. It takes back nothing but the speed: what is accepted once stays so."""
    answer = judge_once(options, file, item, folder, "0.05")
    for seconds in ("0.5", "2"):
        if answer[1] != "cannot_tell":
            break
        longer = judge_once(options, file, item, folder, seconds)
        answer = longer if longer[0] == "correct" else answer
    return answer


def judge_once(options, file, item, folder, seconds):
    out = pathlib.Path(folder) / "verdict.json"
    out.unlink(missing_ok=True)
    command = [options.host, "bench", str(file), *(["--thorough"] if options.thorough else []), "--no-store", "--op", item["op"], "--device", options.device, "--size", item["size"] or options.size, "--seconds", seconds,
               "--patience", "5", "--json", str(out)]
    if item["captured"]:
        command += ["--captured", str(pathlib.Path(folder) / "captured")]
        run([options.host, "record", item["captured"], "--profile", "tiny", "--requests", "2", "--op", item["op"], "--device", options.device, "--out", command[-1]], 60, folder)
    status, said = run(command, 60 + 30 * float(seconds), folder)
    if not out.exists() or not out.stat().st_size:
        return "none", "", f"the judge ended with {status}: {said[-300:]}"
    report = json.loads(out.read_text())
    item["device"] = report["device"]
    if report["status"] in RIGHT and report["aggregate"]["ratio"]["value"] < item["least"]:
        return "too slow", "", f"{report['aggregate']['ratio']['value']:.4f} times as fast as the baseline"
    if report["status"] in RIGHT:
        return "correct", speed_of(report), ""
    return report["status"], "", report["why"] or report["next"]


def fooled(options, file, attack, folder):
    """Whether the naive judge believes it: what it said, and an empty string or what it should have said."""
    words = attack["naive"]
    more = [w for w in words if w.startswith("--")]
    if options.device != "cpu":
        honest = options.plugins / HONEST[attack["op"]] if attack["op"] in HONEST else pathlib.Path(options.host).parent / "plugins/cuda_reference"
        more.append(f"--gpu={honest}.so")
    for attempt in range(4):  # a loaded machine may hide what it gains
        _, said = run([options.naive, str(file), attack["op"], *more], 60, folder)
        found = re.search(r"naive: correct, speedup ([0-9.]+)", said)
        if "(took too long)" in said or found and (words[0] == "accepted" or float(found[1]) >= 1.5) and (attempt or "runs=2" not in words):
            break
    if not found:
        return (said.strip().split("\n")[-1][:80] or "nothing"), "does not fool the naive judge"
    if words[0] == "faster" and float(found[1]) < 1.5:
        return found[0], "the naive judge does not find it fast"
    return f"correct, {float(found[1]):.1f} times as fast", ""


def examine(item, options):
    file = options.plugins / item["folder"] / (item["name"] + ".so")
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        verdict, speed, why = judge(options, file, item, folder)
        item.update(verdict=verdict, speed=speed, why=why, seconds=time.monotonic() - begin)
        if item["class"] == "honest":
            item["bad"] = "" if verdict == "correct" else "REJECTED"
        else:
            # An attack that does the work and is told its true speed has gained nothing. A verdict without a rival is a gain.
            # An attack that breaks a rule which its values do not show has gained if its values are accepted, however slow.
            gained = RIGHT if item["broken"] else ("faster", "correct") if item["works"] else ("faster", "same", "cannot_tell", "correct")
            item["bad"] = "ACCEPTED" if verdict == "correct" and speed in gained else "NO ANSWER" if verdict == "none" else ""
            if not item["bad"] and (speed or verdict) not in item["ends"]:
                item["bad"] = f"OFF TARGET, it says: {' '.join(item['ends'])}"
        if item["class"] != "honest" and item["naive"]:
            item["fools"], complaint = fooled(options, file, item, folder)
            item["believed"] = not complaint
            item["bad"] = item["bad"] or complaint
    # Without a terminal the lines of passes would only hide those of failures.
    if not item["bad"] and not sys.stdout.isatty():
        return item
    with say:
        mark = "ok  " if not item["bad"] else "BAD "
        outcome = f"{item['verdict']} {item['speed']} {item['why']}"
        print(f"{mark} {item['class']:6} {item['name']:18} {outcome[:120].strip()}" + (f"   <- {item['bad']}" if item["bad"] else ""), flush=True)
    return item


def redraw(page, found, score):
    """The part of docs/attacks.md below the marker of the device that it was seen on."""
    text, done = page.read_text(), found["rows"]
    markers = ("<!-- cpu: suite.py --markdown -->\n", "<!-- gpu: suite.py --markdown -->\n")
    cell = lambda words: str(words).replace("|", "\\|")
    told = lambda i: "judged slower: nothing gained" if i["speed"] == "slower" else i["verdict"] if not i["speed"] else f"**{i['speed']}**"
    verdict = lambda i: f"**off target**: {told(i)}" if "OFF TARGET" in i["bad"] else told(i)
    device = next(i["device"] for i in done if "device" in i)
    driver = f", driver {found['driver']}" if found["driver"] and found["driver"] not in device else ""
    lines = ["", score, f"Seen on {device}{driver}, commit {found['commit']}, {found['date']}.", "", "| class | plugin | what it does | what stops it | naive judge | verdict |", "|---|---|---|---|---|---|"]
    order = sorted((i for i in done if i["class"] != "honest"), key=lambda i: (i["class"][0], int(i["class"][1:]), i["name"]))
    lines += [f"| {i['class']} | `{i['name']}` | {cell(i['what'])} | {cell(i['stopped'])} | {cell(i.get('fools', '-'))} | {verdict(i)} |" for i in order]
    lines += ["", "Honest controls, all of which must be accepted:", "", "| plugin | what is unusual |", "|---|---|"]
    lines += [f"| `{i['name']}` | {cell(i['what'])} |" for i in sorted(done, key=lambda i: i["name"]) if i["class"] == "honest"]
    gpu = device != "cpu" and not device.startswith("cpu ")
    before, after = text.index(markers[gpu]) + len(markers[gpu]), len(text) if gpu else text.index("\n## Score on a GPU\n")
    page.write_text(text[:before] + "\n".join(lines) + "\n" + text[after:])


def clean():
    for left in glob.glob("/tmp/fk-attack-*"):
        os.unlink(left)


@contextlib.contextmanager
def served(options):
    """With --serve one server judges them all, so that what one leaves behind would meet the next."""
    if not options.serve:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FK_DATA"] = folder
        server = subprocess.Popen([options.host, "serve", "--device", options.device], stdout=subprocess.PIPE, text=True)
        server.stdout.readline()
        drain = threading.Thread(target=server.stdout.read, daemon=True)
        drain.start()
        yield
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        server.terminate()
        drain.join()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--host", default="")
    parser.add_argument("--naive", default="")
    parser.add_argument("--plugins", type=pathlib.Path, default=root)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0 for those in cuda/")
    parser.add_argument("--size", default="smoke", help="of the judge's cases")
    parser.add_argument("--thorough", action="store_true", help="all cases and kinds of inputs, not those of a default verdict")
    parser.add_argument("--only", default="", help="names that match this expression")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help="with `fk-host serve` on the device")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, help="of --json, which are told again instead of judging")
    parser.add_argument("--markdown", type=pathlib.Path, help="docs/attacks.md, whose tables are drawn again")
    options = parser.parse_args()
    if options.results:
        found = json.loads(options.results.read_text())
        return report(options, found, sum(i["seconds"] for i in found["rows"]))
    options.host, options.naive, options.plugins = (os.path.abspath(options.host), os.path.abspath(options.naive), options.plugins.resolve())
    suffixes = (".c", ".cpp") if options.device == "cpu" else (".cu",)
    items = [head(p) for p in sorted(root.glob("*/*.c*")) if p.suffix in suffixes and re.search(options.only, p.stem)]
    clean()
    begin = time.monotonic()
    with served(options), concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda item: examine(item, options), items))
    clean()
    found = {**seen_on(next((i["device"] for i in done if "device" in i), options.device), options.json), "rows": done}
    return report(options, found, time.monotonic() - begin)


def report(options, found, seconds):
    done = found["rows"]
    device = next((i["device"].split()[0] for i in done if "device" in i), options.device)
    attacks, honest = [i for i in done if i["class"] != "honest"], [i for i in done if i["class"] == "honest"]
    count = lambda items, word: sum(1 for i in items if word in i["bad"])
    believed = [i["believed"] for i in attacks if "believed" in i]
    score = (f"{len(attacks)} attacks of {len({i['class'] for i in attacks})} classes on {device}: {count(attacks, 'ACCEPTED')} accepted, "
             f"{count(attacks, 'OFF TARGET')} off target. The naive judge accepts {sum(believed)} of the {len(believed)} attacks which it judged. "
             f"{len(honest)} controls: {count(honest, 'REJECTED')} rejected.")
    print(f"{score} ({seconds:.0f} s)")
    if options.markdown:
        redraw(options.markdown, found, score)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(i["bad"] for i in done) else 0


if __name__ == "__main__":
    sys.exit(main())
