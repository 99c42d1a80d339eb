# SPDX-License-Identifier: BSD-3-Clause
"""nginx: three workers under load over HTTP and TLS; each body compared with its source.

Static files, compression by gzip, directory listings, server-side includes, uploads, a proxy with a
cache in front of a second virtual server, and a reload of the configuration during the load.
"""

import concurrent.futures
import gzip
import hashlib
import http.client
import os
import pathlib
import random
import signal
import ssl
import time

import harness

CLIENTS = 24
REQUESTS_PER_CLIENT = 300
WORKERS = 3
FILES = 40

CONFIGURATION = """
daemon off;
env MALLOCSTATS;
worker_processes {workers};
{user}
pid {directory}/nginx.pid;
error_log stderr notice;
worker_rlimit_nofile 1024;
events {{ worker_connections 400; }}
http {{
  access_log {directory}/access.log combined buffer=64k;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  proxy_cache_path {directory}/cache keys_zone=zone:1m max_size=20m levels=1:2;
  default_type application/octet-stream;
  types {{ text/plain txt; text/html html; }}
  client_max_body_size 4m;
  keepalive_requests 60;
  ssl_certificate {directory}/certificate.pem;
  ssl_certificate_key {directory}/key.pem;
  ssl_session_cache shared:sessions:1m;
  map $uri $kind {{ ~^/(?<first>[a-z]+)/ "of-$first"; default "none"; }}
  server {{
    listen 127.0.0.1:{port} backlog=256;
    listen 127.0.0.1:{tls_port} ssl backlog=256;
    root {directory}/files;
    add_header X-Kind $kind;
    location /packed/ {{
      alias {directory}/files/;
      gzip on;
      gzip_min_length 0;
      gzip_comp_level 6;
      gzip_types text/plain;
    }}
    location /proxied/ {{ proxy_pass http://backend/; proxy_buffers 16 8k; proxy_max_temp_file_size 0; }}
    location /cached/ {{ proxy_pass http://backend/; proxy_cache zone; proxy_cache_valid 10m; }}
    location /list/ {{ alias {directory}/files/; autoindex on; autoindex_localtime off; }}
    location ~ ^/page/(?<number>[0-9]+)$ {{
      rewrite ^/page/([0-9]+)$ /page$1.html break;
      ssi on;
      sub_filter 'WORD' 'word-$number';
      sub_filter_once off;
    }}
    location /upload/ {{
      alias {directory}/uploads/;
      dav_methods PUT DELETE;
      create_full_put_path on;
      client_body_buffer_size 16k;
    }}
  }}
  upstream backend {{ server unix:{directory}/backend.sock; keepalive 8; }}
  server {{ listen unix:{directory}/backend.sock; root {directory}/files; }}
}}
"""


def make_files(directory):
    rng = random.Random(5)
    (directory / "files").mkdir()
    (directory / "uploads").mkdir()
    contents = {}
    for i in range(FILES):
        size = [10, 1000, 9000, 70_000, 400_000][i % 5] + i
        text = " ".join(f"word{rng.randrange(5000)}" for _ in range(size // 8 + 1)).encode()
        contents[f"file{i}.txt"] = text
    pages = {}
    for i in range(5):
        contents[f"page{i}.html"] = (
            b"<html>WORD <!--# include virtual='/file%d.txt' --> WORD</html>" % i
        )
        pages[i] = b"<html>word-%d %s word-%d</html>" % (i, contents[f"file{i}.txt"], i)
    for name, content in contents.items():
        (directory / "files" / name).write_bytes(content)
        os.utime(
            directory / "files" / name, (1_700_000_000, 1_700_000_000)
        )  # Directory listings show it.
    return contents, pages


class Connection:
    """One client's connection. It is reopened if the server has closed it between two requests, which is
    permitted."""

    def __init__(self, port, tls_context):
        self._port, self._tls = port, tls_context
        self._connection = None

    def request(self, method, path, body=None, headers={}):
        while True:
            fresh = self._connection is None
            if fresh:
                # 45 seconds without a byte are a failure.
                self._connection = (
                    http.client.HTTPSConnection(
                        "127.0.0.1", self._port, timeout=45, context=self._tls
                    )
                    if self._tls
                    else http.client.HTTPConnection("127.0.0.1", self._port, timeout=45)
                )
            try:
                self._connection.request(method, path, body, headers)
                response = self._connection.getresponse()
                return response, response.read()
            except (
                ConnectionError,
                ssl.SSLEOFError,
            ) as error:  # http.client reports a disconnection as a ConnectionError.
                self.close()
                if fresh:
                    raise harness.Failure(f"{method} {path}: {error!r}")

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def requests(number, rng, contents, pages):
    """The requests of one client: (method, path, headers, body, accepted statuses, expected body
    or None for any)."""
    names = sorted(n for n in contents if n.startswith("file"))
    for i in range(REQUESTS_PER_CLIENT):
        kind = rng.choice(
            ["file", "packed", "packed", "proxied", "cached", "page", "list", "upload", "range"]
        )
        name = rng.choice(names)
        content = contents[name]
        if kind == "file":
            yield "GET", f"/{name}", {}, None, {200}, content
        elif kind == "packed":
            yield "GET", f"/packed/{name}", {"Accept-Encoding": "gzip"}, None, {200}, content
        elif kind == "range":
            first = rng.randrange(len(content))
            yield "GET", f"/{name}", {"Range": f"bytes={first}-"}, None, {206}, content[first:]
        elif kind == "page":
            page = rng.randrange(len(pages))
            yield "GET", f"/page/{page}", {}, None, {200}, pages[page]
        elif kind == "list":
            yield "GET", "/list/", {}, None, {200}, None
        elif kind == "upload":
            path, body = f"/upload/{number}/{i % 5}", rng.randbytes(
                rng.choice([100, 5_000, 20_000, 300_000])
            )
            yield "PUT", path, {}, body, {201, 204}, b""
            yield "GET", path, {}, None, {200}, body
        else:
            yield "GET", f"/{kind}/{name}", {}, None, {200}, content


def client_run(number, ports, tls_context, contents, pages):
    """Makes the requests of one client; returns a digest of all bodies as they were received."""
    tls = number % 3 == 0
    connection = Connection(ports[tls], tls_context if tls else None)
    digest = hashlib.sha256()
    for i, (method, path, headers, body, statuses, expected) in enumerate(
        requests(number, random.Random(number), contents, pages)
    ):
        if i % 50 == 0:
            connection.close()
        response, answer = connection.request(method, path, body, headers)
        packed = response.headers.get("Content-Encoding") == "gzip"
        plain = gzip.decompress(answer) if packed else answer
        if response.status not in statuses or (expected is not None and plain != expected):
            raise harness.Failure(
                f"client {number}, {method} {path}: status {response.status}, {len(plain)} bytes, "
                f"expected {statuses}, {'any' if expected is None else len(expected)} bytes"
            )
        if packed != path.startswith("/packed/"):
            raise harness.Failure(f"{path}: packed is {packed}")
        digest.update(answer)
    connection.close()
    return digest.hexdigest()


def start(side, contents):
    def start_at(port):
        tls_port = harness.free_port()
        user = f"user {harness.user_name()};" if os.geteuid() == 0 else ""
        (side.directory / "nginx.conf").write_text(
            CONFIGURATION.format(
                workers=WORKERS, user=user, directory=side.directory, port=port, tls_port=tls_port
            )
        )
        return (port, tls_port), side.start(
            ["nginx", "-p", side.directory, "-c", "nginx.conf"],
            lambda: harness.accepts(port) and harness.accepts(tls_port),
            stop_signal=signal.SIGQUIT,
        )

    return harness.start_on_free_port(start_at)


def workers(master):
    """The worker processes; the master has two more children for a while, which look after the
    cache."""

    def title(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""

    return {
        c
        for c in harness.children_of(master.pid)
        if title(c).startswith("nginx: worker process\0")
        or title(c).rstrip("\0 ") == "nginx: worker process"
    }


def wait_for_workers(master, unlike=frozenset()):
    deadline = time.monotonic() + 30
    while len(found := workers(master) - unlike) != WORKERS:
        if time.monotonic() > deadline:
            raise harness.Failure(
                f"{len(found)} new workers after 30 s, expected {WORKERS}\n{master.output()}"
            )
        time.sleep(0.02)  # The pause between two checks.
    return found


def workload(side):
    contents, pages = make_files(side.directory)
    side.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-keyout",
            "key.pem",
            "-out",
            "certificate.pem",
        ]
    )
    tls_context = ssl.create_default_context(cafile=side.directory / "certificate.pem")
    tls_context.check_hostname = False
    ports, master = start(side, contents)
    first = wait_for_workers(master)
    side.check_maps([master.pid, *first])

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        runs = [
            pool.submit(client_run, n, ports, tls_context, contents, pages) for n in range(CLIENTS)
        ]
        # Reloads once some clients have finished: old workers finish their requests, new ones take
        # over.
        concurrent.futures.wait(runs[:1])
        master.process.send_signal(signal.SIGHUP)
        second = wait_for_workers(master, unlike=first)
        side.check_maps(second)
        late = [
            pool.submit(client_run, n, ports, tls_context, contents, pages)
            for n in range(CLIENTS, CLIENTS + 6)
        ]
        outputs = {f"client {n}": run.result() for n, run in enumerate(runs + late)}
    if workers(master) & second != second:
        raise harness.Failure(f"a worker has ended under load\n{master.output()}")
    master.stop()
    log = master.log()
    if bad := [
        line
        for line in log.splitlines()
        if any(f"[{w}]" in line for w in ("warn", "error", "crit", "alert", "emerg"))
    ]:
        raise harness.Failure("nginx complains:\n" + "\n".join(bad[:20]))
    return outputs


if __name__ == "__main__":
    harness.main(workload, programs=["nginx", "openssl"], min_heap_mib=4, min_processes=2)
