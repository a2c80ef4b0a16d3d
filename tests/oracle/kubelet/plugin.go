package kubelet

import (
	"context"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"

	"numa-admission/oracle/record"
)

// plugin is a device plugin in memory: it grants whatever it is asked for and
// has no preference among devices.
type plugin struct {
	pluginapi.DevicePluginClient

	resource string
}

func (p *plugin) API() pluginapi.DevicePluginClient { return p }
func (p *plugin) Resource() string                  { return p.resource }
func (p *plugin) SocketPath() string                { return "/in-memory/" + p.resource }

func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *plugin) Allocate(_ context.Context, in *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	out := &pluginapi.AllocateResponse{}
	for range in.ContainerRequests {
		out.ContainerResponses = append(out.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return out, nil
}

func connect(ctx context.Context, manager *devicemanager.ManagerImpl, resource string, devices []record.Device) error {
	if err := manager.PluginConnected(ctx, resource, &plugin{resource: resource}); err != nil {
		return err
	}
	announce(ctx, manager, resource, devices)
	return nil
}

// announce sends the plugin's full list of devices, as ListAndWatch does.
func announce(ctx context.Context, manager *devicemanager.ManagerImpl, resource string, devices []record.Device) {
	response := &pluginapi.ListAndWatchResponse{}
	for _, device := range devices {
		out := &pluginapi.Device{ID: device.ID, Health: pluginapi.Unhealthy}
		if device.Healthy {
			out.Health = pluginapi.Healthy
		}
		if len(device.NUMAIDs) > 0 {
			out.Topology = &pluginapi.TopologyInfo{}
			for _, id := range device.NUMAIDs {
				out.Topology.Nodes = append(out.Topology.Nodes, &pluginapi.NUMANode{ID: id})
			}
		}
		response.Devices = append(response.Devices, out)
	}
	manager.PluginListAndWatchReceiver(klog.FromContext(ctx), resource, response)
}
