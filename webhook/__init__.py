"""NUMA admission: webhooks, allocator ledger and CI checker for CPU + GPU pods on machines with several NUMA nodes."""
