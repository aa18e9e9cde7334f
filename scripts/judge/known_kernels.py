# SPDX-License-Identifier: Apache-2.0
"""The kernels of test/known before the judge, for scripts that measure it: contracts with cases for them, and one as the baseline."""
import json, os, pathlib, re, shutil, subprocess, sys, time

root = pathlib.Path(__file__).resolve().parents[2]
SHAPES = {"rows_4096": (4096, 8192), "rows_16": (16, 8192)}  # of silu_and_mul in bfloat16
CPU_SHAPES = {"rows_16": (16, 8192), "rows_1": (1, 8192)}  # where the way to the figures is tried without a GPU


def kind_of(device):
    return device.split(":")[0]


def known(build, launches, device="cuda"):
    file = pathlib.Path(build) / f"test/known/{kind_of(device)}/known_{launches}.so"
    if not file.exists():
        sys.exit(f"{file} is not there: ninja -C {build} fk_known")
    return file


class Bench:
    """A server in whose eyes the kernel of so many launches is the baseline; its data folder is its own. Without `serves` each question is
    judged by its own process."""

    def __init__(self, build, device, launches, folder, serves=True):
        self.serves = serves
        self.build, self.device, self.launches, self.folder = build, device, launches, pathlib.Path(folder)
        home, plugins = self.folder / f"home-{launches}", self.folder / f"plugins-{launches}"
        self.env = dict(os.environ, FK_HOME=str(home), FK_PLUGIN_PATH=str(plugins), FK_DATA=str(self.folder / f"data-{launches}"))
        if home.exists():
            return
        shutil.copytree(root / "registry", home / "registry")
        (home / "scenarios").symlink_to(root / "scenarios")
        contract = next((home / "registry").rglob("silu_and_mul.yaml"))
        text = contract.read_text()
        shapes = CPU_SHAPES if kind_of(device) == "cpu" else SHAPES
        rows = "".join(f"    - {{name: {name}, T: {t}, size: {f}, dtype: {{x: bf16}}}}\n" for name, (t, f) in shapes.items())
        contract.write_text(text[:text.index("  full:\n")] + "  full:\n" + rows)
        for file in (home / "registry/devices").glob("*.yaml"):
            text = file.read_text()
            if re.search(r"^ranking: \S", text, flags=re.M):  # another device's
                continue
            text += "" if re.search(r"^ranking:\n", text, flags=re.M) else "ranking:\n"
            file.write_text(re.sub(r"^ranking:\n", f"ranking:\n  silu_and_mul: [known_{launches}]\n", text, flags=re.M))
        plugins.mkdir()
        shutil.copy(known(build, launches, device), plugins)

    def __enter__(self):
        if not self.serves:
            return self
        self.server = subprocess.Popen([self.build / "fk-host", "serve", "--device", self.device], env=self.env, stdout=subprocess.PIPE, text=True)
        self.server.stdout.readline()
        return self

    def __exit__(self, *_):
        if not self.serves:
            return
        self.server.terminate()
        self.server.communicate()

    def verdict(self, launches, *cases, words=()):
        """On the kernel of so many launches, with the seconds that it took as `wall_s`."""
        mine = self.folder / f"candidate-{launches}"
        mine.mkdir(exist_ok=True)
        file = shutil.copy(known(self.build, launches, self.device), mine)
        return self.judge(file, *(word for case in cases for word in ("--case", case)), *words)

    def judge(self, file, *words):
        """The same on any plugin that has the op."""
        start = time.perf_counter()
        done = subprocess.run([self.build / "fk-host", "bench", file, "--device", self.device, "--op", "silu_and_mul", "--fresh", "--json", *words],
                              env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not done.stdout.startswith("{"):
            sys.exit(f"no verdict on {file}: {done.stderr}")
        return dict(json.loads(done.stdout), wall_s=time.perf_counter() - start)
