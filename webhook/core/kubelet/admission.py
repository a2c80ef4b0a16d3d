"""One admission, as the topology manager's scopes walk it (topologymanager/scope_*.go).

Container scope: for each container in turn hints, decision, allocation at once; so an earlier container's share counts
against a later one. Pod scope: one decision from the pod's totals, then the allocations. Policy none: allocations only.
In each allocation devices come first, then CPUs, then memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from webhook.core.demand import ContainerDemand, PodDemand, QosClass
from webhook.core.kubelet.best_effort import best_effort_hint
from webhook.core.kubelet.cpu_distributed import take_distributed
from webhook.core.kubelet.cpu_packed import CpuPickError, CpuShortageError, take_packed
from webhook.core.kubelet.device_assignment import GivenDevices, assign_devices
from webhook.core.kubelet.hints import AnyAsk, Hint, cpu_ask, device_ask
from webhook.core.kubelet.memory import Block, MemoryUse, shrink_reused
from webhook.core.kubelet.merge import MaskOrder
from webhook.core.kubelet.reduced import preferred_mask
from webhook.core.kubelet.refusal import (
    SMT_ALIGNMENT_ERROR,
    TOPOLOGY_AFFINITY_ERROR,
    TOPOLOGY_MESSAGE,
    Refused,
)
from webhook.core.kubelet.requests import pod_cpus, pod_devices, pod_memory
from webhook.core.kubelet.tables import Tables
from webhook.core.machine import Machine, NodeState, TopologyPolicy, TopologyScope
from webhook.core.occupancy import take
from webhook.core.placement import ContainerPlace, Holding
from webhook.core.pod import ContainerKind

_NO_HINT: Hint = (None, False)
_LOWEST_FIRST = MaskOrder()


class Admission:
    """One pod at one node: the kubelet's state while it decides. Used once."""

    __slots__ = (
        "_config",
        "_cpus_to_reuse",
        "_demand",
        "_devices_to_reuse",
        "_free_cpus",
        "_free_devices",
        "_given",
        "_held_cpus",
        "_held_devices",
        "_init_blocks",
        "_machine",
        "_memory",
        "_memory_blocks",
        "_order",
        "_state",
        "_tables",
        "container",
        "hint",
    )

    def __init__(
        self, machine: Machine, tables: Tables, state: NodeState, demand: PodDemand, given: GivenDevices | None = None
    ) -> None:
        """Start from ``state``, in which nothing of the pod is held."""
        self._machine = machine
        self._config = machine.kubelet
        self._tables = tables
        self._state = state
        self._demand = demand
        self._given: Mapping[str, Mapping[str, int]] = given or {}
        self._free_cpus = state.free_cpus
        self._held_cpus = 0
        self._cpus_to_reuse = 0
        self._free_devices = [
            table.all_members & ~(busy | unhealthy)
            for table, busy, unhealthy in zip(tables.devices, state.busy_devices, state.unhealthy_devices, strict=True)
        ]
        self._held_devices = [0] * len(tables.devices)
        self._devices_to_reuse = [0] * len(tables.devices)
        # Pod-level resources: no hints and no allocation of memory while the gate PodLevelResourceManagers is off.
        pins_memory = (
            self._config.static_memory and demand.qos is QosClass.GUARANTEED and not demand.has_pod_level_resources
        )
        self._memory = MemoryUse.of(machine, state) if pins_memory and machine.memory else None
        self._memory_blocks: list[Block] = []
        self._init_blocks: list[Block] = []
        self._order = MaskOrder(machine.distances) if self._config.prefer_closest_numa_nodes else _LOWEST_FIRST
        self.hint: Hint = _NO_HINT
        self.container = ""
        """The container that is being admitted, or was when the kubelet refused; empty for the pod as a whole."""

    def walk(self) -> tuple[ContainerPlace, ...]:
        """Admit every container and return their places.

        Raises:
            Refused: the kubelet refuses.
            GivenDevicesError: recorded devices are impossible.
        """
        per_container = self._config.scope is TopologyScope.CONTAINER and self._config.policy is not TopologyPolicy.NONE
        if self._config.policy is not TopologyPolicy.NONE and not per_container:
            self.hint = self._decide(self.pod_asks())
        places = []
        for container in self._demand.containers:
            self.container = container.name
            if per_container:
                self.hint = self._decide(self.container_asks(container))
            places.append(self._allocate(container))
        return tuple(places)

    def holding(self) -> Holding:
        """Return what the pod holds."""
        memory: tuple[tuple[tuple[int, int], ...], ...] = ()
        if self._memory_blocks:
            memory = tuple(
                tuple((block.mask, block.size) for block in self._memory_blocks if block.index == index)
                for index in range(len(self._machine.memory))
            )
        return Holding(self._held_cpus, tuple(self._held_devices), memory)

    def state(self, holding: Holding) -> NodeState:
        """Return the node's state with ``holding``, the pod's own, held."""
        after = take(self._state, holding)
        if self._memory is not None:
            return self._memory.in_state(self._machine, after)
        return replace(after, memory_by_numa=self._state.memory_by_numa) if self._state.memory_by_numa else after

    # --- what is asked ---

    def container_asks(self, container: ContainerDemand) -> list[AnyAsk]:
        """Return what ``container`` asks of the topology manager, one ask per resource with an opinion."""
        return self._asks(container.devices, self._exclusive_cpus(container), container.memory_bytes)

    def pod_asks(self) -> list[AnyAsk]:
        """Return what the pod asks as a whole."""
        rules = self._tables.rules
        cpus = pod_cpus(self._demand, rules) if self._config.static_cpus else 0
        memory = pod_memory(self._demand, rules) if self._memory else ()
        return self._asks(pod_devices(self._demand, rules), cpus, memory)

    def _asks(self, devices: Sequence[tuple[str, int]], cpus: int, memory: Sequence[tuple[str, int]]) -> list[AnyAsk]:
        tables = self._tables
        asks: list[AnyAsk] = []
        for resource, count in devices:
            index = tables.device_index.get(resource)
            if index is not None:
                ask = device_ask(tables.devices[index], self._free_devices[index], self._devices_to_reuse[index], count)
                if ask is not None:
                    asks.append(ask)
        if cpus:
            by_socket = self._config.align_by_socket
            asks.append(cpu_ask(tables.cpus, self._free_cpus, self._cpus_to_reuse, cpus, by_socket=by_socket))
        if memory and self._memory is not None:
            only_preferred = self._config.policy is not TopologyPolicy.BEST_EFFORT
            asks += self._memory.asks(memory, only_preferred=only_preferred)
        return asks

    def _exclusive_cpus(self, container: ContainerDemand) -> int:
        return self._demand.exclusive_cpus(container) if self._config.static_cpus else 0

    # --- decision ---

    def _decide(self, asks: list[AnyAsk]) -> Hint:
        only_single = self._config.policy is TopologyPolicy.SINGLE_NUMA_NODE
        order = _LOWEST_FIRST if only_single else self._order
        mask = preferred_mask(asks, self._tables.all_numa, order, only_single=only_single)
        if mask is not None:
            return (None if only_single and mask == self._tables.all_numa else mask), True
        if self._config.policy is TopologyPolicy.BEST_EFFORT:
            return best_effort_hint(asks, self._tables.all_numa, order)
        culprit = next((ask.name for ask in asks if not ask.is_possible), asks[0].name if len(asks) == 1 else "")
        facts = {f"{ask.name}_width": str(ask.width) for ask in asks}
        raise Refused(TOPOLOGY_AFFINITY_ERROR, TOPOLOGY_MESSAGE, culprit, facts)

    # --- allocation ---

    def _allocate(self, container: ContainerDemand) -> ContainerPlace:
        is_plain_init = container.kind is ContainerKind.INIT or (
            container.kind is ContainerKind.SIDECAR and not self._tables.rules.sidecars_keep_their_share
        )
        devices = self._allocate_devices(container, for_reuse=is_plain_init)
        count = self._exclusive_cpus(container)
        cpus = 0
        if count:
            cpus = self._take_cpus(count)
            self._free_cpus &= ~cpus
            self._held_cpus |= cpus
            self._cpus_to_reuse = self._cpus_to_reuse | cpus if is_plain_init else self._cpus_to_reuse & ~cpus
        if self._memory is not None and container.memory_bytes:
            self._allocate_memory(container, self._memory, for_reuse=is_plain_init)
        return ContainerPlace(container.name, cpus, devices, self.hint[0])

    def _allocate_devices(self, container: ContainerDemand, *, for_reuse: bool) -> tuple[tuple[int, int], ...]:
        taken: list[tuple[int, int]] = []
        tables = self._tables
        given = self._given.get(container.name, {})
        for resource, count in container.devices:
            index = tables.device_index.get(resource)
            if index is None:
                continue
            table = tables.devices[index]
            reusable = self._devices_to_reuse[index]
            devices = assign_devices(
                table,
                tables.rules,
                count,
                free=self._free_devices[index],
                reusable=reusable,
                has_healthy=bool(table.all_members & ~self._state.unhealthy_devices[index]),
                numa_mask=self.hint[0],
                given=given.get(resource),
            )
            self._free_devices[index] &= ~devices
            self._held_devices[index] |= devices
            self._devices_to_reuse[index] = reusable | devices if for_reuse else reusable & ~devices
            if devices:
                taken.append((index, devices))
        return tuple(taken)

    def _take_cpus(self, count: int) -> int:
        """Return the CPUs for a container: first inside the chosen NUMA nodes, the rest from anywhere."""
        table, config = self._tables.cpus, self._config
        if config.full_pcpus_only:
            self._check_smt(count)
        free = self._free_cpus | self._cpus_to_reuse
        taken = 0
        try:
            mask = self.hint[0]
            if mask is not None:
                inside = free & (table.cpus_of_sockets(mask) if config.align_by_socket else table.members_in[mask])
                taken = self._pick(inside, min(count, inside.bit_count()))
            return taken | self._pick(free & ~taken, count - taken.bit_count())
        except CpuPickError as error:
            cause = str(error)
            if isinstance(error, CpuShortageError) and not self._tables.rules.names_cpu_numbers:
                cause = "not enough cpus available to satisfy request"
            raise Refused.unexpectedly(cause, table.name) from None

    def _pick(self, available: int, count: int) -> int:
        config = self._config
        spread = config.distribute_cpus_across_cores
        if config.distribute_cpus_across_numa:
            respects_socket = self._tables.rules.distributes_within_socket
            return take_distributed(
                self._tables.cpus,
                available,
                count,
                group=self._tables.cpus.cpus_per_core if config.full_pcpus_only else 1,
                spread=spread,
                by_socket=config.align_by_socket and respects_socket,
                is_share_capped=respects_socket,
            )
        by_uncore = config.prefer_align_cpus_by_uncore_cache
        return take_packed(self._tables.cpus, available, count, spread=spread, by_uncore=by_uncore)

    def _check_smt(self, count: int) -> None:
        """Refuse what full-pcpus-only forbids; CPUs that could be reused do not count here."""
        table = self._tables.cpus
        per_core = table.cpus_per_core
        if count % per_core:
            text = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}"
            raise Refused(SMT_ALIGNMENT_ERROR, text, table.name)
        free = (self._free_cpus & ~table.reserved_cores).bit_count()
        if self._tables.rules.counts_free_physical_cpus and count > free:
            text = (
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
                f"{free}, requested CPUs = {count}, CPUs per core = {per_core}"
            )
            raise Refused(SMT_ALIGNMENT_ERROR, text, table.name)

    def _allocate_memory(self, container: ContainerDemand, memory: MemoryUse, *, for_reuse: bool) -> None:
        wanted = container.memory_bytes
        mask = memory.place(wanted, self.hint, checks_groups=self._tables.rules.checks_memory_groups)
        memory.leave(mask, wanted, for_reuse=for_reuse)
        blocks = [Block(mask, memory.index[resource], size) for resource, size in wanted]
        shrink_reused(self._init_blocks, blocks)
        self._memory_blocks += blocks
        if for_reuse:
            self._init_blocks += blocks
