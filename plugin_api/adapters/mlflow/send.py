#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""send.py FOLDER... | --all DIR [--uri URI]: sends kept results of fk-host to an MLflow server by its REST API, and deletes what was sent.
The standard library is enough. A folder has document.json, report.html, send.json (the server's URI, and folders of files by owner) and
sent.json: what an earlier call has sent already, so that nothing is sent twice. Each run, submission or verdict of a document becomes one
run of MLflow. A kernel that is right and faster becomes a version of a registered model of the kernel's name. The environment variables
MLFLOW_TRACKING_TOKEN, MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD mean the same as for MLflow's own client."""
import base64, calendar, hashlib, json, math, os, pathlib, re, shutil, sys, time, urllib.error, urllib.parse, urllib.request

PARAM_BYTES, TIMEOUT_S = 5000, 60


class Unsent(Exception):
    pass


class Server:
    def __init__(self, uri):
        self.uri, self.headers = uri.rstrip("/"), {}
        token, user = os.environ.get("MLFLOW_TRACKING_TOKEN"), os.environ.get("MLFLOW_TRACKING_USERNAME")
        if token:
            self.headers["Authorization"] = "Bearer " + token
        elif user:
            secret = f"{user}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}".encode()
            self.headers["Authorization"] = "Basic " + base64.b64encode(secret).decode()

    def ask(self, method, path, body=None, data=None, may_miss=False):
        """The answer; None when the server has no such thing and `may_miss` is set."""
        headers = dict(self.headers, **({"Content-Type": "application/octet-stream"} if data is not None else {"Content-Type": "application/json"}))
        content = data if data is not None else json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.uri + path, data=content, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                text = answer.read()
                return json.loads(text) if text.strip() else {}
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")[:400]
            if may_miss and (error.code == 404 or "RESOURCE_DOES_NOT_EXIST" in words):
                return None
            raise Unsent(f"{self.uri}{path.split('?')[0]} answers {error.code}: {words}")
        except (OSError, ValueError) as error:
            raise Unsent(f"{self.uri} cannot be reached: {getattr(error, 'reason', error)}")

    def api(self, method, name, body=None, **more):
        if method == "GET":
            return self.ask("GET", f"/api/2.0/mlflow/{name}?" + urllib.parse.urlencode(body), **more)
        return self.ask(method, f"/api/2.0/mlflow/{name}", body, **more)


def word(text):
    """A name that MLflow takes for keys and models."""
    return re.sub(r"[^\w. -]", "_", str(text))[:200] or "_"


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def flat(fields, keys):
    return {key: fields[key] for key in keys if fields.get(key) not in (None, "", [], {})}


def ratio_metrics(out, name, ratio, low, high):
    for suffix, value in (("", ratio), ("_low", low), ("_high", high)):
        if number(value) and value > 0:
            out[name + suffix] = value


def of_verdict(v):
    candidate, aggregate = v.get("candidate", {}), v.get("aggregate", {})
    metrics, ratio = {}, aggregate.get("ratio", {})
    ratio_metrics(metrics, "speedup", ratio.get("value"), ratio.get("low"), ratio.get("high"))
    metrics.update({key: aggregate[key] for key in ("cases", "right", "faster", "same", "slower", "failed", "refused") if number(aggregate.get(key))})
    for case in v.get("cases", []):
        for timing in case.get("timings", [])[:1]:
            own, at = timing.get("ratio", {}), f"{case.get('op')}/{case.get('case')}" + (f"/{case['variant']}" if case.get("variant") else "")
            ratio_metrics(metrics, f"speedup/{at}", own.get("value"), own.get("low"), own.get("high"))
            seconds = timing.get("candidate", {}).get("cold", {}).get("median_s")
            if number(seconds):
                metrics[f"seconds/{at}"] = seconds
    policy = {f"policy.{key}": value for key, value in v.get("policy", {}).items() if value not in ("", [], None)}
    ops = sorted({case.get("op") for case in v.get("cases", []) if case.get("op")})
    kernel = {"name": candidate.get("name"), "sha256": candidate.get("sha256"), "ops": ops, "owner": candidate.get("name"), "receipt": v.get("receipt")}
    return {"experiment": "fk-host bench", "name": candidate.get("name"), "owner": candidate.get("name"), "metrics": metrics, "begin": v.get("time"),
            "params": {**flat(v, ("device", "driver", "host", "host_version", "host_build")), **policy, "ops": ", ".join(ops), "sha256": candidate.get("sha256", "")},
            "tags": flat(v, ("status", "why", "receipt", "next")), "texts": {"profile.txt": v.get("profile"), "log.txt": v.get("log")},
            "kernels": [kernel] if v.get("status") == "faster" else []}


def of_run(r):
    metrics, kernels = {}, []
    for side in [r.get("baseline", {})] + r.get("candidates", []):
        name = side.get("name")
        for row in side.get("workloads", []):
            at, speedup = f"{name}/{row.get('workload')}", row.get("speedup") or {}
            ratio_metrics(metrics, f"speedup/{at}", speedup.get("ratio"), speedup.get("low"), speedup.get("high"))
            for key in ("round_s", "first_token_s", "token_s", "prefill_tokens_per_s", "decode_tokens_per_s"):
                if number((row.get(key) or {}).get("median")):
                    metrics[f"{key}/{at}"] = row[key]["median"]
        for key in ("rms_of_spread", "of_allowed"):
            if number((side.get("correctness") or {}).get(key)):
                metrics[f"{key}/{name}"] = side["correctness"][key]
        speeds = [row.get("verdict") for row in side.get("workloads", [])]
        if side.get("verdict") == "correct" and "faster" in speeds and "slower" not in speeds:
            kernels.append({"name": name, "owner": name, "ops": sorted({o["op"] for o in side.get("ops", []) if o.get("provider") in side.get("plugins", [])})})
    tags = {f"verdict.{side.get('name')}": side.get("verdict") for side in r.get("candidates", [])}
    keys = ("arch", "layers", "profile", "dtype", "device", "driver", "host", "host_build", "tp", "ep", "seed", "requests_seed", "max_batch", "processes")
    return {"experiment": "fk-host run", "name": r.get("scenario"), "owner": None, "metrics": metrics, "begin": r.get("date"), "params": flat(r, ("scenario",) + keys),
            "tags": {**tags, **flat(r, ("error",))}, "texts": {}, "kernels": kernels}


def of_evaluation(e):
    metrics = {key: value for key, value in e.get("components", {}).items() if number(value)}
    for key in ("score", "speed"):
        ratio_metrics(metrics, key, *(e.get(key, {}).get(k) for k in ("value", "low", "high")))
    for family in e.get("families", []):
        for key in ("speed", "correctness", "coverage"):
            if number(family.get(key)):
                metrics[f"{key}/{family.get('family')}"] = family[key]
    for row in e.get("fast_p", []):
        metrics[f"fast_{row.get('p'):g}"] = row.get("share")
    for model in e.get("models", []):
        for row in model.get("workloads", []):
            ratio_metrics(metrics, f"speedup/{model.get('scenario')}/{model.get('mode')}/{row.get('workload')}", row.get("ratio"), row.get("low"), row.get("high"))
    kernels = []
    for plugin in e.get("plugins", []):
        cases = [c for c in e.get("cases", []) if c.get("plugin") == plugin.get("name") and c.get("judged")]
        if e.get("complete") and cases and all(c.get("right") for c in cases) and any(c.get("status") == "faster" for c in cases):
            kernels.append({"name": plugin.get("name"), "sha256": plugin.get("sha256"), "ops": plugin.get("ops", []), "owner": e.get("submission"), "file": plugin.get("file"),
                            "evaluation": e.get("id")})
    return {"experiment": f"fk-host eval {e.get('suite')}", "name": e.get("submission"), "owner": e.get("submission"), "metrics": metrics, "begin": e.get("date"),
            "params": flat(e, ("suite", "suite_sha256", "submission", "author", "kind", "budget", "commit", "device", "driver", "host", "host_build", "seed")),
            "tags": flat(e, ("id", "note", "complete", "signed_by")), "texts": {}, "kernels": kernels}


def of_providers(b):
    metrics = {}
    for row in b.get("rows", []):
        at = f"{row.get('provider')}/{row.get('op')}/{row.get('case')}"
        if number(row.get("cold_s")) and row["cold_s"] > 0:
            metrics[f"seconds/{at}"] = row["cold_s"]
        ratio_metrics(metrics, f"speedup/{at}", row.get("speedup"), row.get("speedup_low"), row.get("speedup_high"))
    return {"experiment": "fk-host bench", "name": ", ".join(sorted({row.get("op", "") for row in b.get("rows", [])}))[:80], "owner": None, "metrics": metrics, "begin": None,
            "params": flat(b, ("device", "size", "captured", "seconds")), "tags": {}, "texts": {}, "kernels": []}


KINDS = {"fk-host.verdict": of_verdict, "fk-host.run": of_run, "fk-host.evaluation": of_evaluation, "fk-host.bench": of_providers}


def parts(document):
    kind = str(document.get("schema", "")).rsplit("/", 1)[0]
    if kind in KINDS:
        return [KINDS[kind](document)]
    return [part for value in document.values() if isinstance(value, list) for one in value if isinstance(one, dict) and "schema" in one for part in parts(one)]


def in_ms(text):
    try:
        return 1000 * calendar.timegm(time.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return int(time.time() * 1000)


class Kept:
    """A folder with a result. `sent` is kept after each step, so that a later call goes on."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.plan = json.loads((self.folder / "send.json").read_text())
        self.state = self.folder / "sent.json"
        self.sent = json.loads(self.state.read_text()) if self.state.exists() else {}

    def once(self, key, action):
        if key not in self.sent:
            self.sent[key] = action()
            beside = self.state.with_suffix(".new")
            beside.write_text(json.dumps(self.sent))
            os.replace(beside, self.state)
        return self.sent[key]

    def send(self, uri):
        server, done = Server(uri), []
        document = json.loads((self.folder / "document.json").read_text())
        for i, part in enumerate(parts(document)):
            done.append(self.send_part(server, part, f"{i}"))
        shutil.rmtree(self.folder)
        return done

    def send_part(self, server, part, at):
        def begin():
            name = word(part["experiment"])
            found = server.api("GET", "experiments/get-by-name", {"experiment_name": name}, may_miss=True)
            experiment = found["experiment"]["experiment_id"] if found else server.api("POST", "experiments/create", {"name": name})["experiment_id"]
            body = {"experiment_id": experiment, "run_name": word(part["name"]), "start_time": in_ms(part["begin"]), "tags": [{"key": "fk-host.kept", "value": self.folder.name}]}
            info = server.api("POST", "runs/create", body)["run"]["info"]
            return {"run": info["run_id"], "artifacts": info["artifact_uri"], "experiment": experiment}

        run = self.once(f"{at} run", begin)
        self.once(f"{at} batch", lambda: self.log(server, part, run["run"]))
        files = [("document.json", self.folder / "document.json"), ("report.html", self.folder / "report.html")]
        for entry in self.plan.get("files", []):
            if not entry["owner"] or part["owner"] in (None, entry["owner"]) or any(k["owner"] == entry["owner"] for k in part["kernels"]):
                root = self.folder / entry["folder"]
                place = f"kernels/{word(entry['owner'])}/" if entry["owner"] else ""
                files += [(f"{place}{file.relative_to(root)}", file) for file in sorted(root.rglob("*")) if file.is_file()]
        for name, file in files:
            self.once(f"{at} file {name}", lambda: self.upload(server, run, name, file.read_bytes()))
        for name, text in part["texts"].items():
            if text:
                self.once(f"{at} file {name}", lambda: self.upload(server, run, name, text.encode()))
        versions = [self.once(f"{at} model {k['name']}", lambda: self.register(server, run, k, files)) for k in part["kernels"]]
        self.once(f"{at} end", lambda: server.api("POST", "runs/update", {"run_id": run["run"], "status": "FINISHED", "end_time": int(time.time() * 1000)}) and None)
        words = f"{server.uri}/#/experiments/{run['experiment']}/runs/{run['run']}"
        return words + "".join(f", {version}" for version in versions if version)

    def log(self, server, part, run):
        stamp = in_ms(part["begin"])
        params = [{"key": word(k), "value": (v if isinstance(v, str) else json.dumps(v))[:PARAM_BYTES]} for k, v in part["params"].items()]
        metrics = [{"key": re.sub(r"[^\w./ -]", "_", k)[:240], "value": v, "timestamp": stamp, "step": 0} for k, v in part["metrics"].items() if number(v)]
        tags = [{"key": word(k), "value": str(v)[:PARAM_BYTES]} for k, v in part["tags"].items()]
        while params or metrics or tags:  # a request has at most 100 parameters and tags, and 1000 values in all
            server.api("POST", "runs/log-batch", {"run_id": run, "params": params[:100], "tags": tags[:100], "metrics": metrics[:800]})
            params, tags, metrics = params[100:], tags[100:], metrics[800:]

    def upload(self, server, run, name, data):
        prefix, rest = "mlflow-artifacts:", run["artifacts"]
        if not rest.startswith(prefix):
            raise Unsent(f"the server does not take files: it keeps them at {rest}; start it with --serve-artifacts")
        path = urllib.parse.urlparse(rest).path.strip("/")
        server.ask("PUT", f"/api/2.0/mlflow-artifacts/artifacts/{urllib.parse.quote(path + '/' + name)}", data=data)

    def register(self, server, run, kernel, files):
        """A version with its lineage: the run, the receipt, the plugin's hash, and the version that was the newest before."""
        name, folder = word(kernel["name"]), f"kernels/{word(kernel['owner'])}"
        inside = f"{folder}/{kernel['file']}" if kernel.get("file") else None
        binary = next((file for artifact, file in files if artifact.startswith(folder + "/") and file.suffix == ".so" and inside in (None, artifact)), None)
        digest = kernel.get("sha256") or (hashlib.sha256(binary.read_bytes()).hexdigest() if binary else "")
        if server.api("GET", "registered-models/get", {"name": name}, may_miss=True) is None:
            server.api("POST", "registered-models/create", {"name": name, "tags": [{"key": "fk-host.ops", "value": ", ".join(kernel["ops"])}]})
        quoted = name.replace("'", "_")
        known = server.api("GET", "model-versions/search", {"filter": f"name='{quoted}'", "max_results": 1000}).get("model_versions", [])
        known.sort(key=lambda version: int(version["version"]))
        same = [v for v in known if digest and any(t["key"] == "fk-host.sha256" and t["value"] == digest for t in v.get("tags", []))]
        if same:
            return f"{name} version {same[-1]['version']} has this kernel already"
        tags = {"fk-host.sha256": digest, "fk-host.ops": ", ".join(kernel["ops"]), "fk-host.receipt": kernel.get("receipt"), "fk-host.evaluation": kernel.get("evaluation"),
                "fk-host.parent_version": known[-1]["version"] if known else None}
        body = {"name": name, "source": f"{run['artifacts']}/{folder}", "run_id": run["run"], "tags": [{"key": k, "value": str(v)} for k, v in tags.items() if v]}
        return f"{name} version {server.api('POST', 'model-versions/create', body)['model_version']['version']}"


def main(words):
    uri = words[words.index("--uri") + 1] if "--uri" in words else None
    if "--all" in words:
        root = pathlib.Path(words[words.index("--all") + 1])
        folders = sorted(p.parent for p in root.glob("*/send.json"))
    else:
        folders = [pathlib.Path(w) for w in words if w not in ("--uri", uri)]
    left = 0
    for folder in folders:
        try:
            kept = Kept(folder)
            print("\n".join(kept.send(uri or kept.plan["uri"])) or f"{folder.name}: nothing to send")
        except (Unsent, OSError, ValueError, KeyError, TypeError) as error:
            left += 1
            print(error if isinstance(error, Unsent) else f"{folder}: {type(error).__name__}: {error}")
    if "--all" in words:
        print(f"{len(folders) - left} of {len(folders)} kept results were sent")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
