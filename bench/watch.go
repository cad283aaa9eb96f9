package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// follower notes when the API server says that pods lose their gates, get their
// nodes and are asked to end.
type follower struct {
	watch  watch.Interface
	others []func(*corev1.Pod) // called with every pod that changes

	mu       sync.Mutex
	changed  *sync.Cond
	ungated  map[types.UID]time.Time
	bound    map[types.UID]time.Time
	ending   map[types.UID]time.Time
	gates    map[types.UID]bool // had one
	finished bool
}

// follow watches the pods of the default namespace from now on, and passes them
// on to others.
func (c *cluster) follow(ctx context.Context, others ...func(*corev1.Pod)) (*follower, error) {
	pods := c.client.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	// The API server closes a watch that does not keep up, and on a busy machine
	// it may not: then it goes on where it ended.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	f := &follower{watch: w, others: others, ungated: map[types.UID]time.Time{}, bound: map[types.UID]time.Time{},
		ending: map[types.UID]time.Time{}, gates: map[types.UID]bool{}}
	f.changed = sync.NewCond(&f.mu)
	for i := range list.Items {
		f.saw(&list.Items[i], time.Now())
	}
	go func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			f.saw(pod, time.Now())
			if event.Type == watch.Deleted {
				continue
			}
			for _, other := range f.others {
				other(pod)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.finished = true
		f.changed.Broadcast()
	}()
	return f, nil
}

func (f *follower) stop() { f.watch.Stop() }

func (f *follower) saw(pod *corev1.Pod, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(pod.Spec.SchedulingGates) > 0 {
		f.gates[pod.UID] = true
	} else if _, known := f.ungated[pod.UID]; f.gates[pod.UID] && !known {
		f.ungated[pod.UID] = now
	}
	if _, known := f.bound[pod.UID]; pod.Spec.NodeName != "" && !known {
		f.bound[pod.UID] = now
		f.changed.Broadcast()
	}
	if _, known := f.ending[pod.UID]; pod.DeletionTimestamp != nil && !known {
		f.ending[pod.UID] = now
	}
}

// allBound waits until all of the pods have been seen bound.
func (f *follower) allBound(pods []*corev1.Pod, limit time.Duration) error {
	timeout := time.AfterFunc(limit, f.changed.Broadcast)
	defer timeout.Stop()
	deadline := time.Now().Add(limit)
	f.mu.Lock()
	defer f.mu.Unlock()
	next := 0
	for {
		for next < len(pods) {
			if _, ok := f.bound[pods[next].UID]; !ok {
				break
			}
			next++
		}
		if next == len(pods) {
			return nil
		}
		if f.finished || time.Now().After(deadline) {
			bound := 0
			for _, pod := range pods {
				if _, ok := f.bound[pod.UID]; ok {
					bound++
				}
			}
			return fmt.Errorf("only %d of %d pods bound after %v (watch ended: %v)", bound, len(pods), limit, f.finished)
		}
		f.changed.Wait()
	}
}

// times returns when each pod was ungated and bound; zero for not.
func (f *follower) times(pods []*corev1.Pod) (ungated, bound []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pod := range pods {
		if at, ok := f.ungated[pod.UID]; ok {
			ungated = append(ungated, at)
		}
		if at, ok := f.bound[pod.UID]; ok {
			bound = append(bound, at)
		}
	}
	return ungated, bound
}

// endings returns when each of the pods was asked to end; nothing for the others.
func (f *follower) endings(pods []*corev1.Pod) (ending []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pod := range pods {
		if at, ok := f.ending[pod.UID]; ok {
			ending = append(ending, at)
		}
	}
	return ending
}

func earliest(times []time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}

func latest(times []time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
