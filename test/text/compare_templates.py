# SPDX-License-Identifier: Apache-2.0
"""compare_templates.py FK_TOKENS TEMPLATE...: chat templates here and by the package transformers, on conversations.py. Prints the
differences; the exit code is 1 if there is one."""
import json, pathlib, subprocess, sys

from conversations import expected, requests


def main():
    program, *files = sys.argv[1:]
    good = True
    for file in files:
        template = pathlib.Path(file).read_text()
        asked = requests()
        done = subprocess.run([program, "render", file], input="".join(json.dumps(r) + "\n" for r in asked), capture_output=True, text=True)
        ours = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        theirs = [expected(template, r) for r in asked]
        wrong = [i for i in range(len(asked)) if i >= len(ours) or ours[i] != theirs[i]]
        refused = sum(t is None for t in theirs)
        print(f"{file}: {len(asked) - len(wrong)} of {len(asked)} equal, {refused} refused {done.stderr[:200] if len(ours) < len(asked) else ''}", flush=True)
        for i in wrong[:25]:
            print(f"  conversation {i}\n    here   {ours[i] if i < len(ours) else None!r}\n    theirs {theirs[i]!r}")
        good &= not wrong
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
