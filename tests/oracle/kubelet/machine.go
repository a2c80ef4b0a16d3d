package kubelet

import (
	"fmt"
	"maps"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/utils/cpuset"

	"numa-admission/oracle/record"
)

func machineInfo(machine *record.Machine) *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{}
	sockets := map[int]bool{}
	for _, node := range machine.NUMANodes {
		out := cadvisorapi.Node{Id: node.ID, Memory: node.MemoryBytes, Distances: node.Distances}
		for _, core := range node.Cores {
			threads := cadvisorapi.Core{Id: slices.Min(core.CPUIDs), Threads: core.CPUIDs, SocketID: core.SocketID}
			if core.UncoreCacheID != nil {
				threads.UncoreCaches = []cadvisorapi.Cache{{Id: *core.UncoreCacheID}}
			}
			out.Cores = append(out.Cores, threads)
			info.NumCores += len(core.CPUIDs)
			sockets[core.SocketID] = true
		}
		info.NumPhysicalCores += len(node.Cores)
		info.MemoryCapacity += node.MemoryBytes
		info.Topology = append(info.Topology, out)
	}
	info.NumSockets = len(sockets)
	return info
}

// reservation is GetNodeAllocatableReservation: only what is not zero.
func (k *Kubelet) reservation() v1.ResourceList {
	out := v1.ResourceList{}
	if millicores := k.reservedMillicores(); millicores != 0 {
		out[v1.ResourceCPU] = *resource.NewMilliQuantity(millicores, resource.DecimalSI)
	}
	if k.machine.Kubelet.ReservedMemoryBytes != 0 {
		out[v1.ResourceMemory] = bytes(k.machine.Kubelet.ReservedMemoryBytes)
	}
	return out
}

// reservedMillicores: reservedSystemCPUs overrides the amounts, as in cmd/kubelet/app.
func (k *Kubelet) reservedMillicores() int64 {
	if ids := k.machine.Kubelet.ReservedSystemCPUIDs; len(ids) > 0 {
		return int64(cpuset.New(ids...).Size()) * 1000
	}
	if k.machine.Kubelet.NoReservedCPUs {
		return 1 // the least that lets the static policy be made
	}
	return k.machine.Kubelet.ReservedCPUMillicores
}

// describe writes what the kubelet made of its configuration into the record.
func (k *Kubelet) describe() {
	reserved := k.reservedMillicores()
	if k.machine.Kubelet.NoReservedCPUs {
		reserved = 0
	}
	derived := &record.Derived{
		ReservedCPUIDs:           []int{},
		AllocatableCPUMillicores: max(0, int64(k.info.NumCores)*1000-reserved),
		AllocatableMemoryBytes:   max(0, int64(k.info.MemoryCapacity)-k.machine.Kubelet.ReservedMemoryBytes),
	}
	if k.machine.Kubelet.CPUManagerPolicy == string(cpumanager.PolicyStatic) {
		k.reserve = k.cpus.GetAllCPUs().Difference(k.cpus.GetAllocatableCPUs())
		derived.ReservedCPUIDs = k.reserve.List()
	}
	if k.info.NumPhysicalCores > 0 {
		derived.CPUsPerCore = k.info.NumCores / k.info.NumPhysicalCores
	}
	k.machine.Derived = derived
}

// refreshNode sets the Node's amounts as the kubelet's status setters do.
func (k *Kubelet) refreshNode() {
	if k.node == nil {
		k.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewMilliQuantity(int64(k.info.NumCores)*1000, resource.DecimalSI),
		v1.ResourceMemory:           bytes(int64(k.info.MemoryCapacity)),
		v1.ResourcePods:             *resource.NewQuantity(k.machine.MaxPods, resource.DecimalSI),
		v1.ResourceEphemeralStorage: bytes(1 << 40),
	}
	allocatable := maps.Clone(capacity)
	allocatable[v1.ResourceCPU] = *resource.NewMilliQuantity(k.machine.Derived.AllocatableCPUMillicores, resource.DecimalSI)
	allocatable[v1.ResourceMemory] = bytes(k.machine.Derived.AllocatableMemoryBytes)
	deviceCapacity, deviceAllocatable, _ := k.devices.GetCapacity(k.logger)
	maps.Copy(capacity, deviceCapacity)
	maps.Copy(allocatable, deviceAllocatable)

	node := k.node.DeepCopy()
	node.Status.Capacity, node.Status.Allocatable = capacity, allocatable
	k.node = node
}

// setGates puts the process-wide feature gates at their defaults plus those
// named. Alpha options of the CPU manager are always allowed; they only act
// where a configuration names them.
func setGates(named map[string]bool) error {
	wanted := map[string]bool{
		string(features.CPUManagerPolicyAlphaOptions): true,
		string(features.PodLevelResourceManagers):     false,
	}
	for name, value := range named {
		if _, known := wanted[name]; !known {
			return fmt.Errorf("feature gate %s is not one that the oracle switches", name)
		}
		wanted[name] = value
	}
	for name, value := range wanted {
		if utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) == value {
			continue
		}
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{name: value}); err != nil {
			return fmt.Errorf("feature gate %s: %w", name, err)
		}
	}
	return nil
}

// gateAdapter is the kubelet's FeatureGateAdapter.
type gateAdapter struct{}

func (gateAdapter) Enabled(key string) bool {
	return utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(key))
}

func bytes(amount int64) resource.Quantity { return *resource.NewQuantity(amount, resource.BinarySI) }

func sortedKeys[V any](in map[string]V) []string { return slices.Sorted(maps.Keys(in)) }

func containerNames(pod *v1.Pod) []string {
	var names []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	return names
}
