package world

import (
	"context"
	"fmt"

	nrtinformers "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/informers/externalversions"
	apiext "github.com/koordinator-sh/koordinator/apis/extension"
	koordinformers "github.com/koordinator-sh/koordinator/pkg/client/informers/externalversions"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwktype "k8s.io/kube-scheduler/framework"
)

// handle is the part of the scheduling framework that the two plugins call; any
// other method panics, so that nothing is answered by accident.
type handle struct {
	frameworkext.FrameworkExtender
	nodes        fwktype.NodeInfo
	core         informers.SharedInformerFactory
	koordinator  koordinformers.SharedInformerFactory
	topologies   nrtinformers.SharedInformerFactory
	topology     topologymanager.Interface
	hintProvider []topologymanager.NUMATopologyHintProvider
}

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.core }

func (h *handle) KoordinatorSharedInformerFactory() koordinformers.SharedInformerFactory {
	return h.koordinator
}

func (h *handle) NodeResourceTopologyInformerFactory() nrtinformers.SharedInformerFactory {
	return h.topologies
}

func (h *handle) RegisterForgetPodHandler(frameworkext.ForgetPodHandler) {}

// GetReservationNominator returns one that nominates nothing: there are no reservations.
func (h *handle) GetReservationNominator() frameworkext.ReservationNominator {
	return frameworkext.NewFakeReservationNominator()
}

func (h *handle) GetReservationCache() frameworkext.ReservationCache { return nil }

func (h *handle) GetNUMATopologyHintProvider() []topologymanager.NUMATopologyHintProvider {
	return h.hintProvider
}

// RunNUMATopologyManagerAdmit is the extender's own, word for word.
func (h *handle) RunNUMATopologyManagerAdmit(ctx context.Context, cycleState fwktype.CycleState, pod *corev1.Pod, node *corev1.Node, numaNodes []int, policyType apiext.NUMATopologyPolicy, exclusivePolicy apiext.NumaTopologyExclusive, allNUMANodeStatus []apiext.NumaNodeStatus) *fwktype.Status {
	return h.topology.Admit(ctx, cycleState, pod, node, numaNodes, policyType, exclusivePolicy, allNUMANodeStatus)
}

func (h *handle) SnapshotSharedLister() fwktype.SharedLister { return lister{handle: h} }

// lister knows the one node there is.
type lister struct {
	fwktype.SharedLister
	handle *handle
}

func (l lister) NodeInfos() fwktype.NodeInfoLister { return nodeLister{handle: l.handle} }

type nodeLister struct {
	fwktype.NodeInfoLister
	handle *handle
}

func (l nodeLister) Get(name string) (fwktype.NodeInfo, error) {
	if name != nodeName {
		return nil, fmt.Errorf("there is no node %q", name)
	}
	return l.handle.nodes, nil
}
