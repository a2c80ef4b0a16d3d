"""The model of NUMA-aware schedulers: Koordinator's, and ACK's as far as it is documented."""
