"""Packages that somebody else has made, under the names and versions that the tests ask for: what a registry that was broken into hands out.

wheels FOLDER FILE...  writes a wheel for each requirement in the files
registry LOCK          prints a port, and is there a registry for Node with a package for each that the lock names
"""

import base64
import hashlib
import http.server
import io
import json
import re
import sys
import tarfile
import zipfile

MARK = "somebody else's"


def write_wheel(folder, name, version):
    name = re.sub(r"[-_.]+", "_", name)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}_other.py": f"# {MARK}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
        record = ""
        for path, text in files.items():
            wheel.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(text)}\n"
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")


def write_wheels(folder, *files):
    for file in files:
        for name, version in re.findall(r"^([\w.-]+)(?:\[.*?\])?==([^\s;\\]+)", open(file).read(), re.M):
            write_wheel(folder, name, version)


def tarball(name, version):
    """A package that would also run a program while it is installed."""
    manifest = {"name": name, "version": version, "other": MARK, "scripts": {"install": "touch $HERE/ran"}}
    data = json.dumps(manifest).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def serve(lock):
    locked = json.load(open(lock))["packages"]
    versions = {path.rpartition("node_modules/")[2]: package["version"] for path, package in locked.items() if path}

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name, _, file = self.path[1:].replace("%2f", "/").partition("/-/")
            if name not in versions:
                return self.send_error(404)
            version = versions[name]
            url = f"http://{self.headers['Host']}/{name}/-/{version}.tgz"
            about = {"name": name, "version": version, "hasInstallScript": True, "dist": {"tarball": url}}
            named = {"name": name, "dist-tags": {"latest": version}, "versions": {version: about}}
            data = tarball(name, version) if file else json.dumps(named).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    print(server.server_port, flush=True)
    server.serve_forever()


{"wheels": write_wheels, "registry": serve}[sys.argv[1]](*sys.argv[2:])
