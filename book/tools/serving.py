"""The built book as readers get it: from a server that compresses text, and over a slow line.

For weights.py beside this and the tests, on this machine only.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SLOW = {"bits": 1.6e6, "delay": 0.150}  # a poor mobile connection: bits per second, seconds
COMPRESSED = re.compile(r"text/|javascript|json|xml|svg")


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line on stderr for each."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # header and body are two writes: do not wait between them

    def log_message(self, *_):
        pass


@cache
def gzipped(path: str, changed: int) -> bytes:
    """A file as a server would send it compressed; `changed` is its time stamp in nanoseconds."""
    return gzip.compress(Path(path).read_bytes(), 6, mtime=0)


class CompressingHandler(QuietHandler):
    """Serves text compressed, as public web servers do; pictures, fonts and weights as they are."""

    timeout = 5  # a connection that a browser opened ahead and never used

    def send_head(self):
        path = Path(self.translate_path(self.path))
        kind = self.guess_type(str(path))
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if not (accepts and path.is_file() and COMPRESSED.search(kind)):
            return super().send_head()
        body = gzipped(str(path), path.stat().st_mtime_ns)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)


class QuietServer(ThreadingHTTPServer):
    """A server that says nothing when a browser hangs up."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


@contextmanager
def served(folder: Path, handler: type = QuietHandler):
    """The address at which a folder is served on this machine, for as long as the block runs."""
    handler = partial(handler, directory=str(folder))
    with QuietServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def compressing(folder: Path):
    """As `served`, by a server that compresses text: what a page weighs, and how fast it comes."""
    return served(folder, CompressingHandler)


def slow_line(page, bits: float = SLOW["bits"], delay: float = SLOW["delay"]):
    """Let a page load over a slow line: `bits` per second down, and `delay` seconds to each answer.

    For pages without a `route`: the browser counts a request that is held up on the way twice.
    """
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    speed = {"downloadThroughput": bits / 8, "uploadThroughput": bits / 8, "latency": 1000 * delay}
    session.send("Network.emulateNetworkConditions", {"offline": False, **speed})
    return session
