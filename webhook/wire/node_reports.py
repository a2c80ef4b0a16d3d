"""What a live NodeResourceTopology counts as given out, for the ledger."""

from webhook.core.ledger.records import Report
from webhook.core.machine import Machine
from webhook.wire.node_topologies import NodeTopology


def report_of(topology: NodeTopology, machine: Machine) -> Report | None:
    """Return the report on ``machine``; None where the writer is not live, or tells no time or other NUMA nodes.

    ``available`` of NFD and RTE is ``allocatable`` less exclusive CPUs and devices; koordlet's is always all of it.
    """
    zones = topology.zones
    if not topology.writer.is_live or not topology.reported_seconds:
        return None
    if tuple(zone.numa_id for zone in zones) != machine.numa_ids:
        return None
    names = {"cpu", *(layout.resource for layout in machine.devices)}
    told = {name for zone in zones for name in zone.amounts} & names
    return Report(topology.reported_seconds, {name: tuple(zone.busy(name) for zone in zones) for name in sorted(told)})
