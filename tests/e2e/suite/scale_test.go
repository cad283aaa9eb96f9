package suite

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// shortPark parks a bind for one second only, far less than a gang of
// thousands takes to arrive.
const shortPark = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
gang: {bindTimeout: 1s, planTimeout: 60s}
`

// A gang of 2,000 arrives slower than one call may be parked: the calls that time
// out stay counted, so the gang starts all the same, and no member before its
// minimum has arrived.
func TestGangLargerThanOneBarrier(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: shortPark, RecordVerbs: true})
	s.Nodes(250).GPUs(8).CPU(128).Create()
	// Slow releases make the delivery slower than that time, on any machine.
	s.Proxy.Add(&bed.Rule{Method: http.MethodPatch, Path: bed.PodPath, Do: bed.Delay(50 * time.Millisecond)})
	gang := s.Pod("g").GPUs(1).Gang("g", 2000).Gated().CreateN(2000)
	s.AllBoundWithin(4*time.Minute, gang...)
	refused := 0
	for _, call := range s.Verbs.Calls("bind", "") {
		if bytes.Contains(call.Answer, []byte("the arrival is counted")) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no bind timed out: the gang fitted into one barrier, so this proves nothing")
	}
	t.Logf("%d binds were parked too long and came back", refused)
}

// A member deleted while its gang's Bindings are being posted costs the gang
// that member and nothing else.
func TestMemberDeletedDuringTheBindBurst(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	hold := bed.NewHold()
	s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Skip: 3, Do: hold.Action})
	gang := s.Pod("g").GPUs(1).Gang("g", 16).Gated().CreateN(16)
	bed.Eventually(t, bed.Timeout, "the burst is half done", func() error {
		return bed.Unless(s.Bound(gang...) >= 3 && hold.Waiting() > 0, "%d bound, %d held", s.Bound(gang...), hold.Waiting())
	})
	var victim *corev1.Pod
	rest := make([]*corev1.Pod, 0, len(gang))
	for _, pod := range gang {
		if victim == nil && s.NodeOf(pod) == "" {
			victim = pod
			continue
		}
		rest = append(rest, pod)
	}
	s.DeleteNow(victim)
	s.AllGone(victim)
	s.Proxy.Clear()
	hold.Release()
	s.AllBoundWithin(2*bed.Timeout, rest...)
	// Its room is free again, for anybody.
	s.AllBound(s.Pod("next").GPUs(1).Create())
}
