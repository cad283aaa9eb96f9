package suite

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

// With Berth's token alone, nobody changes more of a pod than Berth does.
func TestBerthAccountIsLimited(t *testing.T) {
	s := control.Scenario(t, bed.Options{NoExtender: true})
	s.Nodes(1).GPUs(8).Create()
	berth := user{s, control.BerthClient(t)}
	pod := s.Pod("p").GPUs(1).Label("app", "train").Annotation("example.com/note", "x").Gate("example.com/elsewhere").Gated().Create()
	own := s.Pod("berth-0").Namespace(bed.SystemNamespace).Label("app.kubernetes.io/name", "berth").Create()
	keepApart(t, s)

	const policy = "berth-account"
	const spec, status = "nothing in a pod's spec but its own scheduling gate", "nothing in a pod's status but nominatedNodeName"
	removeGate := func(gate string) string {
		return fmt.Sprintf(`{"spec":{"schedulingGates":[{"name":%q,"$patch":"delete"}]}}`, gate)
	}
	for _, c := range []struct {
		pod           *corev1.Pod
		patch, advice string
	}{
		{pod, label("app", `"other"`), "no label but berth.dev/leader"},
		{pod, label("app", "null"), "no label but berth.dev/leader"},
		{pod, label("berth.dev/queue", `"other"`), "no label but berth.dev/leader"},
		{pod, label(leaderLabel, `"true"`), "no label but berth.dev/leader, and that in berth-system"},
		{pod, annotation("example.com/note", `"y"`), "no annotations but its own"},
		{pod, annotation("example.com/note", "null"), "no annotations but its own"},
		{pod, annotation("berth.dev/gang-size", `"2"`), "no annotations but its own"},
		{own, annotation("berth.dev/plan", `"x"`), "in berth-system berth.dev/leading"},
		{pod, `{"metadata":{"finalizers":["example.com/x"]}}`, "finalizers or owners"},
		{pod, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`, "finalizers or owners"},
		{pod, removeGate("example.com/elsewhere"), "no scheduling gate but berth.dev/admission"},
		{pod, `{"spec":{"containers":[{"name":"main","image":"test.invalid/evil"}]}}`, spec},
		{pod, `{"spec":{"nodeSelector":{"a":"b"}}}`, spec},
		{pod, `{"spec":{"activeDeadlineSeconds":1}}`, spec},
	} {
		denied(t, c.patch, berth.patch(c.pod, c.patch), policy, c.advice)
	}
	for _, patch := range []string{
		`{"status":{"phase":"Failed"}}`, `{"status":{"message":"x"}}`, `{"status":{"podIPs":[{"ip":"10.0.0.1"}]}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
	} {
		denied(t, patch, berth.patch(pod, patch, "status"), policy, status)
	}
	denied(t, "a label with the status", berth.patch(pod, label("app", "null"), "status"), policy, "no label")
	other := s.Pod("other").Scheduler("nobody").Create()
	denied(t, "a Binding with a label", berth.binding(other, metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}), "berth-account-bindings", "nothing on a Binding but")
	denied(t, "a Binding with an annotation", berth.binding(other, metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}), "berth-account-bindings", "nothing on a Binding but")
	events := berth.client.EventsV1().Events(metav1.NamespaceDefault)
	_, err := events.Create(s.Context(), event("e", "example.com/elsewhere"), dryRunCreate)
	denied(t, "an Event in another's name", err, "berth-account-events", "no Events but its own")
	foreign, err := s.Client.EventsV1().Events(metav1.NamespaceDefault).Create(s.Context(), event("foreign", "example.com/elsewhere"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.Patch(s.Context(), foreign.Name, types.MergePatchType, []byte(`{"series":{"count":9,"lastObservedTime":"2030-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	denied(t, "another's Event", err, "berth-account-events", "no Events but its own")

	evict := func(pod *corev1.Pod, uid types.UID) error {
		options := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		if uid != "" {
			options.Preconditions = &metav1.Preconditions{UID: &uid}
		}
		return berth.client.PolicyV1().Evictions(pod.Namespace).Evict(s.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &options})
	}
	denied(t, "an eviction in berth-system", evict(own, own.UID), "berth-account-evictions", "no pod of kube-system and berth-system")
	denied(t, "an eviction without a UID", evict(pod, ""), "berth-account-evictions", "by its UID")
	s.EvictByDelete()
	remove := func(pod *corev1.Pod, uid types.UID, dryRun ...string) error {
		options := metav1.DeleteOptions{DryRun: dryRun}
		if uid != "" {
			options.Preconditions = &metav1.Preconditions{UID: &uid}
		}
		return berth.client.CoreV1().Pods(pod.Namespace).Delete(s.Context(), pod.Name, options)
	}
	denied(t, "a deletion in berth-system", remove(own, own.UID), "berth-account-deletions", "no pod of kube-system and berth-system")
	denied(t, "a deletion without a UID", remove(pod, ""), "berth-account-deletions", "by its UID")
	denied(t, "the deletion of a pod without a mark", remove(pod, pod.UID), "berth-account-deletions", "without berth.dev/evicted-for")

	s.SuspendJobs()
	job := s.Pod("job").Job(1)
	patchJob := func(text string) error {
		_, err := berth.client.BatchV1().Jobs(job.Namespace).Patch(s.Context(), job.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	const onlySuspend = "nothing of a Job but spec.suspend"
	denied(t, "another label on a Job", patchJob(`{"metadata":{"labels":{"a":"b"}}}`), "berth-account-jobs", onlySuspend)
	denied(t, "an annotation on a Job", patchJob(`{"metadata":{"annotations":{"a":"b"}}}`), "berth-account-jobs", onlySuspend)
	denied(t, "more pods of a Job", patchJob(`{"spec":{"parallelism":7}}`), "berth-account-jobs", onlySuspend)
	denied(t, "suspending without the label", patchJob(`{"spec":{"suspend":true}}`), "berth-account-jobs", "with the label berth.dev/suspended")

	s.StartJobSetController()
	s.Pod("set").JobSet(1, 1, 0)
	patchSet := func(text string) error { return s.PatchJobSetAsBerth("set", text) }
	denied(t, "another label on a JobSet", patchSet(`{"metadata":{"labels":{"a":"b"}}}`), "berth-account-jobs", onlySuspend)
	denied(t, "another time to live of a JobSet", patchSet(`{"spec":{"ttlSecondsAfterFinished":7}}`), "berth-account-jobs", onlySuspend)
	denied(t, "suspending a JobSet without the label", patchSet(`{"spec":{"suspend":true}}`), "berth-account-jobs", "with the label berth.dev/suspended")

	// What Berth does.
	allowed(t, "suspending a JobSet", patchSet(`{"metadata":{"labels":{"berth.dev/suspended":"true"}},"spec":{"suspend":true}}`))
	allowed(t, "resuming the JobSet", patchSet(`{"metadata":{"labels":{"berth.dev/suspended":null}},"spec":{"suspend":false}}`))
	allowed(t, "suspending a Job", patchJob(`{"metadata":{"labels":{"berth.dev/suspended":"true"}},"spec":{"suspend":true}}`))
	allowed(t, "resuming it", patchJob(`{"metadata":{"labels":{"berth.dev/suspended":null}},"spec":{"suspend":false}}`))
	_, err = s.Client.BatchV1().Jobs(job.Namespace).Patch(s.Context(), job.Name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
	allowed(t, "suspending by the administrator", err)
	denied(t, "resuming what others have suspended", patchJob(`{"spec":{"suspend":false}}`), "berth-account-jobs", "resumes no other")
	denied(t, "taking it over first", patchJob(`{"metadata":{"labels":{"berth.dev/suspended":"true"}}}`), "berth-account-jobs", "resumes no other")
	nomination := `{"metadata":{"uid":%q,"annotations":{"berth.dev/plan":"v1;plan=p"}},"status":{"nominatedNodeName":"node-000"}}`
	allowed(t, "nominating", berth.patch(pod, fmt.Sprintf(nomination, pod.UID), "status"))
	allowed(t, "an eviction", evict(pod, pod.UID))
	allowed(t, "marking a victim", berth.patch(pod, fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{"berth.dev/evicted-for":"default/gang/g"}}}`, pod.UID)))
	allowed(t, "announcing an eviction", berth.patch(pod, fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{"berth.dev/eviction-time":"2027-01-15T08:00:00Z"}}}`, pod.UID)))
	allowed(t, "marking a victim that is deleted", berth.patch(pod, `{"metadata":{"annotations":{"berth.dev/evicted-for":"default/gang/g"}},"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`, "status"))
	allowed(t, "asking whether a pod could be deleted", remove(pod, pod.UID, metav1.DryRunAll))
	allowed(t, "no nomination", berth.patch(pod, `{"status":{"nominatedNodeName":null}}`, "status"))
	allowed(t, "releasing", berth.patch(pod, removeGate(bed.AdmissionGate)))
	allowed(t, "leading", berth.patch(own, `{"metadata":{"labels":{"berth.dev/leader":"true"},"annotations":{"berth.dev/leading":"x"}}}`))
	allowed(t, "a Binding with the plan", berth.binding(other, metav1.ObjectMeta{Annotations: map[string]string{"berth.dev/plan": "x", "berth.dev/devices": "{}"}}))
	_, err = events.Create(s.Context(), event("e", "berth.dev/berth"), dryRunCreate)
	allowed(t, "its own Event", err)
}
