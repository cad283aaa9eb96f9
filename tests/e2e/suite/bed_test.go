package suite

import (
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/tests/e2e/suite/bed"
	"berth.dev/tests/e2e/suite/internal/stub"
)

// The bed itself: a pod goes through the stock scheduler and an extender that
// accepts all, and the kubelet stand-in runs and ends it.
func TestBedSchedulesThroughStub(t *testing.T) {
	extender := (&stub.Extender{Client: control.Client}).Start()
	defer extender.Close()
	s := control.Scenario(t, bed.Options{Extender: extender.URL()})
	s.Nodes(4).GPUs(8).Racks(2).Create()

	pod := s.Pod("one").GPUs(1).Create()
	s.AllBound(pod)
	if extender.Filters.Load() == 0 || extender.Binds.Load() != 1 {
		t.Errorf("filter was called %d times and bind %d times", extender.Filters.Load(), extender.Binds.Load())
	}
	bed.Eventually(t, bed.Timeout, "the kubelet runs the pod", func() error {
		return bed.Unless(s.Now(pod).Status.Phase == corev1.PodRunning, "phase %s", s.Now(pod).Status.Phase)
	})
	s.Delete(pod)
	s.AllGone(pod)
}

// A pod that asks for no managed resource reaches no extender, and one that
// fits nowhere is seen to wait: NoneBound and Marker can be believed.
func TestBedSeesWaitingPods(t *testing.T) {
	extender := (&stub.Extender{Client: control.Client}).Start()
	defer extender.Close()
	s := control.Scenario(t, bed.Options{Extender: extender.URL()})
	s.Nodes(2).GPUs(8).Create()

	big := s.Pod("big").GPUs(9).Create()
	s.NoneBound(big)
	if extender.Binds.Load() != 0 {
		t.Errorf("markers without devices were bound by the extender")
	}
	pods := s.Pod("small").GPUs(1).CreateN(16)
	s.AllBound(pods...)
	if counts := s.NodesOf(pods); len(counts) != 2 {
		t.Errorf("pods by node: %v", counts)
	}
}

// Scenarios start empty: what an earlier one left is gone, namespaces included.
func TestBedCleansUp(t *testing.T) {
	for range 2 {
		s := control.Scenario(t, bed.Options{NoExtender: true})
		s.Namespace("team-a")
		s.PriorityClass("high", 1000)
		s.Nodes(1).GPUs(1).Create()
		s.AllBound(s.Pod("one").Namespace("team-a").Priority("high").GPUs(1).Create())
	}
}

// The API server comes back on its port with the old objects.
func TestBedRestartsAPIServer(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	s.Nodes(1).GPUs(2).Create()
	before := s.Pod("before").GPUs(1).Create()
	s.AllBound(before)
	s.RestartAPIServer()
	after := s.Pod("after").GPUs(1).Create()
	s.AllBound(before, after)
}

// The controllers run a Job to its end.
func TestBedRunsJobs(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true, Controllers: true})
	s.Nodes(2).GPUs(8).Create()
	job := s.Pod("train").GPUs(4).Job(4)
	s.JobSucceeds(job)
}

// The proxy passes requests on, and rules count, refuse and cut.
func TestBedProxy(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	s.Nodes(1).GPUs(2).Create()
	viaProxy := control.ProxyClient(t)
	pod := s.Pod("one").GPUs(1).Scheduler("nobody").Create()

	if _, err := viaProxy.CoreV1().Pods(pod.Namespace).Get(s.Context(), pod.Name, bed.GetOptions); err != nil {
		t.Fatalf("read through the proxy: %v", err)
	}
	refuse := s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Times: 1, Do: bed.Fail(http.StatusInternalServerError)})
	cut := s.Proxy.Add(&bed.Rule{Method: http.MethodPost, Path: bed.BindingPath, Times: 1, Do: bed.DropAfterEffect()})
	if err := bed.Bind(s.Context(), viaProxy, pod, "node-000"); err == nil || refuse.Hits() != 1 {
		t.Errorf("the refused binding: %v, %d hits", err, refuse.Hits())
	}
	if err := bed.Bind(s.Context(), viaProxy, pod, "node-000"); err == nil || cut.Hits() != 1 {
		t.Errorf("the binding whose answer was cut: %v, %d hits", err, cut.Hits())
	}
	s.AllBound(pod)
}

// The benchmarks are a module of their own over the bed. What the bed's module
// comes to need has to be in theirs too, or they do not build.
func TestBenchmarksKnowTheBedsModules(t *testing.T) {
	list := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "list", "-deps", ".")
	list.Dir = "../../../bench"
	list.Env = append(os.Environ(), "GOWORK=off")
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("%v: %.2000s", err, out)
	}
}
