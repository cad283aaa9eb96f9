package suite

import (
	"fmt"
	"syscall"
	"testing"

	"berth.dev/tests/e2e/suite/bed"
)

// reloadSuccessful waits for the metric that says how the last load went.
func reloadSuccessful(t *testing.T, s *bed.Scenario, want float64) {
	t.Helper()
	bed.Eventually(t, bed.Timeout, "the policy file is read again", func() error {
		got, found := s.Metrics().Sum("berth_policy_last_reload_successful")
		return bed.Unless(found && got == want, "berth_policy_last_reload_successful is %v", got)
	})
}

// A changed policy file takes effect without a restart: a raised limit releases
// what waited for it.
func TestGoodPolicyIsReloaded(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := teams(t, 4)
		s.AllBound(s.Pod("first").Namespace("team-a").GPUs(4).GatedIf(gated).Create())
		next := s.Pod("next").Namespace("team-a").GPUs(4).GatedIf(gated).Create()
		s.NoneBound(next)
		s.WritePolicy(limited(8))
		s.AllBound(next)
	})
}

// A bad policy file is refused whole and said to be bad; the last good one
// stays, over a restart too; and the next good one is taken.
func TestBadPolicyIsRefused(t *testing.T) {
	s := teams(t, 4)
	s.AllBound(s.Pod("first").Namespace("team-a").GPUs(4).Create())
	next := s.Pod("next").Namespace("team-a").GPUs(4).Create()

	s.WritePolicy(limited(8) + "queeus: []\n")
	reloadSuccessful(t, s, 0)
	s.NoneBound(next)

	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	reloadSuccessful(t, s, 0)
	s.NoneBound(next)

	s.WritePolicy(limited(8))
	reloadSuccessful(t, s, 1)
	s.AllBound(next)
}

// A lowered limit evicts nobody that runs; it holds for what comes next.
func TestLoweredLimitEvictsNobody(t *testing.T) {
	s := teams(t, 8)
	running := s.Pod("running").Namespace("team-a").GPUs(4).CreateN(2)
	s.AllBound(running...)
	s.WritePolicy(limited(4))
	next := s.Pod("next").Namespace("team-a").GPUs(2).Create()
	s.StayBound(running...)
	s.Succeed(running[0])
	s.NoneBound(next)
	s.Succeed(running[1])
	s.AllBound(next)
}

// In passthrough mode Berth stands aside: gates go at once, gangs need no
// quorum, and pods are bound where kube-scheduler puts them.
func TestPassthrough(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\nmode: passthrough\n"})
	s.Nodes(2).GPUs(8).Create()
	s.AllBound(s.Pod("part").GPUs(1).Gang("g", 100).Gated().CreateN(4)...)
	s.AllBound(s.Pod("plain").GPUs(1).CreateN(4)...)
}

// An edit that takes the promise from 72 devices in use is held, and says so; what
// runs goes on, over a restart too. Confirmed, it is in force, and another queue
// takes back what it is promised.
func TestEditThatWouldEvictIsHeld(t *testing.T) {
	edit := func(quota int, more string) string {
		return fmt.Sprintf(`apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
queues:
- {name: a, namespaces: [team-a], quota: {nvidia.com/gpu: %d}}
- {name: b, namespaces: [team-b], quota: {nvidia.com/gpu: 8}}
%s`, quota, more)
	}
	s := control.Scenario(t, bed.Options{Policy: edit(80, "")})
	s.Namespace("team-a")
	s.Namespace("team-b")
	s.Nodes(10).GPUs(8).Create()
	running := s.Pod("running").Namespace("team-a").GPUs(8).CreateN(10)
	s.AllBound(running...)

	s.WritePolicy(edit(8, ""))
	reloadSuccessful(t, s, 0)
	mine := s.Pod("mine").Namespace("team-b").GPUs(8).Gated().Create()
	s.NoneBound(mine)
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	reloadSuccessful(t, s, 0)
	s.NoneBound(mine)
	s.StayBound(running...)

	s.WritePolicy(edit(8, "eviction: {maxPerEdit: 72}\n"))
	reloadSuccessful(t, s, 1)
	s.AllBound(mine)
}
