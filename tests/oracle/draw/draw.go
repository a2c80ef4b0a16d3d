// Package draw makes up machines and sequences of pods. Every case has its own
// random source, so that case K of a seed is the same whatever is drawn around it.
package draw

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"numa-admission/oracle/record"
)

// dice is a random source with the few throws that the drawing needs.
type dice struct{ *rand.Rand }

// chance is true in percent of the throws.
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
	shape, known := shapes[profile]
	if !known {
		return nil, fmt.Errorf("unknown profile %q", profile)
	}
	hash := fnv.New64a()
	hash.Write([]byte(profile))
	d := dice{rand.New(rand.NewPCG(seed, hash.Sum64()^uint64(number)*0x9e3779b97f4a7c15))}
	c := &record.Case{ID: fmt.Sprintf("%s-%d-%06d", profile, seed, number)}
	c.Machine = drawMachine(d, shape)
	c.Steps = drawSteps(d, shape, &c.Machine)
	return c, nil
}

// shape bounds what a profile draws.
type shape struct {
	numaNodes      []int // drawn from, so repeat what shall be frequent
	coresPerNUMA   [2]int
	threads        []int
	maxCPUs        int
	odd            int // percent of machines with gaps, lopsided or empty NUMA nodes
	resources      []int
	devices        [2]int
	eightGPUs      bool
	memoryStatic   int // percent
	podLevel       int // percent of pods with spec.resources
	podLevelGate   int // percent of machines with gate PodLevelResourceManagers
	steps          [2]int
	badConfigs     int // percent of machines that may refuse to start
	maxHintProduct int // bounds the kubelet's full enumeration of hint combinations
}

var shapes = map[string]shape{
	"small": {
		numaNodes: []int{1, 2, 2, 2, 2, 3, 4, 4}, coresPerNUMA: [2]int{1, 6}, threads: []int{1, 2, 2}, maxCPUs: 48, odd: 8,
		resources: []int{0, 1, 1, 1, 2, 2, 3}, devices: [2]int{1, 8}, memoryStatic: 15, podLevel: 4, steps: [2]int{2, 10},
		badConfigs: 2, maxHintProduct: 4000,
	},
	"wild": {
		numaNodes: []int{1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10}, coresPerNUMA: [2]int{1, 12}, threads: []int{1, 2, 2, 4}, maxCPUs: 160, odd: 30,
		resources: []int{0, 1, 1, 2, 2, 3, 4}, devices: [2]int{0, 12}, memoryStatic: 25, podLevel: 8, steps: [2]int{3, 14},
		badConfigs: 5, maxHintProduct: 20000,
	},
	"gpu8": {
		numaNodes: []int{2, 2, 2, 2, 4, 4, 8}, coresPerNUMA: [2]int{4, 48}, threads: []int{1, 2, 2}, maxCPUs: 192, odd: 5,
		resources: []int{1, 1, 2, 2, 3}, devices: [2]int{4, 8}, eightGPUs: true, memoryStatic: 8, podLevel: 4, steps: [2]int{4, 16},
		badConfigs: 1, maxHintProduct: 66000,
	},
	"podlevel": {
		numaNodes: []int{1, 2, 2, 2, 4}, coresPerNUMA: [2]int{1, 6}, threads: []int{1, 2, 2}, maxCPUs: 48, odd: 8,
		resources: []int{0, 1, 1, 2}, devices: [2]int{1, 8}, memoryStatic: 35, podLevel: 60, podLevelGate: 70, steps: [2]int{2, 10},
		badConfigs: 1, maxHintProduct: 4000,
	},
}
