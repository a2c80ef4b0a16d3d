// Package kubelet runs the kubelet's own admission code outside a kubelet: the
// allocation manager's order of handlers over the real topology, device, CPU and
// memory managers, on a machine that exists only as a value.
package kubelet

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	versionutil "k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/cpuset"

	"numa-admission/oracle/record"
)

// Kubelet is the admission side of one node. It is not safe for concurrent use.
type Kubelet struct {
	ctx     context.Context
	logger  klog.Logger
	machine *record.Machine
	info    *cadvisorapi.MachineInfo

	topology   topologymanager.Manager
	devices    *devicemanager.ManagerImpl
	cpus       cpumanager.Manager
	memory     memorymanager.Manager
	allocation allocation.Manager

	plugins map[string][]record.Device // what each plugin said last
	node    *v1.Node
	pods    []*v1.Pod // active, in the order of arrival
	folder  string    // removed by Close
	reserve cpuset.CPUSet
}

// Options choose how a Kubelet is built.
type Options struct {
	// RealStart starts the managers as the kubelet does (files, a socket,
	// goroutines that never end) instead of setting their state in memory.
	RealStart bool
	// Node is the Node object that the fit predicate sees; nil makes one.
	Node *v1.Node
}

// New returns the kubelet of a machine, or the error with which the real one
// would refuse to start.
func New(machine *record.Machine, options Options) (*Kubelet, error) {
	logger := logr.Discard()
	k := &Kubelet{
		ctx:     klog.NewContext(context.Background(), logger),
		logger:  logger,
		machine: machine,
		info:    machineInfo(machine),
		plugins: maps.Clone(machine.Devices),
		node:    options.Node,
	}
	if err := setGates(machine.Kubelet.FeatureGates); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "kubelet-oracle-")
	if err != nil {
		return nil, fmt.Errorf("make the kubelet's folder: %w", err)
	}
	k.folder = folder
	if err := k.build(options.RealStart); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// build follows NewContainerManager and NewMainKubelet, step by step.
func (k *Kubelet) build(realStart bool) error {
	cfg := &k.machine.Kubelet
	var err error
	k.topology, err = topologymanager.NewManager(k.logger, k.info.Topology, cfg.TopologyManagerPolicy, cfg.TopologyManagerScope, cfg.TopologyManagerPolicyOptions)
	if err != nil {
		return err
	}
	k.devices, err = newDeviceManager(k.logger, filepath.Join(k.folder, "kubelet.sock"), k.info.Topology, k.topology)
	if err != nil {
		return err
	}
	k.topology.AddHintProvider(k.logger, k.devices)

	reservation := k.reservation()
	k.cpus, err = cpumanager.NewManager(k.logger, cfg.CPUManagerPolicy, cfg.CPUManagerPolicyOptions, time.Duration(math.MaxInt64), k.info,
		cpuset.New(cfg.ReservedSystemCPUIDs...), reservation, k.folder, k.topology)
	if err != nil {
		return err
	}
	k.topology.AddHintProvider(k.logger, k.cpus)

	var reserved []kubeletconfig.MemoryReservation
	for _, r := range cfg.ReservedMemory {
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: r.NUMAID, Limits: v1.ResourceList{v1.ResourceMemory: bytes(r.MemoryBytes)}})
	}
	k.memory, err = memorymanager.NewManager(k.logger, cfg.MemoryManagerPolicy, k.info, reservation, reserved, k.folder, k.topology)
	if err != nil {
		return err
	}
	k.topology.AddHintProvider(k.logger, k.memory)

	if cfg.NoReservedCPUs {
		k.reserveNothing()
	}
	if realStart {
		err = k.start()
	} else {
		err = k.startInMemory()
	}
	if err != nil {
		return err
	}
	k.describe()
	for _, resource := range sortedKeys(k.machine.Devices) {
		if err := connect(k.ctx, k.devices, resource, k.machine.Devices[resource]); err != nil {
			return err
		}
	}
	k.refreshNode()
	return k.addHandlers()
}

// addHandlers keeps the kubelet's order. Left out, because nothing here can make
// them refuse: resize, eviction, sysctl, AppArmor, node shutdown.
func (k *Kubelet) addHandlers() error {
	ready := config.NewSourcesReady(func(_ sourceSet) bool { return true })
	k.allocation = allocation.NewInMemoryManager(k.logger, nil, nil, k.active, k.podByUID, ready, nil)
	version, err := versionutil.Parse(record.KubeletVersion)
	if err != nil {
		return err
	}
	framework := ndf.DefaultFramework
	declared := framework.DiscoverNodeFeatures(&ndf.NodeConfiguration{FeatureGates: gateAdapter{}, Version: version})
	k.node.Status.DeclaredFeatures = declared
	k.allocation.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{
		k.topology,
		lifecycle.NewPredicateAdmitHandler(k.nodeForPredicate, lifecycle.NewAdmissionFailureHandlerStub(), k.updatePluginResources),
		lifecycle.NewPodFeaturesAdmitHandler(),
		lifecycle.NewDeclaredFeaturesAdmitHandler(framework, framework.MustMapSorted(declared), version),
	})
	return nil
}

// Admit judges a pod as HandlePodAdditions does; an admitted pod stays active.
func (k *Kubelet) Admit(pod *v1.Pod) (admitted bool, reason, message string) {
	k.pods = append(k.pods, pod)
	admitted, reason, message = k.allocation.AddPod(k.ctx, k.active(), pod)
	if !admitted {
		k.pods = k.pods[:len(k.pods)-1]
	}
	return admitted, reason, message
}

// Readmit judges an active pod anew, as a kubelet does when its machine has been
// rebooted: what the managers wrote down of the pod outlives the boot, so it keeps
// its place where its devices are there. A pod that is refused is not active any more.
func (k *Kubelet) Readmit(uid string) (admitted bool, reason, message string) {
	at := slices.IndexFunc(k.pods, func(pod *v1.Pod) bool { return string(pod.UID) == uid })
	if at < 0 {
		return false, "", "the pod is not active"
	}
	pod := k.pods[at]
	k.pods = slices.Delete(slices.Clone(k.pods), at, at+1)
	return k.Admit(pod)
}

// Remove makes a pod inactive (deleted or terminal). What it held comes back at
// the next admission, by the managers' own removal of stale state. It reports
// whether the pod was active.
func (k *Kubelet) Remove(uid string) bool {
	at := slices.IndexFunc(k.pods, func(pod *v1.Pod) bool { return string(pod.UID) == uid })
	if at < 0 {
		return false
	}
	for _, name := range containerNames(k.pods[at]) {
		_ = k.topology.RemoveContainer(k.logger, uid+"/"+name) // as PostStopContainer does
	}
	k.pods = slices.Delete(slices.Clone(k.pods), at, at+1)
	k.allocation.RemovePod(k.logger, types.UID(uid))
	return true
}

// Start tells the managers that every container of an active pod has started, in
// order, as PreStartContainer does: the memory of finished init containers is
// freed. It reports whether the pod was active.
func (k *Kubelet) Start(uid string) bool {
	pod, found := k.podByUID(types.UID(uid))
	if !found {
		return false
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			id := uid + "/" + list[i].Name
			k.cpus.AddContainer(k.logger, pod, &list[i], id)
			k.memory.AddContainer(k.logger, pod, &list[i], id)
			k.topology.AddContainer(k.logger, pod, &list[i], id)
		}
	}
	return true
}

// SetDevices replaces a plugin's list of devices and, at once, the Node's amounts.
func (k *Kubelet) SetDevices(resource string, devices []record.Device) error {
	if _, known := k.machine.Devices[resource]; !known {
		return fmt.Errorf("no plugin of this machine serves %s", resource)
	}
	k.plugins[resource] = devices
	announce(k.ctx, k.devices, resource, devices)
	k.refreshNode()
	return nil
}

// Close removes what the kubelet wrote.
func (k *Kubelet) Close() {
	_ = os.RemoveAll(k.folder)
}

func (k *Kubelet) active() []*v1.Pod { return slices.Clone(k.pods) }

func (k *Kubelet) podByUID(uid types.UID) (*v1.Pod, bool) {
	for _, pod := range k.pods {
		if pod.UID == uid {
			return pod, true
		}
	}
	return nil, false
}

func (k *Kubelet) nodeForPredicate(context.Context, bool) (*v1.Node, error) { return k.node, nil }

func (k *Kubelet) updatePluginResources(info *schedulerframework.NodeInfo, attributes *lifecycle.PodAdmitAttributes) error {
	return k.devices.UpdatePluginResources(info, attributes)
}
