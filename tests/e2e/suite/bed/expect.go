package bed

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Pods joins lists of pods.
func Pods(lists ...[]*corev1.Pod) (all []*corev1.Pod) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// Now returns the pod as it is now; the test fails if it is gone.
func (s *Scenario) Now(pod *corev1.Pod) *corev1.Pod {
	s.T.Helper()
	if current := s.current(pod); current != nil {
		return current
	}
	s.T.Fatalf("pod %s is gone", pod.Name)
	return nil
}

func (s *Scenario) current(pod *corev1.Pod) *corev1.Pod {
	current := s.observer.pod(nameOf(pod))
	if current == nil || current.UID != pod.UID {
		return nil
	}
	return current
}

// NodeOf returns the node that the pod is bound to, or "".
func (s *Scenario) NodeOf(pod *corev1.Pod) string {
	if current := s.current(pod); current != nil {
		return current.Spec.NodeName
	}
	return ""
}

// NodesOf counts the pods on each node; pods that are not bound count under "".
func (s *Scenario) NodesOf(pods []*corev1.Pod) map[string]int {
	counts := map[string]int{}
	for _, pod := range pods {
		counts[s.NodeOf(pod)]++
	}
	return counts
}

// Nominated returns the pod's last nomination that was not empty.
func (s *Scenario) Nominated(pod *corev1.Pod) string { return s.observer.history(pod.UID).nominated }

// Evicted says whether somebody deleted the pod.
func (s *Scenario) Evicted(pod *corev1.Pod) bool { return s.observer.history(pod.UID).deleted }

// Bound counts how many of the pods are bound now.
func (s *Scenario) Bound(pods ...*corev1.Pod) (n int) {
	for _, pod := range pods {
		if s.NodeOf(pod) != "" {
			n++
		}
	}
	return n
}

// EverBound counts how many of the pods were bound at some time.
func (s *Scenario) EverBound(pods ...*corev1.Pod) (n int) {
	for _, pod := range pods {
		if s.observer.history(pod.UID).bound {
			n++
		}
	}
	return n
}

// AllBound waits until every pod is bound.
func (s *Scenario) AllBound(pods ...*corev1.Pod) {
	s.T.Helper()
	s.AllBoundWithin(Timeout, pods...)
}

// AllBoundWithin is AllBound with another patience.
func (s *Scenario) AllBoundWithin(limit time.Duration, pods ...*corev1.Pod) {
	s.T.Helper()
	Eventually(s.T, limit, "all bound", func() error {
		var waiting []string
		for _, pod := range pods {
			if s.NodeOf(pod) == "" {
				waiting = append(waiting, pod.Name)
			}
		}
		return Unless(len(waiting) == 0, "%d of %d wait: %s; %s", len(waiting), len(pods), abridged(waiting), s.story(pods, waiting))
	})
}

// story says for a waiting pod what its scheduler and Berth say about it.
func (s *Scenario) story(pods []*corev1.Pod, waiting []string) string {
	for _, pod := range pods {
		if len(waiting) == 0 || pod.Name != waiting[0] {
			continue
		}
		current := s.current(pod)
		if current == nil {
			return pod.Name + " is gone"
		}
		story := fmt.Sprintf("%s: gates %v nominated %q", pod.Name, current.Spec.SchedulingGates, current.Status.NominatedNodeName)
		for _, condition := range current.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				story += " condition: " + condition.Message
			}
		}
		if s.hasBerth() {
			if why, err := s.Why(pod); err == nil {
				story += " why: " + why.Raw
			}
		}
		return story
	}
	return ""
}

func abridged(names []string) string {
	if len(names) > 5 {
		names = append(names[:5:5], "...")
	}
	return strings.Join(names, " ")
}

// settle is for how long nothing may happen before NoneBound believes it.
const settle = time.Second

// NoneBound makes sure that none of the pods has been bound at any time. It lets
// pods without devices through the scheduler meanwhile: each proves that the
// scheduler has come past what waited before it.
func (s *Scenario) NoneBound(pods ...*corev1.Pod) {
	s.T.Helper()
	for start := time.Now(); time.Since(start) < settle; {
		s.Marker()
		if n := s.EverBound(pods...); n > 0 {
			s.T.Fatalf("%d of %d pods are bound that should all wait", n, len(pods))
		}
	}
}

// StayBound makes sure that all pods remain bound and are not deleted.
func (s *Scenario) StayBound(pods ...*corev1.Pod) {
	s.T.Helper()
	for start := time.Now(); time.Since(start) < settle; {
		s.Marker()
		for _, pod := range pods {
			if s.Evicted(pod) || s.NodeOf(pod) == "" {
				s.T.Fatalf("pod %s has lost its node", pod.Name)
			}
		}
	}
}

// Marker sends a pod without devices through the scheduler.
func (s *Scenario) Marker() {
	s.T.Helper()
	s.markers++
	builder := s.Pod(fmt.Sprintf("marker-%d", s.markers)).CPU("1m")
	builder.pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	marker := builder.Create()
	Eventually(s.T, Timeout, "the scheduler takes a marker pod", func() error {
		return Unless(s.NodeOf(marker) != "", "not bound")
	})
	s.DeleteNow(marker)
}

// AllGone waits until the pods are gone from the API.
func (s *Scenario) AllGone(pods ...*corev1.Pod) {
	s.T.Helper()
	Eventually(s.T, Timeout, "all gone", func() error {
		for _, pod := range pods {
			if s.current(pod) != nil {
				return fmt.Errorf("%s is still there", pod.Name)
			}
		}
		return nil
	})
}

// PodsOf returns the pods of a Job, bound or not.
func (s *Scenario) PodsOf(namespace, job string) (pods []*corev1.Pod) {
	for _, obj := range s.observer.informer.GetStore().List() {
		pod := obj.(*corev1.Pod)
		if pod.Namespace == namespace && pod.Labels["batch.kubernetes.io/job-name"] == job {
			pods = append(pods, pod)
		}
	}
	return pods
}

// JobSucceeds waits until the Job is complete.
func (s *Scenario) JobSucceeds(job *batchv1.Job) {
	s.T.Helper()
	Eventually(s.T, 2*Timeout, "the Job completes", func() error {
		current, err := s.Client.BatchV1().Jobs(job.Namespace).Get(s.ctx, job.Name, GetOptions)
		if err != nil {
			return err
		}
		return Unless(current.Status.Succeeded == *job.Spec.Completions, "%d of %d pods succeeded, %d failed",
			current.Status.Succeeded, *job.Spec.Completions, current.Status.Failed)
	})
}
