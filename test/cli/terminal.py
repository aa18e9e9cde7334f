#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""terminal.py FK_HOST SOURCE_DIR: help, hints, completions, man pages, and output on terminals of several widths."""
import fcntl, json, os, pathlib, pty, re, shutil, struct, subprocess, sys, termios

from host import Host

source = pathlib.Path(sys.argv[2])
host = Host(sys.argv[1], unset=("NO_COLOR", "CLICOLOR_FORCE", "COLUMNS"))
work, run = host.work, host.run


def on_terminal(words, columns, **more):
    """The output of fk-host on a terminal with so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen([host.program, *map(str, words)], env={**host.env, **more}, stdout=slave, stderr=slave, stdin=subprocess.DEVNULL)
    os.close(slave)
    out = b""
    while True:
        try:
            got = os.read(master, 65536)
        except OSError:  # the last writer is gone
            break
        if not got:
            break
        out += got
    child.wait()
    os.close(master)
    return out.decode().replace("\r\n", "\n")


# Help.
for words in (["help"], ["help", "help"]):
    assert run(words[:1], 0) == run(["--help"], 0)
assert run(["help", "bench"], 0) == run(["bench", "--help"], 0, "--patience")
assert run(["help", "capture"], 0) == run(["record", "--help"], 0)
run(["help", "bnech"], 2, "did you mean `bench`")
assert run(["-V"], 0) == run(["--version"], 0, "fk-host 0.")

# Hints for options; JSON has them too.
run(["bench", "add", "--patienc", "3"], 2, "did you mean `--patience`")
run(["list", "ops", "--jsn"], 2, "did you mean `--json`")
run(["run", "smoke", "--wrokload=mixed"], 2, "did you mean `--workload`")
run(["list", "ops", "--colr", "never"], 2, "did you mean `--color`")
assert "`--levels`" not in run(["list", "ops", "--level"], 2)
assert json.loads(run(["list", "opps", "--levle", "1", "--json"], 2))["hint"] == "did you mean `--level`?"

# Completions and man pages have every verb and every option of the help.
verbs = [line.split()[0] for line in run(["--help"], 0).split("Subcommands:")[1].splitlines() if line.startswith("  ")]
assert verbs == run(["--manual=verbs"], 0).split()
scripts = {shell: run([f"--manual={shell}"], 0) for shell in ("bash", "zsh", "fish")}
run(["--manual=pascal"], 2, "known: bash")
program = run(["--manual=man"], 0)
for verb in verbs:
    options = set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run([verb, "--help"], 0), re.M)) | {"--color"}
    page = run([f"--manual=man:{verb}"], 0, f".TH FK-HOST-{verb.upper()} 1", ".SH SYNOPSIS", ".SH OPTIONS").replace("\\-", "-")
    assert all(f"\\fB{option}\\fR" in page for option in options), (verb, options, page)
    assert f"fk-host-{verb} (1)" in program.replace("\\-", "-"), verb
    for shell, text in scripts.items():
        line = next(line for line in text.splitlines() if re.match(rf"\s*{verb}\) words", line)) if shell == "bash" else text
        for option in options:
            assert (f"-l {option[2:]} " if shell == "fish" else option) in line, (shell, verb, option)
for shell in scripts:
    (work / shell).write_text(scripts[shell])
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", work / shell]).returncode == 0, shell


def completed(*words):
    script = f"source {work}/bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _fk_host; echo ${{COMPREPLY[@]}}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split()


assert completed("fk-host", "be") == ["bench"] and completed("fk-host", "help", "verif") == ["verify"]
assert completed("fk-host", "bench", "--pat") == ["--patience"] and completed("fk-host", "bench", "x") == []
if shutil.which("mandoc"):
    (work / "page.1").write_text(run(["--manual=man:bench"], 0))
    assert subprocess.run(["mandoc", "-Tlint", "-Werror", work / "page.1"], capture_output=True).returncode == 0

# Colours.
plain = run(["show", "verdict"], 0, absent=["\033["])
coloured = run(["show", "verdict", "--color", "always"], 0, "\033[1m")
assert re.sub(r"\033\[\d*m", "", coloured) == plain
run(["show", "verdict"], 0, "\033[1m", CLICOLOR_FORCE=1)
run(["show", "verdict", "--color=always"], 0, "\033[1m", NO_COLOR=1)
run(["show", "verdict"], 0, absent=["\033["], NO_COLOR=1, CLICOLOR_FORCE=1)
run(["show", "verdict", "--color", "red"], 2, "--color")
# Before the verb as well.
run(["--color", "always", "show", "verdict"], 0, "\033[1m")
run(["--color=never", "list", "devices"], 0, "cpu")
assert "\033[1m" in on_terminal(["show", "verdict"], 200) and "\033[" not in on_terminal(["show", "verdict", "--color", "never"], 200)

# Reports fit, and lose no text. Without a terminal no line is broken.
quick = ["--size", "smoke", "--seconds", "0", "--device", "cpu"]
for words in (["show", "verdict"], ["list", "ops"], ["list", "models"], ["list", "plugins"], ["check", "cpu", "--op", "add", "--quick"],
              ["bench", "add", *quick], ["bench", "cpu", "--op", "add", "--no-store", *quick], ["run", "smoke", "--device", "cpu"], ["compare", "cpu", "reference", "--op", "add", *quick], ["advise", "smoke"],
              ["bench", "cpu", "reference", "--op", "add", *quick], ["receipts"]):
    whole = run(words, 0)
    for columns in (80, 60):
        text = on_terminal(words, columns, NO_COLOR="1")
        wide = [line for line in text.split("\033[K")[-1].splitlines() if len(line) > columns]
        assert not wide, (words, columns, wide)
    if words[0] in ("show", "list"):
        letters = lambda text: sorted(re.sub(r"\s", "", text))
        narrow = on_terminal(words, 80, NO_COLOR="1")
        assert len(letters(narrow)) >= len(letters(whole)), (words, "text was lost")
        # Without a width, a list cuts its last column.
        for word in whole.split():
            assert word in narrow or len(word) > 18 or word.endswith("..."), (words, word)
    assert run(words, 0, COLUMNS=72) and max(map(len, run(words, 0, COLUMNS=72).splitlines())) <= 72, words

host.end()
