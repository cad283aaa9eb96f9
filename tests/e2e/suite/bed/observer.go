package bed

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// observer follows all pods. It remembers what a later look at the API would
// miss, and checks with every event that no node's devices are given twice.
type observer struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	watchers []func(*corev1.Pod) // called with every pod that appears or changes

	mu         sync.Mutex
	histories  map[types.UID]*history
	capacity   map[string]corev1.ResourceList // by node
	used       map[string]map[string]int64    // node, resource
	charged    map[types.UID]map[string]int64 // what a bound live pod holds
	chargedOn  map[types.UID]string           // and where
	violations []string
}

// history is what one pod went through.
type history struct {
	name      types.NamespacedName
	bound     bool   // it was bound at some time
	nominated string // the last nomination that was not empty
	deleted   bool   // it was gone, or asked to go
}

func newObserver(ctx context.Context, client kubernetes.Interface, watchers ...func(*corev1.Pod)) (*observer, error) {
	ctx, stop := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	o := &observer{
		informer:  factory.Core().V1().Pods().Informer(),
		stop:      stop,
		watchers:  watchers,
		histories: map[types.UID]*history{},
		capacity:  map[string]corev1.ResourceList{},
		used:      map[string]map[string]int64{},
		charged:   map[types.UID]map[string]int64{},
		chargedOn: map[types.UID]string{},
	}
	_, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.saw(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { o.saw(obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			o.lost(obj.(*corev1.Pod))
		},
	})
	if err != nil {
		stop()
		return nil, err
	}
	factory.Start(ctx.Done())
	for range 3000 {
		if o.informer.HasSynced() {
			return o, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	return nil, fmt.Errorf("the bed's own pod informer did not sync")
}

func (o *observer) saw(pod *corev1.Pod) {
	o.mu.Lock()
	h := o.historyOf(pod)
	h.bound = h.bound || pod.Spec.NodeName != ""
	h.deleted = h.deleted || pod.DeletionTimestamp != nil
	if pod.Status.NominatedNodeName != "" {
		h.nominated = pod.Status.NominatedNodeName
	}
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.Spec.NodeName != "" && !finished {
		o.charge(pod)
	} else {
		o.release(pod.UID)
	}
	o.mu.Unlock()
	for _, watch := range o.watchers {
		watch(pod)
	}
}

func (o *observer) lost(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.historyOf(pod).deleted = true
	o.release(pod.UID)
}

func (o *observer) historyOf(pod *corev1.Pod) *history {
	h := o.histories[pod.UID]
	if h == nil {
		h = &history{name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
		o.histories[pod.UID] = h
	}
	return h
}

// charge books a bound pod's devices, and notes every node that has more given
// away than it owns.
func (o *observer) charge(pod *corev1.Pod) {
	if _, ok := o.charged[pod.UID]; ok {
		return
	}
	devices := devicesOf(pod)
	o.charged[pod.UID], o.chargedOn[pod.UID] = devices, pod.Spec.NodeName
	node := o.used[pod.Spec.NodeName]
	if node == nil {
		node = map[string]int64{}
		o.used[pod.Spec.NodeName] = node
	}
	capacity, known := o.capacity[pod.Spec.NodeName]
	for resource, n := range devices {
		node[resource] += n
		has := capacity[corev1.ResourceName(resource)]
		if known && node[resource] > has.Value() {
			o.violations = append(o.violations, fmt.Sprintf("node %s has %d of %s, and %s/%s makes it %d given away",
				pod.Spec.NodeName, has.Value(), resource, pod.Namespace, pod.Name, node[resource]))
		}
	}
}

func (o *observer) release(uid types.UID) {
	node := o.used[o.chargedOn[uid]]
	for resource, n := range o.charged[uid] {
		node[resource] -= n
	}
	delete(o.charged, uid)
	delete(o.chargedOn, uid)
}

// devicesOf sums the extended resources of a pod's containers.
func devicesOf(pod *corev1.Pod) map[string]int64 {
	devices := map[string]int64{}
	for _, container := range pod.Spec.Containers {
		for resource, quantity := range container.Resources.Limits {
			if strings.Contains(string(resource), "/") {
				devices[string(resource)] += quantity.Value()
			}
		}
	}
	return devices
}

func (o *observer) addNode(node *corev1.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.capacity[node.Name] = node.Status.Allocatable
}

// pod returns the newest known version of a pod, or nil.
func (o *observer) pod(name types.NamespacedName) *corev1.Pod {
	obj, ok, _ := o.informer.GetStore().GetByKey(name.String())
	if !ok {
		return nil
	}
	return obj.(*corev1.Pod)
}

func (o *observer) history(uid types.UID) history {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.histories[uid]; h != nil {
		return *h
	}
	return history{}
}
