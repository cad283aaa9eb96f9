package suite

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// oldBerth is the release before: BERTH_OLD_BIN, else this one too.
func oldBerth(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BERTH_OLD_BIN"); path != "" {
		t.Logf("the release before is %s", path)
		return path
	}
	t.Log("BERTH_OLD_BIN is not set: the release before is this one too")
	return berthProgram(t)
}

// keepBusy sends one pod after another through Berth until the returned function
// is called, which says how many were bound.
func (h *handbook) keepBusy() (stop func() int) {
	var running sync.WaitGroup
	done, bound := make(chan struct{}), 0
	pods := h.s.Client.CoreV1().Pods("team-b")
	running.Go(func() {
		for i := 0; ; i++ {
			pod := h.mine("team-b", fmt.Sprintf("busy-%d-%d", time.Now().UnixNano(), i)).Build()
			created, err := pods.Create(h.s.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				h.t.Error(err)
				return
			}
			for h.s.Bound(created) == 0 {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
			bound++
			if err := pods.Delete(h.s.Context(), created.Name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
				h.t.Error(err)
				return
			}
		}
	})
	return func() int {
		close(done)
		running.Wait()
		return bound
	}
}

// halfBound makes a gang of 8 of which the API server lets 4 be bound. The
// returned function lifts that and checks that the others get where they were
// planned.
func (h *handbook) halfBound(name string) (complete func()) {
	h.t.Helper()
	rule := h.s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: regexp.MustCompile("/pods/" + name + "-[4-7]/binding$"),
		Do: bed.Fail(http.StatusServiceUnavailable)})
	gang := h.mine("team-a", name).Gang(name, 8).CreateN(8)
	half := func() error {
		return bed.Unless(h.s.Bound(gang[:4]...) == 4 && h.s.Bound(gang[4:]...) == 0 && rule.Hits() > 0, "%d bound", h.s.Bound(gang...))
	}
	bed.Eventually(h.t, bed.Timeout, "half of "+name+" is bound", half)
	planned := map[string]string{}
	for _, pod := range gang {
		planned[pod.Name] = h.s.Nominated(pod)
	}
	return func() {
		h.t.Helper()
		if err := half(); err != nil {
			h.t.Fatal(err)
		}
		h.s.Proxy.Remove(rule)
		h.s.AllBoundWithin(2*bed.Timeout, gang...)
		for _, pod := range gang {
			if node := h.s.NodeOf(pod); node != planned[pod.Name] {
				h.t.Errorf("%s was planned on %q and runs on %q", pod.Name, planned[pod.Name], node)
			}
		}
		h.s.DeleteNow(gang...)
	}
}

// inTurn checks that no replica has answered a verb while another one did, and
// that so many have.
func (h *handbook) inTurn(atLeast int) {
	h.t.Helper()
	turns := h.s.Service.Turns()
	if distinct := slices.Compact(slices.Sorted(slices.Values(turns))); len(distinct) != len(turns) || len(turns) < atLeast {
		h.t.Errorf("verbs were answered by %v", turns)
	}
}

// twoOf waits until two replicas run, ready, of one image, and one of them leads.
func (h *handbook) twoOf(image string) {
	h.t.Helper()
	bed.Eventually(h.t, 2*bed.Timeout, "two replicas of "+image, func() error {
		leader, _ := h.s.Leader()
		replicas := h.s.Deployed.Berths()
		for _, r := range replicas {
			if r.Image() != image || !r.Ready() {
				return fmt.Errorf("%s of %s, ready %v", r.Name, r.Image(), r.Ready())
			}
		}
		return bed.Unless(len(replicas) == 2 && leader != nil, "%d replicas", len(replicas))
	})
}

// Under load and with a gang half bound, a release is replaced by the next one,
// and back: by the default strategy, without a verb that two replicas answer, and
// the gang is completed where it was planned. The leader can be evicted.
func TestOperationsUpgradeAndRollback(t *testing.T) {
	h := openHandbook(t, map[string]string{firstImage: oldBerth(t), nextImage: berthProgram(t)})
	h.s.Namespace("team-a")
	h.s.Namespace("team-b")
	h.s.Nodes(3).GPUs(8).Create()
	h.install()
	h.twoOf(firstImage)
	stop := h.keepBusy()

	complete := h.halfBound("up")
	h.run("upgrade")
	h.twoOf(nextImage)
	complete()
	complete = h.halfBound("down")
	h.run("rollback")
	h.twoOf(firstImage)
	complete()
	h.evictLeader()

	n := stop()
	t.Logf("%d pods meanwhile; verbs were answered by %v", n, h.s.Service.Turns())
	h.inTurn(4)
	h.s.AllBound(h.mine("team-b", "last").Create())
}

// evictLeader drains the leader's pod: that is allowed, the next one is not before
// it has been replaced.
func (h *handbook) evictLeader() {
	h.t.Helper()
	leader, follower := h.s.Leader()
	evict := func(r *bed.Replica) error {
		return h.s.Client.PolicyV1().Evictions(bed.SystemNamespace).Evict(h.s.Context(),
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: bed.SystemNamespace}})
	}
	bed.Eventually(h.t, bed.Timeout, "the disruption controller has counted them", func() error {
		budget, err := h.s.Client.PolicyV1().PodDisruptionBudgets(bed.SystemNamespace).Get(h.s.Context(), "berth", bed.GetOptions)
		return bed.Unless(err == nil && budget.Status.DisruptionsAllowed == 1, "%+v, %v", budget.Status, err)
	})
	if err := evict(leader); err != nil {
		h.t.Fatalf("the leader may not be evicted: %v", err)
	}
	if err := evict(follower); !apierrors.IsTooManyRequests(err) {
		h.t.Errorf("both at once: %v", err)
	}
	h.s.AllBound(h.mine("team-b", "evicted").Create())
	h.twoOf(firstImage)
	now, _ := h.s.Leader()
	if now.Name != follower.Name {
		h.t.Errorf("%s leads, not %s", now.Name, follower.Name)
	}
}
