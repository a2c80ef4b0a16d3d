package kubelet

import (
	"fmt"
	"reflect"
	"unsafe"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// newDeviceManager is the kubelet's own constructor with the socket's path free:
// the exported one always makes a folder under /var/lib/kubelet.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(logger klog.Logger, socketPath string, topology []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

// setField writes an unexported field of the struct that object points to. It
// stands in for the managers' Start, which leaves goroutines and files behind.
func setField(object any, name string, value any) {
	field := fieldOf(object, name)
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

// getField reads an unexported field of the struct that object points to.
func getField[T any](object any, name string) T {
	field := fieldOf(object, name)
	value, ok := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(T)
	if !ok {
		panic(fmt.Sprintf("%T.%s is a %s, not what this program was written for", object, name, field.Type()))
	}
	return value
}

func fieldOf(object any, name string) reflect.Value {
	field := reflect.ValueOf(object).Elem().FieldByName(name)
	if !field.IsValid() {
		panic(fmt.Sprintf("%T has no field %s: the kubelet's code has changed", object, name))
	}
	return field
}
