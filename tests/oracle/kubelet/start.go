package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/errors"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

type sourceSet = sets.Set[string]

// startInMemory does what the managers' Start does, without their files, socket
// and goroutines. `--real-start` and a test compare the two.
func (k *Kubelet) startInMemory() error {
	cpus := cpustate.NewMemoryState(k.logger)
	setField(k.cpus, "state", cpus)
	setField(k.cpus, "activePods", cpumanager.ActivePodsFunc(k.active))
	setField(k.cpus, "containerMap", containermap.NewContainerMap())
	policy := getField[cpumanager.Policy](k.cpus, "policy")
	if err := policy.Start(k.logger, cpus); err != nil {
		return err
	}
	setField(k.cpus, "allocatableCPUs", policy.GetAllocatableCPUs(cpus))

	memory := memorystate.NewMemoryState(k.logger)
	setField(k.memory, "state", memory)
	setField(k.memory, "activePods", memorymanager.ActivePodsFunc(k.active))
	setField(k.memory, "containerMap", containermap.NewContainerMap())
	memoryPolicy := getField[memorymanager.Policy](k.memory, "policy")
	if err := memoryPolicy.Start(k.logger, memory); err != nil {
		return err
	}
	setField(k.memory, "allocatableMemory", memoryPolicy.GetAllocatableMemory(memory))

	setField(k.devices, "activePods", devicemanager.ActivePodsFunc(k.active))
	setField(k.devices, "containerMap", containermap.NewContainerMap())
	setField(k.devices, "checkpointManager", checkpointmanager.CheckpointManager(noCheckpoints{}))
	return nil
}

// start starts the managers as containerManagerImpl.Start does.
func (k *Kubelet) start() error {
	ready := config.NewSourcesReady(func(sourceSet) bool { return true })
	ctx, containers := k.ctx, containermap.NewContainerMap()
	if err := k.cpus.Start(ctx, k.active, ready, noStatus{}, noRuntime{}, containers.Clone()); err != nil {
		return err
	}
	if err := k.memory.Start(ctx, k.active, ready, noStatus{}, noRuntime{}, containers.Clone()); err != nil {
		return err
	}
	return k.devices.Start(k.logger, k.active, ready, containers.Clone(), sets.New[string]())
}

// noCheckpoints keeps the device manager from writing a file per allocation.
type noCheckpoints struct{}

func (noCheckpoints) CreateCheckpoint(string, checkpointmanager.Checkpoint) error { return nil }
func (noCheckpoints) GetCheckpoint(string, checkpointmanager.Checkpoint) error {
	return errors.ErrCheckpointNotFound
}
func (noCheckpoints) RemoveCheckpoint(string) error      { return nil }
func (noCheckpoints) ListCheckpoints() ([]string, error) { return nil, nil }

// noStatus and noRuntime stand where only the reconciliation of running containers looks.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

type noRuntime struct{}

func (noRuntime) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}
