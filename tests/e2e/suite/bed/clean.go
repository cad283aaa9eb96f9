package bed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	atOnce      = int64(0)
	background  = metav1.DeletePropagationBackground
	deleteNow   = metav1.DeleteOptions{GracePeriodSeconds: &atOnce, PropagationPolicy: &background}
	noFinalizer = []byte(`{"metadata":{"finalizers":null}}`)
)

// clean empties the cluster: everything that a test may have made is gone when
// it returns.
func (b *Bed) clean(ctx context.Context) error {
	namespaces, err := b.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, ns := range namespaces.Items {
		if strings.HasPrefix(ns.Name, "kube-") {
			continue
		}
		if err := b.cleanNamespace(ctx, ns.Name); err != nil {
			return fmt.Errorf("clean namespace %s: %w", ns.Name, err)
		}
		if ns.Name == metav1.NamespaceDefault || ns.Name == SystemNamespace {
			continue
		}
		if err := b.deleteNamespace(ctx, ns.Name); err != nil {
			return err
		}
	}
	if err := b.cleanCluster(ctx); err != nil {
		return err
	}
	return poll(Timeout, func() error {
		pods, err := b.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		return Unless(len(pods.Items) == 0, "%d pods are left", len(pods.Items))
	})
}

// cleanNamespace deletes what is in a namespace. No controller runs that would
// serve finalizers, so they are taken off.
func (b *Bed) cleanNamespace(ctx context.Context, ns string) error {
	core, list := b.Client.CoreV1(), metav1.ListOptions{}
	// Their controllers first, which may still run and would replace the pods.
	err := errors.Join(
		b.Client.BatchV1().Jobs(ns).DeleteCollection(ctx, deleteNow, list),
		b.Client.AppsV1().Deployments(ns).DeleteCollection(ctx, deleteNow, list),
		b.Client.AppsV1().ReplicaSets(ns).DeleteCollection(ctx, deleteNow, list),
		b.Client.AppsV1().DaemonSets(ns).DeleteCollection(ctx, deleteNow, list))

	pods, listErr := core.Pods(ns).List(ctx, list)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, pod := range pods.Items {
		if len(pod.Finalizers) > 0 {
			_, patchErr := core.Pods(ns).Patch(ctx, pod.Name, types.MergePatchType, noFinalizer, metav1.PatchOptions{})
			err = errors.Join(err, ignoreMissing(patchErr))
		}
	}
	err = errors.Join(err, core.Pods(ns).DeleteCollection(ctx, deleteNow, list))

	claims, listErr := core.PersistentVolumeClaims(ns).List(ctx, list)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, claim := range claims.Items {
		_, patchErr := core.PersistentVolumeClaims(ns).Patch(ctx, claim.Name, types.MergePatchType, noFinalizer, metav1.PatchOptions{})
		err = errors.Join(err, ignoreMissing(patchErr))
	}
	return errors.Join(err,
		core.PersistentVolumeClaims(ns).DeleteCollection(ctx, deleteNow, list),
		core.Events(ns).DeleteCollection(ctx, deleteNow, list),
		// The last good policy and the Lease of an earlier Berth are here.
		core.ConfigMaps(ns).DeleteCollection(ctx, deleteNow, list),
		b.Client.CoordinationV1().Leases(ns).DeleteCollection(ctx, deleteNow, list),
		b.Client.PolicyV1().PodDisruptionBudgets(ns).DeleteCollection(ctx, deleteNow, list))
}

// cleanCluster deletes cluster-wide objects.
func (b *Bed) cleanCluster(ctx context.Context) error {
	list := metav1.ListOptions{}
	err := errors.Join(
		b.Client.CoreV1().Nodes().DeleteCollection(ctx, deleteNow, list),
		b.Client.StorageV1().StorageClasses().DeleteCollection(ctx, deleteNow, list))
	classes, listErr := b.Client.SchedulingV1().PriorityClasses().List(ctx, list)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, class := range classes.Items {
		if !strings.HasPrefix(class.Name, "system-") {
			err = errors.Join(err, ignoreMissing(b.Client.SchedulingV1().PriorityClasses().Delete(ctx, class.Name, deleteNow)))
		}
	}
	return err
}

// deleteNamespace does the namespace controller's work: the namespace is empty,
// so its finalizer may go.
func (b *Bed) deleteNamespace(ctx context.Context, name string) error {
	client := b.Client.CoreV1().Namespaces()
	if err := client.Delete(ctx, name, deleteNow); ignoreMissing(err) != nil && !apierrors.IsConflict(err) {
		return err
	}
	ns, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ignoreMissing(err)
	}
	ns.Spec.Finalizers = nil
	_, err = client.Finalize(ctx, ns, metav1.UpdateOptions{})
	return ignoreMissing(err)
}

// ensureNamespace creates a namespace that does not exist yet.
func (b *Bed) ensureNamespace(ctx context.Context, name string) error {
	return poll(10*time.Second, func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := b.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		existing, err := b.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return Unless(existing.DeletionTimestamp == nil, "namespace %s is terminating", name)
	})
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
