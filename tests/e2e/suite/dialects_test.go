package suite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/tests/e2e/suite/bed"
)

// crd is another project's kind, as that project serves it.
type crd struct {
	group, version, kind, plural string
	clusterWide                  bool
}

var (
	volcanoPodGroup   = crd{"scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", false}
	kaiPodGroup       = crd{"scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", false}
	pluginsPodGroup   = crd{"scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", false}
	sigsPodGroup      = crd{"scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups", false}
	kueueLocalQueue   = crd{"kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", false}
	kueueClusterQueue = crd{"kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", true}
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func (c crd) name() string { return c.plural + "." + c.group }

func (c crd) path(namespace string) string {
	if c.clusterWide {
		return fmt.Sprintf("/apis/%s/%s/%s", c.group, c.version, c.plural)
	}
	return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", c.group, c.version, namespace, c.plural)
}

// manifest is the least CRD of that name: spec and status of any shape.
func (c crd) manifest() map[string]any {
	scope := "Namespaced"
	if c.clusterWide {
		scope = "Cluster"
	}
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        c.name(),
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		"spec": map[string]any{
			"group": c.group, "scope": scope,
			"names": map[string]any{
				"kind": c.kind, "listKind": c.kind + "List", "plural": c.plural, "singular": strings.ToLower(c.kind),
			},
			"versions": []any{map[string]any{
				"name": c.version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	}
}

func send(s *bed.Scenario, path string, object map[string]any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return s.Client.Discovery().RESTClient().Post().AbsPath(path).Body(body).Do(s.Context()).Error()
}

func remove(s *bed.Scenario, path string) error {
	return s.Client.Discovery().RESTClient().Delete().AbsPath(path).Do(s.Context()).Error()
}

// install serves the kind, until the test ends or uninstall is called.
func (c crd) install(t *testing.T, s *bed.Scenario) {
	t.Helper()
	if err := send(s, crdPath, c.manifest()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.uninstall(t, s) })
	bed.Eventually(t, bed.Timeout, c.name()+" is served", func() error {
		return s.Client.Discovery().RESTClient().Get().AbsPath(c.path("default")).Do(s.Context()).Error()
	})
}

func (c crd) uninstall(t *testing.T, s *bed.Scenario) {
	t.Helper()
	if err := remove(s, crdPath+"/"+c.name()); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	bed.Eventually(t, bed.Timeout, c.name()+" is served no more", func() error {
		err := s.Client.Discovery().RESTClient().Get().AbsPath(c.path("default")).Do(s.Context()).Error()
		return bed.Unless(apierrors.IsNotFound(err), "%v", err)
	})
}

// create makes an object of the kind.
func (c crd) create(t *testing.T, s *bed.Scenario, namespace, name string, spec map[string]any) {
	t.Helper()
	metadata := map[string]any{"name": name}
	if !c.clusterWide {
		metadata["namespace"] = namespace
	}
	err := send(s, c.path(namespace), map[string]any{
		"apiVersion": c.group + "/" + c.version, "kind": c.kind, "metadata": metadata, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// research is a policy in which what a dialect says decides the queue: without
// it, a pod of team-a is in the queue everybody.
const research = `apiVersion: berth.dev/v1alpha1
kind: PolicyConfiguration
queues:
- name: everybody
  namespaces: [team-a]
  limit: {nvidia.com/gpu: 16}
- name: research
  namespaces: [team-a]
  limit: {nvidia.com/gpu: 16}
`

// Each dialect's gang starts whole, with its minimum and queue from where that
// project keeps them.
func TestDialects(t *testing.T) {
	for _, dialect := range []struct {
		name  string
		kinds []crd
		// objects makes what a user of that project would apply besides the pods.
		objects func(t *testing.T, s *bed.Scenario)
		mark    func(*bed.PodBuilder) *bed.PodBuilder
		queue   string
	}{
		{
			name: "kueue", kinds: []crd{kueueLocalQueue}, queue: "research",
			objects: func(t *testing.T, s *bed.Scenario) {
				kueueLocalQueue.create(t, s, "team-a", "user-queue", map[string]any{"clusterQueue": "research"})
			},
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Label("kueue.x-k8s.io/queue-name", "user-queue").
					Label("kueue.x-k8s.io/pod-group-name", "g").Annotation("kueue.x-k8s.io/pod-group-total-count", "4")
			},
		},
		{
			name: "volcano", kinds: []crd{volcanoPodGroup}, queue: "research",
			objects: func(t *testing.T, s *bed.Scenario) {
				volcanoPodGroup.create(t, s, "team-a", "g", map[string]any{"minMember": 4, "queue": "research"})
			},
			mark: func(b *bed.PodBuilder) *bed.PodBuilder { return b.Annotation("scheduling.k8s.io/group-name", "g") },
		},
		{
			name: "kai", kinds: []crd{kaiPodGroup}, queue: "research",
			objects: func(t *testing.T, s *bed.Scenario) {
				kaiPodGroup.create(t, s, "team-a", "g", map[string]any{"minMember": 4, "queue": "research"})
			},
			mark: func(b *bed.PodBuilder) *bed.PodBuilder { return b.Annotation("pod-group-name", "g") },
		},
		{
			name: "koordinator", kinds: []crd{sigsPodGroup}, queue: "research",
			objects: func(t *testing.T, s *bed.Scenario) {
				sigsPodGroup.create(t, s, "team-a", "g", map[string]any{"minMember": 4, "scheduleTimeoutSeconds": 100})
			},
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Label("pod-group.scheduling.sigs.k8s.io", "g").Label("quota.scheduling.koordinator.sh/name", "research")
			},
		},
		{
			// The older annotations need no object.
			name: "volcano by annotations", queue: "research",
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Annotation("scheduling.volcano.sh/group-name", "g").Annotation("scheduling.volcano.sh/group-min-member", "4").
					Annotation("scheduling.volcano.sh/queue-name", "research")
			},
		},
		{
			name: "kai by labels", queue: "research",
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Annotation("pod-group-name", "g").Annotation("kai.scheduler/batch-min-member", "4").
					Label("kai.scheduler/queue", "research")
			},
		},
		{
			name: "koordinator by annotations", queue: "research",
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				const gang = "gang.scheduling.koordinator.sh/"
				return b.Annotation(gang+"name", "g").Annotation(gang+"min-available", "4").Annotation(gang+"total-number", "4").
					Label("quota.scheduling.koordinator.sh/name", "research")
			},
		},
		{
			name: "scheduler-plugins of old", queue: "everybody",
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Label("pod-group.scheduling.sigs.k8s.io/name", "g").Label("pod-group.scheduling.sigs.k8s.io/min-available", "4")
			},
		},
		{
			// Each says what it knows: Volcano's gang in Kueue's queue.
			name: "two dialects on one pod", kinds: []crd{kueueLocalQueue, volcanoPodGroup}, queue: "research",
			objects: func(t *testing.T, s *bed.Scenario) {
				kueueLocalQueue.create(t, s, "team-a", "user-queue", map[string]any{"clusterQueue": "research"})
				volcanoPodGroup.create(t, s, "team-a", "g", map[string]any{"minMember": 4, "queue": "everybody"})
			},
			mark: func(b *bed.PodBuilder) *bed.PodBuilder {
				return b.Annotation("scheduling.k8s.io/group-name", "g").Label("kueue.x-k8s.io/queue-name", "user-queue")
			},
		},
		{
			// It has no queues: its quota is the namespace's.
			name: "scheduler-plugins", kinds: []crd{pluginsPodGroup}, queue: "everybody",
			objects: func(t *testing.T, s *bed.Scenario) {
				pluginsPodGroup.create(t, s, "team-a", "g", map[string]any{"minMember": 4})
			},
			mark: func(b *bed.PodBuilder) *bed.PodBuilder { return b.Label("scheduling.x-k8s.io/pod-group", "g") },
		},
	} {
		t.Run(dialect.name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Policy: research})
			for _, kind := range dialect.kinds {
				kind.install(t, s)
			}
			s.Namespace("team-a")
			s.Nodes(2).GPUs(8).Create()
			if dialect.objects != nil {
				dialect.objects(t, s)
			}
			member := dialect.mark(s.Pod("g").Namespace("team-a").GPUs(4))
			gang := member.CreateRange(0, 3)
			bed.Eventually(t, bed.Timeout, "its minimum and queue are known", func() error {
				why, err := s.Why(gang[0])
				known := why.Reason == "WaitingForMembers" && strings.Contains(why.Raw, `"minMember":4`) &&
					strings.Contains(why.Raw, fmt.Sprintf(`"queue":%q`, dialect.queue))
				return bed.Unless(err == nil && known, "%s, %v", why.Raw, err)
			})
			s.NoneBound(gang...)
			gang = append(gang, member.CreateRange(3, 4)...)
			s.AllBound(gang...)
			// What it uses is charged to that queue, which has no more.
			over := s.Pod("over").Namespace("team-a").GPUs(1).Queue(dialect.queue).Create()
			s.WhyIs(over, "WaitingForQuota")
		})
	}
}

// A CRD may come late and go again: a gang whose PodGroup there cannot be yet
// waits and says why, and one that runs is left alone.
func TestDialectObjectsComeAndGo(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	member := func(group string) *bed.PodBuilder {
		return s.Pod(group).GPUs(4).Annotation("scheduling.k8s.io/group-name", group)
	}
	first := member("first").CreateN(2)
	missing := func(pod *corev1.Pod, group string) {
		t.Helper()
		bed.Eventually(t, bed.Timeout, "the missing PodGroup is named", func() error {
			why, err := s.Why(pod)
			said := why.Reason == "WaitingForMembers" && strings.Contains(why.Raw, "PodGroup "+group+" (scheduling.volcano.sh) does not exist")
			return bed.Unless(err == nil && said, "%s, %v", why.Raw, err)
		})
	}
	missing(first[0], "first")
	s.NoneBound(first...)

	volcanoPodGroup.install(t, s)
	volcanoPodGroup.create(t, s, "default", "first", map[string]any{"minMember": 2})
	s.AllBound(first...)

	// Half an object: refused with its reason, and good as soon as it is whole.
	second := member("second").CreateN(2)
	volcanoPodGroup.create(t, s, "default", "second", map[string]any{"minMember": 0})
	why := s.WhyIs(second[0], "InvalidRequest")
	if !strings.Contains(why.Raw, "spec.minMember must be a whole number from 1 to 65536") {
		t.Errorf("the reason is %s", why.Raw)
	}

	// Its objects go with the CRD.
	volcanoPodGroup.uninstall(t, s)
	missing(second[0], "second")
	s.StayBound(first...)
	s.NoneBound(second...)

	volcanoPodGroup.install(t, s)
	volcanoPodGroup.create(t, s, "default", "second", map[string]any{"minMember": 2})
	s.AllBound(second...)
	s.StayBound(first...)
}

// A LocalQueue that leads nowhere, in any way, has its pods wait and name the queue
// that there is not; they run as soon as it leads to a queue of the policy.
func TestDialectHalfAQueue(t *testing.T) {
	for _, c := range []struct {
		name  string
		half  map[string]any
		queue string
	}{
		{"no ClusterQueue", map[string]any{}, "user-queue"},
		{"one that is no text", map[string]any{"clusterQueue": 7}, "user-queue"},
		{"one that the policy does not have", map[string]any{"clusterQueue": "elsewhere"}, "elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := control.Scenario(t, bed.Options{Policy: research})
			s.Namespace("team-a")
			s.Nodes(1).GPUs(8).Create()
			kueueLocalQueue.install(t, s)
			kueueLocalQueue.create(t, s, "team-a", "user-queue", c.half)
			kueueLocalQueue.create(t, s, "team-a", "whole", map[string]any{"clusterQueue": "research"})
			in := func(queue string) *corev1.Pod {
				return s.Pod(queue).Namespace("team-a").GPUs(1).Label("kueue.x-k8s.io/queue-name", queue).Create()
			}
			waits := in("user-queue")
			s.AllBound(in("whole")) // Berth has seen both
			if why := s.WhyIs(waits, "UnknownQueue"); !strings.Contains(why.Raw, fmt.Sprintf("%q", c.queue)) {
				t.Errorf("it does not name %s: %s", c.queue, why.Raw)
			}
			s.NoneBound(waits)
			if err := remove(s, kueueLocalQueue.path("team-a")+"/user-queue"); err != nil {
				t.Fatal(err)
			}
			kueueLocalQueue.create(t, s, "team-a", "user-queue", map[string]any{"clusterQueue": "research"})
			s.AllBound(waits)
		})
	}
}

// A dialect that is auto is off while that project's own scheduler is alive.
func TestDialectAuto(t *testing.T) {
	s := control.Scenario(t, bed.Options{})
	s.Nodes(2).GPUs(8).Create()
	s.Namespace("volcano-system")
	volcanoPodGroup.install(t, s)
	volcanoPodGroup.create(t, s, "default", "g", map[string]any{"minMember": 4})
	gang := s.Pod("g").GPUs(2).Annotation("scheduling.k8s.io/group-name", "g").CreateN(2)
	read := func(want bool) {
		t.Helper()
		bed.Eventually(t, bed.Timeout, fmt.Sprintf("the dialect is read: %v", want), func() error {
			why, err := s.Why(gang[1])
			return bed.Unless(err == nil && strings.Contains(why.Raw, fmt.Sprintf(`"gang":%v`, want)), "%s, %v", why.Raw, err)
		})
	}
	read(true)
	s.NoneBound(gang...)
	// Nobody schedules that pod, which is alive to others all the same.
	scheduler := s.Pod("volcano-scheduler-5d4f").Namespace("volcano-system").Scheduler("nobody").Create()
	read(false)
	s.AllBound(gang...)
	s.DeleteNow(gang...)
	s.AllGone(gang...)

	s.DeleteNow(scheduler)
	gang = s.Pod("again").GPUs(2).Annotation("scheduling.k8s.io/group-name", "g").CreateN(2)
	read(true)
	s.WhyIs(gang[0], "WaitingForMembers")
}

// A dialect that is off is not read, whatever the pods and objects say.
func TestDialectOff(t *testing.T) {
	s := control.Scenario(t, bed.Options{Policy: research + "dialects: {volcano: off, kueue: off}\n"})
	s.Namespace("team-a")
	s.Nodes(2).GPUs(8).Create()
	volcanoPodGroup.install(t, s)
	volcanoPodGroup.create(t, s, "team-a", "g", map[string]any{"minMember": 4, "queue": "research"})
	pod := s.Pod("p").Namespace("team-a").GPUs(4).Annotation("scheduling.k8s.io/group-name", "g").
		Label("kueue.x-k8s.io/queue-name", "research").Create()
	s.AllBound(pod)
	why, err := s.Why(pod)
	if err != nil || !strings.Contains(why.Raw, `"queue":"everybody"`) || !strings.Contains(why.Raw, `"gang":false`) {
		t.Errorf("%s, %v", why.Raw, err)
	}
}

// In-tree gangs: kube-scheduler itself starts them whole, and Berth keeps their
// quota and devices. A control plane of its own, with the alpha gates on.
func TestDialectInTree(t *testing.T) {
	version, err := control.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Minor < "36" {
		t.Skipf("not run: Kubernetes %s has no schedulingGroup", version)
	}
	const gates = "--feature-gates=GenericWorkload=true,GangScheduling=true"
	b, err := bed.Start(gates, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(t.Failed()) })
	s := b.Scenario(t, bed.Options{Policy: research, SchedulerFlags: []string{gates}})
	s.Namespace("team-a")
	s.Nodes(2).GPUs(8).Create()
	group := func(name string, members int32) {
		t.Helper()
		_, err := s.Client.SchedulingV1alpha2().PodGroups("team-a").Create(s.Context(), &schedulingv1alpha2.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
				Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: members},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	member := func(name string, queue string) *bed.PodBuilder {
		return s.Pod(name).Namespace("team-a").GPUs(4).Queue(queue).SchedulingGroup(name)
	}
	group("g", 4)
	gang := member("g", "research").CreateRange(0, 3)
	bed.Eventually(t, bed.Timeout, "the gang and its queue are known", func() error {
		why, err := s.Why(gang[0])
		known := strings.Contains(why.Raw, `"gangFrom":"inTree"`) && strings.Contains(why.Raw, `"queue":"research"`)
		return bed.Unless(err == nil && known, "%s, %v", why.Raw, err)
	})
	s.NoneBound(gang...)
	gang = append(gang, member("g", "research").CreateRange(3, 4)...)
	s.AllBound(gang...)

	// The queue is full: the next gang starts no member, and all of them when it is not.
	s.Nodes(2).Prefix("more").GPUs(8).Create()
	group("next", 2)
	next := member("next", "research").CreateN(2)
	s.WhyIs(next[0], "WaitingForQuota")
	s.NoneBound(next...)
	s.DeleteNow(gang...)
	s.AllBound(next...)
}
