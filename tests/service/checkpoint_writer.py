"""A process that keeps a checkpoint at an API server while pods come and go, until it is killed.

python checkpoint_writer.py URL
"""

import io
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from core.ledger.ledger_world import demand, ledger, machine, node, pod

from webhook.cluster.checkpoints import CheckpointMaps
from webhook.cluster.client import Client
from webhook.core.capacity import CapacityRules
from webhook.core.ledger.events import PodGone, PodSeen
from webhook.service.book import Book
from webhook.service.checkpointing import Checkpointing
from webhook.service.logs import open_log

NODES = 40


def main() -> None:
    """Write for ever."""
    random = Random(3)
    book = Book(ledger(*(node(f"n{number}", machine()) for number in range(NODES))), CapacityRules(), lambda: 0.0, str)
    maps = CheckpointMaps(Client.of_server(sys.argv[1]), "system", "places")
    keeper = Checkpointing(maps, book, lambda: True, open_log(io.BytesIO()))
    number = 0
    while True:
        for _ in range(NODES):
            number += 1
            where = f"n{random.randrange(NODES)}"
            book.apply((PodSeen(pod(f"p{number}", demand((1, 1)), node_name=where)), PodGone(f"p{number - NODES}")))
        keeper.round()


if __name__ == "__main__":
    main()
