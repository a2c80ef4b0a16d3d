// Package record holds the JSON shapes of a case: one machine, a sequence of
// steps on it, and what the kubelet's own code answered. README.md explains
// every field; a field that the oracle writes is ignored when it is read.
package record

// KubeletVersion is the version of the code that judges.
const KubeletVersion = "v1.37.2"

// Case is one line of JSONL.
type Case struct {
	ID             string  `json:"id"`
	KubeletVersion string  `json:"kubelet_version"`
	Machine        Machine `json:"machine"`
	// RefusedToStart is the kubelet's own error for this machine and
	// configuration; then no step has a verdict.
	RefusedToStart string `json:"refused_to_start,omitempty"`
	Steps          []Step `json:"steps"`
}

// Machine is the hardware, the devices at start and the kubelet's configuration.
type Machine struct {
	NUMANodes []NUMANode          `json:"numa_nodes"`
	Devices   map[string][]Device `json:"devices"`
	MaxPods   int64               `json:"max_pods"`
	Kubelet   Kubelet             `json:"kubelet"`
	Derived   *Derived            `json:"derived,omitempty"`
}

// NUMANode is one NUMA node as cadvisor would report it.
type NUMANode struct {
	ID          int    `json:"id"`
	Cores       []Core `json:"cores"`
	MemoryBytes uint64 `json:"memory_bytes"`
	// Distances has one entry per NUMA node, in the order of Machine.NUMANodes.
	Distances []uint64 `json:"distances"`
}

// Core is one physical core; its id is its lowest CPU id, as the kubelet counts.
type Core struct {
	SocketID      int   `json:"socket_id"`
	CPUIDs        []int `json:"cpu_ids"`
	UncoreCacheID *int  `json:"uncore_cache_id,omitempty"`
}

// Device is one device of a plugin. No NUMA ids means that the plugin reports none.
type Device struct {
	ID      string  `json:"id"`
	NUMAIDs []int64 `json:"numa_ids"`
	Healthy bool    `json:"healthy"`
}

// Kubelet is the part of KubeletConfiguration that decides admission.
type Kubelet struct {
	TopologyManagerPolicy        string            `json:"topology_manager_policy"`
	TopologyManagerScope         string            `json:"topology_manager_scope"`
	TopologyManagerPolicyOptions map[string]string `json:"topology_manager_policy_options,omitempty"`
	CPUManagerPolicy             string            `json:"cpu_manager_policy"`
	CPUManagerPolicyOptions      map[string]string `json:"cpu_manager_policy_options,omitempty"`
	// ReservedSystemCPUIDs is reservedSystemCPUs; it overrides ReservedCPUMillicores.
	ReservedSystemCPUIDs  []int `json:"reserved_system_cpu_ids,omitempty"`
	ReservedCPUMillicores int64 `json:"reserved_cpu_millicores"`
	// ReservedMemoryBytes is kubeReserved + systemReserved + hard eviction.
	ReservedMemoryBytes int64           `json:"reserved_memory_bytes"`
	MemoryManagerPolicy string          `json:"memory_manager_policy"`
	ReservedMemory      []NUMAMemory    `json:"memory_manager_reserved,omitempty"`
	FeatureGates        map[string]bool `json:"feature_gates,omitempty"`
	// NoReservedCPUs is unreal: a static policy that reserves nothing, which a
	// kubelet refuses; for hand-written cases that leave reservation out.
	NoReservedCPUs bool `json:"unreal_no_reserved_cpus,omitempty"`
}

// NUMAMemory is an amount of memory on one NUMA node.
type NUMAMemory struct {
	NUMAID      int32 `json:"numa_id"`
	MemoryBytes int64 `json:"memory_bytes"`
}

// Derived is what the kubelet made of the configuration; written by the oracle.
type Derived struct {
	// ReservedCPUIDs are the CPUs that the static policy never hands out.
	ReservedCPUIDs           []int `json:"reserved_cpu_ids"`
	CPUsPerCore              int   `json:"cpus_per_core"`
	AllocatableCPUMillicores int64 `json:"allocatable_cpu_millicores"`
	AllocatableMemoryBytes   int64 `json:"allocatable_memory_bytes"`
}

// The operations of a step.
const (
	OpAdmit   = "admit"   // a pod arrives
	OpRemove  = "remove"  // a pod is gone (deleted or terminal)
	OpStart   = "start"   // the containers of an admitted pod start, inits have run
	OpDevices = "devices" // a plugin sends a new list of devices
	OpHold    = "hold"    // unreal: a pod that holds exactly these CPUs and devices
)

// Step is one event and, after it, the answer and the state.
type Step struct {
	Op       string   `json:"op"`
	Pod      *Pod     `json:"pod,omitempty"`
	PodUID   string   `json:"pod_uid,omitempty"`
	Resource string   `json:"resource,omitempty"`
	Devices  []Device `json:"devices,omitempty"`
	// HoldCPUIDs and HoldDevices (device ids by resource) belong to op hold.
	HoldCPUIDs  []int               `json:"hold_cpu_ids,omitempty"`
	HoldDevices map[string][]string `json:"hold_devices,omitempty"`

	Verdict *Verdict `json:"verdict,omitempty"`
	// Got is what each container of the step's pod holds after the step.
	Got           map[string]Got `json:"got,omitempty"`
	ActivePodUIDs []string       `json:"active_pod_uids"`
	// SharedCPUIDs are the CPUs that no active pod holds exclusively.
	SharedCPUIDs []int `json:"shared_cpu_ids"`
}

// Verdict is the answer to a pod.
type Verdict struct {
	Admit   bool   `json:"admit"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// APIErrors: the API server would not have stored this pod; it was not judged.
	APIErrors []string `json:"api_errors,omitempty"`
}

// Got is what one container was given.
type Got struct {
	// CPUIDs are exclusive; absent means the shared pool.
	CPUIDs  []int               `json:"cpu_ids,omitempty"`
	Devices map[string][]string `json:"devices,omitempty"`
	Memory  []MemoryBlock       `json:"memory,omitempty"`
	// Hint is the merged hint that the topology manager stored for the container.
	Hint *Hint `json:"hint,omitempty"`
}

// MemoryBlock is memory pinned to a group of NUMA nodes.
type MemoryBlock struct {
	Type    string `json:"type"`
	NUMAIDs []int  `json:"numa_ids"`
	Bytes   uint64 `json:"bytes"`
}

// Hint is a merged topology hint; no NUMA ids means no mask.
type Hint struct {
	NUMAIDs   []int `json:"numa_ids"`
	Preferred bool  `json:"preferred"`
}
