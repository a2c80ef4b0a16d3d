package kubelet

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"numa-admission/oracle/record"
)

// Got returns what each container of a pod holds now. A refused pod may hold a
// part until the next admission.
func (k *Kubelet) Got(pod *v1.Pod) map[string]record.Got {
	out := map[string]record.Got{}
	uid := string(pod.UID)
	for _, name := range containerNames(pod) {
		got := record.Got{Devices: map[string][]string{}}
		if cpus, exclusive := k.cpus.State().GetCPUSet(uid, name); exclusive {
			got.CPUIDs = cpus.List()
		}
		for resource, devices := range k.devices.GetDevices(uid, name) {
			got.Devices[resource] = sortedKeys(devices)
		}
		for _, block := range k.memory.GetMemory(k.logger, uid, name) {
			got.Memory = append(got.Memory, record.MemoryBlock{Type: string(block.Type), NUMAIDs: block.NUMAAffinity, Bytes: block.Size})
		}
		if k.topology.Name() != "none" {
			hint := k.topology.GetAffinity(k.logger, uid, name)
			if hint.NUMANodeAffinity != nil || hint.Preferred {
				got.Hint = &record.Hint{NUMAIDs: []int{}, Preferred: hint.Preferred}
				if hint.NUMANodeAffinity != nil {
					got.Hint.NUMAIDs = hint.NUMANodeAffinity.GetBits()
				}
			}
		}
		out[name] = got
	}
	return out
}

// ActiveUIDs returns the active pods in the order of arrival.
func (k *Kubelet) ActiveUIDs() []string {
	out := []string{}
	for _, pod := range k.pods {
		out = append(out, string(pod.UID))
	}
	return out
}

// SharedCPUs returns the CPUs that no active pod holds exclusively, reserved ones
// included unless strict-cpu-reservation takes them out.
func (k *Kubelet) SharedCPUs() []int {
	if k.machine.Kubelet.CPUManagerPolicy != "static" {
		return k.cpus.GetAllCPUs().List()
	}
	shared := k.cpus.State().GetDefaultCPUSet()
	for uid, containers := range k.cpus.State().GetCPUAssignments() {
		if k.isActive(uid) {
			continue
		}
		for _, cpus := range containers {
			shared = shared.Union(cpus)
		}
	}
	return shared.List()
}

// ExclusiveCPUs returns the CPUs that a container holds exclusively, empty for the shared pool.
func (k *Kubelet) ExclusiveCPUs(uid, container string) cpuset.CPUSet {
	return k.cpus.GetExclusiveCPUs(uid, container)
}

func (k *Kubelet) isActive(uid string) bool {
	for _, pod := range k.pods {
		if string(pod.UID) == uid {
			return true
		}
	}
	return false
}
