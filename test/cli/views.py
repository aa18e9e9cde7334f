#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""views.py FK_HOST SOURCE_DIR [PICTURES_DIR]: pages and tables of documents. Names with HTML, quotes, very long words and bytes that are not
UTF-8 do no harm; tables of CSV have the document's numbers; a large evaluation opens quickly. Pages are opened in headless Chromium, in two
widths, light and dark, with and without script; without Chromium this part is left out, and the test says so. With PICTURES_DIR it keeps
screenshots to look at."""
import csv, html.parser, io, json, os, pathlib, re, subprocess, sys, tempfile, time

import browser

host, source = sys.argv[1], pathlib.Path(sys.argv[2])
pictures = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
work = pathlib.Path(tempfile.mkdtemp())
env = dict(os.environ, FK_DATA=str(work / "data"), FK_CACHE=str(work / "cache"), FK_CANDIDATES=str(work / "none"))
env.pop("XDG_DATA_HOME", None)
hostile = "<script>alert(1)</script>\"'&</style><img src=x onerror=alert(2)><!-- ${x} `y`"
endless = "very" * 200
turned = "turned \u202e around \x1b[31m and \x00 cut"


def call(*words):
    return subprocess.run([host, *map(str, words)], env=env, capture_output=True, text=True, timeout=300)


def verdict(name, cases=6, wrong=False):
    rows = []
    for i in range(cases):
        bad, ratio, time_s = wrong and i == 1, 0.9 + 0.1 * i, 1e-6 * 5 ** i
        side = lambda t: {"cold": {"median_s": t, "low_s": t, "high_s": t}, "warm_s": t / 2, "roofline": 0.1 * (i + 1)}
        timing = {"candidate": side(time_s / ratio), "baseline": side(time_s), "flops": 10.0 ** (6 + i), "bytes": 10.0 ** (5 + i / 2),
                  "ratio": {"value": ratio, "low": ratio * 0.98, "high": ratio * 1.02}}
        rows.append({"op": "rms_norm", "case": f"full{i}", "size": "full", "status": "wrong" if bad else "faster", "why": hostile if bad else "",
                     "baseline": "cuda", "timings": [] if bad else [timing], "nulls": [{"name": "zeros", "rejected": True, "why": "", "worst": 300.0}],
                     "families": [{"family": f, "status": "correct", "worst": 40.0 if bad else 0.3 + 0.2 * k} for k, f in enumerate(["normal", "zeros", hostile])],
                     "errors": {"field": "out", "name": "tail", "pattern": hostile, "worst": 40.0, "wrong": 7, "compared": 99} if bad else None})
    return {"schema": "fk-host.verdict/1", "candidate": {"name": name, "path": hostile, "sha256": "ab" * 32}, "baselines": [{"name": "cuda"}],
            "status": "wrong" if wrong else "faster", "why": hostile if wrong else "", "cases": rows, "device": turned, "seconds": 2.5,
            "aggregate": {"ratio": {"value": 1.17, "low": 1.15, "high": 1.19}, "cases": cases, "right": cases - wrong}}


def evaluation(name, models, cases):
    ratio = lambda i: 1 + 0.013 * (i % 23) - 0.08
    workload = lambda i: {"workload": f"w{i % 5}", "kind": "latency", "verdict": "faster", "ratio": ratio(i), "low": ratio(i) - 0.02, "high": ratio(i) + 0.02,
                          "round_s": 2.0, "baseline_round_s": 2.0 * ratio(i), "first_token_s": 0.04, "baseline_first_token_s": 0.04 * ratio(i)}
    return {"schema": "fk-host.evaluation/1", "submission": name, "suite": "full", "author": hostile, "kind": "agent", "complete": True, "speed_judged": True,
            "score": {"value": 0.99, "low": 0.95, "high": 1.03}, "speed": {"value": 1.1, "low": 1.05, "high": 1.15},
            "components": {"speed": 1.1, "correctness": 0.95, "coverage": 0.95}, "fast_p": [{"p": 1, "share": 0.7}], "plugins": [{"name": "p", "ops": ["rms_norm"]}],
            "levels": [{"level": k, "cases": 9, "right": 9, "timed": 9, "ratio": 1.1} for k in range(3)],
            "families": [{"family": f, "architectures": 4, "covered": 4, "speed": 1.1, "correctness": 1, "coverage": 1} for f in ("llm", "vision")],
            "missing": [], "left_out": [{"what": "deepseek_v3", "why": "it needs 700 GiB"}],
            "models": [{"scenario": f"model_{m}", "family": "llm", "mode": "captured", "verdict": "correct", "signal": 1, "of_allowed": 0.4 + m,
                        "workloads": [workload(5 * m + i) for i in range(5)]} for m in range(models)],
            "cases": [{"plugin": f"plugin_{i % 7}", "op": f"op_{i % 90}", "level": 1 + i % 3, "case": f"case{i}", "inputs": "generated", "status": "faster",
                       "judged": True, "right": True, "baseline": "cuda", "ratio": ratio(i), "low": ratio(i) - 0.01, "high": ratio(i) + 0.01,
                       "roofline": 0.5, "receipt": f"{i:016x}"} for i in range(cases)]}


# A real run, with the page beside the report.
done = call("run", source / "scenarios/smoke", "--device", "cpu", "--html", work / "run.html", "--csv", work / "run", "--json", work / "run.json")
assert done.returncode == 0 and "Correctness" in done.stdout, done
run = json.loads((work / "run.json").read_text())
figure = lambda k: {"median": k, "p10": 0.9 * k, "p90": 1.2 * k, "count": 9}
for name, factor in (("quick", 0.9), (hostile, 1.2), (endless, 1.0), (turned, 1.0)):
    rows = [dict(w, round_s=figure(factor), token_s=figure(0.01 * factor), verdict="faster" if factor < 1 else "slower", same_tokens=1,
                 speedup={"ratio": 1 / factor, "low": 0.97 / factor, "high": 1.03 / factor, "pairs": 4}) for w in run["baseline"]["workloads"]]
    run["candidates"].append(dict(run["baseline"], name=name, why=hostile, log=hostile, verdict="correct", workloads=rows))
run["speed_judged"] = True
run["pictures"] = [{"result": hostile, "side": hostile, "png": png, "width": 1, "height": 1} for png in (hostile, 'iVBORw0KGgo"><img src=x>', "", 7, "PHN2Zz4=")]
documents = {"run": run, "verdicts": {"schema": "fk-host.verdicts/1", "verdicts": [verdict("quick"), verdict(hostile, wrong=True), verdict(endless)],
                                      "errors": [{"candidate": hostile, "where": "--op", "what": turned}]},
             "eval": {"schema": "fk-host.eval/1", "evaluations": [evaluation("one", 6, 120), evaluation(hostile, 6, 20)]},
             "large": {"schema": "fk-host.eval/1", "evaluations": [evaluation("large", 47, 47 * 300)]}}
for name, document in documents.items():
    (work / f"{name}.json").write_text(json.dumps(document))
    begin = time.monotonic()
    done = call("report", work / f"{name}.json", "--html", work / f"{name}.html", "--csv", work / name, "--markdown", work / f"{name}.md")
    assert done.returncode == 0 and not done.stdout, (name, done)
    size = (work / f"{name}.html").stat().st_size
    print(f"{name}: {size / 1e6:.2f} MB of HTML in {time.monotonic() - begin:.2f} s")
assert size < 4e6, size  # the large one

# Models which make images: pages with the images of both sides and their difference.
drawn = ("gaussian_splatting", "flux", "sdxl")
for name in drawn:
    done = call("run", name, "--profile", "tiny", "--device", "cpu", "--html", work / f"{name}.html", "--json", work / f"{name}.json")
    assert done.returncode == 0, done
    shown = json.loads((work / f"{name}.json").read_text())["pictures"]
    assert [(p["side"], p["difference"]) for p in shown if p["result"] == "image"] == [("reference", False), ("baseline", False), ("baseline", True)], shown
    assert all(p["png"].startswith("iVBORw0KGgo") and p["width"] > 7 and p["height"] > 7 and p["worst"] < 1e-3 for p in shown), name
# Models whose answers are structures, points, boxes or masks: what is drawn of both sides, and the difference.
sketched = {"openfold3": {"atom_positions": "length"}, "pointtransformerv3": {"classes of points": "points with another class"},
            "yolov10": {"best boxes": "sides of the image between corners"}, "rtdetrv2": {"best boxes": "sides of the image between corners"},
            "sam3": {"best boxes": "sides of the image between corners", "best masks": "pixels in another mask, which are white"}}
for name, units in sketched.items():
    done = call("run", name, "--profile", "tiny", "--device", "cpu", "--html", work / f"{name}.html", "--json", work / f"{name}.json")
    assert done.returncode == 0, done
    for result, unit in units.items():
        shown = [p for p in json.loads((work / f"{name}.json").read_text())["pictures"] if p["result"] == result]
        assert [(p["side"], p["difference"]) for p in shown] == [("reference", False), ("baseline", False), ("baseline", True)], (name, shown)
        assert shown[2]["unit"] == unit and shown[2]["mean"] <= shown[2]["worst"], (name, shown[2])
        if result == "best masks":
            assert all(p["png"].startswith("iVBORw0KGgo") for p in shown), name
        else:
            assert all(p["drawing"]["marks"] and p["drawing"]["keys"] and all(m["at"] for m in p["drawing"]["marks"]) for p in shown), name
# A stranger's drawing: numbers that are none, of any size, and texts where there are none.
odd = {"width": 100, "height": 1e300, "keys": [{"colour": hostile, "text": hostile}, 7], "marks": [
    {"kind": "line", "colour": 99, "width": -1, "at": [0, 0, 1e300, hostile, None]}, {"kind": hostile, "at": [1, 2]}, {"kind": "boxes", "at": "none"}, None]}
run["pictures"].append({"result": hostile, "side": "odd", "drawing": odd, "png": ""})
run["pictures"].append({"result": "no frame", "side": "odd", "drawing": {"width": 0, "height": 5, "marks": odd["marks"]}, "png": ""})
(work / "run.json").write_text(json.dumps(run))
assert call("report", work / "run.json", "--html", work / "run.html").returncode == 0
assert (work / "run.html").read_text().count("<path class=\"mark") == 1
# A video is a strip with a row of its own.
done = call("run", "oasis", "--profile", "tiny", "--device", "cpu", "--html", work / "oasis.html", "--json", work / "oasis.json")
assert done.returncode == 0, done
shown = json.loads((work / "oasis.json").read_text())["pictures"]
assert [p["result"] for p in shown] == ["video, 5 of 5 frames"] * 3 and all(p["width"] == 5 * 32 and p["height"] == 24 for p in shown), shown
page = (work / "oasis.html").read_text()
assert page.count('<figure class="strip">') == 3 and "show noise and no motif" in page

# Bytes that are no UTF-8, and things that are no document.
raw = json.dumps(verdict("NAME")).encode().replace(b"NAME", b"caf\xe9")
(work / "raw.json").write_bytes(raw)
done = call("report", work / "raw.json", "--html", work / "raw.html")
assert done.returncode in (0, 2), done
if done.returncode == 0:
    (work / "raw.html").read_text()
for text, words in (("{}", "no document of fk-host"), ('{"schema": "fk-host.list/1"}', "no page for"), ("[1]", "no document"), ('{"schema": 7}', "no document")):
    (work / "odd.json").write_text(text)
    done = call("report", work / "odd.json", "--html", work / "odd.html")
    assert done.returncode == 2 and words in done.stderr and "odd.json" in done.stderr and not (work / "odd.html").exists(), (text, done)
for kind in ("run", "runs", "verdict", "verdicts", "bench", "check", "compare", "comparison", "eval", "evaluation", "leaderboard", "advice"):
    (work / "empty.json").write_text(json.dumps({"schema": f"fk-host.{kind}/1", "cases": "none", "rows": [1, None, {"worst": "x"}], "baseline": 3}))
    done = call("report", work / "empty.json", "--html", work / "empty.html")  # a stranger's document with nothing in it
    assert done.returncode == 0, (kind, done)
done = call("run", source / "scenarios/smoke", "--device", "cpu", "--html", work / "no/such/page.html")
assert done.returncode == 2 and "mkdir -p" in done.stderr and not done.stdout, done  # before the work

# CSV has the numbers; Markdown has every table.
rows = list(csv.DictReader(io.StringIO((work / "verdicts" / "quick.cases.csv").read_text())))
assert [float(r["speedup_low"]) for r in rows] == [float(f"{(0.9 + 0.1 * i) * 0.98:.9g}") for i in range(6)], rows
assert float(rows[2]["baseline_seconds"]) == 2.5e-05 and rows[2]["status"] == "faster", rows[2]
names = {file.name for file in (work / "eval").iterdir()}
assert {"one.cases.csv", "one.families.csv", "scores.csv"} <= names and len(names) > 12, names
assert all(re.fullmatch(r"[\w.-]+", name) for name in names), names
assert (work / "eval.md").read_text().count("\n|---|") == len(names), names
cells = [cell for row in csv.reader(io.StringIO((work / "run" / "speedups.csv").read_text())) for cell in row]
assert hostile in cells and not any("\x1b" in cell or "\u202e" in cell for cell in cells), cells


class Elements(html.parser.HTMLParser):
    seen = ()

    def handle_starttag(self, tag, attributes):
        self.seen += ((tag, dict(attributes)),)


for name in documents:
    if name == "large":
        continue
    page, parser = (work / f"{name}.html").read_text(), Elements()
    parser.feed(page)
    tags = [tag for tag, _ in parser.seen]
    assert tags.count("script") == 1 and "img" not in tags and "b" not in tags, name
    assert not any(key.startswith("on") or key in ("src", "href") and not (value or "").startswith("#") for _, a in parser.seen for key, value in a.items()), name
    assert "\x00" not in page and "\x1b" not in page and "\u202e" not in page, name
    assert all(a.get("aria-label") for tag, a in parser.seen if tag == "svg" and "role" in a) and tags.count("caption") == tags.count("table"), name

for name in drawn:
    page, parser = (work / f"{name}.html").read_text(), Elements()
    parser.feed(page)
    images = [a for tag, a in parser.seen if tag == "img"]
    assert len(images) >= 3 and all(a["src"].startswith("data:image/png;base64,") and a["alt"] for a in images), (name, images)
    assert "The weights are random" in page and "baseline less reference" in page, name

for name in sketched:
    page, parser = (work / f"{name}.html").read_text(), Elements()
    parser.feed(page)
    marks = [a for tag, a in parser.seen if tag == "path" and "mark" in (a.get("class") or "")]
    assert len(marks) >= 6 and all(re.fullmatch(r"[MLHVhZ0-9 -]+", a["d"]) for a in marks), name
    assert "structures, boxes, masks and classes have no meaning" in page and 'class="keys"' in page, name

program = browser.find()
if not program:
    sys.exit(print("left out: there is no Chromium to open the pages with (apt-get install chromium)"))
with_contrast = """(() => { const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const back = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return "rgb(255,255,255)"; };
  let least = 99; for (const e of document.querySelectorAll("p, h1, h2, td, th, dt, dd, summary, figcaption, nav a")) { if (e.closest("details:not([open])")) continue;
  const a = light(getComputedStyle(e).color), b = light(back(e)); least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)); } return least; })()"""
chromium = browser.Browser(program)
try:
    for name in documents:
        for width in (1280, 390):
            for dark in (False, True):
                seconds = chromium.open(work / f"{name}.html", width, dark)
                assert not chromium.complaints(), (name, chromium.complaints())
                assert chromium.run("document.documentElement.scrollWidth") == width, (name, width, "the page is wider than the window")
                if name != "large":
                    assert chromium.run(with_contrast) >= 4.5, (name, dark, chromium.run(with_contrast))
                if pictures:
                    pictures.mkdir(exist_ok=True)
                    chromium.picture(pictures / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        print(f"{name}: open in {seconds:.2f} s")
        assert seconds < 20, seconds
        # Every column sorts both ways, by number where it has numbers; cells without one stay at the end.
        table = """(() => { const t = [...document.querySelectorAll("table")].find((t) => t.caption.textContent === %s); const i = [...t.tHead.rows[0].cells].findIndex(
          (c) => c.textContent.trim() === %s); t.tHead.rows[0].cells[i].querySelector("button").click(); return [...t.tBodies[0].rows].map((r) => r.cells[i].textContent); })()"""
        caption, heading = {"run": ("Speed of whole models", "x baseline (95 %)"), "verdicts": ("Cases", "x baseline (99 %)"), "eval": ("Tier 1: cases of ops", "x baseline (99 %)"),
                            "large": ("Tier 1: cases of ops", "x baseline (99 %)")}[name]
        for up in (True, False):
            texts = chromium.run(table % (json.dumps(caption), json.dumps(heading)))
            numbers = [float(text.split()[0]) for text in texts if text]
            assert len(numbers) > 2 and numbers == sorted(numbers, reverse=not up) and not any(texts[len(numbers):]), (name, up, texts[:9])
        assert not chromium.complaints(), chromium.complaints()
    shown = chromium.run("""new Promise((done) => { const field = [...document.querySelectorAll("input[type=search]")].at(-1), table = [...document.querySelectorAll("table")].find(
      (t) => t.caption.textContent === "Tier 1: cases of ops"); const own = table.parentNode.previousElementSibling; own.value = "op_7 case97 ";
      own.dispatchEvent(new Event("input")); setTimeout(() => done([...table.tBodies[0].rows].filter((r) => !r.hidden).length), 1500); })""")
    assert 1 <= shown < 200, shown
    for name in drawn:
        for width in (1280, 390):
            chromium.open(work / f"{name}.html", width)
            sizes = chromium.run("Promise.all([...document.images].map((i) => i.decode().then(() => [i.naturalWidth, i.clientWidth])))")
            assert len(sizes) >= 3 and all(own > 7 and 100 < seen < width for own, seen in sizes), (name, sizes)
            assert not chromium.complaints() and chromium.run("document.documentElement.scrollWidth") == width, (name, width, chromium.complaints())
            if pictures:
                chromium.picture(pictures / f"{name}-{width}.png")
    for name in sketched:
        for width in (1280, 390):
            for dark in (False, True):
                chromium.open(work / f"{name}.html", width, dark)
                seen = chromium.run("""[...document.querySelectorAll("path.mark")].map((p) => { const b = p.getBBox(), s = p.ownerSVGElement.getBoundingClientRect();
                  return [b.width + b.height, s.width, s.height, getComputedStyle(p).stroke, getComputedStyle(p.ownerSVGElement).backgroundColor]; })""")
                assert len(seen) >= 6 and all(100 < w < width and 20 < h < 1300 and ink != ground for _, w, h, ink, ground in seen), (name, width, seen)
                assert any(extent > 0 for extent, *_ in seen), name
                assert chromium.run(with_contrast) >= 4.5, (name, dark)
                assert not chromium.complaints() and chromium.run("document.documentElement.scrollWidth") == width, (name, width, chromium.complaints())
                if pictures:
                    chromium.picture(pictures / f"{name}-{width}-{'dark' if dark else 'light'}.png")
    # Times sort by their length, not by their letters.
    chromium.open(work / "verdicts.html")
    times = chromium.run(table % ('"Cases"', '"time"'))
    assert times[0].endswith("us") and times[-1].endswith("ms"), times
    # Without script, everything is there to read.
    words = {}
    for script in (True, False):
        chromium.open(work / "eval.html", script=script)
        chromium.call("Emulation.setScriptExecutionDisabled", value=False)
        words[script] = chromium.run("[document.querySelectorAll('td').length, document.querySelectorAll('svg circle').length, document.querySelectorAll('button').length]")
    assert words[True][:2] == words[False][:2] and words[True][2] and not words[False][2] and words[True][0] > 500, words
finally:
    chromium.close()
