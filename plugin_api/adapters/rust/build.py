#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A source in Rust -> one C++ file with the identity of the op, and a library with the code beside it.

    build.py SOURCE --header fk/ops/OP.h --out OUT.cpp

Writes OUT.cpp, which is compiled with the headers of the ABI, and OUT.a, which is linked with it. SOURCE has the name of its op. The
variable RUSTC names the compiler. Mistakes are printed as FILE:LINE:COLUMN: error: SENTENCE, and the exit code is 1.
"""
import argparse
import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bindings import Problem, abi_text, crate_text, op_text, preprocessed  # noqa: E402

GLUE = """// Made from {source}; do not edit.
{edition}#include "fk/ops/{op}.h"

extern "C" {{
extern const fk_claims fk_rust_{op}_claims;
int32_t fk_rust_{op}_supports(const void *, const void *, const void *, fk_need *, fk_error *);
int32_t fk_rust_{op}_create(const fk_host *, const void *, const void *, void **, fk_error *);
int32_t fk_rust_{op}_prepare(void *, const void *, const fk_memory *, fk_error *);
int32_t fk_rust_{op}_plan(void *, const void *, void *, int64_t *, fk_error *);
int32_t fk_rust_{op}_forward(void *, const void *, const fk_ctx *);
void fk_rust_{op}_destroy(void *);
int32_t fk_rust_{op}_reset(void *, fk_error *);
}}
static constexpr fk_op rust_{op} = {{FK_END(fk_op, reset_or_null), 0, &fk_{op}_contract, &fk_rust_{op}_claims, fk_rust_{op}_supports,
                                    fk_rust_{op}_create, fk_rust_{op}_prepare, {plan}, fk_rust_{op}_forward, fk_rust_{op}_destroy,
                                    fk_rust_{op}_reset}};
static constexpr fk_note_op rust_{op}_note FK_NOTE_SECTION = FK_NOTE_{op};
FK_REGISTER(rust_{op}, &rust_{op});
{plugin}"""


def code_of(text):
    """The text with comments blanked, each line in its place."""
    blank = lambda found: re.sub(r"[^\n]", " ", found.group(0))  # noqa: E731
    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.S)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


class Source:
    """What the source says to this program: its op, edition and plugin."""

    def __init__(self, path, header):
        self.op = pathlib.Path(path).stem
        text = code_of(pathlib.Path(path).read_text())
        calls = list(re.finditer(r"\bfk::op!\s*[({]\s*([^)}]*)", text))
        if len(calls) != 1:
            raise Problem(f"there are {len(calls)} calls of fk::op!, and one is expected: fk::op!({self.op}, KERNEL);",
                          line_of(text, calls[1].start()) if calls else 0)
        line = line_of(text, calls[0].start())
        words = [word.strip() for word in calls[0].group(1).split(",") if word.strip()]
        if words[:1] != [self.op]:
            raise Problem(f"fk::op! names the op `{(words or [''])[0]}`, but the file has the name of `{self.op}`", line)
        self.plan = "plan" in words[2:]
        for word in words[2:]:
            if word != "plan" and not re.fullmatch(r"edition\s*=\s*\d+", word):
                close = difflib.get_close_matches(word.split("=")[0].strip(), ["edition", "plan"], 1, 0.4)
                raise Problem(f"fk::op! does not know `{word}`" + (f"; did you mean `{close[0]}`?" if close else "; it knows `edition = N` and `plan`"), line)
        edition = next((int(word.split("=")[1]) for word in words[2:] if word.startswith("edition")), None)
        lines = pathlib.Path(header).read_text()
        newest = max([int(number) for number in re.findall(r'^    "\w+\.[^"]*\bsince=(\d+)', lines, re.M)], default=1)
        if newest > 1 and edition is None:
            raise Problem(f"op `{self.op}` has {newest} editions: say which one the kernel knows, as in fk::op!({self.op}, {words[1] if words[1:] else 'KERNEL'}, "
                          f"edition = {newest})", line)
        if edition is not None and not 1 <= edition <= newest:
            raise Problem(f"op `{self.op}` has no edition {edition}; its newest is {newest}", line)
        self.edition = edition if newest > 1 else None
        names = re.findall(r'\bfk::plugin!\s*[({]\s*"([^"]*)"\s*,\s*"([^"]*)"\s*[)}]', text)
        if len(names) > 1:
            raise Problem("fk::plugin! stands there twice, and a plugin has one name")
        self.plugin = f'FK_PLUGIN("{names[0][0]}", "{names[0][1]}");\n' if names else ""


def said(message, shown):
    """A message of the compiler: its place, its words, then its excerpt of the source."""
    spans = [span for span in message["spans"] if span["is_primary"]] or message["spans"]
    # A message about the expansion of a macro belongs to the author's line.
    span = spans[0] if spans else None
    while span and span.get("expansion") and not os.path.exists(span["file_name"]):
        span = span["expansion"]["span"]
    place = f"{span['file_name']}:{span['line_start']}:{span['column_start']}" if span else shown
    code = f" [{message['code']['code']}]" if message.get("code") else ""
    level = "error" if message["level"].startswith("error") else message["level"]
    excerpt = [line for line in (message["rendered"] or "").splitlines()[1:] if not line.lstrip().startswith("-->")]
    return "\n".join([f"{place}: {level}: {message['message']}{code}", *excerpt]).rstrip()


def rustc(words, shown):
    compiler = os.environ.get("RUSTC", "rustc")
    try:
        done = subprocess.run([compiler, "--edition", "2021", "-O", "-C", "panic=unwind", "-C", "relocation-model=pic", "-C", "codegen-units=1",
                               "--error-format=json", *words], capture_output=True, text=True)
    except OSError as error:
        raise Problem(f"`{compiler}` cannot be started ({error.strerror}): install Rust, or name its compiler by the variable RUSTC") from None
    for line in done.stderr.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            print(line, file=sys.stderr)
            continue
        if "aborting due to" not in message["message"] and not message["message"].startswith(("For more information", "Some errors have")):
            print(said(message, shown), file=sys.stderr)
    return done.returncode == 0


def build(a):
    out = pathlib.Path(a.out).resolve()
    source = Source(a.source, a.header)
    crate = out.with_suffix(".crate")
    shutil.rmtree(crate, ignore_errors=True)
    crate.mkdir(parents=True)
    preprocessed(a.header, source.edition)  # its mistakes first
    (crate / "abi.rs").write_text(abi_text(a.header, source.edition))
    (crate / f"{source.op}.rs").write_text(op_text(a.header, source.edition))
    (crate / "lib.rs").write_text(crate_text([source.op]))
    target = ["-C", f"target-cpu={a.march}"] if a.march else []
    if not rustc(["--crate-type", "rlib", "--crate-name", "fk", *target, "-o", str(crate / "libfk.rlib"), str(crate / "lib.rs")], a.source):
        raise Problem("the bindings of the ABI do not compile with this compiler; its words are above")
    library = out.with_suffix(".a")
    if not rustc(["--crate-type", "staticlib", "--crate-name", f"fk_op_{source.op}", *target, "--extern", f"fk={crate / 'libfk.rlib'}",
                  "-o", str(library), a.source], a.source):
        return 1
    edition = f"#define FK_{source.op.upper()}_EDITION {source.edition}\n" if source.edition else ""
    out.write_text(GLUE.format(source=a.source, op=source.op, edition=edition, plugin=source.plugin,
                               plan=f"fk_rust_{source.op}_plan" if source.plan else "nullptr"))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--header", required=True)
    parser.add_argument("--arch", help="compute capabilities; a kernel on the CPU has none")
    parser.add_argument("--march", default="", help="the processor, such as native or x86-64-v3; without it any x86-64 or aarch64")
    parser.add_argument("--out", required=True)
    a = parser.parse_args()
    try:
        return build(a)
    except Problem as problem:
        print(f"{a.source}:{problem.line or 1}: error: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
