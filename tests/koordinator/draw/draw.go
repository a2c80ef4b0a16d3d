// Package draw makes up machines, pods and bare hints. Every case has its own
// random source, so that case K of a seed is the same whatever is drawn around it.
package draw

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"numa-admission/koordinator/record"
)

const gi = int64(1) << 30

type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

// between returns a number of low..high, both included.
func (d dice) between(low, high int) int {
	if high <= low {
		return low
	}
	return low + d.IntN(high-low+1)
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// Case draws case number of a seed.
func Case(seed uint64, number int, profile string) (*record.Case, error) {
	hash := fnv.New64a()
	hash.Write([]byte(profile))
	d := dice{rand.New(rand.NewPCG(seed, hash.Sum64()^uint64(number)*0x9e3779b97f4a7c15))}
	c := &record.Case{ID: fmt.Sprintf("%s-%d-%06d", profile, seed, number), Koordinator: record.Version}
	if profile == "merge" {
		c.Merge = drawMerge(d)
		return c, nil
	}
	shape, known := shapes[profile]
	if !known {
		return nil, fmt.Errorf("unknown profile %q", profile)
	}
	c.Machine = drawMachine(d, shape)
	c.Steps = drawSteps(d, shape, c.Machine)
	return c, nil
}

// shape bounds what a profile draws.
type shape struct {
	numaNodes []int // drawn from, so repeat what shall be frequent
	cores     [2]int
	maxCPUs   int
	eightGPUs bool
	odd       int // percent of machines with uneven NUMA nodes or unknown homes of devices
	steps     [2]int
}

var shapes = map[string]shape{
	"small": {numaNodes: []int{1, 2, 2, 2, 3, 3, 4, 4}, cores: [2]int{1, 6}, maxCPUs: 48, odd: 30, steps: [2]int{3, 10}},
	"gpu8":  {numaNodes: []int{2, 2, 2, 4, 4, 8}, cores: [2]int{4, 32}, maxCPUs: 128, eightGPUs: true, odd: 5, steps: [2]int{4, 12}},
}

func drawMachine(d dice, s shape) *record.Machine {
	m := &record.Machine{NUMAScoring: pick(d, "LeastAllocated", "LeastAllocated", "MostAllocated")}
	odd := d.chance(s.odd)
	count, threads := pick(d, s.numaNodes...), pick(d, 1, 2, 2)
	cores := d.between(s.cores[0], min(s.cores[1], max(1, s.maxCPUs/threads/count)))
	perSocket := pick(d, 1, count, max(1, count/2))
	numbering := pick(d, "block", "adjacent")
	memory := int64(d.between(4, 64)) * gi
	total := 0
	coresOf := make([]int, count)
	for i := range coresOf {
		coresOf[i] = cores
		if odd && d.chance(40) {
			coresOf[i] = d.between(1, cores)
		}
		total += coresOf[i]
	}
	next := 0
	for i := range count {
		node := record.NUMANode{MemoryBytes: memory}
		if odd && d.chance(30) {
			node.MemoryBytes = int64(d.between(0, 16))*gi + int64(d.IntN(4096))
		}
		for range coresOf[i] {
			core := record.Core{SocketID: i / perSocket}
			for t := range threads {
				id := next*threads + t
				if numbering == "block" {
					id = t*total + next
				}
				core.CPUIDs = append(core.CPUIDs, id)
			}
			next++
			node.Cores = append(node.Cores, core)
		}
		m.NUMANodes = append(m.NUMANodes, node)
	}
	if d.chance(50) { // whole cores of the first NUMA node, or a single CPU
		for _, core := range m.NUMANodes[0].Cores[:d.between(1, max(1, coresOf[0]/4))] {
			m.ReservedCPUIDs = append(m.ReservedCPUIDs, core.CPUIDs...)
		}
		if odd && d.chance(30) {
			m.ReservedCPUIDs = m.ReservedCPUIDs[:1]
		}
	}
	m.FullPCPUsOnly = threads > 1 && d.chance(20)
	m.NodePolicy = pick(d, "", "", "", "", "SingleNUMANode", "Restricted", "BestEffort")
	m.GPUs = drawDevices(d, count, s.eightGPUs, odd, pick(d, 0, 1, 2, 4, 4, 6))
	m.RDMA = drawDevices(d, count, s.eightGPUs && d.chance(60), odd, pick(d, 0, 0, 0, 1, 2, 4))
	return m
}

func drawDevices(d dice, numaNodes int, eight, odd bool, count int) []record.Device {
	if eight {
		count = 8
	}
	var devices []record.Device
	for i := range count {
		home := i * numaNodes / count
		if odd && d.chance(40) {
			home = d.IntN(numaNodes)
		}
		if odd && d.chance(10) {
			home = -1
		}
		devices = append(devices, record.Device{NUMA: home, Healthy: !d.chance(4)})
	}
	return devices
}

func drawSteps(d dice, s shape, m *record.Machine) []record.Step {
	var steps []record.Step
	var uids []string
	for i := range d.between(s.steps[0], s.steps[1]) {
		if len(uids) > 0 && d.chance(20) {
			at := d.IntN(len(uids))
			steps = append(steps, record.Step{Remove: uids[at]})
			uids = append(uids[:at], uids[at+1:]...)
			continue
		}
		pod := drawPod(d, m, fmt.Sprintf("p%d", i))
		steps = append(steps, record.Step{Pod: pod})
		if pod.Policy == "" && m.NodePolicy == "" && pod.CPUMillicores > 0 {
			// Koordinator's books of NUMA nodes do not know the CPUs of a bound pod without a policy.
			steps = append(steps, record.Step{Remove: pod.UID})
			continue
		}
		uids = append(uids, pod.UID)
	}
	return steps
}

func drawPod(d dice, m *record.Machine, uid string) *record.Pod {
	p := &record.Pod{UID: uid, Binding: pick(d, "cpus", "cpus", "cpus", "whole cores", "none")}
	cpus, threads := 0, len(m.NUMANodes[0].Cores[0].CPUIDs)
	for _, node := range m.NUMANodes {
		cpus += len(node.Cores) * threads
	}
	p.Policy = pick(d, "SingleNUMANode", "SingleNUMANode", "Restricted", "Restricted", "BestEffort", "")
	if m.NodePolicy != "" && d.chance(80) {
		p.Policy = pick(d, "", m.NodePolicy)
	}
	p.Exclusive = pick(d, "", "", "Required", "Preferred")
	policy := p.Policy
	if policy == "" {
		policy = m.NodePolicy
	}
	if !d.chance(12) {
		asked := d.between(1, max(1, pick(d, cpus/6, cpus/3, cpus/len(m.NUMANodes), cpus, cpus+2)))
		if d.chance(60) {
			asked = (asked + threads - 1) / threads * threads
		}
		p.CPUMillicores = int64(asked) * 1000
		if d.chance(4) {
			p.CPUMillicores -= 500
		}
	}
	if len(m.GPUs) > 0 && d.chance(70) {
		p.GPUs = int64(d.between(1, max(1, pick(d, 1, 2, 4, len(m.GPUs), len(m.GPUs)+1))))
	}
	// On many NUMA nodes the scheduler's own enumeration of combinations takes seconds with more resources.
	wide := len(m.NUMANodes) > 4 && policy != "SingleNUMANode"
	if len(m.RDMA) > 0 && d.chance(35) && !(wide && p.GPUs > 0) {
		p.RDMA = int64(d.between(1, pick(d, 1, 2, len(m.RDMA))))
	}
	if d.chance(35) && !wide {
		p.MemoryBytes = int64(d.between(1, 24)) * gi
		if d.chance(10) {
			p.MemoryBytes += int64(d.IntN(4096))
		}
	}
	if wide && policy == "BestEffort" && p.CPUMillicores > 0 {
		p.GPUs, p.RDMA = 0, 0
	}
	if p.CPUMillicores+p.MemoryBytes+p.GPUs+p.RDMA == 0 {
		p.CPUMillicores = 1000 * int64(threads)
	}
	return p
}

func drawMerge(d dice) *record.Merge {
	m := &record.Merge{
		NUMANodes: pick(d, 1, 2, 2, 3, 3, 4), Policy: pick(d, "BestEffort", "Restricted", "SingleNUMANode"),
		Exclusive: pick(d, "", "Required", "Required", "Preferred"),
	}
	for range m.NUMANodes {
		m.Status = append(m.Status, pick(d, "idle", "idle", "single", "shared"))
	}
	for _, resource := range []string{"cpu", "memory", "gpu"}[:d.between(1, 3)] {
		m.Hints = append(m.Hints, record.ResourceHints{Resource: resource, Hints: drawHints(d, m.NUMANodes)})
	}
	return m
}

func drawHints(d dice, numaNodes int) []record.Hint {
	if d.chance(8) {
		return nil
	}
	hints := []record.Hint{}
	if d.chance(5) {
		return hints
	}
	keep := d.between(30, 100)
	for _, numa := range subsets(numaNodes) {
		if d.chance(keep) {
			hints = append(hints, record.Hint{NUMA: numa, Preferred: d.chance(60), Score: int64(pick(d, 0, 0, 50, 77, 500))})
		}
	}
	if d.chance(5) {
		hints = append(hints, record.Hint{Preferred: d.chance(50)})
	}
	return hints
}

// subsets lists the sets of NUMA nodes in the order in which Koordinator tries them.
func subsets(numaNodes int) [][]int {
	var found [][]int
	var extend func(from int, have []int, size int)
	extend = func(from int, have []int, size int) {
		if len(have) == size {
			found = append(found, append([]int{}, have...))
			return
		}
		for i := from; i < numaNodes; i++ {
			extend(i+1, append(have, i), size)
		}
	}
	for size := 1; size <= numaNodes; size++ {
		extend(0, nil, size)
	}
	return found
}
