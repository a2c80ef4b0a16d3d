// Package record holds the JSON shapes of a case and of what Koordinator's code
// answered. README.md explains every field.
package record

// Version is the version of the code that answers.
const Version = "v1.8.0"

// Case is one line of JSONL: either Machine and Steps, or Merge.
type Case struct {
	ID          string   `json:"id"`
	Koordinator string   `json:"koordinator"`
	Machine     *Machine `json:"machine,omitempty"`
	Steps       []Step   `json:"steps,omitempty"`
	Merge       *Merge   `json:"merge,omitempty"`
}

// Machine is one node as Koordinator's scheduler sees it.
type Machine struct {
	// NUMANodes are numbered from 0 in their order: Koordinator needs that.
	NUMANodes      []NUMANode `json:"numa_nodes"`
	ReservedCPUIDs []int      `json:"reserved_cpu_ids,omitempty"`
	FullPCPUsOnly  bool       `json:"full_pcpus_only,omitempty"`
	NodePolicy     string     `json:"node_policy,omitempty"`
	NUMAScoring    string     `json:"numa_scoring"`
	GPUs           []Device   `json:"gpus,omitempty"`
	RDMA           []Device   `json:"rdma,omitempty"`
}

// NUMANode is one zone.
type NUMANode struct {
	Cores       []Core `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes"`
}

// Core is one physical core; its id is its lowest CPU id.
type Core struct {
	SocketID int   `json:"socket_id"`
	CPUIDs   []int `json:"cpu_ids"`
}

// Device is one device; its minor is its index.
type Device struct {
	// NUMA is -1 where it is not known.
	NUMA    int  `json:"numa"`
	Healthy bool `json:"healthy"`
}

// Step is one pod that arrives, or one that goes.
type Step struct {
	Pod     *Pod     `json:"pod,omitempty"`
	Remove  string   `json:"remove,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
}

// Pod is what a pod asks for as a whole.
type Pod struct {
	UID           string `json:"uid"`
	CPUMillicores int64  `json:"cpu_millicores,omitempty"`
	MemoryBytes   int64  `json:"memory_bytes,omitempty"`
	GPUs          int64  `json:"gpus,omitempty"`
	RDMA          int64  `json:"rdma,omitempty"`
	Policy        string `json:"policy,omitempty"`
	Exclusive     string `json:"exclusive,omitempty"`
	// Binding is none, cpus (QoS LSR) or whole cores (LSR and a required FullPCPUs).
	Binding string `json:"binding"`
}

// Answer is one verdict. A step has several where Koordinator's answer hangs on
// the order of a Go map; the last one is what holds from then on.
type Answer struct {
	Admit   bool     `json:"admit"`
	Stage   string   `json:"stage,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// NUMA is nil where no affinity was chosen.
	NUMA   []int  `json:"numa"`
	CPUIDs []int  `json:"cpu_ids,omitempty"`
	Zones  []Zone `json:"zones,omitempty"`
	GPUs   []int  `json:"gpus,omitempty"`
	RDMA   []int  `json:"rdma,omitempty"`
}

// Zone is what a pod was counted for on one NUMA node.
type Zone struct {
	NUMA          int   `json:"numa"`
	CPUMillicores int64 `json:"cpu_millicores,omitempty"`
	MemoryBytes   int64 `json:"memory_bytes,omitempty"`
}

// Merge is one call of a policy's Merge.
type Merge struct {
	NUMANodes int      `json:"numa_nodes"`
	Policy    string   `json:"policy"`
	Exclusive string   `json:"exclusive,omitempty"`
	Status    []string `json:"status"`
	// Hints are given by one provider per resource, so that their order is fixed.
	Hints  []ResourceHints `json:"hints"`
	Answer *Merged         `json:"answer,omitempty"`
}

// ResourceHints are the hints of one resource; nil: no opinion, empty: none possible.
type ResourceHints struct {
	Resource string `json:"resource"`
	Hints    []Hint `json:"hints"`
}

// Hint is one hint; NUMA nil: any.
type Hint struct {
	NUMA      []int `json:"numa"`
	Preferred bool  `json:"preferred,omitempty"`
	Score     int64 `json:"score,omitempty"`
}

// Merged is what Merge returned.
type Merged struct {
	NUMA        []int    `json:"numa"`
	Preferred   bool     `json:"preferred"`
	Unsatisfied bool     `json:"unsatisfied"`
	Admit       bool     `json:"admit"`
	Reasons     []string `json:"reasons,omitempty"`
}
