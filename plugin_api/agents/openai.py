#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""openai.py STEP_FOLDER: an agent of `fk-host evolve` that asks an OpenAI-compatible endpoint for the next source.

Environment: OPENAI_BASE_URL (default http://127.0.0.1:8000/v1), OPENAI_API_KEY, FK_AGENT_MODEL, FK_AGENT_TEMPERATURE, FK_AGENT_TRIES."""
import json, os, pathlib, re, sys, time, urllib.error, urllib.request

ANSWER_MOST = 4 << 20  # bytes
WAIT_SECONDS = 5


def fail(text):
    sys.exit(f"openai: {text}")


def prompt(folder, task):
    """The task page, the parents with their verdicts, and what the archive knows."""
    parts = [(folder / "TASK.md").read_text()]
    for number, parent in enumerate(task["parents"], 1):
        at = folder / "parents" / str(number)
        step = json.loads((at / "feedback.json").read_text())
        parts.append(f"## Parent {number}: {parent[:12]}\n\n```json\n{json.dumps(step['verdict'], indent=1)}\n```")
        for file in sorted(at.rglob("*")):
            if file.is_file() and file.name != "feedback.json":
                parts.append(f"### {file.relative_to(at)}\n\n```\n{file.read_text()}\n```")
    archive = json.loads((folder / "archive.json").read_text())
    for key, title in (("failures", "Recent failures"), ("strategies", "What strategies gained")):
        rows = archive.get(key, [])[:8]
        if rows:
            shown = [{"why": r["verdict"]["why"], "strategy": r["notes"].get("strategy", "")} if key == "failures" else r for r in rows]
            parts.append(f"## {title}\n\n```json\n{json.dumps(shown, indent=1)}\n```")
    parts.append(f"Answer with the whole text of `{task['file']}` in one code block. Then give a second code block of JSON with the keys "
                 '`strategy` (one line), `stage` ("draft" or "refine") and `predicted_gain` (a number, 1 is no gain).')
    return "\n\n".join(parts)


def ask(messages):
    base = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1").rstrip("/")
    body = {"model": os.environ.get("FK_AGENT_MODEL", "default"), "messages": messages}
    if "FK_AGENT_TEMPERATURE" in os.environ:
        body["temperature"] = float(os.environ["FK_AGENT_TEMPERATURE"])
    headers = {"Content-Type": "application/json"}
    if os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = "Bearer " + os.environ["OPENAI_API_KEY"]
    request = urllib.request.Request(base + "/chat/completions", json.dumps(body).encode(), headers)
    tries = int(os.environ.get("FK_AGENT_TRIES", "3"))
    for left in reversed(range(tries)):
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.loads(answer.read(ANSWER_MOST))
        except urllib.error.HTTPError as error:
            if error.code not in (408, 429) and error.code < 500 or not left:
                fail(f"{base} answers {error.code}: {error.read(500).decode(errors='replace')}")
        except (OSError, ValueError) as error:
            if not left:
                fail(f"{base} does not answer: {error}")
        time.sleep(WAIT_SECONDS)


def main():
    if len(sys.argv) != 2:
        fail("usage: openai.py STEP_FOLDER")
    folder = pathlib.Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    messages = [{"role": "user", "content": prompt(folder, task)}]
    answer = ask(messages)
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        fail(f"the answer has no choices[0].message.content: {str(answer)[:300]}")
    (folder / "conversation.json").write_text(json.dumps(messages + [{"role": "assistant", "content": text}], indent=1))
    blocks = re.findall(r"```([\w+-]*)[^\n]*\n(.*?)```", text or "", re.S)
    source = next((body for name, body in blocks if name != "json"), None)
    if source is None:
        fail("the answer has no code block")
    notes = {"author": os.environ.get("FK_AGENT_MODEL", "openai")}
    for name, body in blocks:
        if name != "json":
            continue
        try:
            said = json.loads(body)
        except ValueError:
            continue  # words about the source are no reason to lose it
        if isinstance(said, dict):
            if isinstance(said.get("strategy"), str):
                notes["strategy"] = said["strategy"][:500]
            if said.get("stage") in ("draft", "refine"):
                notes["stage"] = said["stage"]
            gain = said.get("predicted_gain")
            if isinstance(gain, (int, float)) and not isinstance(gain, bool) and gain > 0:
                notes["predicted_gain"] = float(gain)
    out = folder / "out"
    # The answer changes one file; the first parent's other files stay.
    parent = folder / "parents" / "1"
    for file in sorted(parent.rglob("*")):
        if file.is_file() and file.name != "feedback.json":
            (out / file.relative_to(parent)).parent.mkdir(parents=True, exist_ok=True)
            (out / file.relative_to(parent)).write_text(file.read_text())
    (out / task["file"]).write_text(source)
    (out / "notes.json").write_text(json.dumps(notes, indent=1))


main()
