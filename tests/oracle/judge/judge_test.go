package judge

import (
	"encoding/json"
	"fmt"
	"testing"

	"numa-admission/oracle/draw"
	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

func drawn(t *testing.T, profile string, number int) *record.Case {
	t.Helper()
	c, err := draw.Case(11, number, profile)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asJSON(t *testing.T, c *record.Case) string {
	t.Helper()
	out, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Setting the managers' state in memory answers exactly as their own Start does.
// Devices are left out: which of them are chosen is random in the kubelet itself.
func TestInMemoryAnswersAsRealStart(t *testing.T) {
	for _, profile := range []string{"small", "wild", "podlevel"} {
		for number := range 40 {
			t.Run(fmt.Sprintf("%s-%d", profile, number), func(t *testing.T) {
				inMemory, started := drawn(t, profile, number), drawn(t, profile, number)
				for _, c := range []*record.Case{inMemory, started} {
					withoutDevices(c)
				}
				if err := Case(inMemory, kubelet.Options{}); err != nil {
					t.Fatal(err)
				}
				if err := Case(started, kubelet.Options{RealStart: true}); err != nil {
					t.Fatal(err)
				}
				if expected, actual := asJSON(t, started), asJSON(t, inMemory); expected != actual {
					t.Errorf("real start\n%s\nin memory\n%s", expected, actual)
				}
			})
		}
	}
}

func withoutDevices(c *record.Case) {
	c.Machine.Devices = map[string][]record.Device{}
	var steps []record.Step
	for _, step := range c.Steps {
		if step.Op != record.OpDevices {
			steps = append(steps, step)
		}
	}
	c.Steps = steps
}

// No CPU and no device belongs to two active pods, and every refusal has a reason.
func TestNothingIsGivenTwice(t *testing.T) {
	for _, profile := range []string{"small", "wild", "gpu8", "podlevel"} {
		for number := range 40 {
			c := drawn(t, profile, number)
			if err := Case(c, kubelet.Options{}); err != nil {
				t.Fatal(err)
			}
			holdings := map[string]map[string]record.Got{}
			for i, step := range c.Steps {
				if step.Verdict != nil && !step.Verdict.Admit && step.Verdict.Reason == "" && len(step.Verdict.APIErrors) == 0 {
					t.Errorf("%s step %d is refused without a reason", c.ID, i)
				}
				if step.Pod != nil {
					holdings[step.Pod.UID] = step.Got
				}
				owner := map[string]string{}
				for _, uid := range step.ActivePodUIDs {
					for _, thing := range things(holdings[uid]) {
						if other, taken := owner[thing]; taken && other != uid {
							t.Errorf("%s step %d: %s belongs to %s and %s", c.ID, i, thing, other, uid)
						}
						owner[thing] = uid
					}
				}
			}
		}
	}
}

func things(got map[string]record.Got) []string {
	var out []string
	for _, g := range got {
		for _, cpu := range g.CPUIDs {
			out = append(out, fmt.Sprintf("CPU %d", cpu))
		}
		for resource, ids := range g.Devices {
			for _, id := range ids {
				out = append(out, resource+" "+id)
			}
		}
	}
	return out
}

// A case is the same whenever it is drawn.
func TestSameSeedSameCase(t *testing.T) {
	for number := range 50 {
		if first, second := asJSON(t, drawn(t, "wild", number)), asJSON(t, drawn(t, "wild", number)); first != second {
			t.Errorf("case %d differs:\n%s\n%s", number, first, second)
		}
	}
}
