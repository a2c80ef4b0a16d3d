package kubelet

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the API's own defaulting
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"

	"numa-admission/oracle/record"
)

// Stored returns the pod as the API server would store it (its own defaulting
// and PrepareForCreate), fills Effective and QOS of the record, and returns what
// the API server's validation says against it.
func Stored(ctx context.Context, in *record.Pod) (*v1.Pod, []string, error) {
	pod, err := written(in)
	if err != nil {
		return nil, []string{err.Error()}, nil
	}
	legacyscheme.Scheme.Default(pod)
	internal := &api.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return nil, nil, fmt.Errorf("pod %s to the internal version: %w", in.UID, err)
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	var faults []string
	for _, fault := range podregistry.Strategy.Validate(ctx, internal) {
		faults = append(faults, fault.Error())
	}
	slices.Sort(faults) // the API's validation walks maps
	stored := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, stored, nil); err != nil {
		return nil, nil, fmt.Errorf("pod %s to v1: %w", in.UID, err)
	}
	Describe(stored, in)
	return stored, faults, nil
}

// Describe fills the effective amounts and the QoS class of the record from the stored pod.
func Describe(stored *v1.Pod, out *record.Pod) {
	byName := map[string]*v1.ResourceRequirements{}
	for i := range stored.Spec.InitContainers {
		byName[stored.Spec.InitContainers[i].Name] = &stored.Spec.InitContainers[i].Resources
	}
	for i := range stored.Spec.Containers {
		byName[stored.Spec.Containers[i].Name] = &stored.Spec.Containers[i].Resources
	}
	for i := range out.Containers {
		out.Containers[i].Effective = effective(byName[out.Containers[i].Name])
	}
	out.Effective = nil
	if stored.Spec.Resources != nil {
		out.Effective = effective(stored.Spec.Resources)
	}
	out.QOS = string(stored.Status.QOSClass)
}

func written(in *record.Pod) (*v1.Pod, error) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: in.UID, Namespace: "default", UID: types.UID(in.UID)},
	}
	always := v1.ContainerRestartPolicyAlways
	for _, c := range in.Containers {
		resources, err := requirements(&c.Given)
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", c.Name, err)
		}
		out := v1.Container{Name: c.Name, Image: "image", Resources: *resources}
		switch c.Kind {
		case record.KindInit:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, out)
		case record.KindSidecar:
			out.RestartPolicy = &always
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, out)
		case record.KindApp:
			pod.Spec.Containers = append(pod.Spec.Containers, out)
		default:
			return nil, fmt.Errorf("container %s: kind %q is not one of init, sidecar, app", c.Name, c.Kind)
		}
	}
	if in.Given != nil {
		resources, err := requirements(in.Given)
		if err != nil {
			return nil, fmt.Errorf("spec.resources: %w", err)
		}
		pod.Spec.Resources = resources
	}
	return pod, nil
}

func requirements(in *record.Given) (*v1.ResourceRequirements, error) {
	requests, err := quantities(in.Requests)
	if err != nil {
		return nil, err
	}
	limits, err := quantities(in.Limits)
	if err != nil {
		return nil, err
	}
	return &v1.ResourceRequirements{Requests: requests, Limits: limits}, nil
}

func quantities(in map[string]string) (v1.ResourceList, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := v1.ResourceList{}
	for name, text := range in {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, text, err)
		}
		out[v1.ResourceName(name)] = quantity
	}
	return out, nil
}

func effective(in *v1.ResourceRequirements) *record.Effective {
	if in == nil {
		return nil
	}
	return &record.Effective{Requests: amounts(in.Requests), Limits: amounts(in.Limits)}
}

func amounts(in v1.ResourceList) record.Amounts {
	out := record.Amounts{}
	for name, quantity := range in {
		switch name {
		case v1.ResourceCPU:
			value := quantity.MilliValue()
			out.CPUMillicores = &value
		case v1.ResourceMemory:
			value := quantity.Value()
			out.MemoryBytes = &value
		default:
			if out.Other == nil {
				out.Other = map[string]int64{}
			}
			out.Other[string(name)] = quantity.Value()
		}
	}
	return out
}
