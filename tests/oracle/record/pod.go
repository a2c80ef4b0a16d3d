package record

// The kinds of a container.
const (
	KindInit    = "init"    // runs to completion before the next one
	KindSidecar = "sidecar" // an init container with restartPolicy Always
	KindApp     = "app"
)

// Pod is a pod as the user wrote it and as the API server stores it.
type Pod struct {
	UID        string      `json:"uid"`
	Containers []Container `json:"containers"`
	// Given and Effective are spec.resources; absent when the pod has none.
	Given     *Given     `json:"given,omitempty"`
	Effective *Effective `json:"effective,omitempty"`
	QOS       string     `json:"qos,omitempty"`
}

// Container is one container; init containers and sidecars come first, in order.
type Container struct {
	Name      string     `json:"name"`
	Kind      string     `json:"kind"`
	Given     Given      `json:"given"`
	Effective *Effective `json:"effective,omitempty"`
}

// Given holds Kubernetes quantities by resource name, as written.
type Given struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

// Effective holds the numbers after the API server's defaulting.
type Effective struct {
	Requests Amounts `json:"requests"`
	Limits   Amounts `json:"limits"`
}

// Amounts are exact numbers; an absent resource is absent, a zero is a zero.
type Amounts struct {
	CPUMillicores *int64           `json:"cpu_millicores,omitempty"`
	MemoryBytes   *int64           `json:"memory_bytes,omitempty"`
	Other         map[string]int64 `json:"other,omitempty"`
}
