package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// api writes to the API server; it tries again through restarts of the server.
type api struct {
	client kubernetes.Interface
}

// writeStatus patches a pod's status; a pod of another UID is left alone.
func (a *api) writeStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	a.insist(ctx, "status of pod "+pod.Namespace+"/"+pod.Name, func() error {
		if err != nil {
			return err
		}
		_, err := a.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	})
}

// delete is the kubelet's final delete: grace 0 and the UID as precondition.
func (a *api) delete(ctx context.Context, pod *v1.Pod) {
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	a.insist(ctx, "delete pod "+pod.Namespace+"/"+pod.Name, func() error {
		return a.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	})
}

// warn records the kubelet's Warning event about a refused pod.
func (a *api) warn(ctx context.Context, node string, pod *v1.Pod, reason, message string) {
	t := metav1.Now()
	event := &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", pod.Name, t.UnixNano()), Namespace: pod.Namespace},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Reason:         reason, Message: message, Type: v1.EventTypeWarning, Count: 1, FirstTimestamp: t, LastTimestamp: t,
		Source: v1.EventSource{Component: "kubelet", Host: node}, ReportingController: "kubelet", ReportingInstance: node,
	}
	a.insist(ctx, "event of pod "+pod.Namespace+"/"+pod.Name, func() error {
		_, err := a.client.CoreV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	})
}

// writeNodeStatus patches a Node's amounts.
func (a *api) writeNodeStatus(ctx context.Context, node *v1.Node) {
	body, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable}})
	a.insist(ctx, "status of node "+node.Name, func() error {
		if err != nil {
			return err
		}
		_, err := a.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	})
}

// insist repeats a call until it is answered. The answers "gone", "another UID"
// and "the namespace ends" are final and silent, other refusals are final and told.
func (a *api) insist(ctx context.Context, what string, call func() error) {
	wait := 50 * time.Millisecond
	for {
		err := call()
		switch {
		case err == nil, ctx.Err() != nil, apierrors.IsNotFound(err), apierrors.IsConflict(err),
			apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
			return
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
			fmt.Fprintf(os.Stderr, "hollow: %s: %v\n", what, err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, 2*time.Second)
	}
}
