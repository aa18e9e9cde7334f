#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sources.py FK_HOST SOURCE_DIR: templates in TileLang, cut to one dtype and one variant, compile in the sandbox without a GPU, link and keep the
lint. Mistakes are told with file and line. No value is computed here."""
import atexit, json, os, pathlib, re, shutil, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
python, toolkit = os.environ.get("PYTHON", sys.executable), pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
if subprocess.run([python, "-c", "import tilelang"], capture_output=True).returncode or not (toolkit / "bin/nvcc").is_file():
    print(f"skipped: {python} has no tilelang, or {toolkit} has no nvcc; PYTHON and CUDA_HOME name others")
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, PYTHON=python, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))
env.pop("FK_CUDA_ARCH", None)


def run(*words, code=0):
    done = subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def cut(text):
    text = re.sub(r'for (\w) in \("bf16".*?\)', r'for \1 in ("bf16",)', text)
    text = re.sub(r"for D in \(64, .*?\)", "for D in (64,)", text)
    text = re.sub(r"VARIANTS = \[(\{[^}]*\}), .*\]", r"VARIANTS = [\1]", text)
    return re.sub(r"for C in \(1024, .*?\)", "for C in (1024,)", text)


for op in sorted(file.stem for file in (source / "plugin_api/adapters/tilelang/template").glob("*.py")):
    assert "plain, and its values are untested" in run("new", op, "--lang", "tilelang", "--name", f"{op}_t")
    file = work / f"candidates/{op}_t/{op}.py"
    file.write_text(cut(file.read_text()))
    said = run("build", f"{op}_t")
    assert f"{op}_t 0.1.0 with {op}" in said and "refused" not in said, said
    assert "it runs on CUDA devices" in run("check", f"{op}_t", code=1)
for op in [row["op"] for row in json.loads(run("list", "ops", "--json").partition("\n}\n")[0] + "\n}")["rows"]]:
    done = subprocess.run([host, "new", op, "--lang", "tilelang", "--name", f"{op}_n"], env=env, capture_output=True, text=True)
    file = work / f"candidates/{op}_n/{op}.py"
    if done.returncode:
        assert done.returncode == 2 and "use another language" in done.stderr and not file.parent.exists(), done.stderr
    else:
        compile(file.read_text(), file, "exec")
    if op == "gelu":
        assert "gelu_n 0.1.0 with gelu" in run("build", "gelu_n")

GOOD = cut((source / "plugin_api/adapters/tilelang/template/rms_norm.py").read_text())
folder = work / "candidates/m"
folder.mkdir()
line = lambda word: 1 + GOOD[:GOOD.index(word)].count("\n")  # noqa: E731
for old, new, expected in (
        ("PROGRAM =", "PROGRAMM =", f"rms_norm.py:{line('PROGRAM =')}: error: `PROGRAMM` is not a table of this adapter; did you mean `PROGRAM`?"),
        ('"weight": x', '"wieght": x', "DTYPES: `wieght` is no tensor of `rms_norm`; did you mean `weight`?"),
        ('{"C": C}', '{"T": 4, "C": C}', 'VARIANTS: `T` changes from call to call; leave it to T.dynamic("T")'),
        ("eps: T.float32", "epsilon: T.float32", f"rms_norm.py:"),
        ('T.dynamic("T")', 'T.dynamic("tokens")', "`tokens` is nothing that the contract of `rms_norm` has"),
        ("T.reduce_sum(", "T.reduce_sun(", "rms_norm.py:")):
    assert GOOD.count(old) >= 1, old
    (folder / "rms_norm.py").write_text(GOOD.replace(old, new, 1))
    said = " ".join(run("build", "m", code=1).split())
    assert expected in said and "error: " in said and "Traceback" not in said, f"expected: {expected}\nsaid: {said[-1500:]}"
print("sources: they compile, and mistakes are told")
