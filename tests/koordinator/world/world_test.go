package world

import (
	"strings"
	"testing"

	"numa-admission/koordinator/record"
)

// A policy that Koordinator does not know, "None" on a node among them, ends its
// scheduler: nothing recovers in Filter.
func TestUnknownPolicyPanics(t *testing.T) {
	w, err := New("LeastAllocated")
	if err != nil {
		t.Fatal(err)
	}
	zone := record.NUMANode{Cores: []record.Core{{CPUIDs: []int{0}}, {CPUIDs: []int{1}}}, MemoryBytes: 1 << 30}
	for name, c := range map[string]record.Case{
		"of a pod":  {Machine: &record.Machine{}, Steps: []record.Step{{Pod: &record.Pod{Policy: "singleNUMANode"}}}},
		"of a node": {Machine: &record.Machine{NodePolicy: "None"}, Steps: []record.Step{{Pod: &record.Pod{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Machine.NUMANodes = []record.NUMANode{zone}
			pod := c.Steps[0].Pod
			pod.UID, pod.CPUMillicores, pod.Binding = "p", 1000, "none"
			defer func() {
				fault, is := recover().(error)
				if !is || !strings.Contains(fault.Error(), "nil pointer") {
					t.Fatalf("no panic: %v, answers %v", fault, c.Steps[0].Answers)
				}
			}()
			w.Judge(&c)
		})
	}
}
