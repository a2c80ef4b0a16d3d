package draw

import (
	"fmt"
	"slices"

	"numa-admission/oracle/record"
)

var resourceNames = []string{"nvidia.com/gpu", "example.com/nic", "aliyun.com/gpu", "example.com/fpga"}

func drawDevices(d dice, s shape, m *record.Machine, odd bool) {
	for i := range pick(d, s.resources...) {
		count := d.between(s.devices[0], s.devices[1])
		style := pick(d, "even", "even", "even", "even", "random", "none", "some none", "several", "unknown")
		if s.eightGPUs && i == 0 {
			count = 8
			style = pick(d, "even", "even", "even", "even", "even", "none", "random")
		}
		if odd && d.chance(30) {
			style = pick(d, "random", "some none", "several", "unknown")
		}
		devices := make([]record.Device, 0, count)
		for n := range count {
			devices = append(devices, record.Device{
				ID:      fmt.Sprintf("%c%02d", "gnaf"[i], n),
				NUMAIDs: deviceNUMAIDs(d, style, n, count, m.NUMANodes),
				Healthy: !d.chance(4),
			})
		}
		m.Devices[resourceNames[i]] = devices
	}
	for hintProduct(m) > s.maxHintProduct {
		names := sortedNames(m.Devices)
		if len(names) == 0 {
			return
		}
		delete(m.Devices, names[len(names)-1])
	}
}

func deviceNUMAIDs(d dice, style string, n, count int, nodes []record.NUMANode) []int64 {
	at := func(i int) int64 { return int64(nodes[i%len(nodes)].ID) }
	anywhere := func() int64 { return at(d.IntN(len(nodes))) }
	unknown := int64(nodes[len(nodes)-1].ID + 1 + d.IntN(2))
	switch style {
	case "none":
		return []int64{}
	case "random":
		return []int64{anywhere()}
	case "some none":
		if d.chance(30) {
			return []int64{}
		}
	case "several":
		if d.chance(50) {
			ids := []int64{anywhere(), anywhere()}
			slices.Sort(ids)
			return slices.Compact(ids)
		}
	case "unknown":
		if d.chance(25) {
			return []int64{unknown}
		}
		if d.chance(15) {
			return []int64{anywhere(), unknown}
		}
	}
	return []int64{at(n * len(nodes) / count)}
}

// hintProduct estimates how many combinations of hints the topology manager
// would walk for a container that asks for everything.
func hintProduct(m *record.Machine) int {
	if m.Kubelet.TopologyManagerPolicy == "none" {
		return 1
	}
	masks := func(nodes int) int { return 1<<nodes - 1 }
	product := 1
	if m.Kubelet.CPUManagerPolicy == "static" {
		product *= masks(len(m.NUMANodes))
	}
	if m.Kubelet.MemoryManagerPolicy == "Static" {
		product *= masks(len(m.NUMANodes))
	}
	for _, devices := range m.Devices {
		hosts := map[int64]bool{}
		for _, device := range devices {
			for _, id := range device.NUMAIDs {
				hosts[id] = true
			}
		}
		if len(hosts) > 0 {
			product *= masks(min(len(hosts), len(m.NUMANodes)))
		}
	}
	return product
}

func sortedNames(in map[string][]record.Device) []string {
	names := make([]string, 0, len(in))
	for name := range in {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
