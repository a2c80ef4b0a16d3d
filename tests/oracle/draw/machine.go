package draw

import (
	"strconv"

	"numa-admission/oracle/record"
)

const gi = int64(1) << 30

func drawMachine(d dice, s shape) record.Machine {
	m := record.Machine{Devices: map[string][]record.Device{}, MaxPods: int64(pick(d, 110, 110, 110, 110, 2, 3, 5))}
	odd := d.chance(s.odd)
	drawTopology(d, s, &m, odd)
	drawDistances(d, &m)
	drawKubelet(d, s, &m)
	drawDevices(d, s, &m, odd)
	return m
}

// drawTopology lays out NUMA nodes, sockets, cores and CPU ids.
func drawTopology(d dice, s shape, m *record.Machine, odd bool) {
	count := pick(d, s.numaNodes...)
	threads := pick(d, s.threads...)
	cores := d.between(s.coresPerNUMA[0], min(s.coresPerNUMA[1], max(1, s.maxCPUs/threads/count)))
	perSocket := pick(d, 1, 1, count, max(1, count/2))
	memory := uint64(d.between(4, 64)) * uint64(gi)
	numbering := pick(d, "block", "block", "adjacent", "striped")

	coresOf := make([]int, count)
	total := 0
	for i := range coresOf {
		coresOf[i] = cores
		if odd && d.chance(40) {
			coresOf[i] = d.between(1, cores)
		}
		if odd && count > 1 && i > 0 && d.chance(8) {
			coresOf[i] = 0 // a node of memory only
		}
		total += coresOf[i]
	}
	id, next := 0, 0
	for i := range count {
		if odd && d.chance(15) {
			id++ // ids with a gap
		}
		node := record.NUMANode{ID: id, Cores: []record.Core{}, MemoryBytes: memory}
		if odd && d.chance(30) {
			node.MemoryBytes = uint64(d.between(1, 64))*uint64(gi) + uint64(d.IntN(4096))*4096
		}
		id++
		for c := range coresOf[i] {
			core := record.Core{SocketID: i / perSocket}
			if odd && perSocket == count && count == 1 && d.chance(20) {
				core.SocketID = c % 2 // one NUMA node over two sockets
			}
			for t := range threads {
				core.CPUIDs = append(core.CPUIDs, cpuID(numbering, next, t, threads, total, i, c, count, cores, odd))
			}
			next++
			node.Cores = append(node.Cores, core)
		}
		m.NUMANodes = append(m.NUMANodes, node)
	}
}

// cpuID numbers CPUs in one of the ways that firmware does.
func cpuID(numbering string, core, thread, threads, cores, numa, inNUMA, numaCount, perNUMA int, odd bool) int {
	switch {
	case numbering == "adjacent": // siblings side by side
		return core*threads + thread
	case numbering == "striped" && !odd: // consecutive ids go round the NUMA nodes
		return thread*numaCount*perNUMA + inNUMA*numaCount + numa
	default: // all first threads, then all siblings
		return thread*cores + core
	}
}

func drawDistances(d dice, m *record.Machine) {
	count := len(m.NUMANodes)
	style := pick(d, "flat", "pairs", "random", "lopsided")
	matrix := make([][]uint64, count)
	for i := range matrix {
		matrix[i] = make([]uint64, count)
		for j := range matrix[i] {
			switch {
			case i == j:
				matrix[i][j] = 10
			case style == "flat":
				matrix[i][j] = 20
			case style == "pairs" && i/2 == j/2:
				matrix[i][j] = 12
			case style == "pairs":
				matrix[i][j] = 32
			case style == "random" && j < i:
				matrix[i][j] = matrix[j][i]
			default:
				matrix[i][j] = uint64(d.between(11, 40))
			}
		}
		m.NUMANodes[i].Distances = matrix[i]
	}
}

func cpuCount(m *record.Machine) (cpus int, perNUMA []int) {
	for _, node := range m.NUMANodes {
		here := 0
		for _, core := range node.Cores {
			here += len(core.CPUIDs)
		}
		cpus += here
		perNUMA = append(perNUMA, here)
	}
	return cpus, perNUMA
}

func drawKubelet(d dice, s shape, m *record.Machine) {
	k := &m.Kubelet
	k.TopologyManagerPolicy = pick(d, "none", "best-effort", "best-effort", "restricted", "restricted", "restricted", "single-numa-node", "single-numa-node", "single-numa-node")
	k.TopologyManagerScope = pick(d, "container", "container", "pod")
	k.CPUManagerPolicy = pick(d, "static", "static", "static", "static", "static", "none")
	k.MemoryManagerPolicy = "None"
	bad := d.chance(s.badConfigs)
	drawTopologyOptions(d, m, bad)
	drawReserved(d, m)
	if k.CPUManagerPolicy == "static" {
		drawCPUOptions(d, m, bad)
	}
	drawMemoryManager(d, s, m)
	if d.chance(s.podLevelGate) {
		k.FeatureGates = map[string]bool{"PodLevelResourceManagers": true}
	}
}

func drawTopologyOptions(d dice, m *record.Machine, bad bool) {
	k := &m.Kubelet
	options := map[string]string{}
	gaps := m.NUMANodes[len(m.NUMANodes)-1].ID != len(m.NUMANodes)-1
	if d.chance(25) && !gaps { // with a gap the kubelet would index past the distances
		options["prefer-closest-numa-nodes"] = pick(d, "true", "true", "true", "false")
	}
	if len(m.NUMANodes) > 8 && k.TopologyManagerPolicy != "none" && !bad {
		options["max-allowable-numa-nodes"] = strconv.Itoa(d.between(len(m.NUMANodes), 16))
	} else if d.chance(5) {
		options["max-allowable-numa-nodes"] = strconv.Itoa(d.between(8, 16))
	}
	if len(options) > 0 {
		k.TopologyManagerPolicyOptions = options
	}
}

func drawCPUOptions(d dice, m *record.Machine, bad bool) {
	k := &m.Kubelet
	options := map[string]string{}
	add := func(name string, percent int) {
		if d.chance(percent) {
			options[name] = pick(d, "true", "true", "true", "true", "false")
		}
	}
	add("full-pcpus-only", 30)
	add("strict-cpu-reservation", 20)
	add("distribute-cpus-across-numa", 15)
	if k.TopologyManagerPolicy != "single-numa-node" && k.TopologyManagerPolicy != "none" || bad {
		add("align-by-socket", 12)
	}
	if bad || options["full-pcpus-only"] == "" && options["distribute-cpus-across-numa"] == "" {
		add("distribute-cpus-across-cores", 6)
	}
	if len(options) > 0 {
		k.CPUManagerPolicyOptions = options
	}
}

// drawReserved reserves CPUs by name or by amount; the static policy needs some.
func drawReserved(d dice, m *record.Machine) {
	k := &m.Kubelet
	total, _ := cpuCount(m)
	k.ReservedCPUMillicores = int64(pick(d, 100, 500, 1000, 1000, 1500, 2000, 2500))
	if k.CPUManagerPolicy == "none" && d.chance(40) {
		k.ReservedCPUMillicores = 0
	}
	if k.ReservedCPUMillicores > int64(total)*1000 {
		k.ReservedCPUMillicores = 500
	}
	if !d.chance(60) {
		return
	}
	chosen := []int{}
	style := pick(d, "some", "first of each NUMA node", "a core of each NUMA node", "first core")
	for i, node := range m.NUMANodes {
		for c, core := range node.Cores {
			switch {
			case style == "some" && d.chance(12):
				chosen = append(chosen, pick(d, core.CPUIDs...))
			case style == "first of each NUMA node" && c == 0:
				chosen = append(chosen, core.CPUIDs[0])
			case style == "a core of each NUMA node" && c == 0, style == "first core" && c == 0 && i == 0:
				chosen = append(chosen, core.CPUIDs...)
			}
		}
	}
	if len(chosen) < total || d.chance(5) {
		k.ReservedSystemCPUIDs = chosen
	}
}

func drawMemoryManager(d dice, s shape, m *record.Machine) {
	k := &m.Kubelet
	if d.chance(50) {
		k.ReservedMemoryBytes = int64(d.between(1, 1024)) << 20
	}
	if len(m.NUMANodes) > 4 || !d.chance(s.memoryStatic) {
		return
	}
	k.MemoryManagerPolicy = "Static"
	k.ReservedMemoryBytes = 0
	for i, node := range m.NUMANodes {
		if i > 0 && !d.chance(40) {
			continue
		}
		amount := int64(d.between(1, 1024)) << 20
		k.ReservedMemory = append(k.ReservedMemory, record.NUMAMemory{NUMAID: int32(node.ID), MemoryBytes: amount})
		k.ReservedMemoryBytes += amount
	}
}
