package main

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/tests/e2e/suite/bed"
)

const (
	gangLabel     = "berth.dev/gang"
	gangSizeKey   = "berth.dev/gang-size"
	queueLabel    = "berth.dev/queue"
	nodesPerRack  = 16
	racksPerBlock = 16
	blockLabel    = "cloud.provider.com/topology-block"
	rackLabel     = "cloud.provider.com/topology-rack"
	gpusPerNode   = 8
)

func nodeName(i int) string { return fmt.Sprintf("gpu-worker-%05d", i) }

// newNode is a Ready node of 8 GPUs in a tree of racks of 16 and blocks of 16
// racks, which are the built-in policy's levels.
func newNode(i int) *corev1.Node {
	name := nodeName(i)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("128"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("250"),
		bed.GPU:                         *resource.NewQuantity(gpusPerNode, resource.DecimalSI),
	}
	now := metav1.Now()
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + strconv.Itoa(i)), Labels: map[string]string{
			corev1.LabelHostname:     name,
			corev1.LabelArchStable:   "amd64",
			corev1.LabelOSStable:     "linux",
			rackLabel:                fmt.Sprintf("rack-%03d", i/nodesPerRack),
			blockLabel:               fmt.Sprintf("block-%02d", i/nodesPerRack/racksPerBlock),
			"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
		}},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

// podOption changes a pod that newPod made.
type podOption func(*corev1.Pod)

// newPod is a training pod of the usual size in JSON: a dozen variables, two
// volumes, some labels, an owner.
func newPod(name string, gpus int, options ...podOption) *corev1.Pod {
	grace, controls := int64(30), true
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"app": "trainer", "team": "research"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: "trainer", UID: "11111111-2222-3333-4444-555555555555",
				Controller: &controls,
			}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  new(bool),
			RestartPolicy:                 corev1.RestartPolicyNever,
			Tolerations:                   []corev1.Toleration{{Key: bed.GPU, Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/team/trainer:2026-11",
				Command: []string{"python", "-m", "train", "--config", "/etc/train/config.yaml"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				}, Limits: corev1.ResourceList{}},
				VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}, {Name: "shm", MountPath: "/dev/shm"}},
			}},
		},
	}
	main := &pod.Spec.Containers[0]
	for i := range 12 {
		main.Env = append(main.Env, corev1.EnvVar{Name: fmt.Sprintf("TRAIN_SETTING_%d", i), Value: "some/ordinary/value"})
	}
	if gpus > 0 {
		amount := *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		main.Resources.Requests[bed.GPU], main.Resources.Limits[bed.GPU] = amount, amount
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

func gated(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: bed.AdmissionGate})
}

func inGang(name string, size int) podOption {
	return func(pod *corev1.Pod) {
		pod.Labels[gangLabel] = name
		pod.Annotations = map[string]string{gangSizeKey: strconv.Itoa(size)}
	}
}

func inQueue(name string) podOption {
	return func(pod *corev1.Pod) { pod.Labels[queueLabel] = name }
}

func onNode(name string) podOption {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

// recorded makes the pod look like one of `kubectl get pods -o json`.
func recorded(uid string, created time.Time) podOption {
	return func(pod *corev1.Pod) {
		pod.UID = types.UID(uid)
		pod.CreationTimestamp = metav1.NewTime(created)
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
		pod.Status.Phase = corev1.PodPending
		if pod.Spec.NodeName != "" {
			pod.Status.Phase = corev1.PodRunning
		}
	}
}

// newPods makes n like pods, NAME-0 and on.
func newPods(n int, name string, gpus int, options ...podOption) []*corev1.Pod {
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("%s-%d", name, i), gpus, options...)
	}
	return pods
}
