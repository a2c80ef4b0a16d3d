package hollow

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

var topologies = schema.GroupVersionResource{Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies"}

// absentRetry is how long to wait for a CRD that is not there.
const absentRetry = 5 * time.Second

// reporter writes a node's NodeResourceTopology in the shape of NFD's
// topology-updater, some time after the last unreported change.
type reporter struct {
	client dynamic.Interface
	delay  time.Duration
	lock   sync.Mutex
	timers map[string]*time.Timer
	newest map[string]*unstructured.Unstructured // present while a write runs
}

// changed asks for a report of the node; look is called on the node's own goroutine.
func (r *reporter) changed(node string, look func()) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.timers[node] != nil {
		return
	}
	r.timers[node] = time.AfterFunc(r.delay, func() {
		r.lock.Lock()
		delete(r.timers, node)
		r.lock.Unlock()
		look()
	})
}

// submit keeps the node's newest object and has it written. One write per node
// runs at a time, so that an older report never lands on a newer one. Where the
// CRD is not there, it tries again some seconds later.
func (r *reporter) submit(ctx context.Context, object *unstructured.Unstructured) {
	node := object.GetName()
	r.lock.Lock()
	defer r.lock.Unlock()
	_, writing := r.newest[node]
	r.newest[node] = object
	if writing {
		return
	}
	go func() {
		for {
			r.lock.Lock()
			next := r.newest[node]
			if next == nil {
				delete(r.newest, node)
				r.lock.Unlock()
				return
			}
			r.newest[node] = nil
			r.lock.Unlock()
			if r.write(ctx, next) {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(absentRetry):
			}
			r.lock.Lock()
			if r.newest[node] == nil {
				r.newest[node] = next
			}
			r.lock.Unlock()
		}
	}()
}

// write stores the object; false says that the CRD is not there.
func (r *reporter) write(ctx context.Context, object *unstructured.Unstructured) bool {
	resource := r.client.Resource(topologies)
	for range 5 {
		old, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = resource.Create(ctx, object, metav1.CreateOptions{})
		case err == nil:
			object.SetResourceVersion(old.GetResourceVersion())
			_, err = resource.Update(ctx, object, metav1.UpdateOptions{})
		}
		if err == nil || ctx.Err() != nil {
			return true
		}
		if apierrors.IsNotFound(err) {
			return false
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			fmt.Fprintf(os.Stderr, "hollow: NodeResourceTopology %s: %v\n", object.GetName(), err)
			return true
		}
		object.SetResourceVersion("")
	}
	return true
}

// topologyObject builds the NodeResourceTopology of a node.
func topologyObject(name string, machine *record.Machine, uses []kubelet.NUMAUse) *unstructured.Unstructured {
	zones := []any{}
	for i, use := range uses {
		costs := []any{}
		for j, other := range uses {
			costs = append(costs, map[string]any{"name": zoneName(other.NUMAID), "value": int64(machine.NUMANodes[i].Distances[j])})
		}
		resources := []any{resourceInfo("cpu", use.CPUs), resourceInfo("memory", use.MemoryBytes)}
		for _, resource := range slices.Sorted(maps.Keys(use.Devices)) {
			resources = append(resources, resourceInfo(resource, use.Devices[resource]))
		}
		zones = append(zones, map[string]any{"name": zoneName(use.NUMAID), "type": "Node", "costs": costs, "resources": resources})
	}
	attribute := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": topologies.GroupVersion().String(), "kind": "NodeResourceTopology",
		"metadata":         map[string]any{"name": name},
		"topologyPolicies": []any{deprecatedPolicy(&machine.Kubelet)},
		"attributes": []any{
			attribute("topologyManagerPolicy", machine.Kubelet.TopologyManagerPolicy),
			attribute("topologyManagerScope", machine.Kubelet.TopologyManagerScope),
		},
		"zones": zones,
	}}
}

func zoneName(id int) string { return "node-" + strconv.Itoa(id) }

func resourceInfo(name string, use kubelet.Use) any {
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	return map[string]any{"name": name, "capacity": text(use.Capacity), "allocatable": text(use.Allocatable), "available": text(use.Available)}
}

// deprecatedPolicy is the one word of the old field for policy and scope.
func deprecatedPolicy(k *record.Kubelet) string {
	level := "ContainerLevel"
	if k.TopologyManagerScope == "pod" {
		level = "PodLevel"
	}
	switch k.TopologyManagerPolicy {
	case "single-numa-node":
		return "SingleNUMANode" + level
	case "restricted":
		return "Restricted" + level
	case "best-effort":
		return "BestEffort" + level
	}
	return "None"
}
