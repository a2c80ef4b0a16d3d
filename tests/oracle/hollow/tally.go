package hollow

import (
	"encoding/json"
	"io"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// tally counts what the hollow kubelets did and writes JSON lines.
type tally struct {
	lock      sync.Mutex
	out       io.Writer
	all       bool // log admissions too
	nodes     int
	admitted  int
	refused   map[string]int
	active    int
	succeeded int
	deadlines int
	deleted   int
}

func (t *tally) decided(node string, pod *v1.Pod, admitted bool, reason, message string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if admitted {
		t.admitted++
		t.active++
	} else {
		t.refused[reason]++
	}
	if admitted && !t.all {
		return
	}
	name := "refused"
	if admitted {
		name = "admitted"
	}
	t.judged(name, node, pod, reason, message)
}

// lost is a pod that ran and that the kubelet refused after a reboot.
func (t *tally) lost(node string, pod *v1.Pod, reason, message string) {
	t.add(func() { t.judged("lost", node, pod, reason, message) })
}

// judged writes the line of one verdict; the lock is held.
func (t *tally) judged(event, node string, pod *v1.Pod, reason, message string) {
	t.line(map[string]any{
		"event": event, "time": time.Now().UTC().Format(time.RFC3339Nano), "node": node, "pod": pod.Namespace + "/" + pod.Name, "uid": pod.UID,
		"reason": reason, "message": message,
	})
}

func (t *tally) released() { t.add(func() { t.active-- }) }
func (t *tally) removed()  { t.add(func() { t.deleted++ }) }

func (t *tally) ended(succeeded bool) {
	t.add(func() {
		if succeeded {
			t.succeeded++
		} else {
			t.deadlines++
		}
	})
}

func (t *tally) add(change func()) {
	t.lock.Lock()
	defer t.lock.Unlock()
	change()
}

// metrics writes one line of totals; the counts are since the start, active is now.
func (t *tally) metrics() {
	t.lock.Lock()
	defer t.lock.Unlock()
	refusals := 0
	for _, count := range t.refused {
		refusals += count
	}
	t.line(map[string]any{
		"event": "metrics", "nodes": t.nodes, "admitted": t.admitted, "refused": refusals, "refused_by_reason": maps.Clone(t.refused),
		"active": t.active, "succeeded": t.succeeded, "deadline_exceeded": t.deadlines, "deleted": t.deleted,
	})
}

func (t *tally) say(fields map[string]any) { t.add(func() { t.line(fields) }) }

// line writes one JSON line; the lock is held.
func (t *tally) line(fields map[string]any) {
	text, err := json.Marshal(fields)
	if err != nil {
		return
	}
	_, _ = t.out.Write(append(text, '\n'))
}
