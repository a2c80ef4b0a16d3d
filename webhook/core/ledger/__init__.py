"""The allocator ledger: who holds which CPUs and devices of which NUMA node, and what room is left. Pure, no I/O."""
