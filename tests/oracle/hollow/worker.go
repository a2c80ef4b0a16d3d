package hollow

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

// worker is one hollow kubelet. Everything that touches its state runs on its one
// goroutine; others only push.
type worker struct {
	name    string
	machine *record.Machine
	kubelet *kubelet.Kubelet
	api     *api
	tally   *tally
	options Options
	ip      string
	// changed tells the reporter that what is held has changed.
	changed  func()
	reporter *reporter

	lock   sync.Mutex // guards queue
	queue  []event
	wakeUp chan struct{}

	pods      map[types.UID]*pod
	unhealthy string // the annotation as last applied
	unplugged string // likewise
	boot      string // likewise
}

// event is something for the worker: exactly one field is set.
type event struct {
	seen    *v1.Pod   // added or updated
	gone    types.UID // deleted from the API
	node    *v1.Node  // our Node changed
	expired types.UID // run time or deadline is over
	stopped types.UID // the containers of a deleted pod have stopped
	report  bool      // it is time to write the NodeResourceTopology
}

// pod is what the worker knows of a pod beyond the kubelet's managers.
type pod struct {
	object   *v1.Pod
	admitted bool // active: holds resources
	stopping bool
	ended    bool  // terminal status written
	deadline bool  // the pending timer is activeDeadlineSeconds
	boots    int32 // how often its containers were started anew
	timer    *time.Timer
}

func (w *worker) push(e event) {
	w.lock.Lock()
	w.queue = append(w.queue, e)
	w.lock.Unlock()
	select {
	case w.wakeUp <- struct{}{}:
	default:
	}
}

func (w *worker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wakeUp:
		}
		w.lock.Lock()
		batch := w.queue
		w.queue = nil
		w.lock.Unlock()
		w.handle(ctx, batch)
	}
}

// handle plays a batch. As in HandlePodAdditions, new pods that arrived together
// are admitted by creation time; what else came is played before them.
func (w *worker) handle(ctx context.Context, batch []event) {
	var arrivals []*v1.Pod
	for _, e := range batch {
		switch {
		case e.node != nil:
			w.nodeChanged(ctx, e.node)
		case e.report:
			w.reporter.submit(ctx, topologyObject(w.name, w.machine, w.kubelet.NUMAUse()))
		case e.gone != "":
			arrivals = slices.DeleteFunc(arrivals, func(p *v1.Pod) bool { return p.UID == e.gone })
			w.forget(e.gone)
		case e.expired != "":
			w.expire(ctx, e.expired)
		case e.stopped != "":
			w.remove(ctx, e.stopped)
		case e.seen != nil && w.pods[e.seen.UID] != nil:
			w.update(ctx, e.seen)
		case e.seen != nil:
			if at := slices.IndexFunc(arrivals, func(p *v1.Pod) bool { return p.UID == e.seen.UID }); at >= 0 {
				arrivals[at] = e.seen
			} else {
				arrivals = append(arrivals, e.seen)
			}
		}
	}
	slices.SortStableFunc(arrivals, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, arrival := range arrivals {
		w.arrive(ctx, arrival)
	}
}

// arrive admits a new pod, or refuses it for good.
func (w *worker) arrive(ctx context.Context, object *v1.Pod) {
	known := &pod{object: object}
	w.pods[object.UID] = known
	switch {
	case object.DeletionTimestamp != nil:
		w.remove(ctx, object.UID)
		return
	case podutil.IsPodPhaseTerminal(object.Status.Phase):
		known.ended = true
		return
	}
	admitted, reason, message := w.kubelet.Admit(object)
	w.tally.decided(w.name, object, admitted, reason, message)
	if !admitted {
		known.ended = true
		w.api.writeStatus(ctx, object, rejected(reason, message))
		if w.options.Events {
			w.api.warn(ctx, w.name, object, reason, message)
		}
		return
	}
	known.admitted = true
	w.api.writeStatus(ctx, object, running(object, w.ip, w.ip))
	w.kubelet.Start(string(object.UID))
	w.changed()
	w.startTimer(known)
}

// startTimer arms the shorter of the run time and the deadline.
func (w *worker) startTimer(p *pod) {
	var after time.Duration
	if text, set := p.object.Annotations[RunSecondsAnnotation]; set {
		if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 {
			after = max(time.Millisecond, time.Duration(seconds*float64(time.Second)))
		}
	}
	if limit := p.object.Spec.ActiveDeadlineSeconds; limit != nil {
		if deadline := time.Duration(*limit) * time.Second; after == 0 || deadline < after {
			after, p.deadline = deadline, true
		}
	}
	if after > 0 {
		uid := p.object.UID
		p.timer = time.AfterFunc(after, func() { w.push(event{expired: uid}) })
	}
}

func (w *worker) update(ctx context.Context, object *v1.Pod) {
	known := w.pods[object.UID]
	known.object = object
	if podutil.IsPodPhaseTerminal(object.Status.Phase) && !known.ended {
		known.ended = true // somebody else ended it
		w.release(known)
	}
	if object.DeletionTimestamp == nil || known.stopping {
		return
	}
	known.stopping = true
	if !known.admitted {
		w.remove(ctx, object.UID)
		return
	}
	grace := w.options.StopDelay
	if seconds := object.DeletionGracePeriodSeconds; seconds != nil {
		grace = min(grace, time.Duration(*seconds)*time.Second)
	}
	uid := object.UID
	time.AfterFunc(grace, func() { w.push(event{stopped: uid}) })
}

// expire ends a pod whose time is over.
func (w *worker) expire(ctx context.Context, uid types.UID) {
	known := w.pods[uid]
	if known == nil || known.ended || known.stopping {
		return
	}
	known.ended = true
	w.release(known)
	if known.deadline {
		w.tally.ended(false)
		w.api.writeStatus(ctx, known.object, ended(known.object, v1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", 137))
		return
	}
	w.tally.ended(true)
	w.api.writeStatus(ctx, known.object, ended(known.object, v1.PodSucceeded, "", "", 0))
}

// remove frees what a deleted pod holds, says how it ended, and takes it out of the API.
func (w *worker) remove(ctx context.Context, uid types.UID) {
	known := w.pods[uid]
	if known == nil {
		return
	}
	if known.admitted && !known.ended {
		known.ended = true
		w.api.writeStatus(ctx, known.object, ended(known.object, v1.PodFailed, "", "", 143))
	}
	w.release(known)
	w.tally.removed()
	w.api.delete(ctx, known.object)
}

func (w *worker) forget(uid types.UID) {
	if known := w.pods[uid]; known != nil {
		w.release(known)
		delete(w.pods, uid)
	}
}

func (w *worker) release(p *pod) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if !p.admitted {
		return
	}
	p.admitted = false
	w.kubelet.Remove(string(p.object.UID))
	w.tally.released()
	w.changed()
}

// nodeChanged takes over labels and taints, and the devices that are said to be
// ill or not there; then, where the Node says so, the machine is rebooted.
func (w *worker) nodeChanged(ctx context.Context, node *v1.Node) {
	w.kubelet.SetNode(node)
	if w.setDevices(node.Annotations[UnhealthyAnnotation], node.Annotations[UnpluggedAnnotation]) {
		// Before any pod is judged, as a kubelet that starts does.
		w.api.writeNodeStatus(ctx, w.kubelet.Node())
		w.changed()
	}
	if boot := node.Annotations[BootAnnotation]; boot != "" && boot != w.boot {
		w.boot = boot
		w.reboot(ctx)
		w.changed()
	}
}

// setDevices applies both annotations; it reports whether one of them is new and can be read.
func (w *worker) setDevices(unhealthy, unplugged string) bool {
	if unhealthy == w.unhealthy && unplugged == w.unplugged {
		return false
	}
	w.unhealthy, w.unplugged = unhealthy, unplugged
	ill, missing := map[string][]string{}, []string{}
	if unhealthy != "" && json.Unmarshal([]byte(unhealthy), &ill) != nil {
		return false
	}
	if unplugged != "" && json.Unmarshal([]byte(unplugged), &missing) != nil {
		return false
	}
	for _, resource := range slices.Sorted(maps.Keys(w.machine.Devices)) {
		devices := slices.Clone(w.machine.Devices[resource])
		for i := range devices {
			devices[i].Healthy = devices[i].Healthy && !slices.Contains(ill[resource], devices[i].ID)
		}
		if slices.Contains(missing, resource) {
			devices = nil
		}
		_ = w.kubelet.SetDevices(resource, devices) // the resource is the machine's own
	}
	return true
}

// reboot starts every container anew: the kubelet judges its pods once more, in the
// order of their creation, and those that it refuses now have failed for good.
func (w *worker) reboot(ctx context.Context) {
	var active []*pod
	for _, known := range w.pods {
		if known.admitted && !known.stopping {
			active = append(active, known)
		}
	}
	slices.SortFunc(active, func(a, b *pod) int {
		if order := a.object.CreationTimestamp.Compare(b.object.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(string(a.object.UID), string(b.object.UID))
	})
	for _, known := range active {
		uid := string(known.object.UID)
		admitted, reason, message := w.kubelet.Readmit(uid)
		if admitted {
			known.boots++
			w.api.writeStatus(ctx, known.object, restarted(known.object, w.ip, known.boots))
			w.kubelet.Start(uid)
			continue
		}
		w.tally.lost(w.name, known.object, reason, message)
		known.ended = true
		w.release(known)
		w.api.writeStatus(ctx, known.object, rejected(reason, message))
		if w.options.Events {
			w.api.warn(ctx, w.name, known.object, reason, message)
		}
	}
}
