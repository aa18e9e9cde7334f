#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""author.py FK_HOST SOURCE_DIR [EVERY]: what an author of a candidate gets: a folder with the whole task, candidate.yaml, and the words of `build`.
One in EVERY ops (17) has its task's source built and checked."""
import json, os, pathlib, re, shutil, subprocess, sys

from host import Host

source, every = pathlib.Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 17
host = Host(sys.argv[1])
work, run = host.work, host.run

# A task is one page with everything, whatever the op, and a source that computes the op.
ops = sorted(row["op"] for row in json.loads(run(["list", "ops", "--json"], 0))["rows"])
for number, op in enumerate(ops):
    run(["new", op, "--task"], 0, f"candidates/my_{op}/TASK.md: the whole task", "plain and correct")
    folder = work / "candidates" / f"my_{op}"
    page = (folder / "TASK.md").read_text()
    assert len(page.encode()) <= 16000, f"{op}: {len(page.encode())} bytes"
    for part in (f"fk-host build my_{op}", f"fk-host check my_{op}", f"fk-host bench my_{op}", f"typedef struct fk_{op}_forward", "## Rules",
                 "## Cases", "smoke", "1800 s", "20 s", "900 s", "16.0 GiB", "fk_ctx: ", "march: native", "fk_alignment", "## Feedback", "  next "):
        assert part in page, f"{op}: TASK.md lacks {part!r}"
    assert not re.search(r"\{(op|name|file|state|summary|contract|patience|budget|toolchain|alignment)\}", page), f"{op}: TASK.md has a hole"
    if number % every == 0 or op == "rms_norm":
        run(["build", f"my_{op}"], 0, f"my_{op} 0.1.0 with {op}", absent=["warning"])
        run(["check", f"my_{op}", "--quick"], 0, "PASS")
# In other languages the page has the reference's source.
run(["new", "topk_softmax", "--task", "--name", "gpu", "--lang", "cu"], 0, "refuses every case")
page = (work / "candidates/gpu/TASK.md").read_text()
assert "refuses every case" in page and "fk::reference" in page and "nvcc" in page and "march" not in page
assert (work / "candidates/gpu/reference/op.hpp.txt").exists() and not (work / "candidates/gpu/op.hpp").exists()
# Sources, and headers beside them, are all that a build reads.
run(["build", "gpu"], 0) if shutil.which("nvcc") else None

# OpenMP and libm link by default. candidate.yaml adds flags, definitions, libraries and a target.
folder = work / "candidates/mine"
run(["new", "rms_norm", "--name", "mine"], 0)
file = folder / "rms_norm.cpp"
sound = file.read_text()
file.write_text(sound.replace("namespace {", "#include <omp.h>\ninline int team() { int n = 0;\n#pragma omp parallel\n#pragma omp atomic\n  ++n;\n"
                                             "  return n + int(erff(float(omp_get_max_threads()))); }\nint (*volatile used)() = team;\nnamespace {", 1))
run(["build", "mine"], 0, absent=["warning"])
needs = subprocess.run(["readelf", "-d", folder / "mine.so"], capture_output=True, text=True).stdout
assert "libgomp" in needs and "libm.so" in needs, needs
run(["check", "mine", "--quick"], 0, "PASS")
file.write_text(sound)
run(["build", "mine"], 0)
needs = subprocess.run(["readelf", "-d", folder / "mine.so"], capture_output=True, text=True).stdout
assert "libgomp" not in needs, "a library that nothing uses is left out"
recipe = folder / "candidate.yaml"
recipe.write_text("flags: [-O2, -fno-math-errno]\ndefinitions: [EXTRA=7]\nmarch: x86-64-v2\nopenmp: false\nlibraries: [m]\n")
run(["check", "mine", "--quick"], 0, "out of date")  # a recipe changes the plugin as a source does
check = "#if EXTRA != 7 || defined(_OPENMP) || !defined(__NO_MATH_ERRNO__)\n#error recipe\n#endif\n"
if os.uname().machine == "x86_64":
    check += "#ifndef __SSE4_2__\n#error march\n#endif\n"
else:
    recipe.write_text(recipe.read_text().replace("march: x86-64-v2\n", ""))
file.write_text(check + sound)
run(["build", "mine"], 0)
recipe.unlink()
run(["build", "mine"], 1, "error: #error recipe")
file.write_text(sound)
for text, parts in (("flag: [-O2]\n", ["candidate.yaml:1:1", "unknown key `flag`", "flags"]), ("flags: [-fvisibility=default]\n", ["candidate.yaml:1:9", "may not use"]),
                    ("flags: ['-Wl,-rpath,/tmp']\n", ["may not use"]), ("flags: [-fplugin=x.so]\n", ["may not use"]), ("flags: [-I/etc]\n", ["may not use"]),
                    ("flags: [-DX=1]\n", ["definitions:"]), ("flags: [-march=native]\n", ["march:"]), ("flags: [-lcublas]\n", ["libraries:"]),
                    ("flags: [--help]\n", ["is not a flag"]), ("definitions: [1X]\n", ["NAME=VALUE"]), ("definitions: [FK_BUILD_ID=1]\n", ["the host's"]),
                    ("libraries: [cublas]\n", ["may not link `cublas`"]), ("libraries: [gmop]\n", ["did you mean `gomp`"]), ("march: 'a b'\n", ["x86-64-v3"]),
                    ("openmp: 3\n", ["candidate.yaml:1:9"])):
    recipe.write_text(text)
    run(["build", "mine"], 2, *parts)
recipe.unlink()

# A plugin's printed words are shown and kept.
file.write_text(sound.replace("namespace {", "#include <cstdio>\nnamespace {", 1).replace("float sum = 0;", 'float sum = 0; if (t == 0) std::puts("a word");'))
run(["build", "mine"], 0)
for words in (["check", "mine", "--quick"], ["bench", "mine", "--size", "smoke", "--case", "smoke0", "--seconds", "0", "--no-store"]):
    run(words, 0, "a word")
    assert "a word" in run([*words, "--json"], 0), words
run(["run", "smoke", "--device", "cpu", "--candidate", "mine"], 0, "Printed by mine", "  | a word", absent=["Printed by baseline"])
file.write_text(sound)

# A folder and its plugin with different names; a failed build beside an older plugin.
file.write_text(sound.replace('FK_PLUGIN("mine"', 'FK_PLUGIN("other"'))
run(["build", "mine"], 0, "the folder is `mine`", "`other`")
for name in ("mine", "other"):
    run(["check", name, "--quick"], 0, "PASS")
file.write_text(sound)
run(["build", "mine"], 0, absent=["note:"])
file.write_text(sound.replace("const float scale", "const flaot scale"))
run(["build", "mine"], 1, "flaot", "mine.so stays from older sources")
(folder / "mine.so").unlink()
run(["build", "mine"], 1, "flaot", absent=["stays"])
run(["bench", "mine"], 1, "compile_error", "flaot", absent=["has not been built"])

# A message names the macro which a plugin lacks. A fast exp() of libmvec may be linked.
file.write_text(sound.replace("FK_OP(", "// FK_OP("))
run(["build", "mine"], 1, "Add FK_OP(op, Class) to a source")
file.write_text(sound.replace("FK_PLUGIN(", "// FK_PLUGIN("))
run(["build", "mine"], 2, "ops, but no FK_PLUGIN(name, version)", "add it once", absent=["garbled"])
if os.uname().machine == "x86_64":
    recipe.write_text("flags: [-O3, -ffast-math]\n")
    file.write_text(sound.replace("namespace {", "void fast(float* x) { for (int i = 0; i < 64; ++i) x[i] = expf(x[i]); }\nvoid (*volatile used)(float*) = fast;\nnamespace {", 1))
    run(["build", "mine"], 0)
    needs = subprocess.run(["readelf", "-d", folder / "mine.so"], capture_output=True, text=True).stdout
    assert "libmvec" in needs, needs
    recipe.write_text("march: x86-64-v4\n")
    file.write_text(sound.replace("namespace {", "#include <immintrin.h>\n__m512 wide(__m512 a) { return _mm512_max_ps(a, _mm512_sqrt_ps(a)); }\n"
                                                 "__m512 (*volatile used)(__m512) = wide;\nnamespace {", 1))
    run(["build", "mine"], 0, absent=["warning"])
    recipe.unlink()
(folder / "mine.so").unlink()
file.write_text(sound.replace("const float scale", "const flaot scale"))

# The same as JSON.
document = json.loads(run(["build", "mine", "--json"], 1))
assert document["schema"] == "fk-host.build/1" and not document["built"] and "rms_norm.cpp" in document["error"] and "flaot" in document["log"], document
assert document["next"], document
file.write_text(sound)
document = json.loads(run(["build", "mine", "--json"], 0))
assert document["built"] and document["plugin"] == "mine" and document["ops"] == ["rms_norm"] and document["file"].endswith("mine.so"), document
assert document["next"] == "fk-host check mine", document
run(["build", "mine", "--json", work / "build.json"], 0, "mine 0.1.0 with rms_norm")
assert json.loads((work / "build.json").read_text())["built"]

host.end()
