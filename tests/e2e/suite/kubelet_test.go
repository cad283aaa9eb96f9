package suite

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

// A kubelet that rejects a bound pod will reject the next one like it: pods of that shape
// leave the node alone for a while, others do not, and an Event says so.
func TestRejectedByTheKubelet(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	sick := s.Nodes(1).GPUs(8).Create()[0]
	rejected := s.Pod("rejected").GPUs(2).Create()
	s.AllBound(rejected)
	patch := `{"status":{"phase":"Failed","reason":"UnexpectedAdmissionError","message":"Allocate failed"}}`
	_, err := s.Client.CoreV1().Pods(rejected.Namespace).Patch(t.Context(), rejected.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	said(s, rejected, "NodeCoolingDown", sick)

	like := s.Pod("like").GPUs(2).Create()
	unlike := s.Pod("unlike").GPUs(1).Create()
	s.AllBound(unlike)
	s.NoneBound(like)
	well := s.Nodes(1).Prefix("well").GPUs(8).Create()[0]
	s.AllBound(like)
	if node := s.NodeOf(like); node != well {
		t.Errorf("bound to %s, which rejected its like; want %s", node, well)
	}
}

// An ordinary failure is no such word: the next pod goes where it was.
func TestFailedPodsCoolNothing(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(1).GPUs(8).Create()
	failed := s.Pod("failed").GPUs(8).Create()
	s.AllBound(failed)
	s.Fail(failed)
	s.AllBound(s.Pod("next").GPUs(8).Create())
	events, err := s.Client.EventsV1().Events(failed.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if strings.Contains(e.Reason, "Cooling") {
			t.Errorf("an Event says %s: %s", e.Reason, e.Note)
		}
	}
}
