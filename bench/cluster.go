package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/tests/e2e/suite/bed"
)

// writers is how many clients create and delete objects at the same time.
const writers = 16

// cluster is a real API server with etcd, and what a benchmark made in it. No
// kubelet and no controller runs: bound pods stay Pending, and nothing but what
// is measured writes.
type cluster struct {
	client kubernetes.Interface
	// kubeconfig has the rights of Berth's shipped RBAC objects and goes
	// straight to the API server. Berth and the Go extender both use it.
	kubeconfig string
	// admin is kube-scheduler's kubeconfig.
	admin string

	lab   *lab
	bed   *bed.Bed
	nodes int
}

func (l *lab) newCluster() (c *cluster, err error) {
	b, err := bed.Start()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.Close(false)
		}
	}()
	c = &cluster{lab: l, bed: b, admin: filepath.Join(b.Dir(), "admin.kubeconfig")}
	config, err := clientcmd.BuildConfigFromFlags("", c.admin)
	if err != nil {
		return nil, err
	}
	config.QPS = -1                                            // no limit
	config.ContentType = "application/vnd.kubernetes.protobuf" // the cheapest for the cores that all share
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	c.kubeconfig, err = c.writeKubeconfig(config)
	return c, err
}

func (c *cluster) close() { c.bed.Close(false) }

// writeKubeconfig takes the bed's own for Berth, which leads through the bed's
// proxy, and points it at the API server itself.
func (c *cluster) writeKubeconfig(admin *rest.Config) (string, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(c.bed.Dir(), "berth.kubeconfig"))
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = admin.Host
	}
	path := filepath.Join(c.bed.Dir(), "direct.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// each calls do for all items from many workers and joins the errors.
func each[T any](items []T, do func(T) error) error {
	next := make(chan T)
	errs := make([]error, writers)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for item := range next {
				if errs[i] == nil {
					errs[i] = do(item)
				}
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

// growTo adds nodes until there are so many.
func (c *cluster) growTo(ctx context.Context, count int) error {
	var nodes []*corev1.Node
	for i := c.nodes; i < count; i++ {
		nodes = append(nodes, newNode(i))
	}
	start := time.Now()
	client := c.client.CoreV1().Nodes()
	err := each(nodes, func(node *corev1.Node) error {
		node.UID = ""
		created, err := client.Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		// The taint that admission adds to every new node.
		created.Spec.Taints = nil
		_, err = client.Update(ctx, created, metav1.UpdateOptions{})
		return err
	})
	c.nodes = count
	fmt.Fprintf(os.Stderr, "%d nodes in %v\n", len(nodes), time.Since(start).Round(time.Millisecond))
	return err
}

// create makes the pods, in no particular order, and fills in what the API
// server set.
func (c *cluster) create(ctx context.Context, pods []*corev1.Pod) error {
	return each(pods, func(pod *corev1.Pod) error { return c.createOne(ctx, pod) })
}

func (c *cluster) createOne(ctx context.Context, pod *corev1.Pod) error {
	created, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err == nil {
		*pod = *created
	}
	return err
}

// Series of kube-apiserver that do not depend on how busy the machine is.
const (
	allocated  = "go_memstats_alloc_bytes_total"
	podUpdates = `etcd_requests_total{group="",operation="update",resource="pods"}`
)

// counters are kube-apiserver's metrics, by series.
func (c *cluster) counters(ctx context.Context) (map[string]float64, error) {
	text, err := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	return parseMetrics(bytes.NewReader(text))
}

var atOnce = int64(0)

func (c *cluster) delete(ctx context.Context, pods []*corev1.Pod) error {
	return each(pods, func(pod *corev1.Pod) error {
		return c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &atOnce})
	})
}

// clear deletes all pods and Events of the default namespace.
func (c *cluster) clear(ctx context.Context) error {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range pods {
		pods[i] = &list.Items[i]
	}
	if err := c.delete(ctx, pods); err != nil {
		return err
	}
	return c.client.EventsV1().Events(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}
