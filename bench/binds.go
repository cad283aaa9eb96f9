package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const bindClients = 32

// binds measures how many pods a second are bound by bind calls, without a
// scheduler: a burst of singles through Berth, through the Go extender and by
// the API server's own rate, and a gang of 1,000 that is let go at once.
func binds(ctx context.Context, l *lab) (*report, error) {
	const nodes = 1000
	r := l.newReport("binds", "what", "run", "pods", "clients", "binds/s", "p50 ms", "p99 ms", "extender CPU ms/pod")
	r.note("bind calls on keep-alive connections without a scheduler, after filter has answered each pod; the gang: one connection a member, from the last arrival to the last answer; etcd without fsync")
	c, err := l.newCluster()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.growTo(ctx, nodes); err != nil {
		return r, err
	}
	count := full(l, 2000, 500)
	for run := range full(l, 3, 1) {
		steps := []func() error{
			func() error { return c.bindDirectly(ctx, r, run, count) },
			func() error { return c.bindBurst(ctx, r, "go", run, count, goExtender("one")) },
			func() error { return c.bindBurst(ctx, r, "berth", run, count, berthExtender) },
			func() error { return c.bindGang(ctx, r, run, 1000) },
		}
		for i := range steps {
			if run%2 == 1 {
				i = len(steps) - 1 - i
			}
			if err := c.clear(ctx); err != nil {
				return r, err
			}
			if err := steps[i](); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// bindDirectly posts Bindings itself: what the API server takes.
func (c *cluster) bindDirectly(ctx context.Context, r *report, run, count int) error {
	pods := newPods(count, "pod", 1)
	if err := c.create(ctx, pods); err != nil {
		return err
	}
	var mu sync.Mutex
	var took []time.Duration
	start := time.Now()
	err := inParallel(bindClients, len(pods), func(_, i int) error {
		pod, start := pods[i], time.Now()
		err := c.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName(i % c.nodes)},
		}, metav1.CreateOptions{})
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(start))
		return err
	})
	r.add("API server alone (client-go, protobuf)", run, count, bindClients, float64(count)/time.Since(start).Seconds(),
		milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99)), nil)
	return err
}

// inParallel calls do(worker, i) for every i below n from so many workers.
func inParallel(workers, n int, do func(worker, i int) error) error {
	next := make(chan int)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range next {
				if errs[w] == nil {
					errs[w] = do(w, i)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	return errors.Join(errs...)
}

// answered has every pod answered by filter and returns the bind requests for
// the nodes that it kept.
func (c *cluster) answered(e *extender, pods []*corev1.Pod) ([][]byte, error) {
	client, err := dial(e.verbs)
	if err != nil {
		return nil, err
	}
	defer client.close()
	names := nodeNames(c.nodes)
	requests := make([][]byte, len(pods))
	for i, pod := range pods {
		filter, err := encodeFilter(pod, names)
		if err != nil {
			return nil, err
		}
		// The informer may be a moment behind: a gang is refused meanwhile.
		var nodes []string
		for deadline := time.Now().Add(time.Minute); len(nodes) != 1; {
			_, answer, err := client.post(filter)
			if err != nil {
				return nil, err
			}
			if nodes, err = kept(answer); err != nil {
				return nil, err
			}
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("%s gets no node: %.300s", pod.Name, answer)
			}
		}
		if requests[i], err = encodeBind(pod, nodes[0]); err != nil {
			return nil, err
		}
	}
	return requests, nil
}

func (c *cluster) bindBurst(ctx context.Context, r *report, name string, run, count int, make1 func(*cluster) (*extender, error)) error {
	e, err := make1(c)
	if err != nil {
		return err
	}
	defer e.stop()
	if err := e.start(); err != nil {
		return err
	}
	pods := newPods(count, "pod", 1)
	if err := c.create(ctx, pods); err != nil {
		return err
	}
	time.Sleep(time.Second) // the informer sees them: filter then plans as it does in production
	requests, err := c.answered(e, pods)
	if err != nil {
		return err
	}
	return bindAll(r, e, "burst, "+name, run, requests, bindClients)
}

func bindAll(r *report, e *extender, what string, run int, requests [][]byte, clients int) error {
	callers := make([]*caller, clients)
	for i := range callers {
		var err error
		if callers[i], err = dial(e.verbs); err != nil {
			return err
		}
		defer callers[i].close()
	}
	var mu sync.Mutex
	var took []time.Duration
	before, start := e.cpuSeconds(), time.Now()
	err := inParallel(clients, len(requests), func(worker, i int) error {
		duration, answer, err := callers[worker].post(requests[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, duration)
		return bindError(answer)
	})
	r.add(what, run, len(requests), clients, float64(len(requests))/time.Since(start).Seconds(),
		milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99)), (e.cpuSeconds()-before)*1000/float64(len(requests)))
	return err
}

func bindError(answer []byte) error {
	var result extenderv1.ExtenderBindingResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(result.Error)
	}
	return nil
}

// bindGang lets all members but one park at the barrier, then sends the last.
func (c *cluster) bindGang(ctx context.Context, r *report, run, members int) error {
	e, err := berthExtender(c)
	if err != nil {
		return err
	}
	defer e.stop()
	if err := e.start(); err != nil {
		return err
	}
	pods := newPods(members, "member", 1, inGang("barrier", members))
	if err := c.create(ctx, pods); err != nil {
		return err
	}
	requests, err := c.answered(e, pods)
	if err != nil {
		return err
	}
	callers := make([]*caller, members)
	for i := range callers {
		if callers[i], err = dial(e.verbs); err != nil {
			return err
		}
		defer callers[i].close()
	}
	errs := make([]error, members)
	took := make([]time.Duration, members)
	var released time.Time
	var group sync.WaitGroup
	send := func(i int) {
		group.Go(func() {
			_, answer, err := callers[i].post(requests[i])
			took[i] = time.Since(released)
			if errs[i] = err; err == nil {
				errs[i] = bindError(answer)
			}
		})
	}
	// Nobody is answered before the last one is sent, so that released is set
	// when it is read, unless a call fails, which is then reported.
	for i := range members - 1 {
		send(i)
	}
	if err := e.parked(members - 1); err != nil {
		return err
	}
	before := e.cpuSeconds()
	released = time.Now()
	send(members - 1)
	group.Wait()
	elapsed := time.Since(released)
	r.add("gang through the barrier, berth", run, members, members, float64(members)/elapsed.Seconds(),
		milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99)), (e.cpuSeconds()-before)*1000/float64(members))
	return errors.Join(errs...)
}
