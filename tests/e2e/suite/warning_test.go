package suite

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// isTold waits for an Event on the pod whose note contains the text.
func isTold(t *testing.T, s *bed.Scenario, pod *corev1.Pod, reason, text string) {
	t.Helper()
	bed.Eventually(t, bed.Timeout, reason+" is said of "+pod.Name, func() error {
		events, err := s.Client.EventsV1().Events(pod.Namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		told := slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Reason == reason && event.Regarding.UID == pod.UID && strings.Contains(event.Note, text)
		})
		return bed.Unless(told, "%+v", events.Items)
	})
}

// timesOf returns when the pods are to be evicted, as far as they were told.
func timesOf(t *testing.T, s *bed.Scenario, pods []*corev1.Pod) map[*corev1.Pod]time.Time {
	t.Helper()
	times := map[*corev1.Pod]time.Time{}
	for _, pod := range pods {
		note, told := s.Now(pod).Annotations["berth.dev/eviction-time"]
		if !told {
			continue
		}
		at, err := time.Parse(time.RFC3339, note)
		if err != nil {
			t.Fatalf("%s is to be evicted at %q: %v", pod.Name, note, err)
		}
		times[pod] = at
	}
	return times
}

// With eviction.warning a pod learns of its eviction by an annotation and an
// Event, within Berth's rights, and is evicted at that time, not earlier. A
// warning that nobody needs any more is taken back.
func TestPodsAreToldOfTheirEviction(t *testing.T) {
	s := control.Scenario(t, bed.Options{Replicas: 1, Policy: "apiVersion: berth.dev/v1alpha1\nkind: PolicyConfiguration\neviction: {warning: 15s}\n"})
	s.PriorityClass("high", 100_000)
	s.Nodes(1).GPUs(8).Create()
	keepApart(t, s)
	low := s.Pod("low").GPUs(4).CreateN(2)
	s.AllBound(low...)

	leaves := s.Pod("leaves").GPUs(4).Priority("high").Gated().Create()
	var victim *corev1.Pod
	warned := func() error {
		times := timesOf(t, s, low)
		for pod := range times {
			victim = pod
		}
		return bed.Unless(len(times) == 1, "%d are told", len(times))
	}
	bed.Eventually(t, bed.Timeout, "one victim is told", warned)
	isTold(t, s, victim, "EvictionWarning", "priority 100000 in queue default")
	s.DeleteNow(leaves)
	isTold(t, s, victim, "EvictionWithdrawn", "no longer be evicted")
	bed.Eventually(t, bed.Timeout, "the annotation is gone", func() error {
		times := timesOf(t, s, low)
		return bed.Unless(len(times) == 0, "%v", times)
	})

	// kube-scheduler asks for victims of this one at once, and gets none.
	high := s.Pod("high").GPUs(4).Priority("high").Create()
	bed.Eventually(t, bed.Timeout, "one victim is told", warned)
	at := timesOf(t, s, low)[victim]
	s.WhyIs(high, "WaitingForVictims")
	bed.Eventually(t, bed.Timeout, victim.Name+" is evicted", func() error {
		return bed.Unless(s.Evicted(victim), "it is not")
	})
	if early := time.Until(at); early > 0 {
		t.Errorf("it is evicted %v too early", early)
	}
	s.AllBound(high)
	for _, pod := range low {
		if pod != victim {
			s.StayBound(pod)
		}
	}
}
