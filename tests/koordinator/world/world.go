// Package world runs two plugins of Koordinator's scheduler, NodeNUMAResource and
// DeviceShare, with its topology manager, on one node that exists only as a value.
package world

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	nrtfake "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned/fake"
	nrtinformers "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/informers/externalversions"
	schedulingv1alpha1 "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	koordfake "github.com/koordinator-sh/koordinator/pkg/client/clientset/versioned/fake"
	koordinformers "github.com/koordinator-sh/koordinator/pkg/client/informers/externalversions"
	schedulingconfig "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config"
	configv1 "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config/v1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/schedulingphase"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/frameworkext/topologymanager"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/nodenumaresource"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	fwktype "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"numa-admission/koordinator/record"
)

const nodeName = "node"

// World is a scheduler with one node.
type World struct {
	handle  *handle
	numa    *nodenumaresource.Plugin
	devices *deviceshare.Plugin
	cache   *deviceCache
	held    map[string]reserved
}

type reserved struct {
	pod   *corev1.Pod
	state fwktype.CycleState
}

// New starts the plugins with Koordinator's defaults and the given numaScoringStrategy.
func New(numaScoring string) (*World, error) {
	ctx := context.Background()
	// The fake clients list, and do not send the bookmarks that a listing watch waits for.
	if err := utilfeature.DefaultMutableFeatureGate.Set("WatchListClient=false"); err != nil {
		return nil, err
	}
	// The node stands in the API too: DeviceShare forgets the devices of nodes that do not.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	h := &handle{
		core:        informers.NewSharedInformerFactory(kubefake.NewSimpleClientset(node), 0),
		koordinator: koordinformers.NewSharedInformerFactory(koordfake.NewSimpleClientset(), 0),
		topologies:  nrtinformers.NewSharedInformerFactory(nrtfake.NewSimpleClientset(), 0),
	}
	h.topology = topologymanager.New(h)

	var numaDefaults configv1.NodeNUMAResourceArgs
	configv1.SetDefaults_NodeNUMAResourceArgs(&numaDefaults)
	numaDefaults.NUMAScoringStrategy.Type = configv1.ScoringStrategyType(numaScoring)
	var numaArgs schedulingconfig.NodeNUMAResourceArgs
	if err := configv1.Convert_v1_NodeNUMAResourceArgs_To_config_NodeNUMAResourceArgs(&numaDefaults, &numaArgs, nil); err != nil {
		return nil, err
	}
	var deviceDefaults configv1.DeviceShareArgs
	configv1.SetDefaults_DeviceShareArgs(&deviceDefaults)
	var deviceArgs schedulingconfig.DeviceShareArgs
	if err := configv1.Convert_v1_DeviceShareArgs_To_config_DeviceShareArgs(&deviceDefaults, &deviceArgs, nil); err != nil {
		return nil, err
	}
	numa, err := nodenumaresource.New(ctx, &numaArgs, h)
	if err != nil {
		return nil, err
	}
	devices, err := deviceshare.New(ctx, &deviceArgs, h)
	if err != nil {
		return nil, err
	}
	w := &World{handle: h, numa: numa.(*nodenumaresource.Plugin), devices: devices.(*deviceshare.Plugin)}
	w.cache = deviceCacheOf(w.devices)
	h.hintProvider = []topologymanager.NUMATopologyHintProvider{w.numa, w.devices}
	return w, nil
}

// Judge answers every step of a case.
func (w *World) Judge(c *record.Case) {
	w.enter(c.Machine)
	for i := range c.Steps {
		step := &c.Steps[i]
		if step.Pod == nil {
			w.release(step.Remove)
			continue
		}
		pod := podOf(step.Pod)
		step.Answers = nil
		for range repeats(c.Machine, step.Pod) {
			w.release(step.Pod.UID)
			answer := w.schedule(pod)
			step.Answers = slices.DeleteFunc(step.Answers, func(have record.Answer) bool { return reflect.DeepEqual(have, answer) })
			step.Answers = append(step.Answers, answer)
		}
	}
	for uid := range w.held {
		w.release(uid)
	}
}

// repeats is how often a pod is asked for: an answer can hang on the order of a
// Go map where hints are merged that not everybody prefers, and in which of two
// device types is named first.
func repeats(machine *record.Machine, pod *record.Pod) int {
	if pod.Policy == "BestEffort" || pod.Policy == "" && machine.NodePolicy == "BestEffort" || pod.GPUs > 0 && pod.RDMA > 0 {
		return 6
	}
	return 1
}

// enter puts the plugins before another machine.
func (w *World) enter(m *record.Machine) {
	node := nodeOf(m)
	info := framework.NewNodeInfo()
	info.SetNode(node)
	w.handle.nodes = info
	w.held = map[string]reserved{}
	options := nodenumaresource.NewTopologyOptions(topologyOf(m))
	w.numa.GetTopologyOptionsManager().UpdateTopologyOptions(nodeName, func(have *nodenumaresource.TopologyOptions) { *have = options })
	removeNodeDevice(w.cache, nodeName)
	if device := deviceOf(m); device != nil {
		updateNodeDevice(w.cache, nodeName, device)
	}
}

func (w *World) release(uid string) {
	if held, is := w.held[uid]; is {
		w.devices.Unreserve(context.Background(), held.state, held.pod, nodeName)
		w.numa.Unreserve(context.Background(), held.state, held.pod, nodeName)
		delete(w.held, uid)
	}
}

// schedule runs the cycle of one pod as far as the choice of CPUs and devices, in
// the order of Koordinator's own configuration.
func (w *World) schedule(pod *corev1.Pod) record.Answer {
	ctx, state := context.Background(), framework.NewCycleState()
	stage := func(name string, statuses ...func() *fwktype.Status) *record.Answer {
		for _, status := range statuses {
			if got := status(); !got.IsSuccess() && !got.IsSkip() {
				return &record.Answer{Stage: name, Reasons: sorted(got)}
			}
		}
		return nil
	}
	refused := stage("prefilter",
		func() *fwktype.Status { _, status := w.numa.PreFilter(ctx, state, pod, nil); return status },
		func() *fwktype.Status { _, status := w.devices.PreFilter(ctx, state, pod, nil); return status })
	if refused == nil {
		refused = stage("filter",
			func() *fwktype.Status { return w.numa.Filter(ctx, state, pod, w.handle.nodes) },
			func() *fwktype.Status { return w.devices.Filter(ctx, state, pod, w.handle.nodes) })
	}
	if refused == nil {
		schedulingphase.RecordPhase(state, schedulingphase.Reserve)
		refused = stage("reserve",
			func() *fwktype.Status { return w.numa.Reserve(ctx, state, pod, nodeName) },
			func() *fwktype.Status { return w.devices.Reserve(ctx, state, pod, nodeName) })
		schedulingphase.RecordPhase(state, "")
		if refused != nil {
			w.devices.Unreserve(ctx, state, pod, nodeName)
			w.numa.Unreserve(ctx, state, pod, nodeName)
		}
	}
	if refused != nil {
		return *refused
	}
	w.held[string(pod.UID)] = reserved{pod: pod, state: state}
	return w.given(pod, state)
}

func sorted(status *fwktype.Status) []string {
	reasons := slices.Clone(status.Reasons())
	slices.Sort(reasons)
	return reasons
}

// given reads from the plugins' books what the pod got.
func (w *World) given(pod *corev1.Pod, state fwktype.CycleState) record.Answer {
	answer := record.Answer{Admit: true}
	if affinity, chosen := topologymanager.GetStore(state).GetAffinity(nodeName); chosen && affinity.NUMANodeAffinity != nil {
		answer.NUMA = affinity.NUMANodeAffinity.GetBits()
	}
	if cpus, bound := w.numa.GetResourceManager().GetAllocatedCPUSet(nodeName, pod.UID); bound {
		answer.CPUIDs = cpus.ToSlice()
	}
	zones, _ := w.numa.GetResourceManager().GetAllocatedNUMAResource(nodeName, pod.UID)
	for numa, resources := range zones {
		answer.Zones = append(answer.Zones, record.Zone{
			NUMA: numa, CPUMillicores: resources.Cpu().MilliValue(), MemoryBytes: resources.Memory().Value(),
		})
	}
	slices.SortFunc(answer.Zones, func(a, b record.Zone) int { return a.NUMA - b.NUMA })
	if summary, known := getNodeDeviceSummary(w.cache, nodeName); known {
		minors := func(kind schedulingv1alpha1.DeviceType) (found []int) {
			for minor := range summary.AllocateSet[kind][fmt.Sprintf("%s/%s", pod.Namespace, pod.Name)] {
				found = append(found, minor)
			}
			slices.Sort(found)
			return found
		}
		answer.GPUs, answer.RDMA = minors(schedulingv1alpha1.GPU), minors(schedulingv1alpha1.RDMA)
	}
	return answer
}
