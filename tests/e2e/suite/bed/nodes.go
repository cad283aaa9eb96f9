package bed

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RackLabel names the rack of a node in policies of the tests.
const RackLabel = "topology.test/rack"

// each calls do for all items from eight workers and joins the errors.
func each[T any](items []T, do func(T) error) error {
	next := make(chan T)
	errs := make([]error, 8)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for item := range next {
				errs[i] = errors.Join(errs[i], do(item))
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

// NodesBuilder describes a number of like nodes.
type NodesBuilder struct {
	s         *Scenario
	prefix    string
	count     int
	resources corev1.ResourceList
	labels    []func(i int) (key, value string)
	taints    []corev1.Taint
}

// Nodes describes n nodes, node-000 and on, without devices.
func (s *Scenario) Nodes(n int) *NodesBuilder {
	b := &NodesBuilder{s: s, prefix: "node", count: n, resources: corev1.ResourceList{}}
	return b.CPU(128).Memory("1Ti").Resource(corev1.ResourcePods, "250").Resource(corev1.ResourceEphemeralStorage, "1Ti")
}

// Prefix names the nodes PREFIX-000 and on.
func (b *NodesBuilder) Prefix(prefix string) *NodesBuilder {
	b.prefix = prefix
	return b
}

// Resource sets an amount that each node has.
func (b *NodesBuilder) Resource(name corev1.ResourceName, amount string) *NodesBuilder {
	b.resources[name] = resource.MustParse(amount)
	return b
}

// GPUs sets the number of GPUs of each node.
func (b *NodesBuilder) GPUs(n int) *NodesBuilder { return b.Resource(GPU, strconv.Itoa(n)) }

// CPU sets the cores of each node.
func (b *NodesBuilder) CPU(n int) *NodesBuilder {
	return b.Resource(corev1.ResourceCPU, strconv.Itoa(n))
}

// Memory sets the memory of each node.
func (b *NodesBuilder) Memory(amount string) *NodesBuilder {
	return b.Resource(corev1.ResourceMemory, amount)
}

// Label puts a label on each node.
func (b *NodesBuilder) Label(key, value string) *NodesBuilder {
	b.labels = append(b.labels, func(int) (string, string) { return key, value })
	return b
}

// Racks puts so many nodes after each other into one rack.
func (b *NodesBuilder) Racks(nodesPerRack int) *NodesBuilder {
	b.labels = append(b.labels, func(i int) (string, string) {
		return RackLabel, fmt.Sprintf("%s-rack-%02d", b.prefix, i/nodesPerRack)
	})
	return b
}

// Taint taints each node.
func (b *NodesBuilder) Taint(key, value string, effect corev1.TaintEffect) *NodesBuilder {
	b.taints = append(b.taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	return b
}

// Create makes the nodes, Ready and without the not-ready taint, and returns
// their names.
func (b *NodesBuilder) Create() []string {
	b.s.T.Helper()
	nodes := make([]*corev1.Node, b.count)
	names := make([]string, b.count)
	for i := range nodes {
		names[i] = fmt.Sprintf("%s-%03d", b.prefix, i)
		labels := map[string]string{corev1.LabelHostname: names[i]}
		for _, label := range b.labels {
			key, value := label(i)
			labels[key] = value
		}
		nodes[i] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: names[i], Labels: labels},
			Spec:       corev1.NodeSpec{Taints: b.taints},
			Status: corev1.NodeStatus{
				Capacity:    b.resources,
				Allocatable: b.resources,
				Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
					LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
				}},
			},
		}
		b.s.observer.addNode(nodes[i])
	}
	must(b.s.T, each(nodes, b.s.createNode))
	return names
}

// createNode does what a kubelet and the node lifecycle controller do for a new
// node: post it, report its status, take off the not-ready taint.
func (s *Scenario) createNode(node *corev1.Node) error {
	client := s.Client.CoreV1().Nodes()
	created, err := client.Create(s.ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.Capacity, created.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	created.Status.Conditions = node.Status.Conditions
	updated, err := client.UpdateStatus(s.ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	<-time.After(s.join) // what the scheduler makes of a node that joins
	updated.Spec.Taints = node.Spec.Taints
	_, err = client.Update(s.ctx, updated, metav1.UpdateOptions{})
	return err
}

// PatchNode changes a node by a strategic merge patch, as `kubectl patch` does.
func (s *Scenario) PatchNode(name, patch string) {
	s.T.Helper()
	_, err := s.Client.CoreV1().Nodes().Patch(s.ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	must(s.T, err)
}

// DeleteNode removes a node.
func (s *Scenario) DeleteNode(name string) {
	s.T.Helper()
	must(s.T, s.Client.CoreV1().Nodes().Delete(s.ctx, name, metav1.DeleteOptions{}))
}

// Published tells the bed, which counts what is given away, of devices that a
// node has without listing them.
func (s *Scenario) Published(name string, resourceName corev1.ResourceName, amount int) {
	s.T.Helper()
	node, err := s.Client.CoreV1().Nodes().Get(s.ctx, name, metav1.GetOptions{})
	must(s.T, err)
	node.Status.Allocatable[resourceName] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
	s.observer.addNode(node)
}

// SetCapacity changes how much of a resource a node has, as a device plug-in
// does that starts, or finds devices broken.
func (s *Scenario) SetCapacity(name string, resourceName corev1.ResourceName, amount int) {
	s.T.Helper()
	patch := fmt.Sprintf(`{"status":{"capacity":{%q:"%d"},"allocatable":{%q:"%d"}}}`, resourceName, amount, resourceName, amount)
	node, err := s.Client.CoreV1().Nodes().Patch(s.ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	must(s.T, err)
	s.observer.addNode(node)
}
