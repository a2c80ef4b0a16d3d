// k8srules answers questions about Kubernetes' own rules, one JSON object a line on stdin, one answer a line on stdout.
// It holds no rule of its own: every answer comes from k8s.io/apimachinery, k8s.io/component-helpers or k8s.io/kubectl.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/big"
	"os"

	inf "gopkg.in/inf.v0"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/util/qos"
)

// question is one of: quantity (Value), order (Left, Right), place (Pod, Node), total (Pod).
type question struct {
	Ask     string          `json:"ask"`
	Value   json.RawMessage `json:"value,omitempty"`
	Left    string          `json:"left,omitempty"`
	Right   string          `json:"right,omitempty"`
	Pod     *v1.Pod         `json:"pod,omitempty"`
	Node    *v1.Node        `json:"node,omitempty"`
	Compare bool            `json:"comparisonOperators,omitempty"`
}

type quantityAnswer struct {
	Accepted bool   `json:"accepted"`
	Nanos    string `json:"nanos,omitempty"`
	Value    int64  `json:"value,omitempty"`
	Milli    int64  `json:"milli,omitempty"`
	Stored   string `json:"stored,omitempty"`
	Decimal  string `json:"decimal,omitempty"`
}

type placeAnswer struct {
	NodeSelector bool   `json:"nodeSelector"`
	Affinity     bool   `json:"affinity"`
	Scheduler    string `json:"schedulerTaint"`
	Kubelet      string `json:"kubeletTaint"`
}

type totalAnswer struct {
	QOS      string           `json:"qos"`
	PodLevel bool             `json:"podLevel"`
	Milli    map[string]int64 `json:"milli"`
	Value    map[string]int64 `json:"value"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var asked question
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			fail(err)
		}
		answer, err := answerTo(&asked)
		if err != nil {
			fail(err)
		}
		if err := encoder.Encode(answer); err != nil {
			fail(err)
		}
	}
	if err := in.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "k8srules:", err)
	os.Exit(1)
}

func answerTo(asked *question) (any, error) {
	switch asked.Ask {
	case "quantity":
		return quantity(asked.Value), nil
	case "order":
		left, err := resource.ParseQuantity(asked.Left)
		if err != nil {
			return nil, err
		}
		right, err := resource.ParseQuantity(asked.Right)
		if err != nil {
			return nil, err
		}
		return left.Cmp(right), nil
	case "place":
		return place(asked.Pod, asked.Node, asked.Compare), nil
	case "total":
		return total(asked.Pod), nil
	}
	return nil, fmt.Errorf("ask %q", asked.Ask)
}

// quantity reads the raw JSON as the API server does (Quantity.UnmarshalJSON).
func quantity(raw json.RawMessage) quantityAnswer {
	var parsed resource.Quantity
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return quantityAnswer{}
	}
	answer := quantityAnswer{Accepted: true, Value: parsed.Value(), Milli: parsed.MilliValue()}
	exact := parsed.DeepCopy()
	answer.Nanos = nanos(exact.AsDec())
	stored := parsed.DeepCopy()
	stored.RoundUp(resource.Milli) // as SetDefaults_ResourceList of the API server
	answer.Stored = nanos(stored.AsDec())
	decimal := resource.NewDecimalQuantity(*new(inf.Dec).Set(exact.AsDec()), resource.DecimalSI)
	answer.Decimal = decimal.String()
	return answer
}

func nanos(amount *inf.Dec) string {
	scaled := new(big.Int).Set(amount.UnscaledBig())
	exponent := 9 - int64(amount.Scale())
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(abs(exponent)), nil)
	if exponent >= 0 {
		return scaled.Mul(scaled, power).String()
	}
	quotient, rest := new(big.Int).QuoRem(scaled, power, new(big.Int))
	if rest.Sign() != 0 {
		return "finer than a nano"
	}
	return quotient.String()
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func place(pod *v1.Pod, node *v1.Node, comparison bool) placeAnswer {
	selector, _ := nodeaffinity.NewRequiredNodeAffinity(pod.Spec.NodeSelector, nil).Match(node)
	affinity, _ := nodeaffinity.NewRequiredNodeAffinity(nil, pod.Spec.Affinity).Match(node)
	return placeAnswer{
		NodeSelector: selector,
		Affinity:     affinity,
		Scheduler:    untolerated(pod, node, comparison, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute),
		Kubelet:      untolerated(pod, node, comparison, v1.TaintEffectNoExecute),
	}
}

func untolerated(pod *v1.Pod, node *v1.Node, comparison bool, effects ...v1.TaintEffect) string {
	taint, found := schedulinghelper.FindMatchingUntoleratedTaint(
		klog.Background(), node.Spec.Taints, pod.Spec.Tolerations,
		func(taint *v1.Taint) bool {
			for _, effect := range effects {
				if taint.Effect == effect {
					return true
				}
			}
			return false
		}, comparison)
	if !found {
		return ""
	}
	return taint.ToString()
}

// total counts a pod that has its defaults already (they are made in k8s.io/kubernetes, which is no library).
func total(pod *v1.Pod) totalAnswer {
	answer := totalAnswer{
		QOS:      string(qos.ComputePodQOS(pod)),
		PodLevel: resourcehelper.IsPodLevelResourcesSet(pod),
		Milli:    map[string]int64{},
		Value:    map[string]int64{},
	}
	for name, amount := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		answer.Milli[string(name)] = amount.MilliValue()
		answer.Value[string(name)] = amount.Value()
	}
	return answer
}
