package kubelet

import (
	v1 "k8s.io/api/core/v1"
)

// Node returns the Node that the fit predicate sees, with its computed amounts.
func (k *Kubelet) Node() *v1.Node { return k.node.DeepCopy() }

// SetNode takes over labels, taints and the rest of a changed Node object, but
// keeps the amounts and features that the kubelet itself declares.
func (k *Kubelet) SetNode(node *v1.Node) {
	own := k.node.Status
	k.node = node.DeepCopy()
	k.node.Status.Capacity, k.node.Status.Allocatable = own.Capacity, own.Allocatable
	k.node.Status.DeclaredFeatures = own.DeclaredFeatures
}

// NUMAUse is what one NUMA node has, as the pod-resources API would show it.
type NUMAUse struct {
	NUMAID int
	// Capacity counts all, Allocatable what may be handed out, Available what is free.
	CPUs    Use
	Devices map[string]Use
	// MemoryBytes of the memory manager; Available equals Allocatable without Static.
	MemoryBytes Use
}

// Use counts one resource.
type Use struct{ Capacity, Allocatable, Available int64 }

// NUMAUse returns the use of each NUMA node by active pods.
func (k *Kubelet) NUMAUse() []NUMAUse {
	heldCPUs, heldDevices, heldMemory := map[int]bool{}, map[string]map[string]bool{}, map[int]int64{}
	for _, pod := range k.pods {
		for _, got := range k.Got(pod) {
			for _, cpu := range got.CPUIDs {
				heldCPUs[cpu] = true
			}
			for resource, ids := range got.Devices {
				if heldDevices[resource] == nil {
					heldDevices[resource] = map[string]bool{}
				}
				for _, id := range ids {
					heldDevices[resource][id] = true
				}
			}
			for _, block := range got.Memory {
				if len(block.NUMAIDs) > 0 {
					heldMemory[block.NUMAIDs[0]] += int64(block.Bytes)
				}
			}
		}
	}
	reserved := map[int]int64{}
	for _, r := range k.machine.Kubelet.ReservedMemory {
		reserved[int(r.NUMAID)] += r.MemoryBytes
	}
	var out []NUMAUse
	for _, node := range k.machine.NUMANodes {
		use := NUMAUse{NUMAID: node.ID, Devices: map[string]Use{}}
		for _, core := range node.Cores {
			for _, cpu := range core.CPUIDs {
				add(&use.CPUs, !k.reserve.Contains(cpu), heldCPUs[cpu])
			}
		}
		for resource, devices := range k.plugins {
			count := Use{}
			for _, device := range devices {
				for _, id := range device.NUMAIDs {
					if int(id) == node.ID && device.Healthy { // NFD lists healthy devices only
						add(&count, true, heldDevices[resource][device.ID])
					}
				}
			}
			if count.Capacity > 0 {
				use.Devices[resource] = count
			}
		}
		total := int64(node.MemoryBytes)
		use.MemoryBytes = Use{Capacity: total, Allocatable: total - reserved[node.ID], Available: max(0, total-reserved[node.ID]-heldMemory[node.ID])}
		out = append(out, use)
	}
	return out
}

func add(use *Use, allocatable, held bool) {
	use.Capacity++
	if allocatable {
		use.Allocatable++
		if !held {
			use.Available++
		}
	}
}
