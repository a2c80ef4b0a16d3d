package draw

import (
	"fmt"
	"slices"

	"numa-admission/oracle/record"
)

// drawSteps draws arrivals, departures, starts and changes of health. It never
// looks at a verdict: a step about a refused pod is a step that does nothing.
func drawSteps(d dice, s shape, m *record.Machine) []record.Step {
	steps := []record.Step{}
	var alive []string
	static := m.Kubelet.MemoryManagerPolicy == "Static"
	w := newWardrobe(d, s, m)
	for range d.between(s.steps[0], s.steps[1]) {
		roll := d.IntN(100)
		switch {
		case roll < 18 && len(alive) > 0:
			at := d.IntN(len(alive))
			steps = append(steps, record.Step{Op: record.OpRemove, PodUID: alive[at]})
			alive = slices.Delete(alive, at, at+1)
		case roll < 24 && len(m.Devices) > 0:
			steps = append(steps, drawHealth(d, m))
		default:
			pod := w.pod(fmt.Sprintf("p%d", len(steps)))
			steps = append(steps, record.Step{Op: record.OpAdmit, Pod: pod})
			alive = append(alive, pod.UID)
			if static && d.chance(70) {
				steps = append(steps, record.Step{Op: record.OpStart, PodUID: pod.UID})
			}
		}
	}
	return steps
}

// drawHealth changes a plugin's list: devices fall ill, recover, or (rarely) go away.
func drawHealth(d dice, m *record.Machine) record.Step {
	resource := pick(d, sortedNames(m.Devices)...)
	devices := []record.Device{}
	for _, device := range m.Devices[resource] {
		if d.chance(3) {
			continue
		}
		device.Healthy = d.chance(75)
		devices = append(devices, device)
	}
	return record.Step{Op: record.OpDevices, Resource: resource, Devices: devices}
}
