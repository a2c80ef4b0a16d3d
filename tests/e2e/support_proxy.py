"""A kube-proxy for the chart's Services, in a process of its own: loopback ports that lead where EndpointSlices say.

The API server calls a Service that is an ExternalName of localhost, so that it comes here. A new connection goes to a
ready endpoint, by chance; where there is none, to one that is going and still serves; where there is none of these
either, it is closed. What is open stays open, wherever the endpoints move, as with a real kube-proxy.
"""

import argparse
import asyncio
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from controlplane.authority import KeyPair
from controlplane.client import Client, create_client

FOLLOW_SECONDS = 1.0
"""The shortest time between two changes of its rules that a real kube-proxy has by default (minSyncPeriod)."""
CONNECT_SECONDS = 5.0


class ServiceProxy:
    """One Service's port."""

    def __init__(self, client: Client, namespace: str, service: str) -> None:
        """Nothing is known yet."""
        selector = f"labelSelector=kubernetes.io%2Fservice-name%3D{service}"
        self._path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{selector}"
        self._client = client
        self._targets: list[tuple[str, int]] = []

    async def follow(self) -> None:
        """Look at the slices for ever."""
        while True:
            with suppress(OSError, ValueError, KeyError):
                answer = await asyncio.to_thread(self._client.call, "GET", self._path)
                self._targets = targets(answer.wanted().json()["items"])
            await asyncio.sleep(FOLLOW_SECONDS)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one connection."""
        if not self._targets:
            writer.transport.abort()
            return
        try:
            connecting = asyncio.open_connection(*random.choice(self._targets))
            far_reader, far_writer = await asyncio.wait_for(connecting, CONNECT_SECONDS)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
        for each in (writer, far_writer):
            each.close()


def targets(slices: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """Where new connections go: loopback's own address of each endpoint that counts."""
    ready, going = [], []
    for each in slices:
        ports = [one["port"] for one in each.get("ports") or () if one["name"] == "https"]
        for endpoint, port in product(each.get("endpoints") or (), ports):
            conditions = endpoint["conditions"]
            place = ("127." + endpoint["addresses"][0].partition(".")[2], port)
            if conditions.get("ready"):
                ready.append(place)
            elif conditions.get("serving") and conditions.get("terminating"):
                going.append(place)
    return ready or going


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def run(client: Client, services: Sequence[str]) -> None:
    """Serve NAMESPACE/SERVICE=PORT for ever."""
    async with asyncio.TaskGroup() as group:
        for each in services:
            name, _, port = each.partition("=")
            proxy = ServiceProxy(client, *name.split("/"))
            group.create_task(proxy.follow())
            server = await asyncio.start_server(proxy.take, "127.0.0.1", int(port), backlog=1024)
            group.create_task(server.serve_forever())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--api-port", type=int, required=True)
    for name in ("ca", "certificate", "key"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("services", nargs="+", metavar="NAMESPACE/SERVICE=PORT")
    options = parser.parse_args()
    client = create_client(options.api_port, options.ca, KeyPair(options.certificate, options.key))
    asyncio.run(run(client, options.services))


if __name__ == "__main__":
    main()
