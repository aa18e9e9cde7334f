#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scaffolds.py FK_HOST SOURCE_DIR: what `new` writes, for every op and language, compiles without a warning and either
passes the check or refuses with its sentence; the templates are as small and as portable as they promise."""
import concurrent.futures, json, os, pathlib, re, shutil, subprocess, sys, tempfile

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_CANDIDATES=str(work / "candidates"), FK_CACHE=str(work / "cache"))
failures = []


def run(words, **options):
    return subprocess.run([str(w) for w in words], env=env, capture_output=True, text=True, timeout=300, **options)


def expect(good, what, done):
    if not good:
        failures.append(what)
        print(f"FAILED: {what}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")


nvcc = shutil.which("nvcc") or os.access("/usr/local/cuda/bin/nvcc", os.X_OK)
ops = [row["op"] for row in json.loads(run([host, "list", "ops", "--json"]).stdout)["rows"]]
complete = {f.stem for f in (source / "plugin_api/template/ops").glob("*.cpp")}
assert complete <= set(ops), complete - set(ops)
run([host, "build", "x"])  # makes nothing but the headers' folder


def scaffold(op, language):
    name = f"{op}_{language}"
    made = run([host, "new", op, "--name", name, "--lang", language])
    expect(made.returncode == 0, f"new {name}", made)
    built = run([host, "build", name])
    expect(built.returncode == 0 and "warning" not in built.stderr and f": {name} 0.1.0 with {op}" in built.stdout,
           f"build {name}", built)
    checked = run([host, "check", name])
    if language == "cu":  # is never given host memory
        expect(checked.returncode == 1 and "it runs on CUDA devices" in checked.stdout, f"check {name}", checked)
        return
    plain = "plain and correct" in made.stdout
    if language == "cpp":
        expect(plain == (op in complete), f"{name} is complete or not", made)
    good = checked.returncode == 0 and checked.stdout.endswith("PASS\n") if plain else \
        checked.returncode == 1 and "forward is not written yet" in checked.stdout
    expect(good, f"check {name}", checked)


# The first build writes the headers of all contracts; the others find them there.
scaffold(ops[0], "c")
jobs = [(op, language) for op in ops for language in ("c", "cpp") if (op, language) != (ops[0], "c")]
jobs += [(op, "cu") for op in ("silu_and_mul", "paged_attention")] if nvcc else []
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda job: scaffold(*job), jobs))

# The smallest plugin is C11, without a warning, under 80 lines, and works.
small = source / "plugin_api/template/plugin.c"
for name in ("plugin.c", "plugin.cu"):
    lines = len((source / "plugin_api/template" / name).read_text().splitlines())
    assert lines < 80, f"{name} has {lines} lines"
library = work / "small.so"
built = run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-fPIC", "-fvisibility=hidden", "-shared",
             "-I", source / "plugin_api", "-I", work / "cache/headers", small, "-o", library,
             f"-Wl,--version-script={source}/plugin_api/fk/plugin.map", "-Wl,-z,now", "-Wl,-z,defs", "-Wl,--build-id", "-lm"])
expect(built.returncode == 0, "plugin.c", built)
checked = run([host, "check", library])
expect(checked.returncode == 0, "check plugin.c", checked)

# The same source gives the same note, another source another one; the folder's headers count.
folder = work / "candidates/gelu_cpp"
note = lambda: re.search(rb"\x00([0-9a-f]{16})\x00", (folder / "gelu_cpp.so").read_bytes()).group(1)
first = note()
run([host, "build", "gelu_cpp"])
assert note() == first
(folder / "extra.hpp").write_text("// more\n")
run([host, "build", "gelu_cpp"])
assert note() != first

shutil.rmtree(work)
print(f"{len(jobs) + 1} scaffolds, {len(failures)} failures" + ("" if nvcc else "; no nvcc: CUDA scaffolds were not built"))
sys.exit(bool(failures))
