package hollow

import (
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"numa-admission/oracle/record"
)

// Class is a kind of machine and how many nodes of it to play.
type Class struct {
	Name   string            `json:"name"` // nodes are called NAME-0, NAME-1, ...
	Count  int               `json:"count"`
	Labels map[string]string `json:"labels"`
	Taints []v1.Taint        `json:"taints"`
	// Layout is the short form of a machine, Machine the full one of a case; one of them.
	Layout  *Layout         `json:"layout"`
	Machine *record.Machine `json:"machine"`
	// Kubelet is the configuration that goes with Layout.
	Kubelet *record.Kubelet `json:"kubelet"`
}

// Layout describes a regular machine: core c of NUMA node n has CPU n*cores+c,
// its sibling threads follow after all cores.
type Layout struct {
	NUMANodes          int                     `json:"numa_nodes"`
	Sockets            int                     `json:"sockets"` // default: one per NUMA node
	CoresPerNUMA       int                     `json:"cores_per_numa"`
	ThreadsPerCore     int                     `json:"threads_per_core"` // default 1
	MemoryBytesPerNUMA uint64                  `json:"memory_bytes_per_numa"`
	MaxPods            int64                   `json:"max_pods"` // default 110
	Devices            map[string]DevicePlugin `json:"devices"`
}

// DevicePlugin describes evenly spread devices. Ids are 0, 1, 2, ... as minors are.
type DevicePlugin struct {
	PerNUMA int `json:"per_numa"`
	// HidesNUMA: the plugin reports no NUMA ids.
	HidesNUMA bool `json:"hides_numa"`
}

// readClasses reads files of `classes:` and checks them; every fault is reported.
func readClasses(paths []string) ([]Class, error) {
	var classes []Class
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file := struct {
			Classes []Class `json:"classes"`
		}{}
		if err := yaml.UnmarshalStrict(text, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		classes = append(classes, file.Classes...)
	}
	var faults []error
	names := map[string]bool{}
	for i := range classes {
		c := &classes[i]
		if c.Name == "" || names[c.Name] {
			faults = append(faults, fmt.Errorf("class %d: name %q is empty or taken", i, c.Name))
		}
		names[c.Name] = true
		switch {
		case (c.Layout == nil) == (c.Machine == nil):
			faults = append(faults, fmt.Errorf("class %s: give layout (with kubelet) or machine", c.Name))
		case c.Layout != nil && c.Kubelet == nil:
			faults = append(faults, fmt.Errorf("class %s: layout without kubelet", c.Name))
		case c.Layout != nil && (c.Layout.NUMANodes < 1 || c.Layout.CoresPerNUMA < 1):
			faults = append(faults, fmt.Errorf("class %s: numa_nodes and cores_per_numa must be 1 or more", c.Name))
		case c.Layout != nil:
			c.Machine = c.Layout.machine(*c.Kubelet)
		}
	}
	if len(classes) == 0 {
		faults = append(faults, errors.New("no classes"))
	}
	return classes, errors.Join(faults...)
}

func (l *Layout) machine(kubelet record.Kubelet) *record.Machine {
	m := &record.Machine{MaxPods: l.MaxPods, Devices: map[string][]record.Device{}, Kubelet: kubelet}
	if m.MaxPods == 0 {
		m.MaxPods = 110
	}
	threads, sockets := max(1, l.ThreadsPerCore), l.Sockets
	if sockets == 0 {
		sockets = l.NUMANodes
	}
	perSocket := max(1, l.NUMANodes/sockets)
	for n := range l.NUMANodes {
		node := record.NUMANode{ID: n, MemoryBytes: l.MemoryBytesPerNUMA}
		for other := range l.NUMANodes {
			switch {
			case other == n:
				node.Distances = append(node.Distances, 10)
			case other/perSocket == n/perSocket:
				node.Distances = append(node.Distances, 12)
			default:
				node.Distances = append(node.Distances, 32)
			}
		}
		for c := range l.CoresPerNUMA {
			core := record.Core{SocketID: n / perSocket}
			for t := range threads {
				core.CPUIDs = append(core.CPUIDs, t*l.NUMANodes*l.CoresPerNUMA+n*l.CoresPerNUMA+c)
			}
			node.Cores = append(node.Cores, core)
		}
		for resource, plugin := range l.Devices {
			for range plugin.PerNUMA {
				device := record.Device{ID: fmt.Sprint(len(m.Devices[resource])), NUMAIDs: []int64{int64(n)}, Healthy: true}
				if plugin.HidesNUMA {
					device.NUMAIDs = nil
				}
				m.Devices[resource] = append(m.Devices[resource], device)
			}
		}
		m.NUMANodes = append(m.NUMANodes, node)
	}
	return m
}

// spread gives each class its share of wanted nodes, in proportion to its count
// (0 keeps the counts of the files).
func spread(classes []Class, wanted int) {
	total := 0
	for i := range classes {
		if classes[i].Count == 0 {
			classes[i].Count = 1
		}
		total += classes[i].Count
	}
	if wanted == 0 {
		return
	}
	given, weight := 0, 0
	for i := range classes {
		weight += classes[i].Count
		upTo := wanted * weight / total
		classes[i].Count, given = upTo-given, upTo
	}
}
