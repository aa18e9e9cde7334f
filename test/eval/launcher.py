#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""launcher.py FK_HOST SOURCE_DIR PLUGINS_DIR [slurm]: `fk-host eval --launcher slurm` gives the evaluation of the same command without
a launcher, also when a task dies. Without the last word a stand-in for `sbatch` runs the scripts; with it a cluster does."""
import atexit, json, os, pathlib, shutil, subprocess, sys, tempfile

host, source, plugins = sys.argv[1], *map(pathlib.Path, sys.argv[2:4])
real = sys.argv[4:] == ["slurm"]
work = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, work, True)
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CANDIDATES=str(work / "none"), FK_SBATCH=str(work / "sbatch"))
for name in list(env):
    if name.startswith("SBATCH_"):
        del env[name]

SBATCH = f'''#!{sys.executable}
import os, pathlib, signal, subprocess, sys, time
state = pathlib.Path(os.environ["FK_SBATCH"])
options = dict(w[2:].split("=", 1) if "=" in w else (w[2:], "") for w in sys.argv[1:] if w.startswith("--"))
script = pathlib.Path(sys.argv[-1]).read_text()
if (state / "refuses").exists():
    sys.exit("sbatch: error: invalid partition specified: none")
number = str(len(list(state.glob("*.sh"))) + 11)
(state / (number + ".sh")).write_text(script)
print("sbatch: a warning", file=sys.stderr)
print(number + ";cluster", flush=True)
def run(out, err, **more):
    text = (state / (number + ".sh"))
    with open(out, "w") as o, open(err, "w") if err else o as e:
        return subprocess.run(["/bin/sh", text], stdout=o, stderr=e, env=dict(os.environ, **more)).returncode
if "array" in options:
    first, last = map(int, options["array"].split("-"))
    if os.fork():
        sys.exit()
    os.setsid()
    for i in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), i)
    for task in range(first, last + 1):
        out = options["output"].replace("%A", number).replace("%a", str(task)).replace("%%", "%")
        if (state / "kills").exists() and task == 2:  # once its job runs
            with open(out, "w") as o:
                dies = subprocess.Popen(["/bin/sh", state / (number + ".sh")], stdout=o, stderr=o, start_new_session=True, env=dict(os.environ, SLURM_ARRAY_TASK_ID="2"))
            logs = pathlib.Path(options["output"].replace("%%", "%")).parents[1] / "logs"
            began = set(logs.glob("*"))
            while dies.poll() is None and not set(logs.glob("*")) - began:
                time.sleep(0.01)
            (state / "killed").write_text(str(dies.poll()))
            os.killpg(dies.pid, signal.SIGKILL)
            dies.wait()
        else:
            run(out, None, SLURM_ARRAY_TASK_ID=str(task))
    (state / (number + ".ended")).touch()
else:
    before = options["dependency"].split(":")[1]
    while not (state / (before + ".ended")).exists():
        time.sleep(0.05)
    sys.exit(run(options["output"].replace("%%", "%"), options["error"].replace("%%", "%")))
'''
if not real:
    (work / "bin").mkdir()
    (work / "sbatch").mkdir()
    (work / "bin/sbatch").write_text(SBATCH)
    (work / "bin/sbatch").chmod(0o755)
    env["PATH"] = f"{work / 'bin'}:{env['PATH']}"

submission = work / "it's mine"
submission.mkdir()
shutil.copy(plugins / "eval_quick_norm.so", submission / "norm.so")
shutil.copy(plugins / "eval_wrong_attention.so", submission / "attention.so")
(submission / "manifest.yaml").write_text("submission: mixed\nauthor: a test\nkind: agent\nplugins: {norm.so: [rms_norm], attention.so: [attention_varlen]}\n")
suite = work / "short.yaml"
suite.write_text(f"suite: short\nsummary: one model\nminutes: 1\nops: {{size: smoke, seconds: 0}}\n"
                 f"models: {{scenarios: [{source / 'scenarios/suites/smoke/small_llama.yaml'}], processes: 3}}\n")


def evaluate(folder, *words, path=None, cwd=work):
    words = [host, "eval", "short.yaml", "--candidates", submission.name, "--device", "cpu", "--folder", str(folder), *words]
    return subprocess.run(words, env=dict(env, PATH=path) if path else env, cwd=cwd, capture_output=True, text=True, timeout=280)


def outputs(folder):
    return "\n".join(f"--- {f.name}\n{f.read_text()[-1500:]}" for f in sorted((folder / "slurm").glob("*")) if f.suffix != ".sh")


# Mistakes, and what is not there.
for words, said in ((["--launcher", "slrm"], "slurm"), (["--launcher", "slurm", "--plan"], "it has neither --plan nor --part"),
                    (["--part", "4/3"], "`4/3` is not INDEX/COUNT"), (["--part", "x"], "`x` is not INDEX/COUNT"), (["--part", "1/2/3"], "is not INDEX/COUNT")):
    done = evaluate(work / "none", *words)
    assert done.returncode == 2 and said in done.stderr, (words, done)
done = evaluate(work / "none", "--launcher", "slurm", path="/nowhere")
assert done.returncode == 3 and "sbatch: it cannot be started" in done.stderr and "slurm-client" in done.stderr, done
if real:
    env["SBATCH_PARTITION"] = "nowhere"
else:
    (work / "sbatch/refuses").touch()
done = evaluate(work / "none", "--launcher", "slurm")
assert done.returncode == 3 and "it does not take the array" in done.stderr and "invalid partition" in done.stderr, done
env.pop("SBATCH_PARTITION", None)
(work / "sbatch/refuses").unlink(missing_ok=True)

# Three jobs in two tasks; a name with a sign of patterns. JSON and report come from the last job.
shared = work / "100% shared"
done = evaluate(shared, "--launcher", "slurm", "--tasks", "2", "--json", "out.json")
assert done.returncode == 0, (done, outputs(shared))
assert "has 2 tasks" in done.stderr and "3 stored" in done.stderr and "rms_norm" in done.stdout, (done, outputs(shared))
parts = sorted((shared / "slurm").glob("part-*_*.txt"))
assert [p.stem.split("_")[-1] for p in parts] == ["1", "2"], parts
assert sum(p.read_text().count("of 3: mixed") for p in parts) == 3, outputs(shared)
(e,) = json.loads((work / "out.json").read_text())["evaluations"]
found = {(c["op"], c["status"]) for c in e["cases"]} - {("rms_norm", "refused"), ("attention_varlen", "refused")}
assert e["complete"] and found == {("rms_norm", "correct"), ("attention_varlen", "wrong")}, e["cases"]
# The same results give the same evaluation without a launcher, and nothing runs again.
done = evaluate(shared, "--json")
assert done.returncode == 0 and "3 stored" in done.stderr, done
(again,) = json.loads(done.stdout)["evaluations"]
assert again["id"] == e["id"], (again["id"], e["id"])
print("ok    an array and its last job")

# A task dies: the last job runs the jobs of that task.
dead = work / "dead"
if real:
    env["SBATCH_NO_REQUEUE"] = "1"
    launched = subprocess.Popen([host, "eval", str(suite), "--candidates", str(submission), "--device", "cpu", "--folder", str(dead), "--launcher", "slurm",
                                 "--tasks", "2", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = launched.stderr.readline()
    number = line.split("array ")[1].split()[0]
    subprocess.run(["scancel", f"{number}_2"], check=True, timeout=60)
    # A second launcher has no place in the folder.
    second = evaluate(dead, "--launcher", "slurm")
    assert second.returncode == 3 and "another evaluation works in this folder" in second.stderr, second
    out, err = launched.communicate(timeout=280)
    done = subprocess.CompletedProcess([], launched.returncode, out, line + err)
else:
    (work / "sbatch/kills").touch()
    done = evaluate(dead, "--launcher", "slurm", "--tasks", "2", "--json")
    assert (work / "sbatch/killed").read_text() == "None", "the task ended before it was killed"
assert done.returncode == 0, (done, outputs(dead))
(e,) = json.loads(done.stdout)["evaluations"]
assert e["complete"] and len({c["op"] for c in e["cases"]}) == 2 and len(e["models"]) == 1, e
last = next((dead / "slurm").glob("last-*.err")).read_text().splitlines()
assert [line.endswith(": stored") for line in last if " of 3: mixed" in line].count(False) == 1, outputs(dead)
print("ok    a task that dies")

# Parts work side by side in one folder.
side = work / "side"
words = [host, "eval", str(suite), "--candidates", str(submission), "--device", "cpu", "--folder", str(side)]
running = [subprocess.Popen([*words, "--part", f"{i}/3"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for i in (1, 2, 3)]
codes = [(p.communicate(timeout=280)[1], p.returncode) for p in running]
assert [code for _, code in codes] == [0, 0, 0], codes
done = evaluate(side)
assert done.returncode == 0 and "3 stored" in done.stderr, done
print("ok    parts side by side")
