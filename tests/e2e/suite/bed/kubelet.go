package bed

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Kubelet stands in for the kubelets of all nodes: bound pods become Running,
// and terminating ones end. Both can be held back. Where jobsSucceed is set, pods
// of Jobs succeed once they run.
type Kubelet struct {
	client kubernetes.Interface
	work   chan *corev1.Pod
	done   sync.WaitGroup

	except          func(*corev1.Pod) bool // pods that are another's; nil: none
	jobsSucceed     bool
	pendingHeld     atomic.Bool
	terminatingHeld atomic.Bool
}

// NewKubelet works until the context ends, on the pods that Observe gets; pods
// that except tells of are another's (nil: none).
func NewKubelet(ctx context.Context, client kubernetes.Interface, jobsSucceed bool, except func(*corev1.Pod) bool) *Kubelet {
	k := &Kubelet{client: client, except: except, jobsSucceed: jobsSucceed, work: make(chan *corev1.Pod, 100_000)}
	for range 4 {
		k.done.Go(func() {
			for {
				select {
				case pod := <-k.work:
					k.sync(ctx, pod)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return k
}

// HoldPending leaves newly bound pods Pending.
func (k *Kubelet) HoldPending(hold bool) { k.pendingHeld.Store(hold) }

// HoldTerminating leaves deleted pods in their grace period. Letting go acts on
// pods that change afterwards only; delete the held ones with grace 0.
func (k *Kubelet) HoldTerminating(hold bool) { k.terminatingHeld.Store(hold) }

// Observe takes a pod that has appeared or changed.
func (k *Kubelet) Observe(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || k.except != nil && k.except(pod) {
		return
	}
	ends := pod.DeletionTimestamp != nil && !k.terminatingHeld.Load()
	starts := pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && !k.pendingHeld.Load()
	if ends || starts {
		k.work <- pod
	}
}

// sync does what a kubelet would. Errors need no handling: the pod is gone or
// has changed, and the change brings it back here.
func (k *Kubelet) sync(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		options := metav1.DeleteOptions{GracePeriodSeconds: &atOnce, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		_ = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
		return
	}
	_ = setPhase(ctx, k.client, pod.Namespace, pod.Name, "Running")
	if owner := metav1.GetControllerOf(pod); k.jobsSucceed && owner != nil && owner.Kind == "Job" {
		_ = setPhase(ctx, k.client, pod.Namespace, pod.Name, "Succeeded")
	}
}

func setPhase(ctx context.Context, client kubernetes.Interface, namespace, name, phase string) error {
	ready := `"False"`
	if phase == "Running" {
		ready = `"True"`
	}
	patch := `{"status":{"phase":"` + phase + `","conditions":[{"type":"Ready","status":` + ready + `}]}}`
	_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// Succeed ends pods with success.
func (s *Scenario) Succeed(pods ...*corev1.Pod) { s.end("Succeeded", pods) }

// Fail ends pods with a failure.
func (s *Scenario) Fail(pods ...*corev1.Pod) { s.end("Failed", pods) }

func (s *Scenario) end(phase string, pods []*corev1.Pod) {
	s.T.Helper()
	for _, pod := range pods {
		must(s.T, s.endPod(phase, pod))
	}
}

// endPod waits until a bound pod runs: the kubelet's own word must not come
// after the end.
func (s *Scenario) endPod(phase string, pod *corev1.Pod) error {
	err := poll(Timeout, func() error {
		now, err := s.Client.CoreV1().Pods(pod.Namespace).Get(s.ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		starting := now.Spec.NodeName != "" && now.Status.Phase == corev1.PodPending
		return Unless(!starting || s.Kubelet == nil || s.Kubelet.pendingHeld.Load(), "%s is starting", pod.Name)
	})
	if err != nil {
		return err
	}
	return setPhase(s.ctx, s.Client, pod.Namespace, pod.Name, phase)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
