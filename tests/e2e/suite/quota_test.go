package suite

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// limited is a policy in which team-a may use so many GPUs, and team-b any.
func limited(gpus int) string {
	return fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
borrowing: off
queues:
- name: team-a
  namespaces: [team-a]
  limit: {nvidia.com/gpu: %d}
- name: team-b
  namespaces: [team-b]
`, gpus)
}

// teams starts a scenario with the namespaces of limited's queues.
func teams(t *testing.T, gpus int) *bed.Scenario {
	s := control.Scenario(t, bed.Options{Policy: limited(gpus)})
	s.Namespace("team-a")
	s.Namespace("team-b")
	s.Nodes(4).GPUs(8).Create()
	return s
}

// A limit refuses what would pass it though GPUs are free, leaves other queues
// alone, and lets the next pod in when one ends.
func TestLimitRefusesAndReleases(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := teams(t, 8)
		running := s.Pod("running").Namespace("team-a").GPUs(4).GatedIf(gated).CreateN(2)
		s.AllBound(running...)
		next := s.Pod("next").Namespace("team-a").GPUs(4).GatedIf(gated).Create()
		s.WhyIs(next, "ExceedsLimit", "WaitingForQuota")
		s.AllBound(s.Pod("other").Namespace("team-b").GPUs(8).GatedIf(gated).CreateN(2)...)
		s.NoneBound(next)
		s.Succeed(running[0])
		s.AllBound(next)
	})
}

// A gang counts as a whole against the limit: one that passes it by one member
// starts none.
func TestLimitCountsGangsWhole(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := teams(t, 8)
		gang := s.Pod("g").Namespace("team-a").GPUs(1).Gang("g", 9).GatedIf(gated).CreateN(9)
		s.WhyIs(gang[0], "ExceedsLimit", "NeverFits")
		s.NoneBound(gang...)
		s.AllBound(s.Pod("fits").Namespace("team-a").GPUs(1).Gang("fits", 8).GatedIf(gated).CreateN(8)...)
	})
}

// A whole-node pod is charged every device of its node, whatever it asked for.
func TestWholeNodeIsChargedWhole(t *testing.T) {
	s := teams(t, 8)
	whole := s.Pod("whole").Namespace("team-a").GPUs(1).WholeNode().Gated().Create()
	s.AllBound(whole)
	next := s.Pod("next").Namespace("team-a").GPUs(1).Gated().Create()
	s.WhyIs(next, "ExceedsLimit", "WaitingForQuota")
	s.NoneBound(next)
	s.DeleteNow(whole)
	s.AllBound(next)
}

// A queue that does not list the pod's namespace refuses it, and so does one
// that does not exist; the reasons differ.
func TestForbiddenAndUnknownQueue(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := teams(t, 8)
		forbidden := s.Pod("forbidden").Namespace("team-a").Queue("team-b").GPUs(1).GatedIf(gated).Create()
		unknown := s.Pod("unknown").Namespace("team-a").Queue("nowhere").GPUs(1).GatedIf(gated).Create()
		homeless := s.Pod("homeless").Namespace("default").GPUs(1).GatedIf(gated).Create()
		s.WhyIs(forbidden, "QueueNotAllowed")
		s.WhyIs(unknown, "UnknownQueue")
		s.WhyIs(homeless, "QueueNotAllowed", "UnknownQueue")
		s.NoneBound(forbidden, unknown, homeless)
	})
}

// The queue is fixed when the pod binds: a later edit of the label moves no
// charge, so it cannot be used to escape a limit.
func TestLabelEditAfterBindChangesNothing(t *testing.T) {
	s := teams(t, 8)
	running := s.Pod("running").Namespace("team-a").Queue("team-a").GPUs(8).Create()
	s.AllBound(running)
	s.Relabel(running, "berth.dev/queue", "team-b")
	next := s.Pod("next").Namespace("team-a").GPUs(1).Create()
	s.NoneBound(next)
	if used, _ := s.Metrics().Sum("berth_queue_used", `queue="team-a"`, fmt.Sprintf("resource=%q", bed.GPU)); used != 8 {
		t.Errorf("team-a is charged %v GPUs", used)
	}
	// A new Berth sees only the edited label, and must still know.
	s.StopBerth()
	s.StartBerth()
	s.NoneBound(next)
}

// Many pods at once never pass a limit together, whatever order they come in.
func TestLimitUnderABurst(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := teams(t, 8)
		pods := s.Pod("p").Namespace("team-a").GPUs(1).GatedIf(gated).CreateN(24)
		live := pods
		for round := range 3 {
			bed.Eventually(t, bed.Timeout, "the limit is used up", func() error {
				return bed.Unless(s.Bound(live...) == 8, "round %d: %d bound", round, s.Bound(live...))
			})
			s.Marker()
			var waits, ends []*corev1.Pod
			for _, pod := range live {
				if s.NodeOf(pod) == "" {
					waits = append(waits, pod)
				} else {
					ends = append(ends, pod)
				}
			}
			if len(ends) != 8 {
				t.Fatalf("%d pods of 8 GPUs are bound", len(ends))
			}
			s.Succeed(ends...)
			live = waits
		}
	})
}
