package suite

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// An API server that is away for longer than a leader may go on without renewing:
// it steps down, both replicas stay, and when the API server is back one of them
// leads and pods are bound.
func TestAPIServerAwayBeyondATerm(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(2).GPUs(8).Create()
	leader, follower := s.Leader()
	before := s.Pod("before").GPUs(4).CreateN(2)
	s.AllBound(before...)
	began := time.Now()
	s.WithoutAPIServer(func() {
		bed.Eventually(t, bed.Timeout, "the leader steps down", func() error {
			return bed.Unless(leader.LeaderMetric() == 0, "it leads")
		})
		t.Logf("OUTAGE API server away: the leader steps down after %v", time.Since(began).Round(time.Millisecond))
		refusesVerbs(t, leader)
	})
	back := time.Now()
	bed.Eventually(t, 2*bed.Timeout, "a replica leads", func() error {
		return bed.Unless(leader.Leads() || follower.Leads(), "nobody does")
	})
	t.Logf("OUTAGE API server back: %v until a replica leads", time.Since(back).Round(time.Millisecond))
	// The bed's own informers come back late, too: the API server itself is asked.
	plain, one := s.Pod("plain").Create(), s.Pod("after").GPUs(4).Create()
	for _, pod := range []*corev1.Pod{plain, one} {
		bed.Eventually(t, 3*bed.Timeout, pod.Name+" is bound", func() error {
			now, err := s.Client.CoreV1().Pods(pod.Namespace).Get(s.Context(), pod.Name, bed.GetOptions)
			return bed.Unless(err == nil && now.Spec.NodeName != "", "%v", err)
		})
		t.Logf("OUTAGE API server back: %v until %s is bound", time.Since(back).Round(time.Millisecond), pod.Name)
	}
	s.AllBoundWithin(2*bed.Timeout, one)
	s.StayBound(before...)
}

// An API server that takes a second for each answer to Berth, as with a slow etcd:
// the leader keeps its Lease, and a gang starts whole, in its own time.
func TestSlowAPIServer(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(2).GPUs(8).Create()
	leader, _ := s.Leader()
	for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodPatch} {
		s.Proxy.Add(&bed.Rule{Method: method, Do: bed.Delay(time.Second)})
	}
	lease := *s.Lease().Spec.LeaseTransitions
	began := time.Now()
	gang := s.Pod("g").GPUs(1).Gang("g", 8).Gated().CreateN(8)
	s.AllBound(s.Pod("plain").Create())
	t.Logf("OUTAGE slow writes: %v until a pod without devices is bound", time.Since(began).Round(time.Millisecond))
	s.AllBoundWithin(2*bed.Timeout, gang...)
	t.Logf("OUTAGE slow writes: %v until a gang of 8 is bound", time.Since(began).Round(time.Millisecond))
	if now := *s.Lease().Spec.LeaseTransitions; now != lease || leader.LeaderMetric() != 1 {
		t.Errorf("the Lease went from hand to hand: %d, %d", lease, now)
	}
}

// Both replicas killed: nothing with devices starts, pods without do, and when
// they are started again one leads as soon as the dead leader's Lease has expired.
func TestBothReplicasGone(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	s.Nodes(2).GPUs(8).Create()
	leader, follower := s.Leader()
	s.AllBound(s.Pod("before").GPUs(1).Create())
	killed := time.Now()
	for _, r := range []*bed.Replica{leader, follower} {
		r.Signal(syscall.SIGKILL)
		_ = r.Wait()
	}
	pods := s.Pod("p").GPUs(1).CreateN(8)
	s.NoneBound(pods...) // it lets pods without devices through meanwhile
	leader.Start()
	follower.Start()
	s.AllBoundWithin(3*bed.Timeout, pods...)
	t.Logf("OUTAGE both killed and started again: %v until the last pod is bound", time.Since(killed).Round(time.Millisecond))
}
