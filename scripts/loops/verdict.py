# SPDX-License-Identifier: Apache-2.0
"""The verdict on one candidate as a dictionary (fk-host.verdict/1), for the loops of others in this folder. FK_URL names a
server (`fk-host serve --http`), with its token in FK_TOKEN; without it `fk-host bench` judges here. FK_HOST is that program."""
import json, math, os, pathlib, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from fk_client import EXTENSIONS, Client

RIGHT = ("faster", "same", "slower", "cannot_tell", "correct")  # statuses of a right candidate
LISTS = {"ops": "--op", "cases": "--case", "families": "--family", "variants": "--variant", "dtypes": "--dtype"}


class NoVerdict(Exception):
    """The host failed or the question was wrong: nothing is known of the candidate."""


def _here(file, language, options):
    host = os.environ.get("FK_HOST") or shutil.which("fk-host") or str(ROOT / "build/fk-host")
    with tempfile.TemporaryDirectory() as folder:
        candidate = file
        if file.is_file() and file.suffix != ".so":  # a folder of its own: the compiler sees nothing else
            name = options.pop("name", file.stem)
            suffix = {v: k for k, v in EXTENSIONS.items()}.get(language, file.suffix)
            candidate = pathlib.Path(folder) / name
            candidate.mkdir()
            shutil.copy(file, candidate / (name + suffix))
            if (file.parent / "candidate.yaml").is_file():
                shutil.copy(file.parent / "candidate.yaml", candidate)
        options.pop("name", None)
        words = [f"{LISTS[key]}={value}" for key in LISTS for value in options.pop(key, [])]
        words += ["--thorough"] if options.pop("thorough", False) else []
        words += [f"--{key.removesuffix('_s')}={value}" for key, value in options.items()]
        answer = pathlib.Path(folder) / "verdict.json"
        done = subprocess.run([host, "bench", str(candidate), "--json", str(answer), *words], capture_output=True, text=True)
        if done.returncode in (2, 3) or not answer.exists() or not answer.stat().st_size:
            raise NoVerdict((done.stderr or done.stdout).strip()[-2000:])
        return json.loads(answer.read_text())


def judge(file, language=None, url=None, **options):
    """The verdict on a source, a .so, or (here only) a folder. `options` are the keys of a job (docs/service.md), such as ops,
    size and seconds; seconds=0 asks for correctness alone."""
    file, url = pathlib.Path(file), url or os.environ.get("FK_URL")
    if not url:
        return _here(file, language, dict(options))
    client = Client(url, os.environ.get("FK_TOKEN"), os.environ.get("SSL_CERT_FILE"))
    job = client.wait(client.submit(file, language, patience=3600, **options)["id"])
    if job["state"] != "done":
        raise NoVerdict(f"{job['state']}: {job['why']}")
    return client.result(job["id"])


def is_right(verdict):
    return verdict["status"] in RIGHT


def speed(verdict):
    """(value, low, high): times the best baseline, with the interval of 99 %; None where nothing was timed."""
    ratio = (verdict.get("aggregate") or {}).get("ratio") or {}
    numbers = [ratio.get(key) or 0 for key in ("value", "low", "high")]
    return numbers if all(math.isfinite(n) and n > 0 for n in numbers) else None


def feedback(verdict):
    """The words for an author: what is wrong, how that is known, what comes next."""
    lines = [f"status: {verdict['status']}"]
    lines += [f"{key}: {verdict[key]}" for key in ("why", "evidence", "next") if verdict.get(key)]
    for case in verdict.get("cases", []):
        if case["why"] or case["next"]:
            lines.append(f"{case['op']} {case['case']} {case['variant']}: {case['status']}: {case['why']} {case['next']}".strip())
    return "\n".join(lines)
