#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py: prints an SBOM (SPDX 2.3, JSON) of an installed tree, and copies the licences of foreign code in it.

The tree's programs name their libraries, and the build's dependencies name the headers which were compiled in. dpkg says which
package each file belongs to. Vendored code is a folder of external/ with a LICENSE. Equal trees give equal bytes."""
import argparse, datetime, hashlib, json, os, pathlib, re, subprocess, sys

SPDX = {"expat": "MIT", "mit": "MIT", "x11": "X11", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
        "apache-2.0": "Apache-2.0", "bsl-1.0": "BSL-1.0", "zlib": "Zlib", "libpng": "Libpng"}
# Headers of the toolchain: the runtime exception frees a program from their notices. Their libraries are listed.
TOOLCHAIN = re.compile(r"^(libc6-dev|linux-libc-dev|lib(gcc|stdc\+\+)-\d+-dev)$")
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


def output(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout


def owners(paths):
    """The Debian package of each path which has one."""
    found, paths = {}, list(paths)
    for start in range(0, len(paths), 500):
        for line in output("dpkg-query", "-S", *paths[start:start + 500]).splitlines():
            package, _, path = line.partition(": ")
            if not package.startswith("diversion"):
                found[path] = package.split(",")[0].split(":")[0]
    return found


def library_packages(root):
    """Packages of the libraries which programs of the tree load, and the ones among them which lie in the tree."""
    needed, inside = set(), set()
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) != b"\x7fELF":
                    continue
            inside.add(path.name)
            needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", path)))
    cache = dict(re.findall(r"^\t(\S+) \(.*x86-64.*\) => (\S+)$", output("/sbin/ldconfig", "-p"), re.M))
    # A name without an entry is a library of the CUDA toolkit. dpkg knows /lib or /usr/lib, which are one folder.
    real = {os.path.realpath(cache[name]).removeprefix("/usr") for name in needed if name in cache}
    owner = {path.removeprefix("/usr"): package for path, package in owners(sorted(real | {"/usr" + path for path in real})).items()}
    packages = set(owner.values())
    bundled = {package for path, package in owner.items() if pathlib.Path(path).name in inside}
    return packages, bundled


def header_packages(build):
    headers = {os.path.realpath(line) for line in re.findall(r"^    (/\S+)$", output("ninja", "-C", build, "-t", "deps"), re.M)}
    return {p for p in owners(sorted(h for h in headers if h.startswith("/usr/"))).values() if not TOOLCHAIN.match(p)}


def licence(text):
    """The SPDX name of a Debian copyright file's main licence, if the file says one that SPDX knows."""
    for paragraph in re.split(r"\n\s*\n", text):
        if re.search(r"^Files:\s*\*\s*$", paragraph, re.M):
            name = re.search(r"^License:[ \t]*(.*)$", paragraph, re.M)
            return name and SPDX.get(name[1].strip().lower())
    return None


def described(package, a, document):
    """The SPDX package of a Debian package. Its licence text goes to the notices."""
    version, source = output("dpkg-query", "-W", "-f=${Version}\t${source:Package}", package).split("\t")
    text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")
    name = licence(text)
    if not name:
        name = f"LicenseRef-{re.sub('[^A-Za-z0-9.-]', '-', package)}"
        document["hasExtractedLicensingInfos"].append({"licenseId": name, "name": f"licences of the Debian package {package}",
                                                       "extractedText": text})
    system = re.match(r"[a-z]+", a.distribution)[0]
    purl = f"pkg:deb/{system}/{package}@{version}?distro={a.distribution}".replace("+", "%2B")
    return {"name": package, "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', package)}", "versionInfo": version,
            "supplier": f"Organization: {system.capitalize()}", "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "sourceInfo": f"built from the source package {source}", "licenseConcluded": name, "licenseDeclared": name,
            "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}, text


def vendored(folder):
    text = (folder / "LICENSE").read_text()
    version = re.search(r"`[\w-]+` (\d[\d.]*\d)", (folder / "README.md").read_text())
    name = "MIT" if "Permission is hereby granted, free of charge" in text else "NOASSERTION"
    return {"name": folder.name, "SPDXID": f"SPDXRef-vendored-{folder.name}", "versionInfo": version[1] if version else "unknown",
            "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": name,
            "licenseDeclared": name, "copyrightText": text.splitlines()[0]}, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder")
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the installed tree")
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--distribution", required=True, help="debian12")
    parser.add_argument("--notices", type=pathlib.Path, required=True, help="folder for licence texts")
    a = parser.parse_args()

    itself = {"name": a.name, "SPDXID": "SPDXRef-itself", "versionInfo": a.version, "supplier": "Organization: fk-host",
              "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "primaryPackagePurpose": "APPLICATION",
              "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{a.name}-{a.version}",
                "creationInfo": {"created": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: scripts/package/sbom.py"]},
                "packages": [itself], "hasExtractedLicensingInfos": [],
                "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-itself"}]}
    libraries, bundled = library_packages(a.root)
    compiled = header_packages(a.build)
    a.notices.mkdir(parents=True, exist_ok=True)
    parts = [("STATIC_LINK", *vendored(folder)) for folder in sorted(SOURCE.glob("external/*/")) if (folder / "LICENSE").is_file()]
    for package in sorted(libraries | compiled):
        kind = "CONTAINS" if package in bundled else "STATIC_LINK" if package in compiled else "DYNAMIC_LINK"
        parts.append((kind, *described(package, a, document)))
    for kind, part, text in parts:
        document["packages"].append(part)
        document["relationships"].append({"spdxElementId": "SPDXRef-itself", "relationshipType": kind, "relatedSpdxElement": part["SPDXID"]})
        if kind != "DYNAMIC_LINK":  # its own package brings the text
            (a.notices / part["name"]).write_text(text)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    document["documentNamespace"] = f"https://spdx.org/spdxdocs/{a.name}-{a.version}-{digest[:32]}"
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
