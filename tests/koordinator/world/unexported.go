package world

import (
	"fmt"
	"reflect"
	"unsafe"

	schedulingv1alpha1 "github.com/koordinator-sh/koordinator/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare"
)

// deviceCache stands for deviceshare.nodeDeviceCache, which is not exported. Its
// handlers are what the plugin's own informers call.
type deviceCache struct{}

//go:linkname updateNodeDevice github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare.(*nodeDeviceCache).updateNodeDevice
func updateNodeDevice(cache *deviceCache, nodeName string, device *schedulingv1alpha1.Device)

//go:linkname removeNodeDevice github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare.(*nodeDeviceCache).removeNodeDevice
func removeNodeDevice(cache *deviceCache, nodeName string)

//go:linkname getNodeDeviceSummary github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/deviceshare.(*nodeDeviceCache).getNodeDeviceSummary
func getNodeDeviceSummary(cache *deviceCache, nodeName string) (*deviceshare.NodeDeviceSummary, bool)

func deviceCacheOf(plugin *deviceshare.Plugin) *deviceCache {
	field := reflect.ValueOf(plugin).Elem().FieldByName("nodeDeviceCache")
	if !field.IsValid() {
		panic(fmt.Sprintf("%T has no field nodeDeviceCache: Koordinator's code has changed", plugin))
	}
	return (*deviceCache)(unsafe.Pointer(field.Pointer()))
}
