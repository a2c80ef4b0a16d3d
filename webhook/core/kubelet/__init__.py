"""The kubelet's allocator model, exact to the kubelet's code.

What its topology, device, CPU and memory managers do at admission. Read from kubernetes/kubernetes:pkg/kubelet/cm at
1.37.2, and for ``versions`` at 1.24.17, 1.26.15, 1.28.15, 1.31.13, 1.34.4, 1.35.0 and 1.36.0.
``tests/core/kubelet`` compares it with that code itself.
"""

from webhook.core.kubelet.allocator import KubeletAllocator
from webhook.core.kubelet.device_assignment import GivenDevices, GivenDevicesError
from webhook.core.kubelet.versions import status_message

__all__ = ["GivenDevices", "GivenDevicesError", "KubeletAllocator", "status_message"]
