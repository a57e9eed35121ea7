"""What one hot write costs the client: the raw pool beside aiohttp, against the same server.

Run ``python -m tests.benchmarks.bench_client [--tls]``. The server is a process of its own that
answers every request alike, so the process time measured here is the client's alone. Only the
ratio is worth comparing between machines.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from arranger.kube.client.aiohttp_transport import HttpTransport
from arranger.kube.client.connection_pool import ConnectionPool
from arranger.kube.client.credentials import ApiServerConfig, Credential, CredentialSource
from arranger.kube.client.transport import Request, Transport

REQUESTS = 10_000
IN_FLIGHT = 64
ROUNDS = 3
BODY = (
    b'{"metadata":{"name":"web-0","namespace":"team","uid":"6f7c7a3e-0000-0000-0000-000000000000"},'
    b'"target":{"name":"node-17","kind":"Node","apiVersion":"v1"},"kind":"Binding","apiVersion":"v1"}'
)
STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 6f7c7a3e-1111-1111-1111-000000000000\r\n"
    b"Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 6f7c7a3e-2222-2222-2222-000000000000\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 6f7c7a3e-3333-3333-3333-000000000000\r\n"
    b"Date: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(STATUS), STATUS)
)


class Answerer(asyncio.Protocol):
    """Answers each request, which is taken to end with its body's closing brace."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.seen = b""

    def data_received(self, data: bytes) -> None:
        self.seen += data
        if self.seen.endswith(BODY):
            self.seen = b""
            self.transport.write(ANSWER)


def serve(ready: Connection, certificate: str, key: str) -> None:
    async def main() -> None:
        context = None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Answerer, "localhost", 0, ssl=context)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def cpu_per_request(
    make: Callable[[ApiServerConfig], Transport], access: ApiServerConfig
) -> float:
    """Microseconds of our own CPU for one request, the best of a few rounds."""
    client = make(access)

    async def worker(count: int) -> None:
        for _ in range(count):
            path = "/api/v1/namespaces/team/pods/web-0/binding"
            answer = await client.send(Request("POST", path, body=BODY, timeout=5.0))
            assert answer.status == 201

    await asyncio.gather(*(worker(5) for _ in range(IN_FLIGHT)))
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        await asyncio.gather(*(worker(REQUESTS // IN_FLIGHT) for _ in range(IN_FLIGHT)))
        best = min(best, time.process_time() - start)
    await client.close()
    return best / (REQUESTS // IN_FLIGHT * IN_FLIGHT) * 1e6


def make_certificate(folder: Path) -> tuple[str, str]:
    certificate, key = str(folder / "tls.crt"), str(folder / "tls.key")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    command += " -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    return certificate, key


def main(tls: bool) -> dict[str, float]:
    """Measure both clients; microseconds of client CPU a request by client."""
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = make_certificate(Path(folder)) if tls else ("", "")
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(theirs, certificate, key), daemon=True
        )
        server.start()
        try:
            url = f"{'https' if tls else 'http'}://localhost:{ours.recv()}"
            identity = Credential("Bearer " + "x" * 200, ca_file=certificate or None)
            costs = {}
            for name, make in (("raw pool", ConnectionPool), ("aiohttp", HttpTransport)):
                access = ApiServerConfig(url, CredentialSource(identity))
                costs[name] = asyncio.run(cpu_per_request(make, access))
        finally:
            server.terminate()
            server.join()
    return costs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tls", action="store_true")
    costs = main(parser.parse_args().tls)
    for name, cost in costs.items():
        print(f"{name:10} {cost:6.1f} µs of client CPU a request")
    print(f"ratio      {costs['aiohttp'] / costs['raw pool']:6.2f}")
