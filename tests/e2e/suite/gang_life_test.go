package suite

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/tests/e2e/suite/bed"
)

// racks is a policy with a level for racks, and short patience at the barrier.
const racks = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
topology:
  levels:
  - {name: rack, nodeLabel: topology.test/rack}
  - {name: host, nodeLabel: kubernetes.io/hostname}
gang:
  planTimeout: 5s
  bindTimeout: 4s
`

// lastReleaseHeld keeps back the removal of one member's gate, whichever comes
// last of n: all others get to the barrier and are parked there.
func lastReleaseHeld(s *bed.Scenario, n int) *bed.Hold {
	hold := bed.NewHold()
	released := map[string]bool{} // only touched under the proxy's lock
	s.Proxy.Add(&bed.Rule{Method: http.MethodPatch, Path: bed.PodPath, Do: hold.Action, Match: func(r *http.Request, body []byte) bool {
		if !bytes.Contains(body, []byte("schedulingGates")) {
			return false
		}
		if released[r.URL.Path] || len(released) < n-1 {
			released[r.URL.Path] = true
			return false
		}
		return true
	}})
	return hold
}

// parked waits until so many members are parked at the barrier.
func parked(t *testing.T, s *bed.Scenario, n int) {
	t.Helper()
	bed.Eventually(t, bed.Timeout, fmt.Sprintf("%d members are parked", n), func() error {
		return bed.Unless(s.Verbs.InFlight("bind") == n, "%d binds are parked", s.Verbs.InFlight("bind"))
	})
}

// A member that is deleted while others are parked at the barrier takes the gang back
// to waiting: nobody is bound, and a replacement lets all start.
func TestMemberDeletedAtTheBarrier(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: racks, RecordVerbs: true})
	s.Nodes(2).GPUs(8).Create()
	hold := lastReleaseHeld(s, 4)
	gang := s.Pod("g").GPUs(4).Gang("g", 4).Gated().CreateN(4)
	parked(t, s, 3)
	var held *corev1.Pod
	for _, pod := range gang {
		if len(s.Now(pod).Spec.SchedulingGates) > 0 {
			held = pod
		}
	}
	if held == nil {
		t.Fatal("all members are released")
	}
	s.DeleteNow(held)
	hold.Release()
	s.NoneBound(gang...)

	rest := slices.DeleteFunc(slices.Clone(gang), func(pod *corev1.Pod) bool { return pod == held })
	rest = append(rest, s.Pod("g").GPUs(4).Gang("g", 4).Gated().CreateRange(4, 5)...)
	s.AllBoundWithin(2*bed.Timeout, rest...)
}

// A failed worker of a running gang is replaced at once, though the gang's size
// would not be complete again if only pending members counted.
func TestFailedWorkerIsReplaced(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Policy: racks})
		s.Nodes(4).GPUs(8).Racks(2).Create()
		member := s.Pod("g").GPUs(8).Gang("g", 2).Within("rack").GatedIf(gated)
		gang := member.CreateN(2)
		s.AllBound(gang...)
		s.Fail(gang[1])
		replacement := member.CreateRange(2, 3)
		s.AllBound(replacement...)
		s.StayBound(gang[0])
		if rack(s.NodeOf(replacement[0])) != rack(s.NodeOf(gang[0])) {
			t.Error("the replacement left the gang's rack")
		}
	})
}

// rack is the rack of a node in clusters with two nodes in each.
func rack(node string) int {
	var i int
	_, _ = fmt.Sscanf(node, "node-%d", &i)
	return i / 2
}

// A gang of high priority that is not complete, or can never fit, evicts nobody.
func TestHighPriorityGangEvictsNobody(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.PriorityClass("high", 100_000)
		s.Nodes(2).GPUs(8).Create()
		low := s.Pod("low").GPUs(2).CreateN(8)
		s.AllBound(low...)
		incomplete := s.Pod("incomplete").GPUs(4).Gang("incomplete", 4).Priority("high").GatedIf(gated).CreateN(3)
		large := s.Pod("large").GPUs(8).Gang("large", 3).Priority("high").GatedIf(gated).CreateN(3)
		s.StayBound(low...)
		s.NoneBound(append(incomplete, large...)...)
	})
}

// A single pod of high priority preempts through kube-scheduler, and takes no
// member of a gang even where members are the cheaper victims.
func TestSinglePreemptsNoGangMember(t *testing.T) {
	s := control.Scenario(t, bed.Options{RecordVerbs: true})
	s.PriorityClass("high", 100_000)
	s.PriorityClass("low", 10)
	s.Nodes(2).GPUs(8).Create()
	gang := s.Pod("g").GPUs(4).Gang("g", 2).AwayFrom("app", "g").Label("app", "g").Gated().CreateN(2)
	s.AllBound(gang...)
	singles := s.Pod("single").GPUs(4).Priority("low").CreateN(2)
	s.AllBound(singles...)

	urgent := s.Pod("urgent").GPUs(4).Priority("high").Create()
	s.AllBound(urgent)
	s.StayBound(gang...)
	if len(s.Verbs.Calls("preempt", "default/urgent")) == 0 {
		t.Error("preempt was not called")
	}
	if s.Evicted(singles[0]) == s.Evicted(singles[1]) {
		t.Error("not exactly one single was evicted")
	}
}

// budgetForLow covers the pods of the app low.
func budgetForLow(s *bed.Scenario, maxUnavailable int32) *policyv1.PodDisruptionBudget {
	s.T.Helper()
	unavailable := intstr.FromInt32(maxUnavailable)
	budget, err := s.Client.PolicyV1().PodDisruptionBudgets("default").Create(s.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "low"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &unavailable, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "low"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return budget
}

// Where every victim is covered by a disruption budget without slack, nobody is
// evicted.
func TestGangBreaksNoDisruptionBudget(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.PriorityClass("high", 100_000)
	s.Nodes(1).GPUs(8).Create()
	budgetForLow(s, 0)
	low := s.Pod("low").Label("app", "low").GPUs(4).CreateN(2)
	s.AllBound(low...)
	gang := s.Pod("g").GPUs(4).Gang("g", 2).Priority("high").Gated().CreateN(2)
	s.StayBound(low...)
	s.NoneBound(gang...)
}

// As soon as the budget permits it, the gang evicts: through the Eviction API,
// with a mark and an Event on each victim, counted in the metrics.
func TestGangEvictsWhatABudgetPermits(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.PriorityClass("high", 100_000)
	s.Nodes(1).GPUs(8).Create()
	budget := budgetForLow(s, 1)
	low := s.Pod("low").Label("app", "low").GPUs(4).CreateN(2)
	s.AllBound(low...)
	gang := s.Pod("g").GPUs(4).Gang("g", 2).Priority("high").Gated().CreateN(2)
	s.StayBound(low...)

	// No controller of budgets runs here.
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DisruptionsAllowed: 2, ExpectedPods: 2, CurrentHealthy: 2}
	if _, err := s.Client.PolicyV1().PodDisruptionBudgets("default").UpdateStatus(s.Context(), budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.AllBound(gang...)
	for _, pod := range low {
		if !s.Evicted(pod) {
			t.Errorf("%s was not evicted", pod.Name)
		}
		isTold(t, s, pod, "Preempted", "priority 100000 in queue default")
	}
	if n := s.Metrics()[`berth_evictions_total{reason="preemption"}`]; n != 2 {
		t.Errorf("%v evictions are counted", n)
	}
}

// With eviction.by: delete no budget holds. The victims say that they were
// disrupted, so that a Job's podFailurePolicy can tell it from a failure. All
// this is within Berth's rights and the policies that bind its account.
func TestGangDeletesWhatABudgetForbids(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 1, Policy: "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\neviction: {by: delete}\n"})
	s.PriorityClass("high", 100_000)
	s.Nodes(1).GPUs(8).Create()
	keepApart(t, s)
	s.EvictByDelete()
	budgetForLow(s, 0)
	low := s.Pod("low").Label("app", "low").GPUs(4).CreateN(2)
	s.AllBound(low...)
	s.Kubelet.HoldTerminating(true)
	gang := s.Pod("g").GPUs(4).Gang("g", 2).Priority("high").Gated().CreateN(2)
	for _, pod := range low {
		bed.Eventually(t, bed.Timeout, pod.Name+" is deleted and says why", func() error {
			now := s.Now(pod)
			disrupted := slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "PreemptionByBerth"
			})
			return bed.Unless(now.DeletionTimestamp != nil && disrupted, "%+v", now.Status.Conditions)
		})
	}
	s.Kubelet.HoldTerminating(false)
	s.DeleteNow(low...)
	s.AllBound(gang...)
}

// A gang that must share a rack does, though other racks have room for some of
// it; where no rack has room for all, it waits and says why.
func TestRackRequired(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Policy: racks})
		s.Nodes(6).GPUs(8).Racks(2).Create()
		blockers := []*corev1.Pod{
			s.Pod("b0").GPUs(1).Select(corev1.LabelHostname, "node-000").Create(),
			s.Pod("b1").GPUs(1).Select(corev1.LabelHostname, "node-002").Create(),
		}
		s.AllBound(blockers...)
		fits := s.Pod("fits").GPUs(8).Gang("fits", 2).Within("rack").GatedIf(gated).CreateN(2)
		s.AllBound(fits...)
		if nodes := slices.Sorted(maps.Keys(s.NodesOf(fits))); !slices.Equal(nodes, []string{"node-004", "node-005"}) {
			t.Errorf("the gang runs on %v", nodes)
		}
		waits := s.Pod("waits").GPUs(8).Gang("waits", 2).Within("rack").GatedIf(gated).CreateN(2)
		s.WhyIs(waits[0], "TopologyUnsatisfied")
		s.NoneBound(waits...)
		s.DeleteNow(blockers[0])
		s.AllBound(waits...)
		if counts := s.NodesOf(waits); counts["node-000"] != 1 || counts["node-001"] != 1 {
			t.Errorf("members by node: %v", counts)
		}
	})
}

// A gang that prefers a rack gets one where it can, and runs across racks where
// it cannot.
func TestRackPreferred(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Policy: racks})
		s.Nodes(4).GPUs(8).Racks(2).Create()
		blocker := s.Pod("b").GPUs(4).Select(corev1.LabelHostname, "node-000").Create()
		s.AllBound(blocker)
		together := s.Pod("together").GPUs(8).Gang("together", 2).PreferWithin("rack").GatedIf(gated).CreateN(2)
		s.AllBound(together...)
		if rack(s.NodeOf(together[0])) != 1 || rack(s.NodeOf(together[1])) != 1 {
			t.Errorf("members by node: %v", s.NodesOf(together))
		}
		s.DeleteNow(together[1])
		s.AllGone(together[1])
		// One whole node in each rack is left.
		apart := s.Pod("apart").GPUs(8).Gang("apart", 2).PreferWithin("rack").GatedIf(gated).CreateN(2)
		s.AllBound(apart...)
	})
}
