package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// verbCase is one kind of filter call, and the Go extender's mode that gives
// the like answer.
type verbCase struct {
	name   string
	answer string // of the Go extender
	keeps  int    // nodes that Berth must keep, to prove that the case is the one named
	pods   []*corev1.Pod
}

// verbs measures filter from one keep-alive client on loopback. Berth serves a
// recorded cluster; every call is for another pod, since an answer to the same
// pod again is a mere look-up.
func verbs(_ context.Context, l *lab) (*report, error) {
	// The client's own collections would show in the tail.
	defer debug.SetGCPercent(debug.SetGCPercent(2000))
	r := l.newReport("verbs", "nodes", "case", "against", "calls", "berth p50 ms", "berth p99 ms", "go p50 ms", "go p99 ms", "p50 ratio", "p99 ratio")
	r.note("filter; one keep-alive client on loopback, calls one after another, Berth and Go in turn; round trip without encoding and decoding at the client")
	for _, nodes := range l.sizes(100, 1000, 5000) {
		if err := l.verbsAt(r, nodes); err != nil {
			return r, fmt.Errorf("%d nodes: %w", nodes, err)
		}
	}
	return r, nil
}

func (l *lab) verbsAt(r *report, nodes int) error {
	// Accepted pods hold their room for a minute: they must all fit beside the
	// gang.
	calls := full(l, 2000, 400)
	if nodes < 1000 {
		calls = 300
	}
	member := min(calls, nodes*gpusPerNode/4)
	hour := time.Now().Add(-time.Hour)
	create := func(n int, name string, gpus int, options ...podOption) []*corev1.Pod {
		pods := newPods(n, name, gpus, options...)
		for i, pod := range pods {
			recorded(fmt.Sprintf("%s-%08d-%d", name, i, gpus), hour)(pod) // all are in one snapshot
		}
		return pods
	}
	cases := []verbCase{
		{"single, accepted", "all", 1, create(calls, "single", 1)},
		{"single, accepted", "one", 1, create(calls, "lonely-single", 1)},
		{"single, refused", "none", 0, create(calls, "too-large", gpusPerNode+1)},
		{"gang, later member", "one", 1, create(member, "member", 1, inGang("big", member))},
	}

	snapshot, path, err := l.newSnapshot("verbs-cluster.json")
	if err != nil {
		return err
	}
	for i := range nodes {
		snapshot.add(newNode(i))
	}
	for _, c := range cases {
		snapshot.addPods(c.pods)
	}
	if err := snapshot.close(); err != nil {
		return err
	}
	defer os.Remove(path)
	berth, err := l.newBerth("--snapshot", path)
	if err != nil {
		return err
	}
	defer berth.stop()
	if err := berth.start(); err != nil {
		return err
	}
	for _, c := range cases {
		if err := l.verbCase(r, berth, c, nodes); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (l *lab) verbCase(r *report, berth *extender, c verbCase, nodes int) error {
	reference, err := l.newReference(c.answer, "")
	if err != nil {
		return err
	}
	defer reference.stop()
	if err := reference.start(); err != nil {
		return err
	}
	callers := make([]*caller, 2)
	for i, url := range []string{berth.verbs, reference.verbs} {
		if callers[i], err = dial(url); err != nil {
			return err
		}
		defer callers[i].close()
	}
	names := nodeNames(nodes)
	const warm = 20 // calls that fill caches, grow buffers, and are not counted
	var took [2][]time.Duration
	for i, pod := range c.pods {
		request, err := encodeFilter(pod, names)
		if err != nil {
			return err
		}
		for turn := range 2 {
			which := (i + turn) % 2
			duration, answer, err := callers[which].post(request)
			if err != nil {
				return err
			}
			if i >= warm {
				took[which] = append(took[which], duration)
			}
			if which == 0 && i%50 == 0 {
				nodes, err := kept(answer)
				if err != nil {
					return err
				}
				if len(nodes) != c.keeps {
					return fmt.Errorf("berth keeps %d nodes for %s, not %d: %.300s", len(nodes), pod.Name, c.keeps, answer)
				}
			}
		}
	}
	values := [2][2]float64{}
	for which := range took {
		values[which] = [2]float64{milliseconds(quantile(took[which], 0.5)), milliseconds(quantile(took[which], 0.99))}
	}
	r.add(nodes, c.name, "go "+c.answer, len(took[0]), values[0][0], values[0][1], values[1][0], values[1][1],
		values[0][0]/values[1][0], values[0][1]/values[1][1])
	return nil
}
