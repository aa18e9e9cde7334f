#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""strangers.py FK_HOST PLUGIN: names and words of strangers steer no terminal, copies of their plugins are for nobody else to read, and what takes
without end is ended."""
import json, os, pathlib, shutil, stat, subprocess, sys, tempfile, time, unicodedata

host, plugin = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
candidates, cache = work / "candidates", work / "cache"
candidates.mkdir()
env = dict(os.environ, FK_CANDIDATES=str(candidates), FK_CACHE=str(cache), FK_DATA=str(work / "data"))
failed = []


def need(holds, what):
    if not holds:
        failed.append(what)
        print("FAILED:", what)


def unsafe(text, kept="\n\t"):
    return sorted({f"U+{ord(c):04X}" for c in text if c not in kept and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")})


def run(*words):
    """Both outputs, in which nothing is unsafe, whatever the verb says; and what a JSON report holds."""
    out = work / "report.json"
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, timeout=120)
    for name, raw in (("stdout", done.stdout), ("stderr", done.stderr)):
        found = unsafe(raw.decode(errors="replace"))
        need(not found and b"\x9b" not in raw.replace(b"\xc2\x9b", b""), f"{words}: {name} has {found}")
    for line in done.stdout.decode(errors="replace").split("\n")[:1]:
        if line.startswith("{"):
            for value in strings(json.loads(done.stdout)):
                need(not unsafe(value), f"{words}: the report has {unsafe(value)}")
    return done


def strings(value):
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from strings(part)
    if isinstance(value, dict):
        yield from value


odd = candidates / "evil\x1b[2J\u202egnp\u2066\x9b.so"
shutil.copy(plugin, odd)
for words in (["check", plugin], ["bench", plugin, "--size", "smoke", "--seconds", "0", "--no-store"]):
    told = run(*words)
    need(b"around" in told.stdout + told.stderr, f"{words}: its words are not shown")
    run(*words, "--json")
for words in (["list", "plugins"], ["list", "plugins", "--json"], ["check", odd], ["bench", odd, "--size", "smoke", "--seconds", "0"],
              ["bench", odd, "--size", "smoke", "--seconds", "0", "--json"], ["check", "no\x1b[2Jthing\u202e"], ["bench", odd, "no\x1b[2Jthing"],
              ["show", "\x1b[2J\u202e"]):
    run(*words)

# Copies: of the folder and of each file nothing is for others; where the host is root its runners' group may read.
os.umask(0)
shutil.rmtree(cache)
run("check", plugin)
copies = list((cache / "plugins").iterdir())
need(copies, "there are no copies")
for path in (cache / "plugins", *copies):
    mode = stat.S_IMODE(path.stat().st_mode)
    need(mode & 0o007 == 0, f"{path.name}: others may use it ({mode:o})")
    need(mode & 0o070 == 0 or os.geteuid() == 0, f"{path.name}: its group may use it ({mode:o})")

# Far more than any plugin has, of which the disk has nothing.
huge = candidates / "huge.so"
for size in ((1 << 30) + 1, (1 << 32) - 1):
    with open(huge, "wb") as file:
        file.truncate(size)
    begin = time.monotonic()
    told = run("bench", huge)
    need(b"larger than 1.0 GiB" in told.stdout + told.stderr, f"a file of {size} bytes is not refused: {told.stdout[:300]}")
    need(time.monotonic() - begin < 5, f"a file of {size} bytes takes {time.monotonic() - begin:.1f} s")
huge.unlink()

# A budget that is spent at once: no case is reached, and nothing is said about the candidate.
told = run("bench", plugin, "--size", "smoke", "--no-store", "--budget", "0.000001", "--json", work / "spent.json")
report = json.loads((work / "spent.json").read_text())
need(report["status"] == "environment" and "budget" in report["why"], f"spent: {report['status']}, {report['why']}")
need(report["cases"] and all(c["status"] == "environment" and "budget" in c["why"] for c in report["cases"]), "spent: cases say something else")

shutil.rmtree(work)
sys.exit(f"{len(failed)} failed" if failed else 0)
