package world

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	nrtv1alpha1 "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha1"
	apiext "github.com/koordinator-sh/koordinator/apis/extension"
	schedulingv1alpha1 "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"numa-admission/koordinator/record"
)

func nodeOf(m *record.Machine) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{}}}
	if m.NodePolicy != "" {
		node.Labels[apiext.LabelNUMATopologyPolicy] = m.NodePolicy
	}
	return node
}

// topologyOf is the report that koordlet would write of the machine.
func topologyOf(m *record.Machine) *nrtv1alpha1.NodeResourceTopology {
	report := &nrtv1alpha1.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Annotations: map[string]string{}}}
	topology := apiext.CPUTopology{}
	for id, node := range m.NUMANodes {
		count := int64(0)
		for _, core := range node.Cores {
			for _, cpu := range core.CPUIDs {
				topology.Detail = append(topology.Detail, apiext.CPUInfo{
					ID: int32(cpu), Core: int32(core.CPUIDs[0]), Socket: int32(core.SocketID), Node: int32(id),
				})
				count++
			}
		}
		zone := nrtv1alpha1.Zone{Name: fmt.Sprintf("node-%d", id), Type: "Node"}
		for _, one := range []struct {
			name   string
			amount resource.Quantity
		}{
			{"cpu", *resource.NewQuantity(count, resource.DecimalSI)},
			{"memory", *resource.NewQuantity(node.MemoryBytes, resource.BinarySI)},
		} {
			zone.Resources = append(zone.Resources, nrtv1alpha1.ResourceInfo{
				Name: one.name, Capacity: one.amount, Allocatable: one.amount, Available: one.amount,
			})
		}
		report.Zones = append(report.Zones, zone)
	}
	report.Annotations[apiext.AnnotationNodeCPUTopology] = inJSON(topology)
	policy := apiext.KubeletCPUManagerPolicy{Policy: apiext.KubeletCPUManagerPolicyStatic, ReservedCPUs: list(m.ReservedCPUIDs)}
	if m.FullPCPUsOnly {
		policy.Options = map[string]string{apiext.KubeletCPUManagerPolicyFullPCPUsOnlyOption: "true"}
	}
	report.Annotations[apiext.AnnotationKubeletCPUManagerPolicy] = inJSON(policy)
	return report
}

// deviceOf is the Device object of the machine; nil where it has no devices. All
// devices of a NUMA node share one PCIe switch: our model does not know switches.
func deviceOf(m *record.Machine) *schedulingv1alpha1.Device {
	if len(m.GPUs)+len(m.RDMA) == 0 {
		return nil
	}
	device := &schedulingv1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	add := func(kind schedulingv1alpha1.DeviceType, devices []record.Device, resources corev1.ResourceList) {
		for index, one := range devices {
			minor := int32(index)
			device.Spec.Devices = append(device.Spec.Devices, schedulingv1alpha1.DeviceInfo{
				Type: kind, Minor: &minor, UUID: fmt.Sprintf("%s-%d", kind, index), Health: one.Healthy, Resources: resources,
				Topology: &schedulingv1alpha1.DeviceTopology{
					SocketID: socketOf(m, one.NUMA), NodeID: int32(one.NUMA), PCIEID: fmt.Sprintf("pcie-%d", one.NUMA),
				},
			})
		}
	}
	add(schedulingv1alpha1.GPU, m.GPUs, corev1.ResourceList{
		apiext.ResourceGPUCore:        *resource.NewQuantity(100, resource.DecimalSI),
		apiext.ResourceGPUMemoryRatio: *resource.NewQuantity(100, resource.DecimalSI),
		apiext.ResourceGPUMemory:      *resource.NewQuantity(80<<30, resource.BinarySI),
	})
	add(schedulingv1alpha1.RDMA, m.RDMA, corev1.ResourceList{apiext.ResourceRDMA: *resource.NewQuantity(100, resource.DecimalSI)})
	return device
}

func socketOf(m *record.Machine, numa int) int32 {
	if numa < 0 || len(m.NUMANodes[numa].Cores) == 0 {
		return -1
	}
	return int32(m.NUMANodes[numa].Cores[0].SocketID)
}

func podOf(p *record.Pod) *corev1.Pod {
	requests := corev1.ResourceList{}
	add := func(name corev1.ResourceName, amount resource.Quantity) {
		if !amount.IsZero() {
			requests[name] = amount
		}
	}
	add(corev1.ResourceCPU, *resource.NewMilliQuantity(p.CPUMillicores, resource.DecimalSI))
	add(corev1.ResourceMemory, *resource.NewQuantity(p.MemoryBytes, resource.BinarySI))
	add(apiext.ResourceNvidiaGPU, *resource.NewQuantity(p.GPUs, resource.DecimalSI))
	add(apiext.ResourceRDMA, *resource.NewQuantity(p.RDMA*100, resource.DecimalSI))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: p.UID, UID: types.UID(p.UID), Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests, Limits: requests}}}},
	}
	if p.Policy != "" || p.Exclusive != "" {
		pod.Annotations[apiext.AnnotationNUMATopologySpec] = inJSON(map[string]string{
			"numaTopologyPolicy": p.Policy, "singleNUMANodeExclusive": p.Exclusive,
		})
	}
	if p.Binding != "none" {
		pod.Labels[apiext.LabelPodQoS] = string(apiext.QoSLSR)
	}
	if p.Binding == "whole cores" {
		pod.Annotations[apiext.AnnotationResourceSpec] = inJSON(map[string]string{"requiredCPUBindPolicy": "FullPCPUs"})
	}
	return pod
}

func inJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // none of these values can fail
	}
	return string(text)
}

func list(cpus []int) string {
	texts := make([]string, len(cpus))
	for i, cpu := range cpus {
		texts[i] = strconv.Itoa(cpu)
	}
	return strings.Join(texts, ",")
}
