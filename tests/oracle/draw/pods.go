package draw

import (
	"fmt"
	"strconv"

	"numa-admission/oracle/record"
)

// wardrobe dresses pods for one machine: sizes are drawn around what it has.
type wardrobe struct {
	d         dice
	s         shape
	m         *record.Machine
	cpus      int
	perNUMA   []int
	threads   int
	memory    int64
	resources []string
}

func newWardrobe(d dice, s shape, m *record.Machine) wardrobe {
	w := wardrobe{d: d, s: s, m: m, resources: sortedNames(m.Devices), threads: 1}
	w.cpus, w.perNUMA = cpuCount(m)
	for _, node := range m.NUMANodes {
		w.memory += int64(node.MemoryBytes)
		for _, core := range node.Cores {
			w.threads = max(w.threads, len(core.CPUIDs))
		}
	}
	return w
}

func (w wardrobe) pod(uid string) *record.Pod {
	d := w.d
	pod := &record.Pod{UID: uid}
	style := pick(d, "guaranteed", "guaranteed", "guaranteed", "guaranteed", "mixed", "mixed", "burstable", "best-effort", "chaos")
	var kinds []string
	for d.chance(22) && len(kinds) < 4 {
		kinds = append(kinds, pick(d, record.KindInit, record.KindInit, record.KindSidecar))
	}
	inits := len(kinds)
	for range pick(d, 1, 1, 1, 1, 2, 2, 3) {
		kinds = append(kinds, record.KindApp)
	}
	podLevel := d.chance(w.s.podLevel)
	for i, kind := range kinds {
		name := fmt.Sprintf("c%d", i)
		if i < inits {
			name = fmt.Sprintf("i%d", i)
		}
		c := record.Container{Name: name, Kind: kind}
		if !podLevel || d.chance(60) {
			c.Given = w.resourcesOf(style, podLevel)
		}
		w.askDevices(&c.Given, style)
		pod.Containers = append(pod.Containers, c)
	}
	if podLevel {
		pod.Given = w.podLevel(pod)
	}
	return pod
}

func (w wardrobe) resourcesOf(style string, small bool) record.Given {
	d := w.d
	if style == "chaos" {
		style = pick(d, "guaranteed", "mixed", "burstable", "best-effort")
	}
	cpu := strconv.Itoa(w.cores())
	if small {
		cpu = strconv.Itoa(d.between(1, 3))
	}
	memory := w.memoryText()
	switch style {
	case "best-effort":
		return record.Given{}
	case "burstable":
		return pick(d,
			record.Given{Requests: map[string]string{"cpu": cpu, "memory": memory}},
			record.Given{Requests: map[string]string{"cpu": w.fraction(), "memory": "64Mi"}, Limits: map[string]string{"cpu": strconv.Itoa(w.cpus + 1), "memory": "512Gi"}},
			record.Given{Requests: map[string]string{"cpu": cpu}, Limits: map[string]string{"cpu": cpu}},
			record.Given{Requests: map[string]string{"memory": memory}, Limits: map[string]string{"memory": memory}},
		)
	case "mixed":
		if d.chance(50) {
			cpu = w.fraction()
		}
	}
	if d.chance(20) && cpu[len(cpu)-1] != 'm' && len(cpu) < 3 {
		cpu += "000m"
	}
	amounts := map[string]string{"cpu": cpu, "memory": memory}
	if d.chance(60) { // requests are left to the API's defaulting
		return record.Given{Limits: amounts}
	}
	requests := map[string]string{"cpu": cpu, "memory": memory}
	return record.Given{Requests: requests, Limits: amounts}
}

// cores draws a whole number: small, about a NUMA node, about the machine, or more.
func (w wardrobe) cores() int {
	d := w.d
	numa := pick(d, w.perNUMA...)
	n := pick(d,
		d.between(1, 4), d.between(1, 4), d.between(1, max(1, numa)), d.between(1, max(1, numa)),
		numa/2, numa, numa-1, numa+1, numa-w.threads, numa+w.threads,
		d.between(1, w.cpus), w.cpus-d.between(0, 2), w.cpus+1,
	)
	if d.chance(40) {
		n -= n % w.threads
	}
	return max(1, n)
}

func (w wardrobe) fraction() string {
	return pick(w.d, "100m", "250m", "500m", "0.5", "1500m", "2.5", "1100m", "999m")
}

func (w wardrobe) memoryText() string {
	d := w.d
	if w.m.Kubelet.MemoryManagerPolicy != "Static" {
		if d.chance(2) {
			return strconv.FormatInt(w.memory+1, 10)
		}
		return pick(d, "64Mi", "128Mi", "256Mi", "1Gi", "100M")
	}
	node := int64(pick(d, w.m.NUMANodes...).MemoryBytes)
	bytes := pick(d, int64(256)<<20, gi, node/4, node/2, node*3/4, node, node*5/4, w.memory/2, w.memory)
	return strconv.FormatInt(max(1<<20, bytes), 10)
}

// askDevices adds devices; any QoS class may ask for them.
func (w wardrobe) askDevices(given *record.Given, style string) {
	d := w.d
	for _, resource := range w.resources {
		ask := 45
		if style == "best-effort" {
			ask = 65
		}
		if !d.chance(ask) {
			continue
		}
		have := len(w.m.Devices[resource])
		count := pick(d, 1, 1, 1, 2, 2, d.between(1, max(1, have)), have/2, have, have+1)
		if d.chance(5) {
			count = 0
		}
		w.add(given, resource, strconv.Itoa(count))
	}
	if d.chance(2) {
		w.add(given, "example.com/unheard-of", "1")
	}
}

func (w wardrobe) add(given *record.Given, resource, count string) {
	if given.Limits == nil {
		given.Limits = map[string]string{}
	}
	given.Limits[resource] = count
	if w.d.chance(50) {
		if given.Requests == nil {
			given.Requests = map[string]string{}
		}
		given.Requests[resource] = count
	}
}

// podLevel draws spec.resources; some do not cover the containers, which the API refuses.
func (w wardrobe) podLevel(pod *record.Pod) *record.Given {
	d := w.d
	cpu := strconv.Itoa(d.between(2, max(2, min(w.cpus, 12))))
	memory := pick(d, "1Gi", "2Gi", "4Gi")
	if w.m.Kubelet.MemoryManagerPolicy == "Static" {
		memory = strconv.FormatInt(pick(d, w.memory/4, w.memory/2, w.memory), 10)
	}
	switch d.IntN(5) {
	case 0:
		return &record.Given{Limits: map[string]string{"cpu": cpu, "memory": memory}}
	case 1:
		return &record.Given{Requests: map[string]string{"cpu": cpu, "memory": memory}}
	case 2:
		return &record.Given{Requests: map[string]string{"cpu": cpu}}
	default:
		return &record.Given{Requests: map[string]string{"cpu": cpu, "memory": memory}, Limits: map[string]string{"cpu": cpu, "memory": memory}}
	}
}
