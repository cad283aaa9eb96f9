package bed

import (
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// AdmissionGate is the scheduling gate that Berth removes.
const AdmissionGate = "berth.dev/admission"

// Names of labels and annotations that users write.
const (
	queueLabel         = "berth.dev/queue"
	gangLabel          = "berth.dev/gang"
	gangSize           = "berth.dev/gang-size"
	gangMinMember      = "berth.dev/gang-min-member"
	wholeNode          = "berth.dev/whole-node"
	topologyRequired   = "berth.dev/topology-required"
	topologyPreferred  = "berth.dev/topology-preferred"
	hostnameTopology   = corev1.LabelHostname
	defaultCPURequest  = "100m"
	defaultGracePeriod = int64(30)
)

// PodBuilder describes a pod.
type PodBuilder struct {
	s   *Scenario
	pod corev1.Pod
}

// Pod describes a pod in the default namespace with one container that asks for
// a little CPU.
func (s *Scenario) Pod(name string) *PodBuilder {
	grace := defaultGracePeriod
	return &PodBuilder{s: s, pod: corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  new(bool),
			Containers: []corev1.Container{{
				Name: "main", Image: "test.invalid/workload",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(defaultCPURequest)},
					Limits:   corev1.ResourceList{},
				},
			}},
		},
	}}
}

// Namespace puts the pod into a namespace.
func (b *PodBuilder) Namespace(ns string) *PodBuilder {
	b.pod.Namespace = ns
	return b
}

// GPUs asks for n GPUs.
func (b *PodBuilder) GPUs(n int) *PodBuilder { return b.Resource(GPU, strconv.Itoa(n)) }

// Resource limits, and so requests, an amount.
func (b *PodBuilder) Resource(name corev1.ResourceName, amount string) *PodBuilder {
	resources := &b.pod.Spec.Containers[0].Resources
	resources.Requests[name] = resource.MustParse(amount)
	resources.Limits[name] = resource.MustParse(amount)
	return b
}

// InitGPUs asks for n GPUs in an init container alone.
func (b *PodBuilder) InitGPUs(n int) *PodBuilder {
	init := b.s.Pod("init").GPUs(n).Build().Spec.Containers[0]
	init.Name = "init"
	b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, init)
	return b
}

// CPU requests CPU.
func (b *PodBuilder) CPU(amount string) *PodBuilder {
	b.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	return b
}

// Memory requests memory.
func (b *PodBuilder) Memory(amount string) *PodBuilder {
	b.pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse(amount)
	return b
}

// Label puts a label on the pod.
func (b *PodBuilder) Label(key, value string) *PodBuilder {
	b.pod.Labels[key] = value
	return b
}

// Annotation puts an annotation on the pod.
func (b *PodBuilder) Annotation(key, value string) *PodBuilder {
	b.pod.Annotations[key] = value
	return b
}

// Gang makes the pod a member of a gang of so many.
func (b *PodBuilder) Gang(name string, size int) *PodBuilder {
	return b.Label(gangLabel, name).Annotation(gangSize, strconv.Itoa(size))
}

// Min sets how many members the gang needs to start.
func (b *PodBuilder) Min(members int) *PodBuilder {
	return b.Annotation(gangMinMember, strconv.Itoa(members))
}

// Queue names the pod's queue.
func (b *PodBuilder) Queue(name string) *PodBuilder { return b.Label(queueLabel, name) }

// SchedulingGroup makes the pod a member of an in-tree PodGroup.
func (b *PodBuilder) SchedulingGroup(name string) *PodBuilder {
	b.pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	return b
}

// Gated gives the pod the gate that Berth removes.
func (b *PodBuilder) Gated() *PodBuilder { return b.Gate(AdmissionGate) }

// Gate gives the pod a scheduling gate.
func (b *PodBuilder) Gate(name string) *PodBuilder {
	b.pod.Spec.SchedulingGates = append(b.pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	return b
}

// GatedIf gates the pod if gated is set, for tests of both ways to wait.
func (b *PodBuilder) GatedIf(gated bool) *PodBuilder {
	if gated {
		return b.Gated()
	}
	return b
}

// WholeNode asks for a node alone.
func (b *PodBuilder) WholeNode() *PodBuilder { return b.Annotation(wholeNode, "true") }

// Within requires all members of the gang to share a domain of the level.
func (b *PodBuilder) Within(level string) *PodBuilder { return b.Annotation(topologyRequired, level) }

// PreferWithin wishes that all members share a domain of the level.
func (b *PodBuilder) PreferWithin(level string) *PodBuilder {
	return b.Annotation(topologyPreferred, level)
}

// Select requires a node label.
func (b *PodBuilder) Select(key, value string) *PodBuilder {
	selector := map[string]string{key: value}
	maps.Copy(selector, b.pod.Spec.NodeSelector)
	b.pod.Spec.NodeSelector = selector
	return b
}

// AwayFrom keeps the pod off nodes that run a pod with the label.
func (b *PodBuilder) AwayFrom(key, value string) *PodBuilder {
	b.pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
			TopologyKey:   hostnameTopology,
		}},
	}}
	return b
}

// Priority names the pod's PriorityClass.
func (b *PodBuilder) Priority(class string) *PodBuilder {
	b.pod.Spec.PriorityClassName = class
	return b
}

// Scheduler hands the pod to a scheduler.
func (b *PodBuilder) Scheduler(name string) *PodBuilder {
	b.pod.Spec.SchedulerName = name
	return b
}

// On binds the pod at its creation, past every scheduler, as a DaemonSet of old
// or a static pod would be.
func (b *PodBuilder) On(node string) *PodBuilder {
	b.pod.Spec.NodeName = node
	return b
}

// Claim mounts a PersistentVolumeClaim.
func (b *PodBuilder) Claim(name string) *PodBuilder {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}})
	return b
}

// ClaimTemplate asks for a ResourceClaim that is made from the template.
func (b *PodBuilder) ClaimTemplate(name string) *PodBuilder {
	b.pod.Spec.ResourceClaims = append(b.pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &name})
	return b
}

// HostPort makes the pod listen on a port of its node.
func (b *PodBuilder) HostPort(port int32) *PodBuilder {
	b.pod.Spec.Containers[0].Ports = append(b.pod.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: port, HostPort: port})
	return b
}

// Build returns the pod without creating it.
func (b *PodBuilder) Build() *corev1.Pod { return b.pod.DeepCopy() }

// Create makes the pod.
func (b *PodBuilder) Create() *corev1.Pod {
	b.s.T.Helper()
	created, err := b.s.Client.CoreV1().Pods(b.pod.Namespace).Create(b.s.ctx, b.Build(), metav1.CreateOptions{})
	must(b.s.T, err)
	return created
}

// CreateN makes n like pods, NAME-0 and on, in order of creation.
func (b *PodBuilder) CreateN(n int) []*corev1.Pod {
	b.s.T.Helper()
	return b.CreateRange(0, n)
}

// CreateRange makes the pods NAME-from up to, without, NAME-to.
func (b *PodBuilder) CreateRange(from, to int) []*corev1.Pod {
	b.s.T.Helper()
	pods := make([]*corev1.Pod, to-from)
	indices := make([]int, len(pods))
	for i := range indices {
		indices[i] = i
	}
	must(b.s.T, each(indices, func(i int) (err error) {
		pod := b.Build()
		pod.Name = fmt.Sprintf("%s-%d", b.pod.Name, from+i)
		pods[i], err = b.s.Client.CoreV1().Pods(pod.Namespace).Create(b.s.ctx, pod, metav1.CreateOptions{})
		return err
	}))
	return pods
}

// template is the pod as a controller's pod template.
func (b *PodBuilder) template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: b.pod.Labels, Annotations: b.pod.Annotations},
		Spec:       *b.pod.Spec.DeepCopy(),
	}
}

// DaemonSet makes a DaemonSet of such pods; they need a label.
func (b *PodBuilder) DaemonSet() *appsv1.DaemonSet {
	b.s.T.Helper()
	set, err := b.s.Client.AppsV1().DaemonSets(b.pod.Namespace).Create(b.s.ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: b.pod.Name, Namespace: b.pod.Namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: b.pod.Labels},
			Template: b.template(),
		},
	}, metav1.CreateOptions{})
	must(b.s.T, err)
	return set
}

// Job makes an indexed Job of n such pods that run at once.
func (b *PodBuilder) Job(n int32) *batchv1.Job {
	b.s.T.Helper()
	return b.JobBy(b.s.Client, n)
}

// JobBy makes the Job as somebody.
func (b *PodBuilder) JobBy(client kubernetes.Interface, n int32) *batchv1.Job {
	b.s.T.Helper()
	mode, retries := batchv1.IndexedCompletion, int32(0)
	template := b.template()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job, err := client.BatchV1().Jobs(b.pod.Namespace).Create(b.s.ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: b.pod.Name, Namespace: b.pod.Namespace},
		Spec: batchv1.JobSpec{
			Completions: &n, Parallelism: &n, CompletionMode: &mode, BackoffLimit: &retries, Template: template,
		},
	}, metav1.CreateOptions{})
	must(b.s.T, err)
	return job
}

// PriorityClass makes a PriorityClass. The API server's admission needs a moment
// to know it; it is known when this returns.
func (s *Scenario) PriorityClass(name string, value int32) {
	s.T.Helper()
	must(s.T, s.createPriorityClass(&schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value,
	}))
}

func (s *Scenario) createPriorityClass(class *schedulingv1.PriorityClass) error {
	_, err := s.Client.SchedulingV1().PriorityClasses().Create(s.ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	Eventually(s.T, Timeout, "admission knows the PriorityClass "+class.Name, func() error {
		probe := s.Pod("probe").Priority(class.Name).Build()
		_, err := s.Client.CoreV1().Pods(probe.Namespace).Create(s.ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	return nil
}

// RemoveGate takes a scheduling gate off a pod, as the gate's owner would.
func (s *Scenario) RemoveGate(pod *corev1.Pod, gate string) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"spec":{"schedulingGates":[{"name":%q,"$patch":"delete"}]}}`, gate)
	_, err := s.Client.CoreV1().Pods(pod.Namespace).Patch(s.ctx, pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.T, err)
}

// Relabel sets a label of a pod.
func (s *Scenario) Relabel(pod *corev1.Pod, key, value string) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := s.Client.CoreV1().Pods(pod.Namespace).Patch(s.ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.T, err)
}
