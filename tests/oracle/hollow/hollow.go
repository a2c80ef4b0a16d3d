// Package hollow plays nodes against an API server: each has the kubelet's own
// admission code and nothing that runs.
package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

// Options are the flags of the hollow command.
type Options struct {
	Kubeconfig    string
	Machines      []string      // files of classes
	Nodes         int           // 0: the counts of the files
	StopDelay     time.Duration // from the delete of a running pod until it has stopped
	LeaseDuration time.Duration // 0: no leases
	Events        bool          // a Warning event per refused pod
	LogAll        bool          // a line per admission, not only per refusal
	Topologies    bool          // write NodeResourceTopology objects
	TopologyDelay time.Duration
	DeleteNodes   bool // at the end
}

// fleet is all hollow kubelets of the process.
type fleet struct {
	options Options
	client  kubernetes.Interface
	tally   *tally
	report  *reporter
	workers map[string]*worker
}

// Run plays nodes until SIGTERM or SIGINT. It writes JSON lines to out: ready,
// refused, at SIGUSR1 and at the end metrics.
func Run(options Options, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	began := time.Now()
	classes, err := readClasses(options.Machines)
	if err != nil {
		return err
	}
	spread(classes, options.Nodes)
	f, err := newFleet(options, out)
	if err != nil {
		return err
	}
	if err := f.build(classes); err != nil {
		return err
	}
	if err := f.registerAll(ctx); err != nil {
		return err
	}
	if err := f.follow(ctx); err != nil {
		return err
	}
	f.tally.say(map[string]any{"event": "ready", "nodes": len(f.workers), "seconds": time.Since(began).Seconds()})

	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for {
		select {
		case <-asked:
			f.tally.metrics()
		case <-ctx.Done():
			f.tally.metrics()
			f.leave()
			return nil
		}
	}
}

func newFleet(options Options, out io.Writer) (*fleet, error) {
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.UserAgent = -1, "kubelet-oracle-hollow"
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	typed := rest.CopyConfig(config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, err
	}
	return &fleet{
		options: options, client: client, workers: map[string]*worker{},
		tally:  &tally{out: out, all: options.LogAll, refused: map[string]int{}},
		report: &reporter{client: dynamicClient, delay: options.TopologyDelay, timers: map[string]*time.Timer{}, newest: map[string]*unstructured.Unstructured{}},
	}, nil
}

// build makes the kubelets one after another: feature gates are process-wide.
func (f *fleet) build(classes []Class) error {
	for i := range classes {
		class := &classes[i]
		for n := range class.Count {
			machine := &record.Machine{}
			if err := deepCopy(class.Machine, machine); err != nil {
				return err
			}
			name := fmt.Sprintf("%s-%d", class.Name, n)
			k, err := kubelet.New(machine, kubelet.Options{Node: nodeObject(class, name)})
			if err != nil {
				return fmt.Errorf("the kubelet of class %s refuses to start: %w", class.Name, err)
			}
			number := len(f.workers)
			w := &worker{
				name: name, machine: machine, kubelet: k, api: &api{client: f.client}, tally: f.tally, options: f.options,
				ip: fmt.Sprintf("10.%d.%d.1", 64+number/256, number%256), wakeUp: make(chan struct{}, 1), pods: map[types.UID]*pod{},
			}
			w.changed = func() {}
			if f.options.Topologies {
				w.changed = func() { f.report.changed(name, func() { w.push(event{report: true}) }) }
			}
			w.reporter = f.report
			f.workers[name] = w
		}
	}
	f.tally.nodes = len(f.workers)
	return nil
}

// registerAll creates the Nodes, a few at a time.
func (f *fleet) registerAll(ctx context.Context) error {
	slots, failures := make(chan struct{}, 16), make(chan error, len(f.workers))
	var all sync.WaitGroup
	for _, w := range f.workers {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := register(ctx, f.client, w.kubelet.Node()); err != nil {
				failures <- err
				return
			}
			if f.options.LeaseDuration > 0 {
				go keepLease(ctx, f.client, w.name, f.options.LeaseDuration)
			}
		})
	}
	all.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// follow starts the workers and two watches for all of them, and returns when both are synced.
func (f *fleet) follow(ctx context.Context) error {
	for _, w := range f.workers {
		go w.run(ctx)
		w.changed()
	}
	bound := cache.NewFilteredListWatchFromClient(f.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	})
	_, pods := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: bound, ObjectType: &v1.Pod{}, Handler: f.podHandler(), Transform: slim})
	nodes := cache.NewListWatchFromClient(f.client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll, fields.Everything())
	_, own := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: nodes, ObjectType: &v1.Node{}, Handler: f.nodeHandler(), Transform: slim})
	go own.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), own.HasSynced) {
		return ctx.Err()
	}
	go pods.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return ctx.Err()
	}
	return nil
}

func (f *fleet) podHandler() cache.ResourceEventHandler {
	seen := func(object any) {
		if pod, ok := object.(*v1.Pod); ok && f.workers[pod.Spec.NodeName] != nil {
			f.workers[pod.Spec.NodeName].push(event{seen: pod})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: seen,
		UpdateFunc: func(before, after any) {
			// A pod deleted and made anew under its name while the watch was broken.
			if old, new := before.(*v1.Pod), after.(*v1.Pod); old.UID != new.UID && f.workers[old.Spec.NodeName] != nil {
				f.workers[old.Spec.NodeName].push(event{gone: old.UID})
			}
			seen(after)
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*v1.Pod); ok && f.workers[pod.Spec.NodeName] != nil {
				f.workers[pod.Spec.NodeName].push(event{gone: pod.UID})
			}
		},
	}
}

func (f *fleet) nodeHandler() cache.ResourceEventHandler {
	seen := func(object any) {
		if node, ok := object.(*v1.Node); ok && f.workers[node.Name] != nil {
			f.workers[node.Name].push(event{node: node})
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, after any) { seen(after) }}
}

// leave removes the kubelets' folders and, if asked, the Nodes.
func (f *fleet) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for name, w := range f.workers {
		w.kubelet.Close()
		if f.options.DeleteNodes {
			_ = f.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
}

// slim drops what no hollow kubelet reads.
func slim(object any) (any, error) {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func deepCopy(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
