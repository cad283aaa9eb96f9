package suite

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// flowcontrol reads one of the API server's own metrics, by FlowSchema or by
// priority level; -1 where there is none.
func flowcontrol(t *testing.T, metric, label, value string) float64 {
	t.Helper()
	page, err := control.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := -1.0
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, metric+"{") || !strings.Contains(line, fmt.Sprintf("%s=%q", label, value)) {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum = max(sum, 0) + n
	}
	return sum
}

// dispatched is how many requests the API server has executed by a FlowSchema.
func dispatched(t *testing.T, schema string) int {
	t.Helper()
	return int(flowcontrol(t, "apiserver_flowcontrol_dispatched_requests_total", "flow_schema", schema))
}

// The API server gives Berth's Bindings, plans and Lease the room that
// flowcontrol.yaml says, and nothing else of Berth's, nor anybody else's.
func TestBerthsShareOfTheAPIServer(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 2})
	objects := readFile(t, baseFolder+"/flowcontrol.yaml")
	apply := newApplier(t)
	t.Cleanup(func() {
		for _, o := range objects {
			if err := apply.delete(s.Context(), o); err != nil {
				t.Errorf("%s: %v", o, err)
			}
		}
	})
	for _, o := range objects {
		if err := apply.apply(s.Context(), o, false); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
	berth := control.BerthClient(t)
	bed.Eventually(t, bed.Timeout, "the API server goes by them", func() error {
		_, err := berth.CoreV1().Pods("default").Get(s.Context(), "none", bed.GetOptions)
		if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return bed.Unless(dispatched(t, "berth") > 0 && dispatched(t, "berth-leader-election") > 0,
			"dispatched: %d, %d", dispatched(t, "berth"), dispatched(t, "berth-leader-election"))
	})
	for metric, want := range map[string]float64{"nominal_limit_seats": 46, "lower_limit_seats": 23, "upper_limit_seats": 46} {
		if got := flowcontrol(t, "apiserver_flowcontrol_"+metric, "priority_level", "berth"); got != want {
			t.Errorf("%s is %v, the comments say %v", metric, got, want)
		}
	}

	before := dispatched(t, "berth")
	s.Nodes(2).GPUs(8).Create()
	pods := s.Pod("g").GPUs(2).Gang("g", 8).Gated().CreateN(8)
	s.AllBound(pods...)
	// Each has its plan and nomination, its gate taken off, and its Binding.
	if n := dispatched(t, "berth") - before; n < 2*len(pods) {
		t.Errorf("%d requests for %d pods", n, len(pods))
	}

	// Everybody else's writes, and Berth's own reads, are served elsewhere.
	s.Delete(pods...)
	tenant := s.Tenant("team-a")
	bed.Eventually(t, bed.Timeout, "only others' requests are counted elsewhere", func() error {
		before := dispatched(t, "berth")
		for range 5 {
			if _, err := berth.CoreV1().Pods("").List(s.Context(), metav1.ListOptions{Limit: 1}); err != nil {
				t.Fatal(err)
			}
			pod := s.Pod("p").Namespace("team-a").Build()
			if _, err := tenant.CoreV1().Pods("team-a").Create(s.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Fatal(err)
			}
		}
		return bed.Unless(dispatched(t, "berth") == before, "%d more", dispatched(t, "berth")-before)
	})
}
