package hollow

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// The annotation keys that steer hollow pods and nodes.
const (
	// RunSecondsAnnotation on a pod: it succeeds after so many seconds.
	RunSecondsAnnotation = "hollow.numa-admission/run-seconds"
	// UnhealthyAnnotation on a Node: JSON {resource: [device id]}, those are ill.
	UnhealthyAnnotation = "hollow.numa-admission/unhealthy"
	// UnpluggedAnnotation on a Node: JSON [resource], their plugins list no device.
	UnpluggedAnnotation = "hollow.numa-admission/unplugged"
	// BootAnnotation on a Node: each new value is a reboot of the machine.
	BootAnnotation = "hollow.numa-admission/boot"
)

// rejected is the status of rejectPod in the kubelet.
func rejected(reason, message string) v1.PodStatus {
	return v1.PodStatus{Phase: v1.PodFailed, Reason: reason, Message: "Pod was rejected: " + message, StartTime: now()}
}

// running is the status of a pod whose init containers are done and whose other
// containers are ready.
func running(pod *v1.Pod, hostIP, podIP string) v1.PodStatus {
	started := now()
	status := v1.PodStatus{
		Phase: v1.PodRunning, StartTime: started,
		HostIP: hostIP, HostIPs: []v1.HostIP{{IP: hostIP}}, PodIP: podIP, PodIPs: []v1.PodIP{{IP: podIP}},
	}
	for _, kind := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady} {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: *started})
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		state := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: *started, FinishedAt: *started}}
		if podutil.IsRestartableInitContainer(container) {
			state = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: *started}}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(pod, container, state, true))
	}
	for i := range pod.Spec.Containers {
		state := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: *started}}
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(pod, &pod.Spec.Containers[i], state, true))
	}
	return status
}

// restarted is the status of a pod whose machine has been rebooted so many times.
func restarted(pod *v1.Pod, ip string, boots int32) v1.PodStatus {
	status := running(pod, ip, ip)
	for i := range status.ContainerStatuses {
		status.ContainerStatuses[i].RestartCount = boots
	}
	return status
}

// ended is the status of a pod whose containers have all exited with the code.
func ended(pod *v1.Pod, phase v1.PodPhase, reason, message string, exitCode int32) v1.PodStatus {
	finished := now()
	why := "Completed"
	if exitCode != 0 {
		why = "Error"
	}
	status := v1.PodStatus{Phase: phase, Reason: reason, Message: message}
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		status.Conditions = append(status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: *finished})
	}
	for i := range pod.Spec.Containers {
		state := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: exitCode, Reason: why, StartedAt: *finished, FinishedAt: *finished}}
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(pod, &pod.Spec.Containers[i], state, false))
	}
	return status
}

func containerStatus(pod *v1.Pod, container *v1.Container, state v1.ContainerState, ready bool) v1.ContainerStatus {
	started := state.Running != nil
	return v1.ContainerStatus{
		Name: container.Name, Image: container.Image, ImageID: "hollow://" + container.Image,
		ContainerID: "hollow://" + string(pod.UID) + "/" + container.Name,
		Ready:       ready, Started: &started, State: state,
		AllocatedResources: container.Resources.Requests, Resources: container.Resources.DeepCopy(),
	}
}

func now() *metav1.Time {
	t := metav1.NewTime(time.Now().Truncate(time.Second))
	return &t
}
