#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a step's time goes, from what test/bench/kernel_log.cpp wrote of a process: kernel_log.py FILE [--end WORD] [--has WORD=COUNT]
[--skip SHARE] [--steps N] [--json FILE]. A step ends with a kernel whose name has --end; only those count in which as many kernels as --has
says have its word. Of --steps of them behind the first --skip of all, the mean is printed: for every kernel how often it ran, how long, and its
part of the step: from the end of what ended before it to its own end, as a kernel that starts before the one before it ends waits inside its
time. `ninja fk_kernel_log`, then

  FK_KERNEL_LOG=/tmp/log CUDA_INJECTION64_PATH=build-gpu/test/bench/fk_kernel_log.so fk-host run mixtral --profile full --device cuda --tp 2 ..."""
import argparse, collections, json, lzma, pathlib, sys

from kernel_names import plain

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file", type=pathlib.Path)
parser.add_argument("--end", default="sample")
parser.add_argument("--has", default="", metavar="WORD=COUNT")
parser.add_argument("--skip", type=float, default=1 / 3)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--json", type=pathlib.Path)
options = parser.parse_args()

names, records = {}, []
with (lzma.open if options.file.suffix == ".xz" else open)(options.file, "rt") as lines:
    for line in lines:
        word, *rest = line.split(" ", 2)
        if word == "N" and len(rest) == 2:
            names[int(rest[0])] = rest[1].strip()
        elif word.isdigit() and len(rest) == 2 and rest[1].strip().isdigit():  # the last line may be a part of one
            records.append((int(rest[0]), int(rest[0]) + int(rest[1]), int(word)))
records.sort()
word, _, count = options.has.partition("=")
named = lambda part: {number for number, name in names.items() if part in name}
ends, wanted = named(options.end), named(word) if word else set()
last = [i for i, record in enumerate(records) if record[2] in ends]
steps = [(records[a][1], records[a + 1:b + 1]) for a, b in zip(last, last[1:])]
steps = [s for s in steps if not word or sum(r[2] in wanted for r in s[1]) == int(count)]
first = int(len(steps) * options.skip)
steps = steps[first:first + options.steps]
if not steps:
    sys.exit(f"{options.file}: no step among {len(records)} records ends with `{options.end}`" + (f" and has {options.has}" if word else ""))
runs, long, part = collections.Counter(), collections.Counter(), collections.Counter()
for begin, step in steps:
    until = begin
    for start, end, number in step:
        runs[number] += 1
        long[number] += end - start
        if end > until:
            part[number] += end - until
            until = end
n = len(steps)
out = {"steps": n, "step_ms": sum(max(r[1] for r in s) - begin for begin, s in steps) / n * 1e-6,
       "kernels": [{"name": names[k], "count": runs[k] / n, "us": long[k] / runs[k] * 1e-3, "part_ms": ms / n * 1e-6} for k, ms in part.most_common()]}
print(f"{n} steps of {out['step_ms']:.2f} ms")
for k in out["kernels"]:
    print(f"{k['part_ms']:8.3f} ms  {k['count']:6.0f} x {k['us']:8.1f} us  {plain(k['name'])}")
if options.json:
    options.json.write_text(json.dumps(out, indent=1) + "\n")
