# SPDX-License-Identifier: Apache-2.0
"""compare.py [--lines N] [--seed S] FK_TOKENS FILE...: each tokenizer.json here and by the package `tokenizers`, on lines.py. Prints the
first differences; the exit code is 1 if there is one."""
import argparse, json, subprocess, sys

from tokenizers import Tokenizer

from lines import make_lines


def ask(program, action, file, lines):
    done = subprocess.run([program, action, file], input="".join(line + "\n" for line in lines), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{file}: {done.stderr}")
    return done.stdout.split("\n")[:-1]


def report(what, file, pairs):
    wrong = [(i, a, b, c) for i, (a, b, c) in enumerate(pairs) if a != b]
    print(f"{file}: {what}: {len(pairs) - len(wrong)} of {len(pairs)} equal", flush=True)
    for i, ours, theirs, source in wrong[:5]:
        print(f"  line {i}: {source!r}\n    here   {ours!r}\n    theirs {theirs!r}")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    lines = make_lines(options.lines, options.seed)
    good = True
    for file in options.files:
        tokenizer = Tokenizer.from_file(file)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = [tokenizer.encode(line).ids for line in lines]
        ours = [[int(i) for i in row.split()] for row in ask(options.program, "encode", file, map(json.dumps, lines))]
        good &= report("ids", file, list(zip(ours, ids, lines, strict=True)))
        texts = [json.loads(row) for row in ask(options.program, "decode", file, [" ".join(map(str, row)) for row in ids])]
        theirs = [[tokenizer.decode(row, skip_special_tokens=False), tokenizer.decode(row)] for row in ids]
        good &= report("texts", file, list(zip([t[:2] for t in texts], theirs, lines, strict=True)))
        good &= report("streamed texts", file, [(t[2], t[0], line) for t, line in zip(texts, lines, strict=True) if "\ufffd" not in t[0]])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
