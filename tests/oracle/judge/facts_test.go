package judge

import (
	"testing"

	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

// twoNUMA is 2 NUMA nodes of 8 cores with 2 threads and 4 GPUs each.
func twoNUMA(policy, scope string, cpuOptions ...string) record.Machine {
	m := record.Machine{MaxPods: 110, Devices: map[string][]record.Device{}}
	for numa := range 2 {
		node := record.NUMANode{ID: numa, MemoryBytes: 64 << 30, Distances: []uint64{10, 20}}
		for c := range 8 {
			first := numa*8 + c
			node.Cores = append(node.Cores, record.Core{SocketID: numa, CPUIDs: []int{first, first + 16}})
			if c < 4 {
				id := string(rune('a' + numa*4 + c))
				m.Devices["gpu.example.com/gpu"] = append(m.Devices["gpu.example.com/gpu"], record.Device{ID: id, NUMAIDs: []int64{int64(numa)}, Healthy: true})
			}
		}
		m.NUMANodes = append(m.NUMANodes, node)
	}
	m.Kubelet = record.Kubelet{TopologyManagerPolicy: policy, TopologyManagerScope: scope, CPUManagerPolicy: "static", MemoryManagerPolicy: "None", NoReservedCPUs: true}
	m.Kubelet.CPUManagerPolicyOptions = map[string]string{}
	for _, option := range cpuOptions {
		m.Kubelet.CPUManagerPolicyOptions[option] = "true"
	}
	return m
}

func container(kind, name, cpu, gpu string) record.Container {
	limits := map[string]string{"cpu": cpu, "memory": "1Gi"}
	if gpu != "" {
		limits["gpu.example.com/gpu"] = gpu
	}
	return record.Container{Name: name, Kind: kind, Given: record.Given{Limits: limits}}
}

// The facts that kubelet admission is known for, each on one small machine.
func TestKnownFacts(t *testing.T) {
	app := func(cpu, gpu string) []record.Container {
		return []record.Container{container(record.KindApp, "app", cpu, gpu)}
	}
	cases := []struct {
		name       string
		machine    record.Machine
		busy       []int
		containers []record.Container
		reason     string
	}{
		{"one NUMA node fits", twoNUMA("single-numa-node", "container"), nil, app("16", "4"), ""},
		{"GPUs spread, CPUs do not", twoNUMA("restricted", "container"), nil, app("10", "6"), "TopologyAffinityError"},
		{"both spread", twoNUMA("restricted", "container"), nil, app("24", "6"), ""},
		{"a fraction gives no hint", twoNUMA("restricted", "container"), nil, app("500m", "6"), ""},
		{"a GPU limit of 0 pins the place", twoNUMA("restricted", "container"), nil, app("20", "0"), "TopologyAffinityError"},
		{"without that line it is admitted", twoNUMA("restricted", "container"), nil, app("20", ""), ""},
		{"odd count with whole cores", twoNUMA("none", "container", "full-pcpus-only"), nil, app("3", ""), "SMTAlignmentError"},
		{
			"whole cores ignore the reuse of an init's CPUs", twoNUMA("none", "container", "full-pcpus-only"),
			[]int{7, 23, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31},
			[]record.Container{container(record.KindInit, "init", "8", ""), container(record.KindApp, "app", "8", "")}, "SMTAlignmentError",
		},
		{
			"an init pins the app's NUMA node", twoNUMA("single-numa-node", "container"), []int{0, 16, 1},
			[]record.Container{container(record.KindInit, "init", "1", ""), container(record.KindApp, "app", "14", "")}, "TopologyAffinityError",
		},
		{"more than the machine, no policy", twoNUMA("none", "container"), nil, app("33", ""), "UnexpectedAdmissionError"},
		{"fractions beyond the machine", twoNUMA("none", "container"), nil, app("32500m", ""), "OutOfcpu"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := &record.Case{ID: tc.name, Machine: tc.machine}
			if tc.busy != nil {
				c.Steps = append(c.Steps, record.Step{Op: record.OpHold, PodUID: "busy", HoldCPUIDs: tc.busy})
			}
			c.Steps = append(c.Steps, record.Step{Op: record.OpAdmit, Pod: &record.Pod{UID: "pod", Containers: tc.containers}})
			if err := Case(c, kubelet.Options{}); err != nil {
				t.Fatal(err)
			}
			if c.RefusedToStart != "" {
				t.Fatal(c.RefusedToStart)
			}
			verdict := c.Steps[len(c.Steps)-1].Verdict
			if tc.reason != verdict.Reason || verdict.Admit != (tc.reason == "") {
				t.Errorf("expected reason %q, actual %+v", tc.reason, verdict)
			}
		})
	}
}
