package suite

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/tests/e2e/suite/bed"
)

const suspendedLabel = "berth.dev/suspended"

// jobNow reads the Job.
func jobNow(t *testing.T, s *bed.Scenario, job *batchv1.Job) *batchv1.Job {
	t.Helper()
	now, err := s.Client.BatchV1().Jobs(job.Namespace).Get(s.Context(), job.Name, bed.GetOptions)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// podsOf waits until the Job has n pods, none of them in `before`.
func podsOf(t *testing.T, s *bed.Scenario, job *batchv1.Job, n int, before ...*corev1.Pod) []*corev1.Pod {
	t.Helper()
	return podsOfJobs(t, s, []string{job.Name}, n, before...)
}

// podsOfJobs does so for several Jobs of the namespace default together.
func podsOfJobs(t *testing.T, s *bed.Scenario, jobs []string, n int, before ...*corev1.Pod) (pods []*corev1.Pod) {
	t.Helper()
	old := map[string]bool{}
	for _, pod := range before {
		old[string(pod.UID)] = true
	}
	bed.Eventually(t, 2*bed.Timeout, "there are pods of "+strings.Join(jobs, " and "), func() error {
		pods = nil
		for _, job := range jobs {
			for _, pod := range s.PodsOf(metav1.NamespaceDefault, job) {
				if pod.DeletionTimestamp == nil && !old[string(pod.UID)] {
					pods = append(pods, pod)
				}
			}
		}
		return bed.Unless(len(pods) == n, "%d", len(pods))
	})
	return pods
}

// fillWith makes nodes of 8 GPUs that are full with a Job of such pods, one on
// each, and the PriorityClass high.
func fillWith(t *testing.T, s *bed.Scenario, pod *bed.PodBuilder, nodes int) (*batchv1.Job, []*corev1.Pod) {
	t.Helper()
	s.PriorityClass("high", 100_000)
	s.Nodes(nodes).GPUs(8).Create()
	job := pod.GPUs(8).Gated().Job(int32(nodes))
	pods := podsOf(t, s, job, nodes)
	s.AllBound(pods...)
	return job, pods
}

// A Job whose pods are all evicted is suspended instead: the Job controller
// counts no failure, so that a Job without retries (backoffLimit: 0) and without
// a podFailurePolicy runs again once there is room. All this is within Berth's
// rights and the policies that bind its account.
func TestJobIsSuspendedInsteadOfItsPodsEvicted(t *testing.T) {
	s := control.Scenario(t, bed.Options{Jobs: true})
	s.SuspendJobs()
	keepApart(t, s)
	low, before := fillWith(t, s, s.Pod("low").Gang("low", 2), 2)
	s.Kubelet.HoldTerminating(true)
	high := s.Pod("high").GPUs(8).Gang("high", 2).Priority("high").Gated().Job(2)
	bed.Eventually(t, bed.Timeout, "the Job is suspended with Berth's label", func() error {
		now := jobNow(t, s, low)
		return bed.Unless(*now.Spec.Suspend && now.Labels[suspendedLabel] == "true", "suspend %v, labels %v", *now.Spec.Suspend, now.Labels)
	})
	for _, pod := range before {
		bed.Eventually(t, bed.Timeout, pod.Name+" ends", func() error {
			now := s.Now(pod)
			return bed.Unless(now.DeletionTimestamp != nil && now.Annotations["berth.dev/evicted-for"] == "default/gang/high", "%v", now.Annotations)
		})
		isTold(t, s, pod, "Preempted", "priority 100000 in queue default")
	}
	s.Kubelet.HoldTerminating(false)
	s.DeleteNow(before...)
	urgent := podsOf(t, s, high, 2)
	s.AllBound(urgent...)

	after := podsOf(t, s, low, 2, before...)
	now := jobNow(t, s, low)
	if *now.Spec.Suspend || now.Labels[suspendedLabel] != "" || now.Status.Failed != 0 {
		t.Errorf("the Job is suspended: %v, its labels are %v, %d pods failed", *now.Spec.Suspend, now.Labels, now.Status.Failed)
	}
	s.NoneBound(after...)
	if n := s.Metrics()[`berth_evictions_total{reason="preemption"}`]; n != 2 {
		t.Errorf("%v evictions are counted", n)
	}
	s.Succeed(urgent...)
	s.AllBound(after...)
	s.Succeed(after...)
	s.JobSucceeds(low)
}

// Whoever leads next resumes what the last one has suspended.
func TestJobIsResumedByTheNextLeader(t *testing.T) {
	s := control.Scenario(t, bed.Options{Jobs: true})
	s.SuspendJobs()
	low, before := fillWith(t, s, s.Pod("low"), 1)
	s.Kubelet.HoldTerminating(true)
	high := s.Pod("high").GPUs(8).Priority("high").Gated().Create()
	bed.Eventually(t, bed.Timeout, "the Job is suspended", func() error {
		return bed.Unless(*jobNow(t, s, low).Spec.Suspend && s.Now(before[0]).DeletionTimestamp != nil, "not yet")
	})
	s.KillBerth(syscall.SIGKILL)
	s.Kubelet.HoldTerminating(false)
	s.DeleteNow(before...)
	s.AllGone(before...)
	s.StartBerth()
	s.AllBound(high)
	after := podsOf(t, s, low, 1, before...)
	if now := jobNow(t, s, low); *now.Spec.Suspend || now.Status.Failed != 0 {
		t.Errorf("the Job is suspended: %v, %d pods failed", *now.Spec.Suspend, now.Status.Failed)
	}
	s.Succeed(high)
	s.AllBound(after...)

	// There is no Job to resume for the next one, and so nothing to warn of.
	s.KillBerth(syscall.SIGKILL)
	s.StartBerth()
	s.Succeed(after...)
	s.AllBound(s.Pod("last").GPUs(8).Gated().Create())
	if strings.Contains(s.BerthLog(), "could not be resumed yet") {
		t.Errorf("it warns of Jobs that were not resumed")
	}
}

// Where other pods of the Job would end with those that are evicted, or without
// the right to suspend Jobs, pods are evicted one by one.
func TestPodsAreEvictedWhereTheirJobIsNotSuspended(t *testing.T) {
	for name, suspends := range map[string]bool{"the Job has other pods": true, "without the right": false} {
		t.Run(name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Jobs: true})
			if suspends {
				s.SuspendJobs()
			}
			low, _ := fillWith(t, s, s.Pod("low"), 2)
			high := s.Pod("high").GPUs(8).Priority("high").Gated().Create()
			s.AllBound(high)
			wasSuspended := func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended }
			if now := jobNow(t, s, low); *now.Spec.Suspend || slices.ContainsFunc(now.Status.Conditions, wasSuspended) {
				t.Errorf("the Job was suspended: %+v", now.Status.Conditions)
			}
		})
	}
}

// jobSetNow reads the JobSet: whether it is suspended, its label, and how it ended.
func jobSetNow(t *testing.T, s *bed.Scenario, name string) (suspended bool, label, end string) {
	t.Helper()
	set, err := s.Dynamic().Resource(bed.JobSets).Namespace(metav1.NamespaceDefault).Get(s.Context(), name, bed.GetOptions)
	if err != nil {
		t.Fatal(err)
	}
	suspended, _, _ = unstructured.NestedBool(set.Object, "spec", "suspend")
	end, _, _ = unstructured.NestedString(set.Object, "status", "terminalState")
	return suspended, set.GetLabels()[suspendedLabel], end
}

// fillWithJobSet makes two nodes of 8 GPUs that are full with the pods of a
// JobSet, one of each of its two Jobs, and the PriorityClass high. `retries` is the
// backoffLimit of its Jobs.
func fillWithJobSet(t *testing.T, s *bed.Scenario, pod *bed.PodBuilder, retries int32) (jobs []string, pods []*corev1.Pod) {
	t.Helper()
	s.SuspendJobs()
	keepApart(t, s)
	s.StartJobSetController()
	s.PriorityClass("high", 100_000)
	s.Nodes(2).GPUs(8).Create()
	jobs = pod.GPUs(8).Gated().JobSet(2, 1, retries)
	pods = podsOfJobs(t, s, jobs, 2)
	s.AllBound(pods...)
	return jobs, pods
}

// A JobSet is suspended where all pods of all its Jobs are evicted: its controller,
// which would resume a single Job of it, suspends and resumes them. None fails, so
// that a JobSet without restarts (maxRestarts: 0) goes on.
func TestJobSetIsSuspendedInsteadOfItsPodsEvicted(t *testing.T) {
	s := control.Scenario(t, bed.Options{Jobs: true})
	jobs, before := fillWithJobSet(t, s, s.Pod("low").Gang("low", 2), 0)
	s.Kubelet.HoldTerminating(true)
	high := s.Pod("high").GPUs(8).Gang("high", 2).Priority("high").Gated().Job(2)
	bed.Eventually(t, bed.Timeout, "the JobSet is suspended with Berth's label", func() error {
		suspended, label, _ := jobSetNow(t, s, "low")
		return bed.Unless(suspended && label == "true", "suspended: %v, label %q", suspended, label)
	})
	for _, pod := range before {
		bed.Eventually(t, bed.Timeout, pod.Name+" ends", func() error {
			now := s.Now(pod)
			return bed.Unless(now.DeletionTimestamp != nil && now.Annotations["berth.dev/evicted-for"] == "default/gang/high", "%v", now.Annotations)
		})
	}
	s.Kubelet.HoldTerminating(false)
	s.DeleteNow(before...)
	urgent := podsOf(t, s, high, 2)
	s.AllBound(urgent...)

	after := podsOfJobs(t, s, jobs, 2, before...)
	if suspended, label, end := jobSetNow(t, s, "low"); suspended || label != "" || end != "" {
		t.Errorf("the JobSet is suspended: %v, has the label %q, and is %q", suspended, label, end)
	}
	s.NoneBound(after...)
	s.Succeed(urgent...)
	s.AllBound(after...)
	s.Succeed(after...)
	bed.Eventually(t, 2*bed.Timeout, "the JobSet completes", func() error {
		_, _, end := jobSetNow(t, s, "low")
		return bed.Unless(end == "Completed", "%q", end)
	})
}

// Where one of its Jobs would go on, a JobSet is not suspended.
func TestJobSetWithOtherPodsIsNotSuspended(t *testing.T) {
	s := control.Scenario(t, bed.Options{Jobs: true})
	_, before := fillWithJobSet(t, s, s.Pod("low"), 6)
	high := s.Pod("high").GPUs(8).Priority("high").Gated().Create()
	s.AllBound(high)
	if suspended, label, end := jobSetNow(t, s, "low"); suspended || label != "" || end != "" {
		t.Errorf("the JobSet is suspended: %v, has the label %q, and is %q", suspended, label, end)
	}
	running := 0
	for _, pod := range before {
		now, err := s.Client.CoreV1().Pods(pod.Namespace).Get(s.Context(), pod.Name, bed.GetOptions)
		if err == nil && now.DeletionTimestamp == nil {
			running++
		}
	}
	if running != 1 {
		t.Errorf("%d of its 2 pods run on", running)
	}
}

// A pod's label alone says nothing: a JobSet is not suspended for the pods of a Job
// that it does not own.
func TestLabelOfAnotherJobSetIsNotBelieved(t *testing.T) {
	s := control.Scenario(t, bed.Options{Jobs: true})
	s.SuspendJobs()
	s.StartJobSetController()
	s.Pod("decoy").JobSet(1, 1, 0)
	low, before := fillWith(t, s, s.Pod("low").Gang("low", 2).Label("jobset.sigs.k8s.io/jobset-name", "decoy"), 2)
	high := s.Pod("high").GPUs(8).Gang("high", 2).Priority("high").Gated().Job(2)
	s.AllGone(before...)
	s.AllBound(podsOf(t, s, high, 2)...)
	if suspended, label, end := jobSetNow(t, s, "decoy"); suspended || label != "" || end != "" {
		t.Errorf("the JobSet is suspended: %v, has the label %q, and is %q", suspended, label, end)
	}
	if now := jobNow(t, s, low); *now.Spec.Suspend {
		t.Errorf("the Job %s is suspended", low.Name)
	}
}
