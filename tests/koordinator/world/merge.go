package world

import (
	"fmt"
	"slices"

	apiext "github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	"github.com/koordinator-sh/koordinator/pkg/util/bitmask"

	"numa-admission/koordinator/record"
)

var policies = map[string]func([]int) topologymanager.Policy{
	"BestEffort":     topologymanager.NewBestEffortPolicy,
	"Restricted":     topologymanager.NewRestrictedPolicy,
	"SingleNUMANode": topologymanager.NewSingleNumaNodePolicy,
}

// Merge answers a case of bare hints.
func Merge(m *record.Merge) error {
	create, known := policies[m.Policy]
	if !known {
		return fmt.Errorf("unknown policy %q", m.Policy)
	}
	numaNodes := make([]int, m.NUMANodes)
	for i := range numaNodes {
		numaNodes[i] = i
	}
	var providers []map[string][]topologymanager.NUMATopologyHint
	for _, one := range m.Hints {
		var hints []topologymanager.NUMATopologyHint
		if one.Hints != nil {
			hints = []topologymanager.NUMATopologyHint{}
		}
		for _, hint := range one.Hints {
			made := topologymanager.NUMATopologyHint{Preferred: hint.Preferred, Score: hint.Score}
			if hint.NUMA != nil {
				mask, err := bitmask.NewBitMask(hint.NUMA...)
				if err != nil {
					return err
				}
				made.NUMANodeAffinity = mask
			}
			hints = append(hints, made)
		}
		providers = append(providers, map[string][]topologymanager.NUMATopologyHint{one.Resource: hints})
	}
	status := make([]apiext.NumaNodeStatus, len(m.Status))
	for i, word := range m.Status {
		status[i] = apiext.NumaNodeStatus(word)
	}
	best, admit, reasons := create(numaNodes).Merge(providers, apiext.NumaTopologyExclusive(m.Exclusive), status)
	m.Answer = &record.Merged{Preferred: best.Preferred, Unsatisfied: best.Unsatisfied, Admit: admit, Reasons: slices.Clone(reasons)}
	if best.NUMANodeAffinity != nil {
		m.Answer.NUMA = best.NUMANodeAffinity.GetBits()
	}
	return nil
}
