"""`make bench`: the webhooks against an empty Flask handler on the same server, interleaved in one run.

    python tests/bench/admission_bench.py [--rounds N] [--calls N] [--api-server]

Prints, for each endpoint, kind of review and number of clients: median and p99 of a call, calls a second, and the ratio
of throughputs ours / empty: the median of the rounds' ratios, with its quartiles (aim: 0.8 for validate and for pods
that are none of ours, 0.7 for mutate). With `--api-server` also what a pod create through a real API server gains by
our webhook (`through_api_server.py`). Machines are shared and noisy: look at the ratios.
"""

import argparse
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]

from bench_servers import (  # noqa: E402 - the path is set above
    Caller,
    Tally,
    ratio_of,
    recorded_groups,
    request_of,
    server,
    server_commands,
)
from through_api_server import through_api_server  # noqa: E402 - as above

from certs.mint import mint_development_pair  # noqa: E402 - as above

CLIENTS = (1, 16)


def round_of(port: int, ca_file: Path, requests: list[bytes], tally: Tally, *, clients: int, calls: int) -> None:
    """Make `calls` calls from each of `clients` threads and note them."""
    callers = [Caller(port, ca_file) for _ in range(clients)]
    seconds: list[list[float]] = [[] for _ in callers]
    gate = threading.Barrier(clients + 1)

    def run(which: int) -> None:
        gate.wait()
        for number in range(calls):
            begin = time.perf_counter()
            callers[which].call(requests[number % len(requests)])
            seconds[which].append(time.perf_counter() - begin)

    threads = [threading.Thread(target=run, args=(which,)) for which in range(clients)]
    for thread in threads:
        thread.start()
    gate.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    tally.rates.append(clients * calls / (time.perf_counter() - begin))
    for each in seconds:
        tally.calls.extend(each)
    for caller in callers:
        caller.close()


def straight(rounds: int, calls: int) -> None:
    """Print the ratios of calls straight to the servers."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        files = mint_development_pair(Path(folder))
        ports = {name: stack.enter_context(server(command)) for name, command in server_commands(files).items()}
        print(
            "| endpoint, reviews, clients | p50 empty / ours ms | p99 empty / ours ms | a second empty / ours | ratio |"
        )
        print("|---|---|---|---|---|")
        for (endpoint, what), names in recorded_groups().items():
            requests = [request_of(endpoint, name) for name in names]
            for clients in CLIENTS:
                tallies = {name: Tally() for name in ports}
                for port in ports.values():
                    round_of(port, files.ca_file, requests, Tally(), clients=clients, calls=50)
                for _ in range(rounds):
                    for name, port in ports.items():
                        round_of(
                            port,
                            files.ca_file,
                            requests,
                            tallies[name],
                            clients=clients,
                            calls=max(1, calls // clients),
                        )
                empty, ours = tallies["empty"], tallies["ours"]
                low, middle, high = ratio_of(tallies, "ours", "empty")
                print(
                    f"| /{endpoint}, {what} ({len(names)}), {clients} | {empty.p50_ms:.3f} / {ours.p50_ms:.3f} "
                    f"| {empty.p99_ms:.2f} / {ours.p99_ms:.2f} | {empty.rate:.0f} / {ours.rate:.0f} "
                    f"| **{middle:.2f}** ({low:.2f} to {high:.2f}) |",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each server in turn")
    parser.add_argument("--calls", type=int, default=400, help="calls of a round, of all clients together")
    parser.add_argument("--api-server", action="store_true", help="also through a real API server (make controlplane)")
    parser.add_argument("--only-api-server", action="store_true", help="nothing but that")
    options = parser.parse_args()
    if not options.only_api_server:
        straight(options.rounds, options.calls)
    if options.api_server or options.only_api_server:
        through_api_server(options.rounds, options.calls)
