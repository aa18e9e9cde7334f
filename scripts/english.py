#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""english.py [--lower] [PATH...]: sentences which are hard to read, in documents and in comments of the host, baselines and tests.

It finds sentences which begin with Of, Who, What or Whether, sentences above 25 words, and words of the older vocabulary.
english_ceilings.json has the number of findings which each folder may have, and scripts/tidy.py compares with it. A number
only falls: --lower writes the numbers of today where they are smaller. A room which moves takes its line along by hand.
With paths (files or folders) the script prints every finding there, without paths a count for each folder."""
import collections, json, pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
ceilings = pathlib.Path(__file__).with_name("english_ceilings.json")
words_max = 25
opening = re.compile(r"(Of|Who|What|Whether)\b")
ends = re.compile(r"(?<=[.!?])(?<!\.\.)(?<!e\.g\.)(?<!i\.e\.)[)\"*]* +(?=[\w`*(])")
# An older word, and the field's word for the same thing. Words with another common meaning are missing.
older = {
    "referee": "check, judge, scenario or measure", "courtroom": "judge pool", "docket": "case plan", "examiner": "oracle server",
    "examinee": "candidate server", "sitter": "candidate client", "null candidates?": "mutant", "null gate": "mutation test",
    "brokers?": "controller", "runners?": "worker", "roster": "plugin set", "peeks?": "memory probe", "drawn": "hidden",
    "second look": "recheck", "page pool": "KV page pool", "expansions?": "decomposition", "gpu watch": "GPU telemetry",
    "device turn": "device lock", "diffuse": "masked diffusion",
}
older = {re.compile(rf"\b{word.replace(' ', '[ _]')}\b", re.I): (word.rstrip("?").removesuffix("s"), better) for word, better in older.items()}
Finding = collections.namedtuple("Finding", "line kind text")


def markdown(text):
    """Paragraphs and list items as (line, text), without code, tables, headings and generated parts."""
    text = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    parts, begin = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        item = re.match(r"([*-]|\d+\.) ", stripped)
        if not stripped or stripped.startswith(("|", "#", "<", "[", "![")) and not re.match(r"\[[^]]*\]\(", stripped):
            begin = 0
        elif begin and not item:
            parts[-1][1].append(stripped)
        else:
            begin = number
            parts.append((number, [stripped[item.end():] if item else stripped]))
    return [(number, " ".join(lines)) for number, lines in parts]


def comments(text):
    """Blocks of // comments as (line, text). A comment behind code is a block of its own, and so is a line `key: words`
    at the head of a wrong plugin (test/hints)."""
    parts, joined = [], False
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'((?:[^"/]|"(?:\\.|[^"\\])*"|/(?!/))*)//+ ?(.*)', line)
        alone = found and not found[1].strip()
        if not found or not found[2].strip() or "SPDX-License" in line or "   " in found[2].strip() or found[2].startswith("  "):
            joined = False
        elif alone and joined and not re.match(r"(wrong|hint|says|bench|next): ", found[2]):
            parts[-1][1].append(found[2])
        else:
            parts.append((number, [found[2]]))
            joined = alone
    return [(number, " ".join(lines)) for number, lines in parts]


def findings(path):
    text = path.read_text(errors="replace")
    for number, part in markdown(text) if path.suffix == ".md" else comments(text):
        part = re.sub(r"\[([^]]*)\](\([^)]*\)|\[[^]]*\])", r"\1", part)
        spoken = re.sub(r"`[^`]*`", "`x`", part)
        for sentence in ends.split(spoken):
            sentence = sentence.lstrip("*( ")
            if opening.match(sentence):
                yield Finding(number, "opening", sentence)
            count = sum(any(c.isalnum() for c in word) for word in sentence.split())
            if count > words_max:
                yield Finding(number, "long", f"{count} words: {sentence}")
        for pattern, (word, better) in older.items():
            for found in pattern.finditer(spoken):
                yield Finding(number, "word", f"`{found[0]}` is `{better}`")


def folder_of(path):
    """The folder which a file counts for: documents together, host, baselines and tests by room."""
    parts = path.relative_to(root).parts
    return "/".join(parts[:2]) if parts[0] in ("core", "baselines", "test") and len(parts) > 2 else "documents" if path.suffix == ".md" else parts[0]


def files():
    for pattern in ("*.md", "docs/*.md", "registry/*.md", "scenarios/*.md", "scripts/*.md", "plugin_api/**/*.md", "candidates/*.md"):
        yield from root.glob(pattern)
    for pattern in ("core/**/*", "plugin_api/fk/**/*", "baselines/**/*", "test/**/*"):
        # Frozen headers stay as they were published.
        yield from (p for p in root.glob(pattern) if p.suffix in (".h", ".hpp", ".cpp", ".cu", ".cuh") and "frozen" not in p.parts)


def counted():
    totals = collections.defaultdict(lambda: {"opening": 0, "long": 0, "word": 0})
    for path in files():
        folder = totals[folder_of(path)]
        for found in findings(path):
            folder[found.kind] += 1
    return totals


def complaints():
    """A sentence for each number above its ceiling, and the way to the places."""
    allowed = json.loads(ceilings.read_text())
    for folder, kinds in sorted(counted().items()):
        for kind, count in kinds.items():
            most = allowed.get(folder, {}).get(kind, 0)
            if count > most:
                yield (f"{folder}: {count} findings `{kind}`, at most {most} (scripts/english_ceilings.json); "
                       f"`scripts/english.py {'docs *.md' if folder == 'documents' else folder}` prints them")


def main(words):
    if "--lower" in words:
        allowed = json.loads(ceilings.read_text()) if ceilings.exists() else None
        now = {folder: kinds for folder, kinds in sorted(counted().items()) if any(kinds.values())}
        if allowed is not None:
            now = {f: {k: min(n, allowed.get(f, {}).get(k, 0)) for k, n in kinds.items()} for f, kinds in now.items()}
        rows = ",\n".join(f"  {json.dumps(folder)}: {json.dumps(kinds)}" for folder, kinds in now.items())
        ceilings.write_text("{\n" + rows + "\n}\n")
        return 0
    asked = [pathlib.Path(word).resolve() for word in words]
    for path in files():
        if any(path == one or one in path.parents for one in asked):
            for found in findings(path):
                print(f"{path.relative_to(root)}:{found.line}: {found.kind}: {found.text}")
    if not asked:
        for folder, kinds in sorted(counted().items()):
            print(f"{folder:20}", *(f"{kind} {count:4}" for kind, count in kinds.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
