#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""functions.py [--lower] [PATH...]: functions of the host and of baselines which are longer than 80 lines.

A longer function needs a comment in it or above it, `// long: reason`. function_ceilings.json lists the functions which were longer
before this rule, with their lines, and scripts/tidy.py compares with it. A number only falls: --lower writes the lines of today where
they are fewer, and drops functions which are short now. A function which moves takes its line along by hand. With paths (files or
folders) the script prints every function there with its lines, without paths the long ones.

The count rests on the layout of clang-format: the brace which closes a body has the column of the first line of its function. Lines go
from that line to that brace. Only functions of namespaces and classes count, no lambdas, no macros and no empty bodies."""
import json, pathlib, re, sys
from typing import NamedTuple

root = pathlib.Path(__file__).resolve().parents[1]
ceilings = pathlib.Path(__file__).with_name("function_ceilings.json")
lines_max = 80

# Literals and comments, whose braces and words mean nothing. A raw string may have several lines.
quiet = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/', re.S)
# Scopes whose content is declarations.
scope = re.compile(r"(template\s*<.*>\s*)?(typedef\s+)?(inline\s+)?(namespace|struct|class|union|enum|extern\s*\"\")\b.*\{$")
directive = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


class Function(NamedTuple):
    name: str
    line: int  # the first, from 1
    lines: int
    reason: bool


def blank(found):
    """As many lines, and for a string its quotes."""
    return ('""' if found[0].endswith('"') else "") + "\n" * found[0].count("\n")


def name_of(statement):
    """What stands before the parameters; empty where there are none."""
    inner = r"[^()]*"
    for _ in range(3):
        inner = rf"(?:[^()]|\({inner}\))*"
    statement = re.sub(rf"\b(__\w+__|alignas|decltype|requires|noexcept|explicit)\s*\({inner}\)", "", statement)
    shorter = None
    while shorter != statement:  # arguments of templates, from the inside
        statement, shorter = re.sub(r"(?<!operator)<[^<>]*>", "", statement), statement
    found = re.search(r"((?:\w+::)*(?:operator\s*(?:\(\)|[^(]+)|~?\w+))\s*\(", statement)
    return found[1].strip() if found else ""


def functions(path):
    text = path.read_text(errors="replace")
    raw = text.split("\n")
    lines = directive.sub(blank, quiet.sub(blank, text)).split("\n")
    at, start = 0, None
    while at < len(lines):
        line = lines[at].rstrip()
        word = line.strip()
        if not word or re.fullmatch(r"(public|private|protected):|\}.*", word):
            start = None
        elif start is None:
            start = at
        if start is not None and word.endswith("{"):
            statement = " ".join(part.strip() for part in lines[start:at + 1])
            name = "" if re.search(r"=\s*\{$", statement) else name_of(statement)
            if name and not scope.match(statement):
                column = re.match(r" *", lines[start])[0]
                end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(column + "}")), len(lines) - 1)
                above = start
                while above and raw[above - 1].lstrip().startswith("//"):
                    above -= 1
                yield Function(name, start + 1, end - start + 1, any("// long: " in one for one in raw[above:end + 1]))
                at = end
            elif not scope.match(statement):  # an initialiser, up to its last brace
                depth = 0
                for at in range(start, len(lines)):
                    depth += lines[at].count("{") - lines[at].count("}")
                    if depth <= 0 and "}" in lines[at]:
                        break
            start = None
        elif word.endswith((";", "}")):
            start = None
        at += 1


def files():
    for pattern in ("core/**/*", "baselines/**/*"):
        yield from sorted(p for p in root.glob(pattern) if p.suffix in (".c", ".h", ".hpp", ".cpp", ".cu", ".cuh"))


def too_long():
    """Lines of each long function without a reason, by file and name; of equal names the longest."""
    found = {}
    for path in files():
        for one in functions(path):
            if one.lines > lines_max and not one.reason:
                key = f"{path.relative_to(root).as_posix()} {one.name}"
                found[key] = max(found.get(key, one), one, key=lambda f: f.lines)
    return found


def complaints():
    allowed = json.loads(ceilings.read_text())
    for key, one in too_long().items():
        path, name = key.split(" ", 1)
        if key not in allowed:
            yield f"{path}:{one.line}: {name} has {one.lines} lines, at most {lines_max}: split it, or give the reason in a comment `// long: ...`"
        elif one.lines > allowed[key]:
            yield f"{path}:{one.line}: {name} has {one.lines} lines, at most {allowed[key]} (scripts/function_ceilings.json): split it, or give the reason in a comment `// long: ...`"


def main(words):
    if "--lower" in words:
        allowed = json.loads(ceilings.read_text()) if ceilings.exists() else None
        now = {key: one.lines for key, one in sorted(too_long().items())}
        if allowed is not None:
            now = {key: min(lines, allowed[key]) for key, lines in now.items() if key in allowed}
        ceilings.write_text(json.dumps(now, indent=2) + "\n")
        return 0
    asked = [pathlib.Path(word).resolve() for word in words]
    for path in files():
        for one in functions(path) if not asked or any(path == one or one in path.parents for one in asked) else ():
            if asked or one.lines > lines_max:
                print(f"{path.relative_to(root)}:{one.line}: {one.name}: {one.lines} lines{', with a reason' if one.reason else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
