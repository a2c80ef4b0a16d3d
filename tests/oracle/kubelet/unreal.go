package kubelet

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// Hold puts the node into a state that no kubelet would be asked for by name: an
// active pod that holds exactly these CPUs and devices. Hand-written cases need it.
func (k *Kubelet) Hold(uid string, cpuIDs []int, devices map[string][]string) (*v1.Pod, error) {
	amounts := v1.ResourceList{}
	if len(cpuIDs) > 0 {
		amounts[v1.ResourceCPU] = *resource.NewQuantity(int64(len(cpuIDs)), resource.DecimalSI)
	}
	for name, ids := range devices {
		amounts[v1.ResourceName(name)] = *resource.NewQuantity(int64(len(ids)), resource.DecimalSI)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)}}
	pod.Spec.Containers = []v1.Container{{Name: "holder", Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}
	k.pods = append(k.pods, pod)

	if len(cpuIDs) > 0 {
		state := getField[cpustate.State](k.cpus, "state")
		wanted := cpuset.New(cpuIDs...)
		if !wanted.IsSubsetOf(state.GetDefaultCPUSet()) {
			return nil, fmt.Errorf("pod %s cannot hold CPUs %s: free are %s", uid, wanted, state.GetDefaultCPUSet())
		}
		state.SetCPUSet(uid, "holder", wanted)
		state.SetDefaultCPUSet(state.GetDefaultCPUSet().Difference(wanted))
	}
	if err := k.holdDevices(pod, devices); err != nil {
		return nil, err
	}
	return pod, k.allocation.SetAllocatedResources(k.logger, pod)
}

// holdDevices lets only the wanted devices look healthy while the device manager allocates.
func (k *Kubelet) holdDevices(pod *v1.Pod, devices map[string][]string) error {
	for name, ids := range devices {
		said, known := k.plugins[name]
		if !known {
			return fmt.Errorf("no plugin of this machine serves %s", name)
		}
		only := slices.Clone(said)
		for i := range only {
			only[i].Healthy = slices.Contains(ids, only[i].ID)
		}
		announce(k.ctx, k.devices, name, only)
	}
	err := k.devices.Allocate(k.ctx, pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
	for name := range devices {
		announce(k.ctx, k.devices, name, k.plugins[name])
	}
	return err
}

// reserveNothing makes a static policy that keeps no CPU back.
func (k *Kubelet) reserveNothing() {
	if k.machine.Kubelet.CPUManagerPolicy != string(cpumanager.PolicyStatic) {
		return
	}
	policy := getField[cpumanager.Policy](k.cpus, "policy")
	setField(policy, "reservedCPUs", cpuset.New())
	setField(policy, "reservedPhysicalCPUs", cpuset.New())
}
