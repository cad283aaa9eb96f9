package suite

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// Killed with a part of a gang bound, Berth comes back and completes the gang in
// the room that it was planned for, before anybody else gets that room.
func TestKilledWithHalfTheGangBound(t *testing.T) {
	for _, bound := range []int{1, 4, 7} {
		t.Run(fmt.Sprintf("%d of 8", bound), func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Policy: racks})
			s.Nodes(2).GPUs(4).Create()
			hold := bed.NewHold()
			s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Skip: bound, Do: hold.Action})
			gang := s.Pod("g").GPUs(1).Gang("g", 8).Gated().CreateN(8)
			bed.Eventually(t, bed.Timeout, "a part of the gang is bound", func() error {
				return bed.Unless(s.Bound(gang...) == bound && hold.Waiting() > 0, "%d bound, %d held", s.Bound(gang...), hold.Waiting())
			})
			planned := map[string]string{}
			for _, pod := range gang {
				planned[pod.Name] = s.Nominated(pod)
			}
			competitors := s.Pod("c").GPUs(1).CreateN(8)

			s.KillBerth(syscall.SIGKILL)
			s.Proxy.Clear() // what is held never takes effect: its client is dead
			s.StartBerth()
			s.AllBoundWithin(2*bed.Timeout, gang...)
			for _, pod := range gang {
				if node := s.NodeOf(pod); node != planned[pod.Name] {
					t.Errorf("%s was planned on %q and runs on %q", pod.Name, planned[pod.Name], node)
				}
			}
			s.NoneBound(competitors...)
			s.DeleteNow(gang...)
			s.AllBound(competitors...)
		})
	}
}

// Killed while members are parked at the barrier, Berth has bound none of them; it
// starts the gang again, whole.
func TestKilledWhileTheBarrierStands(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: racks, RecordVerbs: true})
	s.Nodes(2).GPUs(4).Create()
	lastReleaseHeld(s, 8)
	gang := s.Pod("g").GPUs(1).Gang("g", 8).Gated().CreateN(8)
	parked(t, s, 7)
	s.KillBerth(syscall.SIGKILL)
	if n := s.EverBound(gang...); n != 0 {
		t.Fatalf("%d members were bound before their gang had come", n)
	}
	s.Proxy.Clear()
	s.StartBerth()
	s.AllBoundWithin(2*bed.Timeout, gang...)
}

// What happened while Berth was down is known when it answers again: ended pods
// have freed their GPUs, foreign ones have taken theirs.
func TestChangesWhileDown(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	old := s.Pod("old").GPUs(8).CreateN(2)
	s.AllBound(old...)
	gang := s.Pod("g").GPUs(4).Gang("g", 4).Gated().CreateN(4)
	s.KillBerth(syscall.SIGKILL)
	s.DeleteNow(old...)
	s.AllGone(old...)
	foreign := s.Pod("foreign").GPUs(4).On("node-000").Create()
	s.StartBerth()
	s.NoneBound(gang...)
	s.DeleteNow(foreign)
	s.AllBound(gang...)
}

// A restart forgets nothing that is bound: no GPU is given twice, though the
// scheduler retries everything at once. (The bed checks every event.)
func TestRestartUnderABurst(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(8).GPUs(8).Create()
	pods := s.Pod("p").GPUs(1).CreateN(100)
	bed.Eventually(t, bed.Timeout, "some are bound", func() error {
		return bed.Unless(s.Bound(pods...) >= 10, "%d bound", s.Bound(pods...))
	})
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	bed.Eventually(t, 2*bed.Timeout, "the cluster fills up", func() error {
		return bed.Unless(s.Bound(pods...) == 64, "%d of 64 bound", s.Bound(pods...))
	})
	s.Marker()
	if n := s.Bound(pods...); n != 64 {
		t.Errorf("%d pods on 64 GPUs", n)
	}
}

// Berth outlives a restart of the API server: running and waiting pods are still
// known, and new ones are served.
func TestAPIServerRestart(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	before := s.Pod("before").GPUs(4).CreateN(2)
	s.AllBound(before...)
	gang := s.Pod("g").GPUs(4).Gang("g", 4).Gated().CreateN(3)
	s.NoneBound(gang...)
	s.RestartAPIServer()
	gang = append(gang, s.Pod("last").GPUs(4).Gang("g", 4).Gated().Create())
	s.WhyIs(gang[0], "InsufficientDevices", "Fragmented")
	s.DeleteNow(before...)
	s.AllBoundWithin(2*bed.Timeout, gang...)
}

// A Binding whose answer is lost has taken effect all the same: it is settled by
// a repeat, the pod stays where it is, and its GPU is charged once.
func TestBindingTakesEffectWithoutAnswer(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(1).GPUs(8).Create()
	rule := s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Times: 2, Do: bed.DropAfterEffect()})
	gang := s.Pod("g").GPUs(2).Gang("g", 3).Gated().CreateN(3)
	s.AllBound(gang...)
	if rule.Hits() == 0 {
		t.Fatal("no answer was cut")
	}
	fill := s.Pod("fill").GPUs(1).CreateN(3)
	bed.Eventually(t, bed.Timeout, "two GPUs are left", func() error {
		return bed.Unless(s.Bound(fill...) == 2, "%d of 2 bound", s.Bound(fill...))
	})
	s.StayBound(gang...)
}

// A Binding that the API server refuses for a while is repeated; the gang gets
// whole, and nothing leaks.
func TestRefusedBindingsAreRepeated(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: racks})
	s.Nodes(1).GPUs(8).Create()
	rule := s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Skip: 2, Times: 5, Do: bed.Fail(http.StatusServiceUnavailable)})
	gang := s.Pod("g").GPUs(2).Gang("g", 4).Gated().CreateN(4)
	s.AllBoundWithin(2*bed.Timeout, gang...)
	if rule.Hits() == 0 {
		t.Fatal("no Binding was refused")
	}
	s.DeleteNow(gang...)
	s.AllBound(s.Pod("after").GPUs(1).CreateN(8)...)
}

// While Berth is down nothing with devices is bound (the set-up fails closed),
// pods without devices are, and all goes on when it is back.
func TestFailsClosedWhileDown(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(1).GPUs(8).Create()
	s.KillBerth(syscall.SIGKILL)
	pods := []*corev1.Pod{s.Pod("plain").GPUs(1).Create(), s.Pod("gated").GPUs(1).Gated().Create()}
	s.NoneBound(pods...)
	s.StartBerth()
	s.AllBoundWithin(2*bed.Timeout, pods...)
}
