package suite

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// bothWays runs a test with pods that wait behind Berth's gate, and with pods
// that wait in the scheduler's queue.
func bothWays(t *testing.T, test func(t *testing.T, gated bool)) {
	for _, gated := range []bool{true, false} {
		t.Run(waiting(gated), func(t *testing.T) { test(t, gated) })
	}
}

// A gang of 64 that needs every GPU of the cluster starts whole.
func TestGangStartsWhole(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(8).GPUs(8).Create()
		s.AllBound(s.Pod("g").GPUs(1).Gang("g", 64).GatedIf(gated).CreateN(64)...)
	})
}

// A gang that lacks one GPU starts no member and holds nothing: its GPUs serve
// others, and it starts when they end.
func TestGangLackingOneGPUStartsNone(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(8).GPUs(8).Create()
		blocker := s.Pod("blocker").GPUs(1).Create()
		s.AllBound(blocker)
		gang := s.Pod("g").GPUs(1).Gang("g", 64).GatedIf(gated).CreateN(64)
		s.WhyIs(gang[0], "InsufficientDevices")
		s.NoneBound(gang...)

		others := s.Pod("other").GPUs(1).CreateN(63)
		s.AllBound(others...)
		s.NoneBound(gang...)
		s.DeleteNow(append(others, blocker)...)
		s.AllBound(gang...)
	})
}

// Two gangs whose members are created in turns, and that fit only one after the
// other, never hold each other up: one runs, then the other.
func TestInterleavedGangsNeverDeadlock(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(4).GPUs(8).Create()
		a := s.Pod("a").GPUs(1).Gang("a", 20).GatedIf(gated)
		b := s.Pod("b").GPUs(1).Gang("b", 20).GatedIf(gated)
		var gangA, gangB []*corev1.Pod
		for i := range 20 {
			gangA = append(gangA, a.CreateRange(i, i+1)...)
			gangB = append(gangB, b.CreateRange(i, i+1)...)
		}
		bed.Eventually(t, bed.Timeout, "one gang runs", func() error {
			return bed.Unless(s.Bound(gangA...) == 20 || s.Bound(gangB...) == 20, "%d and %d of 20 bound", s.Bound(gangA...), s.Bound(gangB...))
		})
		first, second := gangA, gangB
		if s.Bound(gangB...) == 20 {
			first, second = gangB, gangA
		}
		s.NoneBound(second...)
		s.DeleteNow(first...)
		s.AllBound(second...)
	})
}

// Members that are created apart in time wait for the last one.
func TestGangCreatedApartInTime(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(2).GPUs(8).Create()
		member := s.Pod("g").GPUs(2).Gang("g", 6).GatedIf(gated)
		var gang []*corev1.Pod
		for i := range 5 {
			gang = append(gang, member.CreateRange(i, i+1)...)
			s.Marker()
		}
		s.WhyIs(gang[0], "WaitingForMembers")
		s.NoneBound(gang...)
		gang = append(gang, member.CreateRange(5, 6)...)
		s.AllBound(gang...)
	})
}

// An elastic gang starts with its minimum when not all members fit, and the
// rest follow when there is room.
func TestGangStartsWithItsMinimum(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(2).GPUs(8).Create()
		blocker := s.Pod("blocker").GPUs(8).Create()
		s.AllBound(blocker)
		gang := s.Pod("g").GPUs(4).Gang("g", 4).Min(2).GatedIf(gated).CreateN(4)
		bed.Eventually(t, bed.Timeout, "the minimum runs", func() error {
			return bed.Unless(s.Bound(gang...) == 2, "%d bound", s.Bound(gang...))
		})
		s.DeleteNow(blocker)
		s.AllBound(gang...)
	})
}

// scheduler-plugins' label makes a gang: with Berth's annotations for its size,
// and in the old spelling that needs no PodGroup object.
func TestGangInSchedulerPluginsSpelling(t *testing.T) {
	for _, spelling := range []struct {
		name string
		mark func(*bed.PodBuilder) *bed.PodBuilder
	}{
		{"label", func(b *bed.PodBuilder) *bed.PodBuilder {
			return b.Label("scheduling.x-k8s.io/pod-group", "g").Annotation("berth.dev/gang-size", "4")
		}},
		{"old label", func(b *bed.PodBuilder) *bed.PodBuilder {
			return b.Label("pod-group.scheduling.sigs.k8s.io/name", "g").Label("pod-group.scheduling.sigs.k8s.io/min-available", "4")
		}},
	} {
		t.Run(spelling.name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{})
			s.Nodes(2).GPUs(8).Create()
			member := spelling.mark(s.Pod("g").GPUs(4))
			gang := member.CreateRange(0, 3)
			s.NoneBound(gang...)
			gang = append(gang, member.CreateRange(3, 4)...)
			s.AllBound(gang...)
		})
	}
}

// A gang's name belongs to its namespace: equal names elsewhere are another
// gang, and their members are not counted together.
func TestGangNameIsPerNamespace(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Namespace("team-a")
		s.Namespace("team-b")
		s.Nodes(2).GPUs(8).Create()
		a := s.Pod("g").Namespace("team-a").GPUs(2).Gang("g", 4).GatedIf(gated).CreateRange(0, 3)
		b := s.Pod("g").Namespace("team-b").GPUs(2).Gang("g", 4).GatedIf(gated).CreateRange(0, 3)
		s.NoneBound(append(a, b...)...)
		a = append(a, s.Pod("g").Namespace("team-a").GPUs(2).Gang("g", 4).GatedIf(gated).CreateRange(3, 4)...)
		s.AllBound(a...)
		s.NoneBound(b...)
	})
}

// A gang shaped like an MPIJob: the launcher has no GPU, so kube-scheduler never
// asks Berth about it. It counts as a member, and comes only with the workers.
func TestGangWithLauncherWithoutGPU(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(4).GPUs(8).Create()
	blocker := s.Pod("blocker").GPUs(1).Create()
	s.AllBound(blocker)
	launcher := s.Pod("launcher").Gang("mpi", 5).Gated().Create()
	workers := s.Pod("worker").GPUs(8).Gang("mpi", 5).Gated().CreateN(4)
	s.NoneBound(append(workers, launcher)...)
	s.DeleteNow(blocker)
	s.AllBound(append(workers, launcher)...)
}

// With hostname anti-affinity among its members a gang takes one node each, and
// one that has more members than nodes starts none.
func TestGangWithHostAntiAffinity(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{})
		s.Nodes(4).GPUs(8).Create()
		wide := s.Pod("wide").GPUs(1).Gang("wide", 5).Label("app", "wide").AwayFrom("app", "wide").GatedIf(gated).CreateN(5)
		fits := s.Pod("fits").GPUs(1).Gang("fits", 4).Label("app", "fits").AwayFrom("app", "fits").GatedIf(gated).CreateN(4)
		s.AllBound(fits...)
		if counts := s.NodesOf(fits); len(counts) != 4 {
			t.Errorf("members by node: %v", counts)
		}
		s.NoneBound(wide...)
	})
}

// A pod that contradicts its gang's first member is refused alone.
func TestDeviatingMemberIsRefusedAlone(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	gang := s.Pod("g").GPUs(4).Gang("g", 3).Gated().CreateRange(0, 2)
	// Creation times have whole seconds, and UIDs break ties: the first member must be older.
	bed.Eventually(t, bed.Timeout, "the clock moves on", func() error {
		return bed.Unless(time.Since(gang[1].CreationTimestamp.Time) > time.Second, "still the same second")
	})
	odd := s.Pod("odd").GPUs(4).Gang("g", 7).Gated().Create()
	s.WhyIs(odd, "GangConflict")
	gang = append(gang, s.Pod("g").GPUs(4).Gang("g", 3).Gated().CreateRange(2, 3)...)
	s.AllBound(gang...)
	s.NoneBound(odd)
}

// A gate that is not Berth's holds its member back, and so the gang; Berth
// removes its own gate only.
func TestForeignGateIsRespected(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	gang := s.Pod("g").GPUs(4).Gang("g", 4).Gated().CreateN(3)
	held := s.Pod("held").GPUs(4).Gang("g", 4).Gated().Gate("example.com/hold").Create()
	s.NoneBound(append(gang, held)...)
	s.RemoveGate(held, "example.com/hold")
	s.AllBound(append(gang, held)...)
}

// A Job is a gang through the annotations of its template, and runs to its end.
func TestGangJobRunsToItsEnd(t *testing.T) {
	bothWays(t, func(t *testing.T, gated bool) {
		s := control.Scenario(t, bed.Options{Controllers: true})
		s.Nodes(4).GPUs(8).Create()
		job := s.Pod("train").GPUs(8).Gang("train", 4).GatedIf(gated).Job(4)
		s.JobSucceeds(job)
	})
}
