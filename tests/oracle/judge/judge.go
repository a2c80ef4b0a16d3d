// Package judge plays the steps of a case on the kubelet's own code and writes
// down the answers.
package judge

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

// Case fills the verdicts of a case in place. An error means that the case makes
// no sense, not that a pod was refused.
func Case(c *record.Case, options kubelet.Options) error {
	c.KubeletVersion = record.KubeletVersion
	c.RefusedToStart = ""
	for i := range c.Steps {
		forget(&c.Steps[i])
	}
	k, err := kubelet.New(&c.Machine, options)
	if err != nil {
		c.RefusedToStart = err.Error()
		return nil
	}
	defer k.Close()
	pods := map[string]*v1.Pod{}
	for i := range c.Steps {
		step := &c.Steps[i]
		uid, err := play(k, step, pods)
		if err != nil {
			return fmt.Errorf("case %s, step %d: %w", c.ID, i, err)
		}
		if pod := pods[uid]; pod != nil && step.Op != record.OpRemove {
			step.Got = k.Got(pod)
		}
		step.ActivePodUIDs = k.ActiveUIDs()
		step.SharedCPUIDs = k.SharedCPUs()
	}
	return nil
}

func play(k *kubelet.Kubelet, step *record.Step, pods map[string]*v1.Pod) (string, error) {
	switch step.Op {
	case record.OpAdmit:
		if step.Pod == nil {
			return "", fmt.Errorf("op admit without a pod")
		}
		if pods[step.Pod.UID] != nil {
			return "", fmt.Errorf("pod %s arrives twice", step.Pod.UID)
		}
		pod, faults, err := kubelet.Stored(context.Background(), step.Pod)
		if err != nil {
			return "", err
		}
		if len(faults) > 0 {
			step.Verdict = &record.Verdict{APIErrors: faults}
			return "", nil
		}
		pods[step.Pod.UID] = pod
		verdict := &record.Verdict{}
		verdict.Admit, verdict.Reason, verdict.Message = k.Admit(pod)
		step.Verdict = verdict
		return step.Pod.UID, nil
	case record.OpHold:
		if pods[step.PodUID] != nil {
			return "", fmt.Errorf("pod %s arrives twice", step.PodUID)
		}
		pod, err := k.Hold(step.PodUID, step.HoldCPUIDs, step.HoldDevices)
		pods[step.PodUID] = pod
		return step.PodUID, err
	case record.OpRemove:
		k.Remove(step.PodUID)
		return step.PodUID, nil
	case record.OpStart:
		k.Start(step.PodUID)
		return step.PodUID, nil
	case record.OpDevices:
		return "", k.SetDevices(step.Resource, step.Devices)
	}
	return "", fmt.Errorf("unknown op %q", step.Op)
}

func forget(step *record.Step) {
	step.Verdict, step.Got, step.ActivePodUIDs, step.SharedCPUIDs = nil, nil, nil, nil
}
