package suite

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/tests/e2e/suite/bed"
)

// apart says whether the last one of the policies for tenants is in force.
func apart(t *testing.T, s *bed.Scenario) func() (bool, error) {
	berth := control.BerthClient(t)
	return func() (bool, error) {
		_, err := berth.EventsV1().Events(metav1.NamespaceDefault).Create(s.Context(), event("probe", "elsewhere"), dryRunCreate)
		if err != nil && !apierrors.IsForbidden(err) {
			return false, err
		}
		return err != nil, nil
	}
}

// keepApart puts the policies for tenants into force.
func keepApart(t *testing.T, s *bed.Scenario) {
	t.Helper()
	enforce(t, s, tenantPolicies, apart(t, s))
}

var dryRunCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func event(name, controller string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Regarding:  corev1.ObjectReference{Kind: "Pod", Name: name, Namespace: metav1.NamespaceDefault},
		EventTime:  metav1.NowMicro(), Action: "Scheduling", Reason: "Test", Type: "Normal",
		ReportingController: controller, ReportingInstance: "test",
	}
}

// user does to pods what kubectl would, as somebody.
type user struct {
	s      *bed.Scenario
	client kubernetes.Interface
}

func (u user) create(pod *bed.PodBuilder) error {
	_, err := u.client.CoreV1().Pods(pod.Build().Namespace).Create(u.s.Context(), pod.Build(), dryRunCreate)
	return err
}

func (u user) patch(pod *corev1.Pod, patch string, subresource ...string) error {
	_, err := u.client.CoreV1().Pods(pod.Namespace).Patch(u.s.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresource...)
	return err
}

func annotation(key, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
}

func label(key, value string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value)
}

// binding binds the pod, with more metadata.
func (u user) binding(pod *corev1.Pod, meta metav1.ObjectMeta) error {
	meta.Name, meta.Namespace = pod.Name, pod.Namespace
	return u.client.CoreV1().Pods(pod.Namespace).Bind(u.s.Context(), &corev1.Binding{
		ObjectMeta: meta, Target: corev1.ObjectReference{Kind: "Node", Name: "node-000"},
	}, dryRunCreate)
}

// denied checks that a policy refused a request, and that the answer says what
// to do.
func denied(t *testing.T, what string, err error, policy, advice string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), advice) {
		t.Errorf("%s: want %s to refuse it and say %q, got: %v", what, policy, advice, err)
	}
}

// allowed checks that a request was not refused.
func allowed(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// Nobody but Berth writes Berth's annotations and its leader label: not at
// creation, not later, not through a subresource, not by way of a Binding, and
// not in a template.
func TestOnlyBerthWritesItsFields(t *testing.T) {
	s := control.Scenario(t, bed.Options{Controllers: true})
	s.Nodes(1).GPUs(8).Create()
	tenant := user{s, s.Tenant("team-a")}
	bound := s.Pod("bound").Namespace("team-a").GPUs(1).Gated().Create()
	waiting := s.Pod("waiting").Namespace("team-a").Scheduler("nobody").Create()
	s.AllBound(bound)
	keepApart(t, s)

	const policy = "berth-own-fields"
	for _, key := range []string{"berth.dev/plan", "berth.dev/devices", "berth.dev/eviction-time", "berth.dev/leading"} {
		advice := key + ": leave it out of new pods, pod templates and Bindings"
		denied(t, "create with "+key, tenant.create(s.Pod("p").Namespace("team-a").Annotation(key, "x")), policy, advice)
		denied(t, "write "+key, tenant.patch(bound, annotation(key, `"x"`)), policy, advice)
		denied(t, "write "+key+" with the status", tenant.patch(bound, annotation(key, `"x"`), "status"), policy, advice)
		meta := metav1.ObjectMeta{Annotations: map[string]string{key: "x"}}
		denied(t, "bind with "+key, tenant.binding(waiting, meta), policy, advice)
		meta.Name, meta.Namespace = waiting.Name, waiting.Namespace
		denied(t, "bind the old way with "+key, tenant.client.CoreV1().RESTClient().Post().Namespace(waiting.Namespace).Resource("bindings").
			Body(&corev1.Binding{ObjectMeta: meta, Target: corev1.ObjectReference{Kind: "Node", Name: "node-000"}}).Do(s.Context()).Error(), policy, advice)
	}
	if s.Now(bound).Annotations["berth.dev/plan"] == "" {
		t.Error("Berth has written no plan")
	}
	denied(t, "remove the plan", tenant.patch(bound, annotation("berth.dev/plan", "null")), policy, "as it is on pods that have it")
	const leader = "only Berth writes the label berth.dev/leader"
	denied(t, "create as the leader", tenant.create(s.Pod("p").Namespace("team-a").Label(leaderLabel, "true")), policy, leader)
	denied(t, "become the leader", tenant.patch(bound, label(leaderLabel, `"true"`)), policy, leader)
	denied(t, "by the administrator", user{s, s.Client}.patch(bound, annotation("berth.dev/plan", `"x"`)), policy, "only Berth")

	// The boundary: what users write themselves, and pods that carry a plan.
	allowed(t, "a gang member", tenant.create(s.Pod("p").Namespace("team-a").GPUs(1).Gang("g", 2).Queue("default").Gated()))
	allowed(t, "another annotation", tenant.patch(bound, annotation("example.com/note", `"x"`)))
	allowed(t, "another label", tenant.patch(bound, label("example.com/note", `"x"`)))
	allowed(t, "its duration", tenant.patch(bound, annotation("berth.dev/expected-duration", `"2h"`)))
	allowed(t, "the status", tenant.patch(bound, `{"status":{"message":"x"}}`, "status"))
	allowed(t, "a plain Binding", tenant.binding(waiting, metav1.ObjectMeta{}))

	// A Job with such a template makes no pods, and says why.
	s.Pod("forged").Namespace("team-a").Annotation("berth.dev/plan", "x").Job(1)
	bed.Eventually(t, bed.Timeout, "the Job says why it has no pods", func() error {
		events, err := s.Client.CoreV1().Events("team-a").List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=forged,reason=FailedCreate"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, policy) {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(events.Items))
	})
}

// A claim that looks like kube-scheduler's own would not be counted: nobody
// else marks one, and kube-scheduler does.
func TestExtendedClaimsAreKubeSchedulers(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	gpuClass(s, gpuSelector)
	publish(s, s.Nodes(1).Create()[0], 2)
	keepApart(t, s)

	const policy, mark = "berth-extended-claims", resourcev1.ExtendedResourceClaimAnnotation
	tenant := s.Tenant("team-a").ResourceV1()
	claims := tenant.ResourceClaims("team-a")
	claim := func(note string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{note: "true"}}}
	}
	const advice = "only kube-scheduler writes the annotation " + mark
	_, err := claims.Create(s.Context(), claim(mark), dryRunCreate)
	denied(t, "create with the mark", err, policy, advice)
	_, err = claims.Create(s.Context(), claim("example.com/note"), metav1.CreateOptions{})
	allowed(t, "create without", err)
	_, err = claims.Patch(s.Context(), "c", types.MergePatchType, []byte(annotation(mark, `"true"`)), metav1.PatchOptions{})
	denied(t, "mark it later", err, policy, advice)
	_, err = claims.Patch(s.Context(), "c", types.MergePatchType, []byte(annotation("example.com/note", `"x"`)), metav1.PatchOptions{})
	allowed(t, "another annotation", err)
	template := func(note string) error {
		_, err := tenant.ResourceClaimTemplates("team-a").Create(s.Context(), &resourcev1.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: resourcev1.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{note: "true"}}},
		}, dryRunCreate)
		return err
	}
	denied(t, "a template that marks", template(mark), policy, advice)
	allowed(t, "another template", template("example.com/note"))

	s.AllBound(s.Pod("extended").GPUs(2).Create())
}

// Devices that are claimed by hand are counted against no queue: nobody but
// administrators and kube-scheduler claims those of the policy.
func TestDeviceClaimsGoThroughBerth(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	gpuClass(s, gpuSelector)
	publish(s, s.Nodes(1).Create()[0], 2)
	keepApart(t, s)

	const policy, advice = "berth-device-claims", "go past the quota of their queue"
	tenant := user{s, s.Tenant("team-a")}
	exactly := func(class string) resourcev1.ResourceClaimSpec {
		return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class},
		}}}}
	}
	oneOf := func(classes ...string) resourcev1.ResourceClaimSpec {
		request := resourcev1.DeviceRequest{Name: "r"}
		for i, class := range classes {
			request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{Name: fmt.Sprintf("s%d", i), DeviceClassName: class})
		}
		return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}}
	}
	for _, c := range []struct {
		what    string
		spec    resourcev1.ResourceClaimSpec
		refused bool
	}{
		{"a GPU", exactly("gpu.nvidia.com"), true},
		{"a part of one", exactly("mig.nvidia.com"), true},
		{"a GPU if nothing else", oneOf("nic.example.com", "gpu.nvidia.com"), true},
		{"a network card", exactly("nic.example.com"), false},
		{"one of two", oneOf("nic.example.com", "fast.example.com"), false},
		{"nothing", resourcev1.ResourceClaimSpec{}, false},
	} {
		try := func(client kubernetes.Interface) (error, error) {
			meta := metav1.ObjectMeta{Name: "device-claim"}
			_, claim := client.ResourceV1().ResourceClaims("team-a").Create(s.Context(), &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: c.spec}, dryRunCreate)
			_, template := client.ResourceV1().ResourceClaimTemplates("team-a").Create(s.Context(), &resourcev1.ResourceClaimTemplate{
				ObjectMeta: meta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: c.spec},
			}, dryRunCreate)
			return claim, template
		}
		claim, template := try(tenant.client)
		if c.refused {
			denied(t, "a claim of "+c.what, claim, policy, advice)
			denied(t, "a template of "+c.what, template, policy, advice)
		} else {
			allowed(t, "a claim of "+c.what, claim)
			allowed(t, "a template of "+c.what, template)
		}
		claim, template = try(s.Client)
		allowed(t, "by an administrator: a claim of "+c.what, claim)
		allowed(t, "by an administrator: a template of "+c.what, template)
	}
	pod := func(class string) *bed.PodBuilder {
		return s.Pod("p").Namespace("team-a").Resource(corev1.ResourceName("deviceclass.resource.kubernetes.io/"+class), "1")
	}
	denied(t, "a class as a resource", tenant.create(pod("gpu.nvidia.com")), policy, "ask for the resource that the policy of Berth names")
	allowed(t, "another class as a resource", tenant.create(pod("nic.example.com")))

	s.AllBound(s.Pod("extended").GPUs(2).Create()) // for which kube-scheduler makes a claim
}

// What a pod was bound under stays; before that it may change.
func TestQueueAndGangAreFixedWhenBound(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(1).GPUs(8).Create()
	tenant := user{s, s.Tenant("team-a")}
	bound := s.Pod("bound").Namespace("team-a").GPUs(1).Gang("g", 1).Queue("default").Create()
	free := s.Pod("free").Namespace("team-a").Create()
	waiting := s.Pod("waiting").Namespace("team-a").GPUs(9).Gang("w", 1).Queue("default").Create()
	s.AllBound(bound, free)
	keepApart(t, s)

	const policy, advice = "berth-fixed-when-bound", "delete the pod and create it again"
	for _, change := range []string{
		label("berth.dev/queue", `"other"`), label("berth.dev/queue", "null"),
		label("berth.dev/gang", `"other"`), label("berth.dev/gang", "null"),
		label("berth.dev/preemptible", `"false"`), label("berth.dev/class", `"inference"`),
		label("scheduling.x-k8s.io/pod-group", `"other"`), label("kueue.x-k8s.io/queue-name", `"other"`),
		annotation("scheduling.k8s.io/group-name", `"other"`), annotation("kai.scheduler/queue", `"other"`),
		annotation("berth.dev/gang-size", `"2"`), annotation("berth.dev/gang-min-member", `"1"`),
		annotation("berth.dev/whole-node", `"true"`), annotation("berth.dev/gpu-milli", `"1"`),
	} {
		denied(t, change, tenant.patch(bound, change), policy, advice)
		denied(t, change+" with the status", tenant.patch(bound, change, "status"), policy, advice)
		allowed(t, "of a waiting pod: "+change, tenant.patch(waiting, change))
	}
	allowed(t, "another project's word on a pod that Berth has not planned", tenant.patch(free, label("kueue.x-k8s.io/queue-name", `"other"`)))
	denied(t, "a queue for a pod that had none", tenant.patch(free, label("berth.dev/queue", `"other"`)), policy, advice)
	allowed(t, "the same value", tenant.patch(bound, label("berth.dev/queue", `"default"`)))
	allowed(t, "another label", tenant.patch(bound, label("example.com/note", `"x"`)))
	allowed(t, "its image", tenant.patch(bound, `{"spec":{"containers":[{"name":"main","image":"test.invalid/other"}]}}`))
	s.Fail(bound) // as the kubelet reports it
}

// Pods with devices name a scheduler that asks Berth, and no node; others do as
// they like.
func TestDevicePodsGoThroughBerth(t *testing.T) {
	s := control.Scenario(t, bed.Options{Controllers: true})
	s.Nodes(2).GPUs(8).Create()
	tenant := user{s, s.Tenant("team-a")}
	keepApart(t, s)
	pod := func() *bed.PodBuilder { return s.Pod("p").Namespace("team-a") }

	const policy = "berth-device-pods"
	const scheduler = "set spec.schedulerName to default-scheduler or berth, not to elsewhere"
	const node = "leave it out and ask for a node by spec.nodeSelector or spec.affinity"
	denied(t, "another scheduler", tenant.create(pod().GPUs(1).Scheduler("elsewhere")), policy, scheduler)
	denied(t, "a node of its own", tenant.create(pod().GPUs(1).On("node-000")), policy, node)
	inInit := pod().Scheduler("elsewhere").InitGPUs(1)
	denied(t, "a device for an init container", tenant.create(inInit), policy, scheduler)
	denied(t, "by the administrator", user{s, s.Client}.create(pod().GPUs(1).On("node-000")), policy, node)

	allowed(t, "the default scheduler", tenant.create(pod().GPUs(1)))
	allowed(t, "Berth's own", tenant.create(pod().GPUs(1).Scheduler("berth")))
	allowed(t, "another scheduler without devices", tenant.create(pod().Scheduler("elsewhere")))
	allowed(t, "a node without devices", tenant.create(pod().On("node-000")))
	allowed(t, "a device that the policy does not name", tenant.create(pod().Resource("example.com/fpga", "1").On("node-000")))

	// A kubelet reports the static pods that it runs already.
	kubelet := user{s, s.KubeletClient("node-000")}
	allowed(t, "a static pod", kubelet.create(pod().GPUs(1).On("node-000").
		Annotation(corev1.MirrorPodAnnotationKey, "x").Annotation("kubernetes.io/config.source", "file")))

	// DaemonSets come through the scheduler like everybody else.
	daemons := s.Pod("daemon").Namespace("team-a").GPUs(1).Label("app", "daemon").DaemonSet()
	bed.Eventually(t, bed.Timeout, "the DaemonSet runs on each node", func() error {
		now, err := s.Client.AppsV1().DaemonSets("team-a").Get(s.Context(), daemons.Name, bed.GetOptions)
		if err != nil {
			return err
		}
		return bed.Unless(now.Status.NumberReady == 2, "%+v", now.Status)
	})
}

// With all policies in force tenants run gangs, single pods and Jobs as without
// them: kube-scheduler, the controllers, and two Berths that elect a leader all
// do their work under the identities that they have in a cluster.
func TestGangsRunUnderAllPolicies(t *testing.T) {
	s := control.Scenario(t, bed.Options{Controllers: true, Replicas: 2})
	s.Nodes(2).GPUs(8).Create()
	tenant := s.Tenant("team-a")
	admissionGate(t, s)
	keepApart(t, s)

	train := s.Pod("train").Namespace("team-a").GPUs(4).Gang("train", 4).Queue("default").JobBy(tenant, 4)
	s.JobSucceeds(train)
	plain := s.Pod("plain").Namespace("team-a").JobBy(tenant, 2)
	s.JobSucceeds(plain)
	leader, follower := s.Leader()
	leader.Signal(15)
	if err := leader.Wait(); err != nil {
		t.Error(err)
	}
	bed.Eventually(t, bed.Timeout, "the other one leads", func() error {
		return bed.Unless(follower.Labelled() && follower.Leads(), "it does not")
	})
	again := s.Pod("again").Namespace("team-a").GPUs(4).Gang("again", 4).Queue("default").JobBy(tenant, 4)
	s.JobSucceeds(again)
	// No refusal of what anybody here does in the ordinary way.
	events, err := s.Client.CoreV1().Events("").List(s.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if strings.Contains(e.Message, "ValidatingAdmissionPolicy") {
			t.Errorf("%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
		}
	}
}

// twoQueues lets team-a use two queues, one of which has a limit.
const twoQueues = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
queues:
- name: small
  namespaces: [team-a]
  limit: {nvidia.com/gpu: 8}
- name: large
  namespaces: [team-a]
`

// What a restarted Berth believes of bound pods, it has written itself: a charge
// is neither moved to another queue that the tenant may use, nor made smaller.
func TestChargesCannotBeMoved(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: twoQueues})
	s.Nodes(4).GPUs(8).Create()
	tenant := user{s, s.Tenant("team-a")}
	keepApart(t, s)

	// A launcher without devices is the gang's first member.
	launcher := s.Pod("launcher").Namespace("team-a").Gang("mpi", 2).Queue("small").Gated().Create()
	worker := s.Pod("worker").Namespace("team-a").GPUs(1).WholeNode().Gang("mpi", 2).Queue("small").Gated().Create()
	s.AllBound(launcher, worker)
	queueUses(t, s, "small", 8)
	for _, pod := range []*corev1.Pod{launcher, worker} {
		plan := s.Now(pod).Annotations["berth.dev/plan"]
		if !strings.Contains(plan, "queue=small") {
			t.Errorf("the plan of %s is %q", pod.Name, plan)
		}
		forged := strings.Replace(plan, "queue=small", "queue=large", 1)
		denied(t, "another queue in the plan", tenant.patch(pod, annotation("berth.dev/plan", fmt.Sprintf("%q", forged))), "berth-own-fields", "only Berth writes")
		denied(t, "no plan", tenant.patch(pod, annotation("berth.dev/plan", "null")), "berth-own-fields", "only Berth writes")
		denied(t, "another queue", tenant.patch(pod, label("berth.dev/queue", `"large"`)), "berth-fixed-when-bound", "is fixed once")
	}
	denied(t, "no whole node any more", tenant.patch(worker, annotation("berth.dev/whole-node", "null")), "berth-fixed-when-bound", "is fixed once")

	s.StopBerth()
	s.StartBerth()
	queueUses(t, s, "small", 8)
	queueUses(t, s, "large", 0)
	next := s.Pod("next").Namespace("team-a").GPUs(1).Queue("small").Gated().Create()
	s.NoneBound(next)
	s.AllBound(s.Pod("other").Namespace("team-a").GPUs(8).Queue("large").Gated().Create())
}
