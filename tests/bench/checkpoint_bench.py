"""How large the checkpoint of 100,000 places is, how much is written, and how long a start needs to recall it.

``python tests/bench/checkpoint_bench.py [--nodes N]``; ten pods a node, each with CPUs and a GPU of its own, all of
them replayed. Maps are kept in memory: what the API server and the network take is not counted.
"""

import argparse
import gc
import io
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from bench.ledger_bench import GPU, POOLS, _bound, percentile, raw  # noqa: E402

from webhook.core.capacity import CapacityRules  # noqa: E402
from webhook.core.effective import demand_of  # noqa: E402
from webhook.core.kubelet import KubeletAllocator  # noqa: E402
from webhook.core.ledger import events  # noqa: E402
from webhook.core.ledger.ledger import Ledger  # noqa: E402
from webhook.core.ledger.records import AllocatorKind, Certainty, NodeRecord, PodRecord  # noqa: E402
from webhook.core.node_selection import NodeFacts  # noqa: E402
from webhook.service.book import Book  # noqa: E402
from webhook.service.checkpointing import EVERY_SECONDS, Checkpointing, recalled  # noqa: E402
from webhook.service.logs import open_log  # noqa: E402
from webhook.wire.checkpoint import unseal  # noqa: E402

PODS_PER_NODE = 10
CHANGES_PER_SECOND = 200
ROUNDS = 24


class Memory:
    """Keeps blobs."""

    def __init__(self) -> None:
        """Start empty."""
        self.blobs: dict[int, bytes] = {}

    def read(self, shard: int) -> bytes | None:
        """Return the blob."""
        return self.blobs.get(shard)

    def write(self, shard: int, blob: bytes) -> bool:
        """Keep it."""
        self.blobs[shard] = blob
        return True


def cluster(nodes: int, random: Random) -> tuple[list[NodeRecord], list[PodRecord]]:
    """Return nodes of 8 NUMA nodes with 4 GPUs each, and the pods on them."""
    on = POOLS["wide"]
    offers = {"cpu": 240_000, "memory": 2 << 40, "pods": 110, GPU: on.devices[0].count}
    asked = [raw("wide", (cpus, gpus)) for cpus, gpus in ((8, 1), (16, 2), (4, 1), (12, 1))]
    demands = [demand_of(each) for each in asked]
    records = [
        NodeRecord(NodeFacts(f"gpu-node-{number:05}", {"pool": "wide"}), offers, on, AllocatorKind.KUBELET)
        for number in range(nodes)
    ]
    pods = []
    for number in range(nodes * PODS_PER_NODE):
        kind = random.randrange(len(asked))
        pods.append(_bound(number, demands[kind], asked[kind], records[number % nodes].name, random))
    return records, pods


def book_of(records: list[NodeRecord], pods: list[PodRecord], *, is_history: bool) -> Book:
    """Return a book that holds the cluster."""
    made = Ledger({AllocatorKind.KUBELET: KubeletAllocator()})
    for record in records:
        made.apply(events.NodeSeen(record), 0.0)
    for pod in pods:
        made.apply(events.PodSeen(pod, is_history=is_history), 0.0)
    return Book(made, CapacityRules(), lambda: 1.0, str)


def replayed(book: Book) -> int:
    """Return how many places are known."""
    return sum(entry.certainty is Certainty.REPLAYED for entry in book.snapshot().entries.values())


def main() -> None:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    chosen = parser.parse_args()
    gc.set_threshold(20_000, 20, 20)  # as ``serve.worker`` does
    random = Random(7)
    records, pods = cluster(chosen.nodes, random)
    book = book_of(records, pods, is_history=False)
    maps = Memory()
    keeper = Checkpointing(maps, book, lambda: True, open_log(io.BytesIO()))
    took, _ = timed(lambda: keeper.round(most_bytes=1 << 30))
    sizes = sorted(map(len, maps.blobs.values()))
    print(f"{len(records)} nodes, {replayed(book)} replayed places")
    print(
        f"written whole in {took:.2f} s: {sum(sizes) / 1e6:.2f} MB in {len(sizes)} parts of up to "
        f"{sizes[-1] / 1e3:.0f} kB, {sum(sizes) / len(pods):.1f} bytes a pod"
    )
    _churn(book, keeper, records, pods, random)
    keeper.round(most_bytes=1 << 30)
    _recall(maps, book, records)


def _churn(book: Book, keeper: Checkpointing, records: list[NodeRecord], pods: list[PodRecord], random: Random) -> None:
    """Let pods end and others come, and write as the leader does."""
    alive, number = list(pods), len(pods)
    written, rounds = [], []
    for _ in range(ROUNDS):
        for _ in range(int(CHANGES_PER_SECOND * EVERY_SECONDS) // 2):
            at = random.randrange(len(alive))
            gone = alive[at]
            number += 1
            alive[at] = replace(
                gone, uid=f"{random.getrandbits(128):032x}", name=f"new-{number}", resource_version=number
            )
            book.apply((events.PodGone(gone.uid), events.PodSeen(alive[at])))
        took, size = timed(keeper.round)
        rounds.append(took)
        written.append(size)
    rate = sum(written) / ROUNDS / EVERY_SECONDS / 1e3
    print(
        f"{CHANGES_PER_SECOND} changes a second on random nodes: {rate:.0f} kB a second written, a round takes "
        f"{percentile(rounds, 0.5):.2f} s, at most {max(rounds):.2f} s"
    )


def _recall(maps: Memory, book: Book, records: list[NodeRecord]) -> None:
    pods = [entry.pod for entry in book.snapshot().entries.values()]
    known = replayed(book)
    fresh = book_of(records, pods, is_history=True)
    took_unseal, _ = timed(lambda: [unseal(blob) for blob in maps.blobs.values()])
    took_match, found = timed(lambda: recalled(maps.blobs.values(), fresh.snapshot().entries.values())[0])
    took_apply, _ = timed(lambda: fresh.apply(found))
    count = sum(len(event.places) for event in found)
    print(
        f"a restart: {count} places of {known} recalled; unpacked in {took_unseal:.2f} s, matched in "
        f"{took_match - took_unseal:.2f} s more, applied in {took_apply:.2f} s; {replayed(fresh)} are replayed"
    )


def timed(work):
    """Return the processor's seconds that ``work`` takes, and its result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


if __name__ == "__main__":
    main()
