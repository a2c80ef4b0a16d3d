package hollow

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"numa-admission/oracle/record"
)

// nodeObject is the Node as its kubelet would register it, without amounts.
func nodeObject(class *Class, name string) *v1.Node {
	labels := map[string]string{
		v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
		"hollow.numa-admission/class": class.Name,
	}
	for key, value := range class.Labels {
		labels[key] = value
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	node.Spec.Taints = class.Taints
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}, {Type: v1.NodeHostName, Address: name}}
	node.Status.NodeInfo = v1.NodeSystemInfo{
		KubeletVersion: record.KubeletVersion, OperatingSystem: "linux", Architecture: "amd64",
		ContainerRuntimeVersion: "hollow://1", MachineID: name, SystemUUID: name, BootID: name,
	}
	return node
}

func conditions() []v1.NodeCondition {
	t := *now()
	out := []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: t, LastTransitionTime: t}}
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		out = append(out, v1.NodeCondition{Type: kind, Status: v1.ConditionFalse, Reason: "Hollow", LastHeartbeatTime: t, LastTransitionTime: t})
	}
	return out
}

// register creates the Node (an older one of the same name is replaced), Ready,
// and takes off the not-ready taint that the API server's admission puts on.
func register(ctx context.Context, client kubernetes.Interface, node *v1.Node) error {
	nodes := client.CoreV1().Nodes()
	wanted := node.Spec.Taints
	if err := nodes.Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the older node %s: %w", node.Name, err)
	}
	fresh := node.DeepCopy()
	fresh.ObjectMeta = metav1.ObjectMeta{Name: node.Name, Labels: node.Labels}
	fresh.Status.Conditions = conditions()
	stored, err := nodes.Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create node %s: %w", node.Name, err)
	}
	for range 5 { // a controller may write the Node in between
		stored.Spec.Taints = wanted
		_, err = nodes.Update(ctx, stored, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			break
		}
		if stored, err = nodes.Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("take the not-ready taint off node %s: %w", node.Name, err)
	}
	return nil
}

// keepLease renews the node's Lease until the context ends.
func keepLease(ctx context.Context, client kubernetes.Interface, name string, duration time.Duration) error {
	leases := client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(name), LeaseDurationSeconds: ptr.To(int32(duration / time.Second))},
	}
	ticker := time.NewTicker(duration / 4)
	defer ticker.Stop()
	for {
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		stored, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			lease.ResourceVersion = ""
			stored, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			stored, err = leases.Get(ctx, name, metav1.GetOptions{})
		}
		if err == nil {
			lease.ResourceVersion = stored.ResourceVersion
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err())
		case <-ticker.C:
		}
	}
}
